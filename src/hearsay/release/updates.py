"""One round of updates through the door: the bounded sum of how every unit would move the student.

A slot holds one unit and nothing else, so removing it removes exactly its vector: the sensitivity is the clip, once.
Vectors are measured in clips, so the bound is norm 1. The mean divides by the *declared* number of units: how many
there really are is private.

With `sample` below 1 each unit takes part in a round with that chance, by a coin of its own from the system's entropy;
who did is never stored. Such rounds were committed, all of them, in the ledger's first row.

Units may compute in this process or in others (private/engine.py). Coins are thrown here, once a round: a worker is
told which units of its share take part, and told the same again if it is lost.
"""

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hearsay.accounting import plan
from hearsay.accounting.bounds import STEPS, UNIT_BALL
from hearsay.accounting.events import SubsampledGaussian
from hearsay.private.engine import Engine, Items, Local, Progress, built, silent
from hearsay.private.moves import Moves, frame_of
from hearsay.private.training import TrainingShape
from hearsay.private.units import Units, packed_units
from hearsay.private.workshop import Workshop, WorkshopPlan, digest, source
from hearsay.public.shortlist import Vocabulary
from hearsay.release import grid
from hearsay.release.door import Door, Question
from hearsay.release.grid import BoundedSum, joined
from hearsay.vocabulary import Shortlist

LONG = 2.0**20  # so that any update that says something is cut


@dataclass(frozen=True)
class Crowd:
    """All units and how they move a student. Private: what it says goes into a bounded sum and nowhere else."""

    units: Units
    moves: Moves
    declared: int  # public: how many units the owner says there are
    clip: float
    rate: Fraction  # the chance of a unit to take part in a round
    run: str
    vocabulary: Vocabulary | None = None  # what a round's losses are compared with; none: everything
    weights: Tensor | None = None  # public: how much each coordinate counts; none: all alike (public/weights.py)
    engine: "Engine[Crowd] | None" = None  # none: this process

    @property
    def width(self) -> int:
        return len(self.moves.top.layout.outputs())

    def total(self, student: Tensor, number: int) -> BoundedSum:
        chosen = None if self.rate == 1 else coins(self.rate, len(self.units))
        members = np.arange(len(self.units)) if chosen is None else np.flatnonzero(chosen)
        listed = self.vocabulary.listed(number) if self.vocabulary else None
        task = Moving(student.detach().cpu(), number, listed, self.weights)
        return joined((self.engine or Local(self)).map(task, members, silent))

    def vectors(self, round: "Moving", members: Items) -> Iterator[Tensor]:
        """[block, 1, D_B] in clips, weighed, of these units."""
        chosen: NDArray[np.bool_] | None = None
        if len(members) < len(self.units):
            chosen = np.zeros(len(self.units), bool)
            chosen[members] = True
        page = round.number % self.units.pages
        scale = 1 / self.clip if round.weights is None else round.weights.to(self.moves.device) / self.clip
        for move in self.moves(self.units, round.student, page, chosen, round.listed):
            yield move.mul_(scale)[:, None]

    @cached_property
    def signature(self) -> str:
        """Of the arithmetic of updates: one block of public units, at an adapter that is not the public start (where B
        is zero and says nothing), against all tokens and against a list of them.
        """
        shape, stream = self.moves.shape, torch.Generator().manual_seed(0)
        size = (self.moves.block, shape.steps * shape.rows_per_step, shape.row_tokens)
        words = self.moves.top.split.head.shape[0]
        tokens = torch.randint(1, words, size, generator=stream, dtype=torch.int32)
        places = torch.arange(shape.row_tokens, dtype=torch.int32).expand(size)
        start = self.moves.top.layout.initial()
        first = (start + 0.01 * torch.randn(start.shape, generator=stream))[None].to(self.moves.device)
        rows = tuple(part.contiguous().numpy() for part in (tokens, tokens.roll(-1, 2), places))
        some = torch.arange(words)[::3]
        listed = Shortlist(some, torch.zeros(len(some)), torch.arange(words) % 6 == 0).to(self.moves.device)
        moved = [self.moves.of(rows, first, how) for how in (None, listed)]  # type: ignore[arg-type]
        return digest(source(), torch.__version__, self.moves.top.split.fingerprint(), *moved)

    def plan(self) -> tuple[object, ...]:
        """What decides the meaning of an answer besides the student and the round."""
        words = (self.vocabulary.fingerprint(),) if self.vocabulary else ()
        weighed = () if self.weights is None else (digest("weights", self.weights),)
        return self.run, self.moves.shape.fingerprint(), self.declared, self.clip, self.rate, *words, *weighed


@dataclass(frozen=True)
class Moving:
    """A task: how its units would move the student, as one bounded sum."""

    student: Tensor  # public, as the next three
    number: int  # of the round
    listed: Shortlist | None = None  # what its losses are compared with
    weights: Tensor | None = None  # of the coordinates

    def __call__(self, crowd: Crowd, members: Items, progress: Progress, /) -> BoundedSum:
        found = BoundedSum(UNIT_BALL, 1, crowd.width, crowd.moves.device)
        for vectors in crowd.vectors(self, members):
            found.add(vectors)
        return found


@dataclass(frozen=True)
class CrowdPlan:
    """How a crowd is gathered, here or at a worker elsewhere: public settings, and where its units lie."""

    workshop: WorkshopPlan
    shape: TrainingShape
    block: int  # units a launch: whether their place matters was tried by the run's own process
    pages: int
    folder: Path
    declared: int
    clip: float
    rate: Fraction
    run: str

    @property
    def threads(self) -> int:
        return self.workshop.threads

    def build(self) -> Crowd:
        return self.gather(built(self.workshop))

    def gather(self, shop: Workshop) -> Crowd:
        """Packs the units if nobody did; before workers are told of a crowd, the run's own process has gathered it."""
        units = packed_units(shop.partition, frame_of(shop.stack.lm, self.shape), self.pages, self.folder)
        movers = Moves(shop.stack.top, self.shape, shop.stack.device, self.block)
        return Crowd(units, movers, self.declared, self.clip, self.rate, self.run)


def ask_update(door: Door, crowd: Crowd, student: Tensor, number: int, scale: Fraction) -> Tensor:
    """[D_B]: the noisy mean over the expected units of their weighed, clipped updates, in clips. `scale` of noise on
    the sum.
    """
    question = Question(
        name=_name(student, number, *crowd.plan(), UNIT_BALL, scale),
        purpose=f"update, round {number + 1}",
        bound=UNIT_BALL,
        questions=1,
        width=crowd.width,
        scale=scale,
        rate=crowd.rate,
        once=True,
    )
    noisy = door.ask(question, lambda: crowd.total(student, number))
    return torch.from_numpy(noisy.astype(np.float64))[0] / STEPS / float(crowd.declared * crowd.rate)


def place_on_grid_matters(update: Tensor) -> bool:
    """Whether one update, the same at all places [block, D_B], is rounded by its place once it is cut to the bound."""
    return grid.place_matters(update[:, None] * LONG, UNIT_BALL)


def full_scale(mu_squared: Fraction) -> Fraction:
    """Of the noise, in grid steps, for one round in which every unit takes part."""
    return plan.scale_for(UNIT_BALL, 1, mu_squared)


def sampled_scale(event: SubsampledGaussian) -> Fraction:
    """The same for a round that was committed as a Poisson sample."""
    return event.noise_multiplier * STEPS


def coins(rate: Fraction, count: int) -> NDArray[np.bool_]:
    """One coin per unit from the system's entropy, true with a chance of `rate`, rounded down by at most 2^-64."""
    if rate == 1:
        return np.ones(count, bool)
    words = np.frombuffer(secrets.token_bytes(8 * count), np.uint64)
    return words < np.uint64(rate.numerator * 2**64 // rate.denominator)


def _name(student: Tensor, *parts: object) -> str:
    found = hashlib.sha256(repr(parts).encode())
    found.update(student.detach().cpu().float().numpy().tobytes())
    return f"update-{found.hexdigest()[:40]}"
