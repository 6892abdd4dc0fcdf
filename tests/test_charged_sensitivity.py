"""What each way out charges for: how far one unit can move the sum, written here by hand.

`Bound` knows the sensitivity of a kind of sum; which kind a release is, its own code says in one word. A release that
took itself for one unit a slot, where a shard holds many, would be charged half and verify. So every recipe and method
is run, and what stands in its ledger is compared with figures that `Bound` has no part in.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hearsay import config as configs
from hearsay import lm as models
from hearsay import pipeline
from hearsay import run as runs
from hearsay.accounting.bounds import STEPS
from hearsay.accounting.events import Gaussian, Laplace
from hearsay.accounting.ledger import Charge
from hearsay.config import Config
from hearsay.demo.airline import write_corpus
from hearsay.lm import LanguageModel
from hearsay.private.labelled import collect
from hearsay.public import space as spaces
from hearsay.public.questions import Questions
from hearsay.reading import Row
from hearsay.release import aggregate
from hearsay.release.asking import CLIP_COVERS
from hearsay.release.door import Question
from hearsay.release.labelled import Asker
from test_augment import ENCODER, LABELS, corpus, played
from test_neighbouring_runs import SETTINGS

SQUARE = STEPS**2
CLIP = Fraction(1, 2)
Moves = Callable[[int], int]  # number of questions -> squared L2 distance, in grid steps


def several(questions: int) -> int:
    """A shard of several people answers anything else instead: two unit vectors at a right angle, per question."""
    return 2 * questions * SQUARE


def joint(questions: int, clip: Fraction = CLIP) -> int:
    """Residuals: there and back, 2 C, with C^2 per question over all of them together, which whole steps just reach."""
    return 4 * math.floor(clip**2 * questions * SQUARE)


def one_vote(_: int) -> int:
    """A shard's vote for a norm goes from one bin to another."""
    return 2 * SQUARE


def alone(_: int) -> int:
    """One unit, one vector of length at most 1, there or not there."""
    return SQUARE


ANSWERS: dict[str, tuple[dict[str, Any], list[Moves]]] = {
    "seqpate": ({"recipe": "seqpate", "clip": None}, [several]),
    "votes": ({"recipe": "seqpate", "clip": None, "aggregate": "vote"}, [several]),
    "roots": ({"clip": None}, [several]),
    "residuals": ({"clip": float(CLIP)}, [joint]),
    "quantile": ({"clip": "quantile"}, [one_vote]),
    "updates": ({"recipe": "updates"}, [alone, alone]),
}


def generated(folder: Path, lm: LanguageModel, ask: dict[str, Any]) -> tuple[list[Charge], Path]:
    """A tiny run's charges, and where its public stages lie."""
    write_corpus(folder, private_customers=12, public_customers=6, holdout_customers=1, seed=4)
    models.save(lm, folder / "model", "tiny")
    body = {**SETTINGS, "ask": {**SETTINGS["ask"], **ask}, "updates": {"rounds": 2, "rows": 1}}  # type: ignore[dict-item]
    files = {name: str(folder / f"{name}.jsonl") for name in ("private", "public")}
    data = {**SETTINGS["data"], **files}  # type: ignore[dict-item]
    config = Config.model_validate({**body, "data": data, "model": str(folder / "model")})
    here = runs.begin(folder / "run", configs.to_yaml(config), folder / "ledger.sqlite", folder / "home")
    work = pipeline.generate(config, here, anyway=True)
    return list(work.ledger.charges()), here.release / "stages"


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_charged_for_all_that_a_unit_can_move(tmp_path: Path, tiny_gpt2: LanguageModel, name: str) -> None:
    ask, moves = ANSWERS[name]
    charges, stages = generated(tmp_path, tiny_gpt2, ask)
    asked = 1 if name == "updates" else len(Questions.load(stages / "questions-0.safetensors"))
    for charge, far in zip(charges, moves, strict=name != "quantile"):
        event = charge.event
        assert isinstance(event, Gaussian) and event.sensitivity_squared == far(asked)
    if name == "quantile":  # then the residuals, at the clip that the released votes say
        event, votes = charges[1].event, np.load(stages.parent / "answers" / f"{charges[0].question}.npy")
        clip = Fraction(aggregate.clip_from_votes(torch.from_numpy(votes), CLIP_COVERS)).limit_denominator(10**6)
        assert isinstance(event, Gaussian) and event.queries == asked
        assert event.sensitivity_squared == joint(asked, clip) > 0


def test_laplace_noise_is_charged_for_both_ways(tmp_path: Path, tiny_gpt2: LanguageModel) -> None:
    """A shard's probabilities go from one candidate to another: 2 in L1, for every question."""
    ask = {"recipe": "seqpate", "clip": None, "noise": "laplace"}
    (charge,), stages = generated(tmp_path, tiny_gpt2, ask)
    asked = len(Questions.load(stages / "questions-0.safetensors"))
    assert isinstance(charge.event, Laplace)
    assert (charge.event.sensitivity_l1, charge.event.queries) == (2 * STEPS, asked)


METHODS: dict[str, tuple[dict[str, Any], Moves, int]] = {
    "means": ({"dimensions": 6}, alone, 1),
    "clusters": ({"dimensions": 6, "clusters": 4}, alone, 1),
    "gradients": ({"dimensions": 6, "steps": 2}, alone, 2),
    "votes": ({"teachers": 3, "queries": 4}, several, 1),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_labelled_corpus_is_charged_for_all_that_a_unit_can_move(tmp_path: Path, method: str) -> None:
    """The tutor's histogram first, then the discriminator."""
    settings, far, times = METHODS[method]
    body = corpus(tmp_path, units=60, discriminator={"method": method, **settings})
    body["selection"] |= {"relabel": method != "votes"}
    work, _ = played(tmp_path, body)
    found = [charge.event for charge in work.ledger.charges()]
    assert all(isinstance(event, Gaussian) for event in found)
    wanted = [alone(1), *[far(settings.get("queries", 1))] * times]
    assert [event.sensitivity_squared for event in found if isinstance(event, Gaussian)] == wanted


class _Listener:
    """In the door's place: returns the sum as it is, for tests alone."""

    def ask(self, question: Question, contributions: Any) -> Any:
        return contributions().total.numpy()


def _sums(folder: Path, rows: list[Row]) -> np.ndarray[Any, Any]:
    vectors = ENCODER.batch(["beat pulse", "joint cast", "rash mole", "beat valve", "hip knee", "spot rash"])
    space = spaces.fit(vectors, np.array([0, 1, 2] * 2), 4)
    units = collect(
        rows, LABELS, unit="user", cap=9, key=b"k" * 32, sketch_key=b"s" * 32, encode=ENCODER.alone, folder=folder,
    )  # fmt: skip
    asker = Asker(_Listener(), units, "run", ENCODER.name)  # type: ignore[arg-type]
    return np.concatenate([asker.histogram(Fraction(1)), asker.means(space, Fraction(1)).reshape(-1)])


def test_a_person_with_many_notes_moves_a_sum_by_one_vector(tmp_path: Path) -> None:
    """Six notes that all say the same would, as six units, move the histogram by six."""
    others = [Row(1, "joint cast", "anna", ("bone",)), Row(2, "rash mole", "bob", ("skin",))]
    theirs = [Row(3 + i, " ".join(["beat"] * (i + 1)), "carol", ("heart",)) for i in range(6)]
    moved = _sums(tmp_path / "with", [*others, *theirs]) - _sums(tmp_path / "without", others)
    histogram, places = moved[: len(LABELS) + 1], moved[len(LABELS) + 1 :]
    assert np.linalg.norm(histogram) == pytest.approx(1, abs=1e-5)
    assert 0 < np.linalg.norm(places) <= 1
