"""The mechanism itself, attacked: the real door on two neighbouring ensembles (see mechanism.py for what is proved).

Twenty teachers; the unit turns one of them from one answer to another, which moves the sum by the whole sensitivity.
Some draws go through the whole door (sum, noise, charge, hand-over), on research ledgers in a folder of their own; the
rest through the very function that the door draws with. Thresholds are fixed before any draw.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hearsay.accounting import budget, costs, gaussian, plan
from hearsay.accounting.bounds import Bound
from hearsay.accounting.ledger import Ledger
from hearsay.accounting.verify import verify
from hearsay.audit.mechanism import Audit, audit, variance_ratio
from hearsay.errors import LedgerError
from hearsay.release.door import Door, Question
from hearsay.release.grid import BoundedSum
from hearsay.release.noise import Ints

DRAWS, THROUGH_THE_DOOR = 100_000, 1_000
COORDINATES = 2_000_000  # of the variance test: it sees 1% where a threshold cannot
BOUND = Bound("root")
ROOM = 80  # epsilon of a research ledger: as large a budget as the noise can carry


def ensemble(with_unit: bool) -> BoundedSum:
    teachers = torch.zeros(20, 1, 2, dtype=torch.float64)
    teachers[:, 0, 0] = 1
    if with_unit:
        teachers[7, 0] = torch.tensor([0.0, 1.0])
    total = BoundedSum(BOUND, 1, 2)
    total.add(teachers)
    return total


@contextmanager
def memory_folder() -> Iterator[Path]:
    """2,000 synced charges: on a memory disk where there is one, since it is the noise that is looked at."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        yield Path(folder)


@dataclass(frozen=True)
class Neighbours:
    """The two sides at one budget, and the direction in which they differ."""

    epsilon: float
    delta: float

    @property
    def scale(self) -> Fraction:
        return plan.scale_for(BOUND, 1, Fraction(gaussian.mu_of(self.epsilon, self.delta)) ** 2)

    def question(self, name: str) -> Question:
        return Question(name, "audit", BOUND, questions=1, width=2, scale=self.scale)

    def sums(self) -> tuple[Ints, Ints]:
        without, with_unit = (ensemble(side).total.numpy() for side in (False, True))
        return without, with_unit

    def attack(self, folder: Path | None, draws: int = DRAWS, through: int = THROUGH_THE_DOOR) -> Audit:
        """With a folder, `through` draws a side go through the whole door."""
        without, with_unit = self.sums()
        direction = (with_unit - without).reshape(-1).astype(float)
        direction /= float(np.linalg.norm(direction))
        middle = float(((with_unit + without).reshape(-1) / 2) @ direction)
        tail = middle + 2.6 * float(self.scale)  # where the two densities differ by a large factor
        scores: list[NDArray[np.float64]] = []
        for side in (False, True):
            parts = [self.direct(side, draws - (through if folder else 0))]
            parts += self.through_the_door(folder, side, through) if folder else []
            drawn = np.concatenate([part.reshape(-1, 2) for part in parts])
            scores.append(drawn.astype(float) @ direction)
        return audit(scores[0], scores[1], middle, epsilon=self.epsilon, delta=self.delta, plain_threshold=tail)

    def direct(self, with_unit: bool, draws: int) -> Ints:
        """The door's own draw function, on many copies of the sum at once (coordinates are independent)."""
        total = np.broadcast_to(self.sums()[with_unit], (draws, 2)).copy()
        return self.question("direct").draw(total)

    def through_the_door(self, folder: Path, with_unit: bool, draws: int) -> list[Ints]:
        """Research ledgers hold a few hundred such draws each."""
        large = budget.make(ROOM, self.delta)
        per_ledger = max(1, int(large.capacity / costs.mu_squared(self.question("q").event)))
        answers: list[Ints] = []
        while len(answers) < draws:
            place = folder / f"{with_unit}-{len(answers)}"
            place.mkdir()
            path = place / "ledger.sqlite"
            ledger = Ledger.create(path, large, corpus="c", corpus_name="audit", unit="user", research=True)
            door = Door(ledger, "audit", place / "run")
            for i in range(min(per_ledger, draws - len(answers))):
                answers.append(door.ask(self.question(f"draw{i}"), lambda: ensemble(with_unit)))
            verdict = verify(ledger)
            if not verdict.ok or verdict.epsilon > ROOM:
                raise LedgerError(f"the audit's own ledger does not verify: {verdict.problems}")
            ledger.close()
        return answers

    def variance(self, coordinates: int = COORDINATES) -> tuple[float, float]:
        """Measured over promised variance of the noise, and the p-value of that."""
        total = np.zeros((coordinates // 2, 2), dtype=np.int64)
        return variance_ratio(self.question("variance").draw(total).reshape(-1), float(self.scale))
