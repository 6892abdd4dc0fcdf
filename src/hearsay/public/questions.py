"""What the student asks in one round: positions in public sentences, and the tokens it wants to know about.

For each position: the student's likeliest tokens (top-k, cut at top-p) and one bucket for all the rest. A teacher
computes logits for these and for a few *tail* tokens only. The rest bucket's mass is estimated from the tail tokens,
drawn from the student's own distribution over the rest and weighted by one over their chance (importance sampling);
teachers are close to the student, so the estimate is steady. The same public draw serves all teachers, so a
teacher's answer is a fixed function of its own weights.

A question's name is a hash of everything here, of the plan and of the teachers' generation: the same question is
recognised for ever, another one never mistaken for it.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from hearsay.disk import drafting
from hearsay.stacked import Adapted, Contexts

Tokens = list[int]
CHUNK = 512  # positions whose whole distributions are held at once


@dataclass(frozen=True)
class Questions:
    rows: Tensor  # [S, T] start token, sentence, padding
    lengths: Tensor  # [S]
    asked: Tensor  # [Q, 2] row, position
    labels: Tensor  # [Q] the pseudo sentence's own next token
    candidates: Tensor  # [Q, K]
    valid: Tensor  # [Q, K] false where top-p cut
    tail: Tensor  # [Q, R]
    tail_weight: Tensor  # [Q, R] log of one over (R times the chance of the draw)
    held_out: Tensor  # [Q] true for the block that only chooses the stopping step

    def __len__(self) -> int:
        return len(self.asked)

    @property
    def width(self) -> int:
        return self.candidates.shape[1] + 1

    @property
    def contexts(self) -> Contexts:
        return Contexts(self.rows, self.lengths, self.asked)

    def name(self, *plan: object) -> str:
        digest = hashlib.sha256(repr(plan).encode())
        for field in fields(self):
            value = getattr(self, field.name).cpu().contiguous()
            digest.update(
                f"{field.name} {value.dtype} {tuple(value.shape)} ".encode()
            )  # else bytes could change fields
            digest.update(value.numpy().tobytes())
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        with drafting(path) as draft:
            save_file({field.name: getattr(self, field.name).contiguous() for field in fields(self)}, draft)

    @classmethod
    def load(cls, path: Path) -> "Questions":
        return cls(**load_file(path))


@dataclass(frozen=True)
class Choice:
    """Public settings of a round's questions."""

    count: int
    candidates: int
    top_p: float | None
    tail: int
    prefix_tokens: int
    rank_threshold: int | None  # none: every position may be asked
    holdout: float
    seed: int


def pose(student: Adapted, sentences: list[Tokens], start: int | None, end: int, choice: Choice) -> Questions:
    """Chooses positions, candidates and tail tokens from the student's own distributions."""
    rows, lengths, targets = lay_out(sentences, start, end)
    stream = torch.Generator().manual_seed(choice.seed)
    places = _places(lengths, first=choice.prefix_tokens - (start is None))
    if choice.rank_threshold is not None:
        labels = targets[places[:, 0], places[:, 1]]
        ranks = [_ranks(odds, labels[part]) for part, odds in _probabilities(student, rows, places)]
        places = places[torch.cat(ranks) >= choice.rank_threshold]
    places = places[torch.randperm(len(places), generator=stream)[: choice.count]]
    places = places[torch.argsort(places[:, 0] * rows.shape[1] + places[:, 1])]
    found = [_candidates(odds, choice, stream) for _, odds in _probabilities(student, rows, places)] or [_none(choice)]
    candidates, valid, tail, weight = (torch.cat(parts) for parts in zip(*found, strict=True))
    return Questions(
        rows=rows,
        lengths=lengths,
        asked=places,
        labels=targets[places[:, 0], places[:, 1]],
        candidates=candidates,
        valid=valid,
        tail=tail,
        tail_weight=weight,
        held_out=torch.randperm(len(places), generator=stream) < round(choice.holdout * len(places)),
    )


def lay_out(sentences: list[Tokens], start: int | None, end: int) -> tuple[Tensor, Tensor, Tensor]:
    """Right-padded rows with the start token, their lengths, and what follows each place (the end token last)."""
    lead = [] if start is None else [start]
    full = [lead + sentence for sentence in sentences]
    width = max(map(len, full))
    rows = torch.tensor([row + [end] * (width - len(row)) for row in full])
    targets = torch.cat([rows[:, 1:], torch.full((len(rows), 1), end)], dim=1)
    return rows, torch.tensor([len(row) for row in full]), targets


def _places(lengths: Tensor, first: int) -> Tensor:
    """Every (row, position) after the prefix, the last one (which asks where a sentence ends) included."""
    grid = torch.arange(int(lengths.max()))[None] < lengths[:, None]
    grid[:, :first] = False
    return grid.nonzero()


def _probabilities(student: Adapted, rows: Tensor, places: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The student's distributions [n, V] at the places, a chunk at a time: all at once would take gigabytes."""
    device = student.flat.device
    for start in range(0, len(places), CHUNK):
        part = slice(start, start + CHUNK)
        used, inverse = places[part, 0].unique(return_inverse=True)
        with torch.no_grad():
            hidden = student.hidden(rows[used].to(device))
            at = hidden[inverse.to(device), places[part, 1].to(device)]
            yield part, torch.softmax(student.logits(at).float(), -1)


def _ranks(odds: Tensor, labels: Tensor) -> Tensor:
    """How many tokens the student finds likelier than the label: 0 is its first choice."""
    return (odds > odds.gather(1, labels.to(odds.device)[:, None])).sum(1).cpu()


def _candidates(odds: Tensor, choice: Choice, stream: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    top, candidates = odds.topk(choice.candidates, dim=1)
    before = top.cumsum(1) - top
    valid = torch.ones_like(candidates, dtype=torch.bool) if choice.top_p is None else before < choice.top_p
    # What is not a candidate, with a floor so that every draw has a finite weight.
    taken = torch.zeros_like(odds, dtype=torch.bool).scatter_(1, candidates, valid)
    rest = odds.clamp_min(1e-12).masked_fill(taken, 0.0).cpu()
    rest = rest / rest.sum(1, keepdim=True)
    tail = torch.multinomial(rest, choice.tail, replacement=True, generator=stream)
    weight = -torch.log(choice.tail * rest.gather(1, tail))
    return candidates.cpu(), valid.cpu(), tail, weight


def _none(choice: Choice) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Where no position may be asked about."""
    candidates, tail = (
        torch.zeros(0, choice.candidates, dtype=torch.long),
        torch.zeros(0, choice.tail, dtype=torch.long),
    )
    return candidates, candidates.bool(), tail, tail.float()
