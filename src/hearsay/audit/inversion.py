"""Model inversion against a text classifier, white box: which words does a class's weight point at?

The attacker holds the classifier and optimises an input of soft words (a mixture over the vocabulary at each place) by
gradient ascent on the class's log-probability, sharpening the mixtures as it goes (after Fredrikson et al., 2015, on
embeddings as text needs it). The words that end on top are what the model recalls of the class.

They are held against two vocabularies of the same size: words that only texts used in training have, and words that
only other texts of the kind have. A model that remembers nobody points at both alike.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from hearsay.audit.findings import Finding
from hearsay.audit.mechanism import clopper_pearson
from hearsay.audit.statistics import ERROR

Tokens = Sequence[int]
PLACES, STEPS, RATE = 12, 60, 0.3
RECALLED = 20  # words taken from each class


def recover(
    model: Any, label: int, *, places: int = PLACES, steps: int = STEPS, seed: int = 0, most: int = RECALLED
) -> list[int]:
    """The `most` likeliest tokens, over all places, of an input that the classifier is sure belongs to `label`."""
    embeddings: Tensor = model.get_input_embeddings().weight.detach().float()
    stream = torch.Generator().manual_seed(seed)
    mixture = (0.01 * torch.randn(places, len(embeddings), generator=stream)).to(embeddings.device).requires_grad_()
    adam = torch.optim.Adam([mixture], lr=RATE)
    for step in range(steps):
        odds = torch.softmax(mixture * (1 + 4 * step / steps), -1)  # sharper and sharper: words are not mixtures
        loss = -class_log_odds(model, odds @ embeddings)[label]
        adam.zero_grad()
        loss.backward()
        adam.step()
    best = torch.softmax(mixture.detach(), -1).amax(0)
    return best.topk(min(most, len(best))).indices.tolist()  # type: ignore[no-any-return]


def class_log_odds(model: Any, embedded: Tensor) -> Tensor:
    """[labels] for one input given as vectors [places, d]."""
    mask = torch.ones(1, len(embedded), device=embedded.device, dtype=torch.long)
    inputs = embedded[None].to(next(model.parameters()).dtype)
    return torch.log_softmax(model(inputs_embeds=inputs, attention_mask=mask).logits[0].float(), -1)


@dataclass(frozen=True)
class Recalled:
    """Recovered words that only used texts have, that only other texts have; and the sizes of both vocabularies."""

    private: int
    public: int
    private_words: int
    public_words: int


def judge(recovered: list[int], used: list[Tokens], other: list[Tokens]) -> Recalled:
    """Held against the words that are in one of the two sets of texts and not in the other."""
    ours, theirs = ({token for row in rows for token in row} for rows in (used, other))
    found = set(recovered)
    return Recalled(len(found & (ours - theirs)), len(found & (theirs - ours)), len(ours - theirs), len(theirs - ours))


def invert(model: Any, labels: int, used: list[Tokens], other: list[Tokens], *, seed: int = 0) -> Recalled:
    """All classes together."""
    recovered = {token for label in range(labels) for token in recover(model, label, seed=seed)}
    return judge(sorted(recovered), used, other)


def finding(recalled: Recalled) -> Finding:
    """Of the recovered words that one side alone has, the share that is the used texts'; by chance, their share of
    such words.
    """
    decided = recalled.private + recalled.public
    expected = recalled.private_words / max(1, recalled.private_words + recalled.public_words)
    score = recalled.private / decided if decided else expected
    low, high = clopper_pearson(recalled.private, decided, ERROR) if decided else (0.0, 1.0)
    said = "more than chance allows" if low > expected else "no more than by chance"
    return Finding(
        score=score, low=low, high=high, epsilon_lower=None, epsilon_claimed=None, ok=True, look=low > expected,
        sentence=f"an attacker who holds the classifier recovered {recalled.private} words of used texts alone and "
        f"{recalled.public} of other texts alone: {said} (chance: {expected:.0%})",
        details={**asdict(recalled), "expected": expected},
    )  # fmt: skip
