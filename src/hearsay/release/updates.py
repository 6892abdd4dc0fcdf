"""One round of updates through the door: the bounded sum of how every unit would move the student.

A slot holds one unit and nothing else, so removing it removes exactly its vector: the sensitivity is the clip, once.
Vectors are measured in clips, so the bound is norm 1. The mean divides by the *declared* number of units: how many
there really are is private.

With `sample` below 1 each unit takes part in a round with that chance, by a coin of its own from the system's entropy;
who did is never stored. Such rounds were committed, all of them, in the ledger's first row.
"""

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hearsay.accounting import plan
from hearsay.accounting.bounds import STEPS, UNIT_BALL
from hearsay.accounting.events import SubsampledGaussian
from hearsay.private.moves import Moves
from hearsay.private.units import Units
from hearsay.public.shortlist import Vocabulary
from hearsay.release.door import Door, Question
from hearsay.release.grid import BoundedSum


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

    @property
    def width(self) -> int:
        return len(self.moves.top.layout.outputs())

    def total(self, student: Tensor, number: int) -> BoundedSum:
        found = BoundedSum(UNIT_BALL, 1, self.width, self.moves.device)
        for vectors in self._vectors(student, number):
            found.add(vectors)
        return found

    def _vectors(self, student: Tensor, number: int) -> Iterator[Tensor]:
        chosen = None if self.rate == 1 else coins(self.rate, len(self.units))
        listed = self.vocabulary.listed(number) if self.vocabulary else None
        for move in self.moves(self.units, student, number % self.units.pages, chosen, listed):
            yield (move / self.clip)[:, None]

    def plan(self) -> tuple[object, ...]:
        """What decides the meaning of an answer besides the student and the round."""
        told = self.vocabulary.fingerprint() if self.vocabulary else None
        return self.run, self.moves.shape.fingerprint(), self.declared, self.clip, self.rate, told


def ask_update(door: Door, crowd: Crowd, student: Tensor, number: int, scale: Fraction) -> Tensor:
    """[D_B]: the noisy mean over the expected units of their clipped updates, in clips. `scale` of noise on the sum."""
    question = Question(
        name=_name(student, number, *crowd.plan(), UNIT_BALL, scale),
        purpose=f"update, round {number + 1}",
        bound=UNIT_BALL,
        questions=1,
        width=crowd.width,
        scale=scale,
        rate=crowd.rate,
    )
    noisy = door.ask(question, lambda: crowd.total(student, number))
    return torch.from_numpy(noisy.astype(np.float64))[0] / STEPS / float(crowd.declared * crowd.rate)


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
