"""How good a language model is on held-out text: perplexity after the prefix, BLEU of completions, leaked secrets.

These figures read private hold-out text. They are the owner's, live in internal/, and are not covered by the guarantee.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor

from hearsay import lm as models
from hearsay.lm import LanguageModel

Tokens = list[int]
FEWEST = 5  # people, or rows: an interval over fewer would say little, and that wrongly


@dataclass(frozen=True)
class Scores:
    """The fields that other programs read; `tokens` and `completions` say how many each figure rests on."""

    ppl: float
    bleu1: float
    bleu2: float
    bleu3: float
    bleu4: float
    name_leak_rate: float
    tokens: int
    completions: int
    bleu_signature: str
    ppl_low: float | None  # 95% interval over people where they are known, else over rows, as if those were independent
    ppl_high: float | None  # none: of fewer than FEWEST

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score(
    lm: LanguageModel,
    rows: list[Tokens],
    *,
    prefix: int,
    max_tokens: int,
    secrets: list[str],
    completions: int,
    seed: int,
    people: Sequence[str] | None = None,
    rewrite: Callable[[str], str] = lambda text: text,
) -> Scores:
    """`people` wrote the rows; `rewrite` is what happens to a text between the model and the reader (a blacklist)."""
    sums, counts = models.row_nll(lm, rows, prefix)
    ppl, *ends = perplexity(*(by_person(sums, counts, people) if people else (sums, counts)))
    chosen = rows[:completions]
    stream = torch.Generator().manual_seed(seed)
    made = models.generate(lm, [row[:prefix] for row in chosen], max_tokens=max_tokens - prefix, generator=stream)
    texts = [rewrite(text) for text in models.decode(lm, made)]
    bleu, signature = bleu_scores(texts, models.decode(lm, [row[prefix:] for row in chosen]))
    return Scores(ppl, *bleu, leak_rate(texts, secrets), int(counts.sum()), len(texts), signature, *ends)


def by_person(sums: Tensor, counts: Tensor, people: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Losses and tokens of each person, in the order of their names."""
    _, who = np.unique(np.array(people), return_inverse=True)
    places = torch.from_numpy(who)
    found = [torch.zeros(int(who.max()) + 1, dtype=part.dtype).index_add_(0, places, part) for part in (sums, counts)]
    return found[0], found[1]


def perplexity(sums: Tensor, counts: Tensor) -> tuple[float, float | None, float | None]:
    """Per token, with its 95% interval: how it moves as each of the people (or rows) is left out, by Student's t. A
    ratio's residuals would say less: who has most of the text pulls it to his own rate and seems to leave no error.
    """
    sums, counts = sums[counts > 0].double(), counts[counts > 0].double()
    rate, parts = float(sums.sum() / counts.sum()), len(sums)
    if parts < FEWEST:
        return math.exp(rate), None, None
    without = (sums.sum() - sums) / (counts.sum() - counts)
    error = math.sqrt(float(((without - without.mean()) ** 2).sum()) * (parts - 1) / parts)
    width = float(special.stdtrit(parts - 1, 0.975)) * error
    return math.exp(rate), math.exp(rate - width), math.exp(rate + width)


def bleu_scores(hypotheses: list[str], references: list[str]) -> tuple[tuple[float, float, float, float], str]:
    """Corpus BLEU-1 to BLEU-4 by sacrebleu, with its signature."""
    from sacrebleu.metrics import BLEU

    found, signature = [], ""  # by force: text that looks tokenised is no mistake here
    for order in (1, 2, 3, 4):
        metric = BLEU(
            max_ngram_order=order, effective_order=False, smooth_method="exp", force=True
        )  # tokenised text is no mistake here
        found.append(float(metric.corpus_score(hypotheses, [references]).score) if hypotheses else 0.0)
        signature = str(metric.get_signature())
    return (found[0], found[1], found[2], found[3]), signature


def leak_rate(texts: list[str], secrets: list[str]) -> float:
    """Share of texts that hold at least one secret phrase, letter for letter."""
    if not texts or not secrets:
        return 0.0
    return sum(any(secret in text for secret in secrets) for text in texts) / len(texts)


def gap_closed(ppl: dict[str, float], name: str = "student") -> float | None:
    """Share of the way, in nats, from the better public reference to the private one."""
    start = min(ppl[name] for name in ("public", "public_pseudo") if name in ppl)
    if "private" not in ppl or name not in ppl or ppl["private"] >= start:
        return None
    return (math.log(start) - math.log(ppl[name])) / (math.log(start) - math.log(ppl["private"]))
