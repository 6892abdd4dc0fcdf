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

from hearsay.accounting import costs, gaussian
from hearsay.audit import neighbours
from hearsay.audit.mechanism import Audit, clopper_pearson, lower_bounds, variance_ratio
from hearsay.audit.neighbours import BOUND, DRAWS, THROUGH_THE_DOOR, Neighbours
from hearsay.release import door as doors
from hearsay.release.noise import Ints, rounded_normal

EPSILON, DELTA = 3.0, 1e-6
PAIR = Neighbours(EPSILON, DELTA)


def _passes(found: Audit) -> bool:
    return 0.9 * EPSILON <= found.epsilon_lower <= EPSILON


def test_the_claim_is_what_the_noise_costs() -> None:
    spent = costs.mu_squared(PAIR.question("q").event)
    assert spent <= Fraction(gaussian.mu_of(EPSILON, DELTA)) ** 2
    assert gaussian.epsilon_of(float(spent) ** 0.5, DELTA) == pytest.approx(3, rel=1e-6)
    without, with_unit = PAIR.sums()
    moved = int(((with_unit - without) ** 2).sum())
    assert 1 - 1e-5 < moved / BOUND.sensitivity_squared(1) <= 1  # the neighbours are as far apart as may be


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """2,000 synced charges: a memory disk where there is one, since it is the noise that is looked at here."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


def test_the_door_at_epsilon_three(in_memory: Path) -> None:
    found = PAIR.attack(in_memory)
    assert (DRAWS, THROUGH_THE_DOOR) == (100_000, 1_000)
    assert _passes(found) and found.ok
    assert 1.2 < found.epsilon_lower_plain < found.epsilon_lower  # nothing assumed: weaker
    assert found.draws == DRAWS and found.confidence == 0.999


def test_the_draw_at_epsilon_three() -> None:
    """The same bound from the draw function alone, which takes no seconds."""
    assert _passes(PAIR.attack(None))


def test_the_variance_is_right() -> None:
    assert abs(PAIR.variance()[0] - 1) < 0.01


def test_the_door_draws_every_coordinate_anew() -> None:
    """Also where sums are alike: no two of many wide draws may be equal (scale 2 million: 1e-3 false alarm)."""
    drawn = PAIR.question("wide").draw(np.zeros((20, 2), dtype=np.int64)).reshape(-1)
    assert len(set(drawn.tolist())) == drawn.size


@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(95, 100)])
def test_too_little_noise_is_seen(monkeypatch: pytest.MonkeyPatch, factor: Fraction) -> None:
    def weaker(sigma: Fraction, size: int) -> Ints:
        return rounded_normal(sigma * factor, size)

    monkeypatch.setattr(doors, "rounded_normal", weaker)
    seen = [not _passes(PAIR.attack(None)), abs(PAIR.variance()[0] - 1) >= 0.01]
    assert any(seen)
    assert seen[1]
    if factor == Fraction(1, 2):
        assert all(seen)


def test_variance_has_a_two_sided_p_value() -> None:
    scale = PAIR.scale
    for sigma, sound in ((scale, True), (scale * Fraction(101, 100), False), (scale * Fraction(99, 100), False)):
        _, p = variance_ratio(rounded_normal(sigma, 1_000_000), float(scale))
        assert (p > 1e-6) == sound


def test_clopper_pearson_ends() -> None:
    assert clopper_pearson(0, 10, 0.1)[0] == 0 and clopper_pearson(10, 10, 0.1)[1] == 1
    low, high = clopper_pearson(50, 100, 0.05)
    assert low == pytest.approx(0.3983, abs=1e-4) and high == pytest.approx(0.6017, abs=1e-4)


def test_both_bounds_by_hand() -> None:
    """90 true and 10 false alarms of 100: with Clopper-Pearson ends .8238 and .1762, mu is 1.860 and epsilon 1.542."""
    without, with_unit = np.r_[np.ones(10), np.zeros(90)], np.r_[np.ones(90), np.zeros(10)]
    assumed, plain = lower_bounds(without, with_unit, 0.5, 1e-6, 0.05)
    assert plain == pytest.approx(np.log(0.8238 / 0.1762), abs=1e-3)
    assert assumed == pytest.approx(gaussian.epsilon_of(1.860, 1e-6), abs=0.01)
    assert lower_bounds(with_unit, without, 0.5, 1e-6, 0.05) == (0.0, 0.0)
    assert neighbours.ensemble(True).bound == BOUND
