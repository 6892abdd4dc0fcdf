"""Which tokens stand for the whole vocabulary in a round of updates, where comparing with all of them costs too much.

With a small model the head is the larger part of a unit's gradient. Most of it is spent on tokens that nobody would say
here: so the likeliest two thirds of a shortlist are always compared with, and the rest of it is drawn anew each round
from all others and weighted up to stand for them. What that changes in a gradient is small beside the noise. Likely
means to the public model on its own text: nothing here has seen a private word.
"""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from hearsay.lm import LanguageModel
from hearsay.public.questions import lay_out
from hearsay.vocabulary import Shortlist

LIKELY = 2 / 3  # of a shortlist
EVEN = 0.5  # of a draw's chances are the same for all tokens: none may be so unlikely that its weight explodes
ROWS = 64


@dataclass(frozen=True)
class Vocabulary:
    """`shares` [V]: how often the public model would say each token. `size`: tokens a round is compared with."""

    shares: Tensor
    size: int
    seed: int

    def listed(self, number: int) -> Shortlist:
        """Of a round: the same for whoever asks."""
        kept = min(round(LIKELY * self.size), len(self.shares) - 1)
        order = torch.argsort(self.shares, descending=True, stable=True)
        rest, drawn = order[kept:], self.size - kept
        chances = EVEN * self.shares[rest] / self.shares[rest].sum() + (1 - EVEN) / len(rest)
        source = torch.Generator().manual_seed(1_000_003 * self.seed + number)
        picked = torch.multinomial(chances, drawn, replacement=True, generator=source)
        weights = torch.cat([torch.zeros(kept, dtype=torch.float64), -(drawn * chances[picked]).log()])
        likely = torch.zeros(len(self.shares), dtype=torch.bool)
        likely[order[:kept]] = True
        return Shortlist(torch.cat([order[:kept], rest[picked]]), weights.float(), likely)

    def fingerprint(self) -> str:
        """Of all that decides a round's list, how it is drawn included."""
        first, found = self.listed(0), hashlib.sha256(repr((self.size, self.seed)).encode())
        for part in (self.shares, first.tokens, first.log_weights):
            found.update(part.numpy().tobytes())
        return found.hexdigest()[:16]


@torch.no_grad()
def shares(lm: LanguageModel, sentences: list[list[int]], first: int | None, end: int) -> Tensor:
    """float64 [V]: mean probability of every token over the places of public sentences."""
    rows, lengths, _ = lay_out(sentences, first, end)
    found = torch.zeros(lm.model.get_output_embeddings().weight.shape[0], dtype=torch.float64)
    for start in range(0, len(rows), ROWS):
        part = rows[start : start + ROWS].to(lm.device)
        inside = torch.arange(part.shape[1], device=lm.device)[None] < lengths[start : start + ROWS, None].to(lm.device)
        odds = torch.softmax(lm.model(input_ids=part, attention_mask=torch.ones_like(part)).logits[inside].float(), -1)
        found += odds.sum(0).double().cpu()
    return found / found.sum()
