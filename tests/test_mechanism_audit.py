"""The direct audit of the door at epsilon 3, on two neighbouring ensembles, with a threshold fixed beforehand.

100,000 draws a side: 1,000 through the whole door (sum, noise, charge, hand-over), the rest through the very function
the door draws with. At 99.9% confidence and assuming the Gaussian trade-off, the lower bound must come within a tenth
of the claim from below. Beside it the noise's variance, on 2 million coordinates, which sees sigma 5% low.

False alarms: the bound exceeds the claim with probability at most 1e-3 by construction; it falls below 2.7, and the
variance off by 1% (ten standard deviations), far less often.
"""

import os
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from hearsay.accounting import budget, costs, gaussian, plan
from hearsay.accounting.bounds import Bound
from hearsay.accounting.ledger import Ledger
from hearsay.accounting.verify import verify
from hearsay.audit.mechanism import Audit, audit, clopper_pearson, variance_ratio
from hearsay.release import door as doors
from hearsay.release.door import Door, Question
from hearsay.release.grid import BoundedSum
from hearsay.release.noise import Ints, rounded_normal

EPSILON, DELTA = 3.0, 1e-6
DRAWS, THROUGH_THE_DOOR = 100_000, 1_000
BOUND = Bound("root")
MU = gaussian.mu_of(EPSILON, DELTA)
SCALE = plan.scale_for(BOUND, 1, Fraction(MU) ** 2)


def _ensemble(with_unit: bool) -> BoundedSum:
    """Twenty teachers; the unit turns one of them from the first answer to the second: the whole sensitivity."""
    teachers = torch.zeros(20, 1, 2, dtype=torch.float64)
    teachers[:, 0, 0] = 1
    if with_unit:
        teachers[7, 0] = torch.tensor([0.0, 1.0])
    total = BoundedSum(BOUND, 1, 2)
    total.add(teachers)
    return total


SIDES = {side: _ensemble(side).total.numpy() for side in (False, True)}
DIRECTION = (SIDES[True] - SIDES[False]).reshape(-1).astype(float)
DIRECTION /= float(np.linalg.norm(DIRECTION))
MIDDLE = float(((SIDES[True] + SIDES[False]).reshape(-1) / 2) @ DIRECTION)  # fixed before any draw
TAIL = MIDDLE + 2.6 * float(SCALE)  # likewise: where the two densities differ by a large factor


def _scores(answers: Ints) -> NDArray[np.float64]:
    return answers.reshape(-1, 2).astype(float) @ DIRECTION


def _question(name: str) -> Question:
    return Question(name, "audit", BOUND, questions=1, width=2, scale=SCALE)


def _through_the_door(folder: Path, with_unit: bool, draws: int) -> list[Ints]:
    """On research ledgers with as large a budget as the noise can carry; each holds a few hundred such draws."""
    large = budget.make(80, DELTA)
    per_ledger = int(large.capacity / costs.mu_squared(_question("q").event))
    answers: list[Ints] = []
    while len(answers) < draws:
        place = folder / f"{with_unit}-{len(answers)}"
        place.mkdir()
        ledger = Ledger.create(place / "l.sqlite", large, corpus="c", corpus_name="audit", unit="user", research=True)
        door = Door(ledger, "audit", place / "run")
        for i in range(min(per_ledger, draws - len(answers))):
            answers.append(door.ask(_question(f"draw{i}"), lambda: _ensemble(with_unit)))
        verdict = verify(ledger)
        assert verdict.ok and verdict.epsilon <= 80
        ledger.close()
    return answers


def _direct(with_unit: bool, draws: int) -> Ints:
    """The door's own draw function, on many copies of the sum at once (coordinates are independent)."""
    total = np.broadcast_to(SIDES[with_unit], (draws, 2)).copy()
    return _question("direct").draw(total)


def _audit(folder: Path | None, draws: int = DRAWS) -> Audit:
    scores = []
    for side in (False, True):
        parts = [_direct(side, draws - (THROUGH_THE_DOOR if folder else 0))]
        if folder:
            parts += _through_the_door(folder, side, THROUGH_THE_DOOR)
        scores.append(_scores(np.concatenate([part.reshape(-1, 2) for part in parts])))
    assert scores[0].size == draws
    return audit(scores[0], scores[1], MIDDLE, epsilon=EPSILON, delta=DELTA, plain_threshold=TAIL)


def _variance() -> float:
    total = np.zeros((1_000_000, 2), dtype=np.int64)
    return variance_ratio(_question("variance").draw(total).reshape(-1), float(SCALE))[0]


def _passes(found: Audit) -> bool:
    return 0.9 * EPSILON <= found.epsilon_lower <= EPSILON


def test_the_claim_is_what_the_noise_costs() -> None:
    spent = costs.mu_squared(_question("q").event)
    assert spent <= Fraction(MU) ** 2 and gaussian.epsilon_of(float(spent) ** 0.5, DELTA) == pytest.approx(3, rel=1e-6)
    moved = int(((SIDES[True] - SIDES[False]) ** 2).sum())
    assert 1 - 1e-5 < moved / BOUND.sensitivity_squared(1) <= 1  # the neighbours are as far apart as may be


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """2,000 synced charges: a memory disk where there is one, since it is the noise that is looked at here."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


def test_the_door_at_epsilon_three(in_memory: Path) -> None:
    found = _audit(in_memory)
    print(found)
    assert _passes(found) and found.ok
    assert 1.2 < found.epsilon_lower_plain < found.epsilon_lower  # nothing assumed: weaker
    assert found.draws == DRAWS and found.confidence == 0.999


def test_the_variance_is_right() -> None:
    assert abs(_variance() - 1) < 0.01


@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(95, 100)])
def test_too_little_noise_is_seen(monkeypatch: pytest.MonkeyPatch, factor: Fraction) -> None:
    def weaker(sigma: Fraction, size: int) -> Ints:
        return rounded_normal(sigma * factor, size)

    monkeypatch.setattr(doors, "rounded_normal", weaker)
    seen = [not _passes(_audit(None)), abs(_variance() - 1) >= 0.01]
    assert any(seen)
    assert seen[1]
    if factor == Fraction(1, 2):
        assert all(seen)


def test_variance_has_a_two_sided_p_value() -> None:
    for sigma, sound in ((SCALE, True), (SCALE * Fraction(101, 100), False), (SCALE * Fraction(99, 100), False)):
        _, p = variance_ratio(rounded_normal(sigma, 1_000_000), float(SCALE))
        assert (p > 1e-6) == sound


def test_clopper_pearson_ends() -> None:
    assert clopper_pearson(0, 10, 0.1)[0] == 0 and clopper_pearson(10, 10, 0.1)[1] == 1
    low, high = clopper_pearson(50, 100, 0.05)
    assert low == pytest.approx(0.3983, abs=1e-4) and high == pytest.approx(0.6017, abs=1e-4)
