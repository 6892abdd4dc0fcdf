"""Verdicts on the papers' claims follow from the figures: made-up ones, here, and what must be said of them."""

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]
import claims  # noqa: E402


def _cell(name: str, *figures: float, **more: float) -> dict[str, Any]:
    return {str(seed): {name: figure, **more} for seed, figure in enumerate(figures)}


@pytest.fixture()
def told(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The verdict of a claim on one corpus of these cells."""

    def verdict(find: Any, cells: dict[str, Any]) -> str:
        monkeypatch.setattr(claims, "cells", lambda study, corpus: cells if corpus == "sgd" else {})
        said: str = find().verdict
        return said

    return verdict


@pytest.mark.parametrize(
    ("closed", "said"),
    [
        ((0.42, 0.43, 0.44), "reproduced"), ((0.02, 0.03, 0.02), "not reproduced: far less"),
        ((0.4, 0.42, 0.1), "not clear"), ((2.0, -1.4, 0.4), "not clear"),
    ],
)  # fmt: skip
def test_a_share_of_the_gap(told: Any, closed: tuple[float, ...], said: str) -> None:
    assert told(claims.gaps("table-1", "seqpate", 0.44), {"seqpate": _cell("gap_closed", *closed)}) == said


def test_a_difference_is_judged_over_seeds_and_over_people(told: Any) -> None:
    """Of everybody held out: seeds that agree do not make up for people who do not."""

    def cell(*ppl: float, nll: list[float]) -> dict[str, Any]:
        found = _cell("ppl", *ppl)
        return {seed: one | {"by_person": {"nll": nll, "tokens": [10] * 6}} for seed, one in found.items()}

    first = cell(50.0, 50.2, 50.1, nll=[10.0] * 6)
    alike = cell(55.0, 55.2, 55.1, nll=[11.0, 11.1, 10.9, 11.0, 11.2, 10.8])
    of_one = cell(55.0, 55.2, 55.1, nll=[16.0, 10.0, 10.0, 10.0, 10.0, 10.0])
    find = claims.worse("people", "other", "first")
    assert told(find, {"first": first, "other": alike}) == "reproduced"
    assert told(find, {"first": first, "other": of_one}) == "not clear"
    assert told(find, {"first": alike, "other": first}) == "not reproduced: the opposite"
    once = {"0": alike["0"]}
    assert told(find, {"first": first, "other": once}) == "service dialogues: one seed alone"


@pytest.mark.parametrize(
    ("negative", "noise", "said"),
    [(0.48, 0.06, "wrong in the paper"), (0.48, 0.001, "not reproduced"), (0.002, 0.001, "reproduced")],
)
def test_values_below_zero(told: Any, negative: float, noise: float, said: str) -> None:
    cell = _cell("negative", negative, negative, noise_std_mean=noise, candidates=178)
    assert told(claims.below_zero, {"seqpate": cell}) == said


@pytest.mark.parametrize(
    ("few", "many", "public", "said"),
    [
        (3, 80, 2, "reproduced"), (30, 80, 2, "not clear"), (200, 80, 2, "not reproduced: the opposite"),
        (0, 4, 0, "not clear"), (3, 80, 174, "not clear"),
    ],
)  # fmt: skip
def test_leaks(told: Any, few: int, many: int, public: int, said: str) -> None:
    """Names that the public model writes as often are no leaks, and too few of them tell nothing."""
    counts = {"seqpate": few, "private": many, "public": public}
    cells = {name: _cell("name_leak_rate", count / 3000, 0.0, completions=3000) for name, count in counts.items()}
    assert told(claims.leaks("seqpate", "private"), cells) == said


def test_the_order_of_ablations(told: Any) -> None:
    """One pair in fifteen that is clear by chance reverses nothing; one that is beyond doubt does."""
    paper = ["-pseudo loss", "-Effi KD", "-Gaussian", "-Merge_P", "-KL", "-All"]
    cells = {name: _cell("ppl", *(70 + place + shake for shake in (0.0, 0.4, 0.2))) for place, name in enumerate(paper)}
    cells["seqpate"] = _cell("ppl", 69.0, 69.3, 69.1)
    assert told(claims.ablation_order, cells) == "reproduced"
    cells["-KL"] = _cell("ppl", 66.0, 75.0, 66.5)
    assert told(claims.ablation_order, cells) == "not clear"
    cells["-KL"] = _cell("ppl", 60.0, 60.35, 60.17)
    assert told(claims.ablation_order, cells) == "not reproduced: the opposite"
