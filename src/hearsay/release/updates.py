"""One round of updates through the door: the bounded sum of how every unit would move the student.

A slot holds one unit and nothing else, so removing it removes exactly its vector: the sensitivity is the clip, once.
Vectors are measured in clips, so the bound is norm 1. The mean divides by the *declared* number of units: how many
there really are is private.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from hearsay.accounting import plan
from hearsay.accounting.bounds import STEPS, Bound
from hearsay.private.moves import Moves
from hearsay.private.units import Units
from hearsay.release.door import Door, Question
from hearsay.release.grid import BoundedSum

BOUND = Bound("residual", alone=True)


@dataclass(frozen=True)
class Crowd:
    """All units and how they move a student. Private: what it says goes into a bounded sum and nowhere else."""

    units: Units
    moves: Moves
    declared: int  # public: how many units the owner says there are
    clip: float
    run: str

    @property
    def width(self) -> int:
        return len(self.moves.top.layout.outputs())

    def total(self, student: Tensor, number: int) -> BoundedSum:
        found = BoundedSum(BOUND, 1, self.width, self.moves.device)
        for vectors in self._vectors(student, number):
            found.add(vectors)
        return found

    def _vectors(self, student: Tensor, number: int) -> Iterator[Tensor]:
        for move in self.moves(self.units, student, number % self.units.pages):
            yield (move / self.clip)[:, None]

    def plan(self) -> tuple[object, ...]:
        """What decides the meaning of an answer besides the student and the round."""
        return self.run, self.moves.shape.fingerprint(), self.declared, self.clip


def ask_update(door: Door, crowd: Crowd, student: Tensor, number: int, share: Fraction) -> Tensor:
    """[D_B]: the noisy mean over the declared units of their clipped updates, in clips, for at most `share` of mu^2."""
    scale = plan.scale_for(BOUND, 1, share)
    question = Question(
        name=_name(student, number, *crowd.plan(), BOUND, scale),
        purpose=f"update, round {number + 1}",
        bound=BOUND,
        questions=1,
        width=crowd.width,
        scale=scale,
    )
    noisy = door.ask(question, lambda: crowd.total(student, number))
    return torch.from_numpy(noisy.astype(np.float64))[0] / STEPS / crowd.declared


def _name(student: Tensor, *parts: object) -> str:
    found = hashlib.sha256(repr(parts).encode())
    found.update(student.detach().cpu().float().numpy().tobytes())
    return f"update-{found.hexdigest()[:40]}"
