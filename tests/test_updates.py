"""Rounds of updates: one unit moves the sum by at most its clip, nobody else's bits move, every round is paid."""

import dataclasses
import json
import math
import os
import signal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from hearsay import lm as models
from hearsay import run as runs
from hearsay.accounting import budget, costs, sampled, verify
from hearsay.accounting.bounds import STEPS, UNIT_BALL
from hearsay.accounting.events import SubsampledGaussian
from hearsay.accounting.ledger import Ledger
from hearsay.baselines import dpsgd
from hearsay.baselines.learner import Learner
from hearsay.baselines.units import Batch
from hearsay.demo.airline import write_corpus
from hearsay.errors import BudgetError, ConfigError
from hearsay.lm import LanguageModel
from hearsay.private import moves as moving
from hearsay.private.moves import Moves, frame_of, place_matters
from hearsay.private.packing import pack
from hearsay.private.training import TrainingShape
from hearsay.private.units import KINDS, Units
from hearsay.public.basis import _moments, whitened
from hearsay.public.server import Server, ServerSettings
from hearsay.release import door, updates
from hearsay.release.door import Question
from hearsay.release.grid import on_grid
from hearsay.release.updates import Crowd, Moving, ask_update, coins, full_scale, sampled_scale
from hearsay.stacked import StackedTop
from test_pipeline import SETTINGS, _calm_noise, _Counter, _generate, _in_child, _Killer, hearsay

SHAPE = TrainingShape(rank=2, top_blocks=2, row_tokens=32, rows_per_step=2, steps=1, warm_up=0, schedule="constant")
CPU = torch.device("cpu")


def _people(count: int, seed: int = 3) -> list[list[np.ndarray[Any, Any]]]:
    stream = np.random.default_rng(seed)
    return [
        [stream.integers(1, 300, stream.integers(3, 9)) for _ in range(stream.integers(0, 6))] for _ in range(count)
    ]


def _units(lm: LanguageModel, people: list[Any], shape: TrainingShape = SHAPE) -> Units:
    frame = frame_of(lm, shape)
    rows = [pack(mine, frame, np.random.default_rng(0)) for mine in people]
    arrays = tuple(np.stack([getattr(row, kind) for row in rows])[:, None] for kind in KINDS)
    return Units(arrays, pack([], frame, np.random.default_rng(0)))


def _crowd(lm: LanguageModel, people: list[Any], block: int = 4, clip: float = 0.3, steps: int = 1) -> Crowd:
    shape = TrainingShape(**{**SHAPE.__dict__, "steps": steps})
    movers = Moves(StackedTop(lm.model, shape.adapter), shape, CPU, block)
    return Crowd(_units(lm, people, shape), movers, len(people), clip, Fraction(1), "run")


def _student(crowd: Crowd) -> torch.Tensor:
    start = crowd.moves.top.layout.initial()
    return start + 0.05 * torch.randn(start.shape, generator=torch.Generator().manual_seed(5))


# One unit, one vector


@pytest.mark.parametrize("steps", [1, 3])
def test_dropping_a_unit_removes_its_vector_and_moves_nobody_else(tiny: LanguageModel, steps: int) -> None:
    """On the grid, to the last step: the others shift to other places and blocks, and stay as they were."""
    people = _people(9)
    people[4] = [np.arange(1, 9)] * 200  # a very rich unit weighs no more than the others
    crowd = _crowd(tiny, people, steps=steps)
    student = _student(crowd)
    everyone = crowd.total(student, 0).total
    for gone in (0, 4, 8):
        rest = _crowd(tiny, people[:gone] + people[gone + 1 :], steps=steps).total(student, 0).total
        alone = _crowd(tiny, [people[gone]], block=1, steps=steps)
        vector = on_grid(next(alone.vectors(Moving(student, 0), np.arange(1))), UNIT_BALL)
        assert torch.equal(everyone - rest, vector[0])
        assert int((vector.double() ** 2).sum()) <= STEPS**2
    assert int((everyone != 0).sum()) > 0


def test_a_unit_without_text_and_padding_count_as_exactly_zero(tiny_gpt2: LanguageModel) -> None:
    crowd = _crowd(tiny_gpt2, [[], [], []])
    assert not crowd.total(_student(crowd), 0).total.any()


def test_where_place_matters_units_go_one_at_a_time(tiny_gpt2: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = _crowd(tiny_gpt2, _people(3))
    frame = frame_of(tiny_gpt2, SHAPE)
    assert not place_matters(crowd.moves, frame, 300)
    healthy = Moves.of

    def leaky(self: Moves, rows: Any, first: torch.Tensor) -> torch.Tensor:
        found = healthy(self, rows, first)
        return found + 1e-7 * torch.arange(len(found))[:, None]  # as a kernel that rounds by place

    monkeypatch.setattr(Moves, "of", leaky)
    assert place_matters(crowd.moves, frame, 300)
    stack = type("Stack", (), {"top": crowd.moves.top, "device": CPU, "lm": tiny_gpt2})
    assert moving.moves(stack, SHAPE, 4).block == 1  # type: ignore[arg-type]


def test_one_local_step_is_opacus_dp_sgd_before_noise(tiny: LanguageModel) -> None:
    """At B = 0 the A's have no gradient, so that Opacus on both halves clips and sums the very same vectors."""
    people = [person or [np.arange(1, 6)] for person in _people(7)]
    crowd = _crowd(tiny, people, clip=1.0)
    start, top = crowd.moves.top.layout.initial(), crowd.moves.top
    frame = frame_of(tiny, TrainingShape(**{**SHAPE.__dict__, "rows_per_step": 1, "row_tokens": 64}))
    rows = [pack(mine, frame, np.random.default_rng(0)) for mine in people]
    batch = Batch(*(torch.from_numpy(np.stack([getattr(row, kind)[0] for row in rows])).long() for kind in KINDS))
    shape = TrainingShape(**{**SHAPE.__dict__, "rows_per_step": 1, "row_tokens": 64})
    ours = Crowd(_units(tiny, people, shape), Moves(top, shape, CPU, 7), 7, 1.0, Fraction(1), "run")
    vectors = torch.cat(list(ours.moves(ours.units, start, 0)))
    clip = float(vectors.norm(dim=1).median())  # some are clipped, some are not
    ours = Crowd(ours.units, ours.moves, 7, clip, Fraction(1), "run")
    got = -ours.total(start, 0).total[0].double() / STEPS * clip
    want = dpsgd.clipped_sum(Learner(tiny, top, start), batch, clip)[top.layout.outputs()].double()
    assert torch.allclose(got, want, atol=2e-5 * float(want.abs().max()), rtol=0)


def test_the_mean_divides_by_the_declared_number(tiny_gpt2: LanguageModel) -> None:
    """A divisor that counts units would tell their number, whatever the noise."""
    crowd = dataclasses.replace(_crowd(tiny_gpt2, _people(5)), declared=40, rate=Fraction(1, 2))

    class Plain:
        def ask(self, question: Question, contributions: object) -> np.ndarray[Any, Any]:
            assert question.rate == Fraction(1, 2)
            return np.full((1, crowd.width), 40 * STEPS)

    found = ask_update(Plain(), crowd, _student(crowd), 0, Fraction(STEPS))  # type: ignore[arg-type]
    assert torch.equal(found, torch.full((crowd.width,), 2.0, dtype=torch.float64))


def test_only_units_whose_coin_fell_take_part(tiny_gpt2: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round charged as a sample must be one: the sum is that of the chosen alone."""
    people = [person or [np.arange(1, 6)] for person in _people(9)]
    crowd = dataclasses.replace(_crowd(tiny_gpt2, people), rate=Fraction(1, 2))
    fell = np.array([True, False, True, True, False, False, False, True, False])
    monkeypatch.setattr(updates, "coins", lambda rate, count: fell)
    student = _student(crowd)
    chosen = _crowd(tiny_gpt2, [person for person, here in zip(people, fell, strict=True) if here])
    assert torch.equal(crowd.total(student, 0).total, chosen.total(student, 0).total)
    monkeypatch.setattr(updates, "coins", lambda rate, count: np.zeros(9, bool))
    assert not crowd.total(student, 0).total.any()


# Coins, scales, costs


def test_coins_fall_by_chance_at_their_rate() -> None:
    rate, count = Fraction(35, 100), 200_000
    heads = int(coins(rate, count).sum())
    assert abs(heads - 0.35 * count) < 5.5 * math.sqrt(0.35 * 0.65 * count)  # false alarm: 4e-8
    assert (coins(rate, 4000) != coins(rate, 4000)).any()
    assert not coins(Fraction(1, 2**80), 1000).any() and coins(Fraction(1), 1000).all()


def test_full_rounds_cost_exactly_their_share() -> None:
    allowed = budget.make(3.0, 1e-6)
    share = allowed.capacity / 60 - costs.UNIT
    question = Question("u", "update", UNIT_BALL, 1, 1000, full_scale(share))
    assert share * (1 - Fraction(1, 10**6)) < costs.mu_squared(question.event) <= share


def test_a_sampled_round_is_charged_as_what_was_committed() -> None:
    event = sampled.schedule_for(3.0, 1e-6, Fraction(1, 4), 20)
    question = Question("u", "update", UNIT_BALL, 1, 500, sampled_scale(event), rate=Fraction(1, 4))
    assert question.event == SubsampledGaussian(Fraction(1, 4), event.noise_multiplier, 1, 500)
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    theirs = PLDAccountant()
    one = PoissonSampledDpEvent(0.25, GaussianDpEvent(float(question.event.noise_multiplier)))
    theirs.compose(SelfComposedDpEvent(one, 20))
    ours = costs.compose([question.event] * 20).get_epsilon_for_delta(1e-6)
    assert ours == pytest.approx(theirs.get_epsilon(1e-6), rel=2e-3) and ours <= 3


def test_only_one_gaussian_sum_of_unit_vectors_can_be_sampled() -> None:
    with pytest.raises(ConfigError):
        Question("u", "update", UNIT_BALL, 2, 5, Fraction(1), rate=Fraction(1, 2))


# The public side


def test_the_server_is_adam_and_averages_its_last_rounds() -> None:
    settings = ServerSettings(rounds=8, learning_rate=0.1, average=0.25)
    start, places = torch.arange(5.0), torch.tensor([1, 3])
    server, stream = Server(start, places, settings), torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(start[places].clone())
    adam = torch.optim.Adam([weight], betas=(0.9, 0.99), eps=1e-12)
    seen = []
    for _ in range(8):
        update = torch.randn(2, generator=stream)
        server.step(update)
        adam.param_groups[0]["lr"] = server._rate()
        weight.grad = -update
        adam.step()
        assert torch.allclose(server.student[places], weight, atol=1e-6)
        seen.append(server.student.clone())
    assert torch.equal(server.student[[0, 2, 4]], start[[0, 2, 4]])  # what does not move stays
    assert torch.allclose(server.result, (seen[-1] + seen[-2]) / 2, atol=1e-6)


def test_inner_halves_see_every_main_direction_equally(tiny: LanguageModel) -> None:
    top = StackedTop(tiny.model, SHAPE.adapter)
    stream = np.random.default_rng(0)
    sentences = [stream.integers(1, 300, stream.integers(4, 20)).tolist() for _ in range(80)]
    flat = whitened(top, top.layout.initial(), sentences, 0, 0)
    moments = _moments(top, sentences, 0, 0)
    for a, b, moment in zip(
        top.layout.views(flat[None])[::2], top.layout.views(flat[None])[1::2], moments, strict=True
    ):
        seen = a[0].double().T @ moment @ a[0].double()
        assert torch.allclose(seen, torch.eye(2, dtype=torch.float64) * seen[0, 0], atol=1e-4 * float(seen[0, 0]))
        assert not b.any()  # still the public model
    assert not any(layer._forward_pre_hooks for layer in top.layers())


# Through the command line


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, tiny_gpt2: LanguageModel) -> Path:
    folder = tmp_path_factory.mktemp("updates")
    write_corpus(folder, private_customers=60, public_customers=20, holdout_customers=8, seed=1)
    models.save(tiny_gpt2, folder / "model", "tiny")
    body = json.loads(json.dumps(SETTINGS))
    body["model"] = str(folder / "model")
    body["ask"] |= {"recipe": "mixed", "rounds": 1}
    body["updates"] = {"rounds": 3, "rows": 1, "clip": 0.5, "pages": 2, "share": 0.5}
    (folder / "hearsay.yaml").write_text(yaml.safe_dump(body))
    return folder


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))


def _variant(desk: Path, name: str, **changes: dict[str, Any]) -> Path:
    body = yaml.safe_load((desk / "hearsay.yaml").read_text())
    for section, values in changes.items():
        body[section] = {**body.get(section, {}), **values}
    (desk / f"{name}.yaml").write_text(yaml.safe_dump(body))
    return desk / f"{name}.yaml"


@pytest.mark.parametrize(
    ("recipe", "sample", "charges"), [("updates", 1.0, 3), ("updates", 0.5, 3), ("mixed", 1.0, 4), ("mixed", 0.5, 4)]
)
def test_every_mix_stays_within_one_budget(
    desk: Path, tmp_path: Path, recipe: str, sample: float, charges: int
) -> None:
    config = _variant(desk, f"{recipe}-{sample}", ask={"recipe": recipe}, updates={"sample": sample})
    assert hearsay("run", config, "--out", tmp_path / "run", "--anyway", "--json") == 0
    verdict = verify.verify(Ledger.open(runs.open_run(tmp_path / "run").ledger))
    assert verdict.ok, verdict.problems
    assert verdict.charges == charges and 2.9 < verdict.epsilon <= 3
    assert hearsay("evaluate", tmp_path / "run", "--completions", 4, "--json") == 0


def test_a_sample_that_was_not_committed_is_refused(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = _variant(desk, "first", ask={"recipe": "updates"}, privacy={"spend": 0.5})
    assert hearsay("run", first, "--out", tmp_path / "one", "--anyway", "--json") == 0
    second = _variant(desk, "second", ask={"recipe": "updates"}, updates={"sample": 0.5}, privacy={"spend": 0.5})
    assert hearsay("run", second, "--out", tmp_path / "two", "--anyway", "--json") == 3
    assert "set updates.sample to 1" in capsys.readouterr().err
    with pytest.raises(BudgetError):
        Ledger.open(runs.open_run(tmp_path / "two").ledger).budget.cost(SubsampledGaussian(Fraction(1, 2), Fraction(1)))


def test_killed_between_rounds_and_resumed_gives_the_same_student(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "rounded_normal", _calm_noise)
    _Counter.seen = 0
    _generate(desk, tmp_path / "whole", _Counter)
    wanted = (tmp_path / "whole" / "run" / "release" / "student" / "model.safetensors").read_bytes()
    for moment in np.linspace(2, _Counter.seen - 1, 6).astype(int).tolist():
        out = tmp_path / f"killed-{moment}"
        _Killer.left = moment
        assert _in_child(lambda out=out: _generate(desk, out, _Killer)) == -signal.SIGKILL
        assert _in_child(lambda out=out: _generate(desk, out)) == 0
        assert (out / "run" / "release" / "student" / "model.safetensors").read_bytes() == wanted
        verdict = verify.verify(Ledger.open(out / "home" / "ledger.sqlite"))
        assert verdict.ok and verdict.charges == 4, verdict.problems


def test_how_many_units_there_are_shows_in_private_only(desk: Path, tmp_path: Path) -> None:
    """Sizes of everything outside private/ are the same when units are missing: shapes come from public settings."""

    def sizes(private: Path, out: Path) -> dict[str, int]:
        body = yaml.safe_load((desk / "hearsay.yaml").read_text())
        body["ask"]["recipe"] = "updates"
        body["data"]["private"] = str(private)
        (out.parent / f"{out.name}.yaml").write_text(yaml.safe_dump(body | {"data": _absolute(body["data"], desk)}))
        os.environ["HEARSAY_HOME"] = str(out / "home")
        assert hearsay("run", out.parent / f"{out.name}.yaml", "--out", out / "run", "--anyway", "--json") == 0
        release = out / "run" / "release" / "answers"
        return {str(i): path.stat().st_size for i, path in enumerate(sorted(release.iterdir()))}

    fewer = tmp_path / "fewer.jsonl"
    rows = (desk / "private.jsonl").read_text().splitlines()
    users = sorted({json.loads(row)["user"] for row in rows})[:20]
    fewer.write_text("\n".join(row for row in rows if json.loads(row)["user"] in users) + "\n")
    assert sizes(desk / "private.jsonl", tmp_path / "all") == sizes(fewer, tmp_path / "some")


def _absolute(data: dict[str, Any], desk: Path) -> dict[str, Any]:
    names = ("private", "public", "holdout")
    return {key: str(desk / value) if key in names else value for key, value in data.items()}
