"""Every planted bug is caught by the check that is named for it; and every such check passes on healthy code."""

import pytest
from planting import Plant, run_checks
from plants import PLANTS

PASSED, FAILED = 0, 1  # pytest's exit codes


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_bug_is_caught(plant: Plant) -> None:
    assert run_checks([plant.check], plant) == FAILED, f"{plant.check} did not notice: {plant.name}"


def test_every_check_passes_on_healthy_code() -> None:
    """In one session, since they are many. Without this, a check that always fails would catch everything."""
    assert run_checks(sorted({plant.check for plant in PLANTS})) == PASSED


def test_the_suite_can_fail() -> None:
    """A change that changes nothing is noticed by nobody; one that fits nowhere is an error, not a catch."""
    check = "tests/test_accounting.py::test_sensitivities"
    harmless = Plant("harmless", "hearsay.release.grid", "bound)).long()", "bound)).long() + 0", check)
    assert run_checks([check], harmless) == PASSED
    lost = Plant("lost", "hearsay.release.grid", "no such line", "", check)
    assert run_checks([check], lost) not in (PASSED, FAILED)


def test_enough_bugs_of_different_names() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 14
