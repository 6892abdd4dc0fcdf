"""Baselines: Opacus computes what the stack computes, the ledger comes first, the unprotected stays in internal/."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from conftest import public_of_no_record
from hearsay import admission, charging, measure, pipeline
from hearsay import config as configs
from hearsay import lm as models
from hearsay import run as runs
from hearsay.accounting import budget, costs, identity, sampled, verify
from hearsay.accounting.events import SubsampledGaussian
from hearsay.accounting.ledger import Ledger
from hearsay.baselines import dpsgd, methods, unprotected
from hearsay.baselines.learner import Learner
from hearsay.baselines.settings import Baseline
from hearsay.baselines.units import Batch, Sentences, Units
from hearsay.config import Config
from hearsay.demo.airline import write_corpus
from hearsay.errors import BudgetError, ConfigError, LedgerError, ModelError
from hearsay.lm import LanguageModel
from hearsay.private.shards import PartitionSettings
from hearsay.private.training import BlockState, TrainingShape, gradient
from hearsay.private.units import by_unit
from hearsay.release import door as doors
from hearsay.stacked import StackedTop
from test_pipeline import SETTINGS, hearsay

SHAPE = TrainingShape(rank=2, top_blocks=2, row_tokens=64)
CPU = torch.device("cpu")
ALL = 60  # every customer in every step: plain Gaussians, no loss distribution to compute


def _people(count: int = 7) -> dict[int, Sentences]:
    stream = np.random.default_rng(3)
    return {
        name: [stream.integers(0, 300, stream.integers(3, 9)) for _ in range(stream.integers(1, 6))]
        for name in range(count)
    }


def _scene(lm: LanguageModel) -> tuple[StackedTop, torch.Tensor, Units, Batch]:
    """A trained adapter (B is not zero, so that A has a gradient) and one row of every unit."""
    top = StackedTop(lm.model, SHAPE.adapter)
    start = top.layout.initial()
    start = start + 0.05 * torch.randn(start.shape, generator=torch.Generator().manual_seed(5))
    units = Units(_people(), lm, tokens=64)
    return top, start, units, units.batch(list(range(len(units))), np.random.default_rng(0), CPU)


def row_losses(learner: Learner, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = learner(batch.tokens, batch.targets, batch.positions)
    return found


# The same gradients


def _stack_sum(top: StackedTop, start: torch.Tensor, batch: Batch, clip: float | None) -> tuple[torch.Tensor, float]:
    """Each unit's gradient through the stack, clipped, summed; the median norm if no clip is given."""
    rows = (value[None] for value in (batch.tokens, batch.targets, batch.positions))
    flat = start.repeat(len(batch.tokens), 1)
    grads = gradient(top, BlockState(flat, flat, flat, *rows), 0)
    norms = grads.norm(dim=1, keepdim=True)
    clip = clip or float(norms.median())
    return (grads * (clip / norms).clamp(max=1)).sum(0), clip


@pytest.mark.parametrize("ghost", [False, True])
def test_opacus_clips_and_sums_what_the_stack_clips_and_sums(tiny: LanguageModel, ghost: bool) -> None:
    top, start, _, batch = _scene(tiny)
    want, clip = _stack_sum(top, start, batch, None)  # the median: some are clipped, some are not
    learner = Learner(tiny, top, start)
    for physical in (3, 64):
        got = dpsgd.clipped_sum(learner, batch, clip, ghost=ghost, physical=physical)
        assert torch.allclose(got, want, atol=2e-5 * float(want.abs().max()), rtol=0)
    loose, _ = _stack_sum(top, start, batch, clip * 2)
    assert not torch.allclose(loose, want, atol=1e-2 * float(want.abs().max()), rtol=0)  # the clip is seen at all


def test_all_weights_are_clipped_by_unit_tied_ones_too(tiny_gpt2: LanguageModel) -> None:
    top, start, _, batch = _scene(tiny_gpt2)
    got = dpsgd.clipped_sum(Learner(tiny_gpt2, top, start, "full"), batch, 1.0, physical=4)
    plain, want = Learner(tiny_gpt2, top, start, "full"), torch.zeros_like(got)
    for i in range(len(batch.tokens)):
        plain.zero_grad()
        one = Batch(*(value[i : i + 1] for value in (batch.tokens, batch.targets, batch.positions)))
        row_losses(plain, one).sum().backward()
        mine = plain.flat([weight.grad for weight in plain.weights if weight.grad is not None])
        want += mine / max(1.0, float(mine.norm()))
    assert torch.allclose(got, want, atol=2e-5 * float(want.abs().max()), rtol=0)


def test_a_unit_is_one_sample_and_its_sentences_do_not_see_each_other(tiny_gpt2: LanguageModel) -> None:
    """Two sentences packed into one row: their mean loss, and a gradient that is clipped as one."""
    top, start, _, _ = _scene(tiny_gpt2)
    a, b = np.arange(5, 12), np.arange(40, 47)
    learner = Learner(tiny_gpt2, top, start)

    def loss(*sentences: Any) -> float:
        units = Units({0: list(sentences)}, tiny_gpt2, tokens=32)
        return float(row_losses(learner, units.batch([0], np.random.default_rng(0), CPU)).detach())

    assert loss(a, b) == pytest.approx((loss(a) + loss(b)) / 2, rel=1e-5)


def test_other_units_change_nobodys_rows_and_a_rich_unit_shows_all_its_text(tiny_gpt2: LanguageModel) -> None:
    people = _people()
    people[99] = [np.full(6, n) for n in range(1, 40)]  # several rows
    units, fewer = Units(people, tiny_gpt2, 32), Units({99: people[99], 2: people[2]}, tiny_gpt2, 32)
    order = list(people)
    shown: set[int] = set()
    for seed in range(40):
        one = units.batch([order.index(99)], np.random.default_rng(seed), CPU)
        same = fewer.batch([0], np.random.default_rng(seed), CPU)
        assert torch.equal(one.tokens, same.tokens)
        shown |= set(one.tokens.flatten().tolist())
    assert len(shown) >= 35
    assert torch.equal(
        units.batch([2], np.random.default_rng(0), CPU).tokens, fewer.batch([1], np.random.default_rng(0), CPU).tokens
    )


class _Overflowing(Learner):
    """One unit's loss is infinite, whoever is computed beside it."""

    bad: torch.Tensor

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        worst = (tokens == self.bad).all(1)
        return super().forward(tokens, targets, positions) * torch.where(worst, torch.inf, 1.0)


@pytest.mark.parametrize("ghost", [False, True])
def test_a_unit_that_is_not_finite_counts_as_nothing_and_moves_nobody(tiny_gpt2: LanguageModel, ghost: bool) -> None:
    top, start, units, batch = _scene(tiny_gpt2)
    learner = _Overflowing(tiny_gpt2, top, start)
    learner.bad = batch.tokens[2]
    others = batch.only(torch.arange(len(batch.tokens)) != 2)
    want = dpsgd.clipped_sum(Learner(tiny_gpt2, top, start), others, 0.1, ghost=ghost)
    for physical in (1, 3, 64):  # alone in its part, too
        got = dpsgd.clipped_sum(learner, batch, 0.1, ghost=ghost, physical=physical)
        assert torch.allclose(got, want, atol=1e-6 * float(want.abs().max()), rtol=0)
    lonely = dpsgd.clipped_sum(learner, batch.only(slice(2, 3)), 0.1, ghost=ghost)
    assert torch.equal(lonely, torch.zeros_like(want))
    assert dpsgd.train(learner, units, _steps(ghost=ghost, rate=Fraction(1))).flat.isfinite().all()


def test_no_cudnn_attention_while_the_learner_computes(tiny: LanguageModel) -> None:
    """Its backward pass gave NaN for masked rows (split.KERNELS)."""
    top, start, _, batch = _scene(tiny)
    learner, seen = Learner(tiny, top, start), []
    for name, module in learner.named_modules():
        if name.rpartition(".")[2] in ("attn", "self_attn"):
            module.register_forward_pre_hook(lambda *_: seen.append(torch.backends.cuda.cudnn_sdp_enabled()))
    row_losses(learner, batch)
    assert seen == [False] * 3 and torch.backends.cuda.cudnn_sdp_enabled()


# Training


def _steps(**changes: Any) -> dpsgd.Steps:
    event = SubsampledGaussian(changes.pop("rate", Fraction(1, 2)), changes.pop("noise", Fraction(1, 100)), 12)
    return dpsgd.Steps(event, **({"batch": 3, "clip": 1.0, "learning_rate": 3e-2, "physical": 2} | changes))


@pytest.mark.parametrize("ghost", [False, True])
def test_training_learns_when_there_is_hardly_any_noise(tiny_gpt2: LanguageModel, ghost: bool) -> None:
    top, start, units, batch = _scene(tiny_gpt2)
    learner = Learner(tiny_gpt2, top, start)
    before = row_losses(learner, batch).mean().item()
    trained = dpsgd.train(learner, units, _steps(ghost=ghost, rate=Fraction(1), batch=7))
    assert trained.history == [(0.01, 1.0, 12)]
    assert row_losses(Learner(tiny_gpt2, top, trained.flat), batch).mean().item() < before - 0.3


@pytest.mark.parametrize("ghost", [False, True])
def test_an_empty_batch_still_takes_its_step_of_noise(tiny_gpt2: LanguageModel, ghost: bool) -> None:
    """A rate so small that nobody is ever drawn: plain noise of a known size, twelve times."""
    top, start, units, _ = _scene(tiny_gpt2)
    steps = _steps(rate=Fraction(1, 10**7), noise=Fraction(2), ghost=ghost, optimiser="momentum", decay="constant")
    moved = dpsgd.train(Learner(tiny_gpt2, top, start), units, steps)
    assert moved.history[0][2] == 12
    carry = [(1 - 0.9 ** (12 - step)) / 0.1 for step in range(12)]  # how often momentum counts a step's noise
    expected = steps.learning_rate * 2 * steps.clip / steps.batch * float(np.linalg.norm(carry))
    assert float((moved.flat - start).std()) == pytest.approx(expected, rel=0.1)  # 6 standard errors at 1,344 weights
    again = dpsgd.train(Learner(tiny_gpt2, top, start), units, steps)
    assert not torch.equal(again.flat, moved.flat)  # no constant seed


def test_the_sample_is_drawn_by_our_coins(tiny_gpt2: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact at their rate; torch's 24-bit fractions are not."""
    top, start, units, _ = _scene(tiny_gpt2)
    asked: list[tuple[Fraction, int]] = []
    taken: list[list[int]] = []

    def coins(rate: Fraction, count: int) -> Any:
        asked.append((rate, count))
        return np.arange(count) % 3 == 0

    batch = units.batch
    monkeypatch.setattr(dpsgd, "coins", coins)
    monkeypatch.setattr(units, "batch", lambda chosen, *rest: taken.append(chosen) or batch(chosen, *rest))
    dpsgd.train(Learner(tiny_gpt2, top, start), units, _steps(rate=Fraction(3, 7)))
    assert asked == [(Fraction(3, 7), 7)] * 12 and taken == [[0, 3], [6]] * 12
    taken.clear()
    dpsgd.train(Learner(tiny_gpt2, top, start), units, _steps(rate=Fraction(1), physical=9))
    assert taken == [list(range(7))] * 12


def test_the_mean_over_the_last_steps_is_what_is_kept(tiny_gpt2: LanguageModel) -> None:
    top, start, units, _ = _scene(tiny_gpt2)
    learner = Learner(tiny_gpt2, top, start)
    kept = dpsgd.train(learner, units, _steps(average=0.5)).flat
    assert not torch.allclose(kept, learner.flat(list(learner.weights)), atol=1e-4)


def test_all_weights_of_a_large_model_are_refused(tiny_gpt2: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    top, start, _, _ = _scene(tiny_gpt2)
    monkeypatch.setattr(dpsgd, "CPU_ROOM", 10_000)
    with pytest.raises(ModelError, match="trainable: adapter"):
        dpsgd.fitting(Learner(tiny_gpt2, top, start, "full"), ghost=False)


# Accounting


@pytest.mark.parametrize(
    ("epsilon", "rate", "steps"),
    [(3.0, Fraction(4096, 11674), 60), (1.0, Fraction(4096, 11674), 60), (3.0, Fraction(1, 10), 200), (8.0, Fraction(1), 9)],  # noqa: E501
)  # fmt: skip
def test_opacus_epsilon_recomputed_by_ours_agrees_within_one_percent(
    epsilon: float, rate: Fraction, steps: int
) -> None:
    from opacus.accountants import PRVAccountant

    event = sampled.schedule_for(epsilon, 1e-6, rate, steps)
    accountant = PRVAccountant()
    accountant.history = [(float(event.noise_multiplier), float(rate), steps)]
    theirs = accountant.get_epsilon(1e-6, eps_error=epsilon / 500)
    ours = sampled.epsilon_of(event, 1e-6)
    assert ours <= epsilon and ours == pytest.approx(epsilon, rel=2e-3)
    assert theirs == pytest.approx(ours, rel=0.01)


def test_opacus_renyi_recomputed_by_ours_agrees_at_every_order() -> None:
    from opacus.accountants.analysis.rdp import compute_rdp

    event = SubsampledGaussian(Fraction(1, 5), Fraction(3, 2), 80)
    for order in (2, 8, 32):
        theirs = float(compute_rdp(q=0.2, noise_multiplier=1.5, steps=80, orders=[order])[0])
        assert float(costs.renyi(event, order)) == pytest.approx(theirs, rel=0.01)


def test_noise_is_no_more_than_needed() -> None:
    event = sampled.schedule_for(2.0, 1e-5, Fraction(1, 4), 20)
    less = SubsampledGaussian(event.rate, event.noise_multiplier - Fraction(4, sampled.FINENESS), event.steps)
    assert sampled.epsilon_of(less, 1e-5) > 2.0
    with pytest.raises(BudgetError):
        sampled.full_for(Fraction(0), 3)
    with pytest.raises(ConfigError):
        sampled.schedule_for(2.0, 1e-5, Fraction(5, 4), 20)


# Through the command line


def _body(desk: Path, **baseline: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(SETTINGS))
    body["model"] = str(desk / "model")
    return {**body, "baseline": {"batch": 20, "steps": 5, "tokens": 64, **baseline}}


def _file(desk: Path, body: dict[str, Any]) -> Path:
    path = desk / f"{abs(hash(json.dumps(body, sort_keys=True)))}.yaml"
    path.write_text(yaml.safe_dump(body))
    return path


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, tiny_gpt2: LanguageModel) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    write_corpus(folder, private_customers=60, public_customers=20, holdout_customers=8, seed=1)
    models.save(tiny_gpt2, folder / "model", "tiny")
    return folder


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    "baseline",
    [
        {"method": "dpsgd"},
        {"method": "ghost", "warm_up": False, "batch": ALL},
        {"method": "dpsgd", "trainable": "full", "clip": 1.0, "batch": ALL},
    ],
)
def test_dpsgd_runs_is_charged_whole_stamped_and_reloads(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], baseline: dict[str, Any]
) -> None:
    config, out = _file(desk, _body(desk, **baseline)), tmp_path / "run"
    assert hearsay("run", config, "--out", out, "--json") == 0
    said = json.loads(capsys.readouterr().out)["statement"]
    assert said["research_noise"] and any("RESEARCH NOISE" in line for line in said["sentences"])
    verdict = verify.verify(Ledger.open(runs.open_run(out).ledger))
    assert verdict.ok and verdict.charges == 1 and 2.9 < verdict.epsilon <= 3
    charge = Ledger.open(runs.open_run(out).ledger).charges()[0]
    assert charge.noise == methods.NOISE and charge.event.steps == 5  # type: ignore[union-attr]
    opacus = json.loads((out / "release" / "opacus.json").read_text())
    assert opacus["epsilon_opacus"] == pytest.approx(opacus["epsilon_ledger"], rel=0.01)
    card = (out / "release" / "student" / "README.md").read_text()
    assert "RESEARCH NOISE" in card and yaml.safe_load(card.split("---")[1])["differential_privacy"]["research_noise"]
    _reloads(desk, out, methods.chosen(configs.load(config)))
    before = (out / "release" / "student" / "model.safetensors").read_bytes()
    assert hearsay("run", config, "--out", out, "--json") == 0  # resumed: the same student, no second charge
    assert (out / "release" / "student" / "model.safetensors").read_bytes() == before
    assert len(Ledger.open(runs.open_run(out).ledger).charges()) == 1


def _reloads(desk: Path, out: Path, baseline: Baseline) -> None:
    """The saved student is the trained one: an adapter that was merged or transposed wrongly would not be."""
    lm = models.load(str(desk / "model"), device="cpu")
    top = StackedTop(lm.model, TrainingShape(rank=2, alpha=4.0, top_blocks=1).adapter)
    flat = load_file(out / "release" / "stages" / f"{baseline.method}.safetensors")["value"]
    reloaded = AutoModelForCausalLM.from_pretrained(out / "release" / "student", dtype=torch.float32)
    if baseline.trainable == "full":
        assert torch.equal(torch.cat([weight.flatten() for weight in reloaded.parameters()]), flat)
        return
    batch = Units(_people(), lm, 64).batch([0, 1, 2], np.random.default_rng(0), CPU)
    saved = LanguageModel(reloaded.requires_grad_(False), lm.tokenizer, "saved")
    nothing = top.layout.initial()
    with torch.no_grad():
        public, want = (row_losses(Learner(lm, top, start), batch) for start in (nothing, flat))
        got = row_losses(Learner(saved, StackedTop(reloaded, top.layout.shape), nothing), batch)
    assert torch.allclose(got, want, atol=1e-4) and not torch.allclose(got, public, atol=1e-3)


@pytest.mark.parametrize("method", ["private", "blacklist"])
def test_what_protects_nobody_stays_in_internal(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(methods, "Training", lambda: unprotected.Training(steps=8))
    out = tmp_path / "run"
    assert hearsay("run", _file(desk, _body(desk, method=method)), "--out", out, "--json") == 0
    assert json.loads(capsys.readouterr().out)["private"] is False
    assert not (out / "release" / "student").exists() and not (out / "release" / "statement.json").exists()
    assert (out / "internal" / unprotected.FILE).exists() and "NOT-PRIVATE" in unprotected.FILE
    assert not Ledger.open(runs.open_run(out).ledger).charges()
    assert "NOT PRIVATE" in (out / "internal" / "report.html").read_text()
    assert hearsay("generate", out, "--prefix", "hello") == 2
    assert "NOT PRIVATE" in capsys.readouterr().err
    assert hearsay("evaluate", out, "--completions", 4, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found[method]["ppl"] == found["private"]["ppl"] and found["gap_closed"] == pytest.approx(1)
    assert hearsay("forget", out) == 0
    assert not list((out / "internal").glob("*NOT-PRIVATE*"))


def test_public_baselines_cost_nothing_and_are_the_references(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for method in ("public", "public_pseudo"):
        out = tmp_path / method
        assert hearsay("run", _file(desk, _body(desk, method=method)), "--out", out, "--json") == 0
        assert json.loads(capsys.readouterr().out)["statement"]["epsilon"] == 0
        found = measure.evaluate(runs.open_run(out), completions=4, steps=4)
        saved = models.load(str(out / "release" / "student"), device="cpu")
        rows = models.encode(saved, [json.loads(line)["text"] for line in (desk / "holdout.jsonl").open()], 24)
        nll, tokens = models.token_nll(saved, [row for row in rows if len(row) >= 8], 4)
        assert found[method]["ppl"] == pytest.approx(float(np.exp(nll / tokens)), rel=1e-4)


def test_evaluate_names_a_baseline_by_its_method(desk: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert hearsay("run", _file(desk, _body(desk, method="ghost", batch=ALL)), "--out", out, "--json") == 0
    found = measure.evaluate(runs.open_run(out), completions=4, steps=20)
    assert {"public", "public_pseudo", "ghost", "private"} <= found.keys() and "student" not in found
    span = np.log(min(found["public"]["ppl"], found["public_pseudo"]["ppl"]))
    share = (span - np.log(found["ghost"]["ppl"])) / (span - np.log(found["private"]["ppl"]))
    assert found["gap_closed"] == pytest.approx(float(share))


def test_the_ledger_refuses_what_exceeds_the_budget(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sampled_run = _file(desk, _body(desk, method="dpsgd"))
    assert hearsay("run", sampled_run, "--out", tmp_path / "a", "--json") == 0
    for number, body in enumerate((_body(desk, method="dpsgd"), _body(desk, method="dpsgd", batch=ALL))):
        out = tmp_path / f"refused-{number}"
        assert hearsay("run", _file(desk, body), "--out", out, "--json") == 3
        assert "further run" in capsys.readouterr().err
        assert not any(path.is_file() for room in ("private", "release") for path in (out / room).rglob("*"))
        config = _file(desk, body)
        assert hearsay("doctor", config, "--json") == 2 and "left" in capsys.readouterr().out
        assert hearsay("plan", config, "--json") == 0 and json.loads(capsys.readouterr().out)["refused"]
    assert len(Ledger.open(runs.open_run(tmp_path / "a").ledger).charges()) == 1


def test_steps_draw_on_what_was_committed_for_steps_like_them(desk: Path, tmp_path: Path) -> None:
    """And a run that has drawn goes on, though nothing is left for another."""
    config = Config.model_validate(_body(desk, method="dpsgd"))
    ledger = charging.open_ledger(config, tmp_path / "l.sqlite", schedule=methods.schedule(config))
    (event,) = ledger.budget.schedule
    own = methods.chosen(config)
    assert admission.committed_steps(own, config.data.units, ledger) == event
    for other in ({"batch": 10}, {"steps": 4}):
        with pytest.raises(BudgetError, match="did not commit to"):
            admission.committed_steps(own.model_copy(update=other), config.data.units, ledger)
    ledger.register("mine", tmp_path)
    ledger.charge("mine", "dpsgd", event, answer="0" * 64, purpose="dpsgd", folder=tmp_path, noise="opacus")
    admission.check(config, ledger, "mine")
    with pytest.raises(BudgetError, match="no further run"):
        admission.check(config, ledger, "another")


@pytest.mark.parametrize("batch", [10, ALL])
def test_the_plan_of_steps_is_what_the_ledger_will_commit_to(
    desk: Path, capsys: pytest.CaptureFixture[str], batch: int
) -> None:
    """Noise on the sum in clips, of those who take part."""
    config = _file(desk, _body(desk, method="dpsgd", batch=batch, steps=9))
    assert hearsay("plan", config, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    settings = configs.load(config)
    steps = methods.schedule(settings) or (sampled.full_for(Fraction(told["mu"]) ** 2, 9),)
    assert told["queries"] == 9 and told["baseline"] == "dpsgd"
    assert told["noise_std_sum"] == pytest.approx(float(steps[0].noise_multiplier), rel=2e-3)
    lm = models.load(str(desk / "model"), device="cpu")
    top = StackedTop(lm.model, TrainingShape(rank=2, alpha=4.0, top_blocks=1).adapter)
    assert settings.plan_request().dimensions == top.layout.size
    hearsay("plan", config)
    assert "9 steps of dpsgd" in capsys.readouterr().out


def test_full_batches_share_the_ledger_with_other_methods(desk: Path, tmp_path: Path) -> None:
    """Every unit in every step is a plain Gaussian: it takes its share of any ledger, here twice a half."""
    for name in ("a", "b"):
        body = _body(desk, method="dpsgd", batch=ALL)
        body["privacy"] |= {"spend": 0.5}
        assert hearsay("run", _file(desk, body), "--out", tmp_path / name, "--json") == 0
    verdict = verify.verify(Ledger.open(runs.open_run(tmp_path / "a").ledger))
    assert verdict.ok and verdict.charges == 2 and 2.9 < verdict.epsilon <= 3


def test_record_by_record_a_sample_is_a_sentence(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = _body(desk, method="ghost", batch=240, steps=1)
    body["privacy"] |= {"unit": "record"}
    body["data"] |= {"units": 240, "public": str(public_of_no_record(desk))}
    widths: list[int] = []
    train = dpsgd.train

    def noted(learner: Learner, units: Units, *rest: Any) -> dpsgd.Trained:
        batch = units.batch([0], np.random.default_rng(0), CPU)
        widths.extend([batch.tokens.shape[1], int((batch.positions == 0).sum() - (batch.targets == -1).sum())])
        return train(learner, units, *rest)

    monkeypatch.setattr(dpsgd, "train", noted)
    assert hearsay("run", _file(desk, body), "--out", tmp_path / "run", "--json") == 0
    assert widths == [25, 1]  # max_tokens and the start token; one sentence
    assert json.loads((tmp_path / "run" / "release" / "statement.json").read_text())["unit"] == "record"


def test_the_charge_comes_before_the_first_step(desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that dies in its first step has paid; taken up again, it pays nothing more."""
    config = configs.load(_file(desk, _body(desk, method="dpsgd", batch=ALL)))
    here = runs.begin(tmp_path / "run", configs.to_yaml(config), tmp_path / "ledger.sqlite")

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(dpsgd, "train", dies)
        pipeline.generate(config, here)
    assert len(Ledger.open(here.ledger).charges()) == 1
    pipeline.generate(config, here)
    assert len(Ledger.open(here.ledger).charges()) == 1 and (here.release / "student").is_dir()


@pytest.mark.parametrize("step", ["trained", "bound", "released"])
def test_one_charge_shows_one_student(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], step: str
) -> None:
    """Stopped anywhere, a student is drawn anew only if nothing of the first left; a deleted one never is."""
    config, out = _file(desk, _body(desk, method="ghost", batch=ALL, steps=2)), tmp_path / "run"
    trained: list[torch.Tensor] = []
    train = dpsgd.train

    def noted(*given: Any) -> dpsgd.Trained:
        found = train(*given)
        trained.append(found.flat)
        return found

    def dies(here: str) -> None:
        if here == step:
            raise KeyboardInterrupt

    monkeypatch.setattr(dpsgd, "train", noted)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(doors, "reached", dies)
        pipeline.generate(*_begun(config, out))
    file = out / "release" / "stages" / "ghost.safetensors"
    assert file.exists() == (step == "released")
    assert hearsay("run", config, "--out", out, "--json") == 0
    assert len(trained) == (2 if step == "trained" else 1) and torch.equal(load_file(file)["value"], trained[-1])
    assert hearsay("ledger", "verify", out) == 0 and "1 charges, 1 answers" in capsys.readouterr().out
    file.unlink()
    assert hearsay("run", config, "--out", out, "--json") == LedgerError.exit_code
    assert "is gone; it was paid for once" in capsys.readouterr().err
    assert not file.exists() and hearsay("ledger", "verify", out) == 1
    assert "is gone" in capsys.readouterr().out


def _begun(config: Path, out: Path) -> tuple[Config, runs.Run]:
    settings = configs.load(config)
    return settings, runs.begin(out, configs.to_yaml(settings), identity.ledger_path(settings.privacy.corpus))


def test_rate_and_noise_follow_from_declared_numbers_alone(desk: Path) -> None:
    """60 customers are in the files; what is declared decides."""
    body = _body(desk, method="dpsgd")
    body["data"] |= {"units": 100}
    (event,) = methods.schedule(Config.model_validate(body))
    assert event.rate == Fraction(20, 100)
    allowed = budget.make(3.0, 1e-6, schedule=(event,))
    assert allowed.capacity < budget.make(3.0, 1e-6).capacity / 100


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"method": "ghost", "trainable": "full"}, "trainable: adapter"),
        ({"method": "dpsgd", "batch": 61}, "data.units 60"),
        ({"method": "dpsgd", "tokens": 20}, "baseline.tokens"),
        ({"method": "dp-sgd"}, "baseline.method"),
        ({"metod": "dpsgd"}, "did you mean method"),
    ],
)
def test_bad_settings_are_refused_in_plain_words(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], says: str
) -> None:
    assert hearsay("run", _file(desk, _body(desk, **change)), "--out", tmp_path / "run") == 2
    assert says in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_a_blacklist_needs_secrets_and_replaces_what_it_knows(desk: Path) -> None:
    body = _body(desk, method="blacklist")
    body["privacy"].pop("secrets")
    with pytest.raises(ValueError, match=r"privacy\.secrets"):
        Config.model_validate(body)
    secrets = ["Ann", "Ann Lee", "Bo", "A+B"]
    assert unprotected.known_secrets(secrets, 0.5) == ["Ann", "Ann Lee"]
    assert unprotected.blacklist(secrets)("Ann Lee met Ann, Bo and A+B") == ("someone met someone, someone and someone")
    assert unprotected.blacklist([])("Ann") == "Ann"


def test_a_record_is_one_sentence_whatever_its_copies(tiny_gpt2: LanguageModel) -> None:
    class Shards:
        settings = PartitionSettings(shards=1, unit="record", cap=9, min_tokens=1, max_tokens=9, vocabulary=99)

        def shard(self, m: int) -> list[Any]:
            return [np.arange(3), np.arange(4), np.arange(3)]

        def units(self, m: int) -> Any:
            return np.array([7, 8, 7])

    assert {name: len(unit) for name, unit in by_unit(Shards())} == {7: 2, 8: 1}  # type: ignore[arg-type]
    units = Units.of(Shards(), tiny_gpt2, 9)  # type: ignore[arg-type]
    batch = units.batch([0, 1], np.random.default_rng(0), CPU)
    assert len(units) == 2 and ((batch.targets >= 0).sum(1)).tolist() == [4, 5]  # the end is learnt too


def test_every_setting_is_written_as_a_comment_that_can_be_uncommented() -> None:
    text = configs.commented_yaml(
        {"data": {"private": ["a"], "public": ["b"], "units": 500, "sentences": 600}, "privacy": {"corpus": "c"},
         "teachers": {"count": 5}}
    )  # fmt: skip
    assert configs.parse(text, Path()).baseline is None
    start = text.index("# baseline:")
    opened = text[:start] + "".join(line.removeprefix("# ") for line in text[start:].splitlines(keepends=True))
    made = configs.parse(opened, Path()).baseline
    assert made is not None and made.method == "dpsgd"
