"""The whole method through the command line: a tiny run, killed and resumed, reloaded, measured, forgotten."""

import json
import math
import os
import shutil
import signal
import statistics
import traceback
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from conftest import public_of_no_record
from hearsay import config as configs
from hearsay import lm as models
from hearsay import measure, pipeline
from hearsay import run as runs
from hearsay.accounting import budget, identity, verify
from hearsay.accounting.events import SubsampledGaussian
from hearsay.accounting.ledger import Ledger
from hearsay.adapter_files import merged
from hearsay.demo.airline import write_corpus
from hearsay.errors import BadInput, ConfigError
from hearsay.evaluate.phrases import phrase_table, reach
from hearsay.evaluate.text import by_person, perplexity
from hearsay.lm import LanguageModel
from hearsay.release import door
from hearsay.release.noise import Ints
from hearsay.run import Run
from hearsay.stages import Watch
from hearsay.work import Work
from tiny_hearsay import hearsay

SETTINGS: dict[str, Any] = {
    "data": {
        "private": "private.jsonl", "public": "public.jsonl", "holdout": "holdout.jsonl", "units": 60,
        "sentences": 240, "mean_tokens": 24, "cap": 4, "max_tokens": 24,
    },
    "privacy": {"corpus": "tiny", "secrets": "secrets.txt"},
    "model": "model",
    "adapter": {"rank": 2, "blocks": 1},
    "teachers": {"count": 12, "epochs": 0.5, "row_tokens": 32, "rows": 2},
    "ask": {
        "recipe": "hellinger", "rounds": 2, "sentences": 12, "questions": 60, "candidates": 8, "tail": 4, "clip": 0.5,
    },
    "student": {"pseudo": 24, "warm_up": 4, "steps": 12, "batch": 6, "caution": 0},
    "compute": {"device": "cpu", "block": 5},
}  # fmt: skip


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, tiny_gpt2: LanguageModel) -> Path:
    """A folder with a tiny model, a small airline and a config."""
    folder = tmp_path_factory.mktemp("desk")
    write_corpus(folder, private_customers=60, public_customers=20, holdout_customers=8, seed=1)
    models.save(tiny_gpt2, folder / "model", "tiny")
    body = json.loads(json.dumps(SETTINGS))
    body["model"] = str(folder / "model")
    (folder / "hearsay.yaml").write_text(yaml.safe_dump(body))
    return folder


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))


def variant(desk: Path, **changes: dict[str, Any]) -> Path:
    body = yaml.safe_load((desk / "hearsay.yaml").read_text())
    for section, values in changes.items():
        body[section] = {**body.get(section, {}), **values}
    path = desk / f"variant-{abs(hash(json.dumps(changes, sort_keys=True)))}.yaml"
    path.write_text(yaml.safe_dump(body))
    return path


def test_run_evaluate_generate_verify_report_forget(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert hearsay("run", desk / "hearsay.yaml", "--out", out, "--anyway", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["statement"]["epsilon"] <= 3 and Path(said["report"]).exists()
    for path in (path for path in (out / "release").rglob("*") if path.suffix in (".json", ".md", ".html")):
        assert str(desk) not in path.read_text(), f"{path.name} tells where the base model lies"
    assert hearsay("ledger", "verify", out, "--json") == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["ok"] and verdict["charges"] == 2 and verdict["answers"] == 2
    assert hearsay("evaluate", out, "--completions", 8, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    for name in ("public", "public_pseudo", "student", "private"):
        assert {"ppl", "bleu1", "bleu2", "bleu3", "bleu4", "name_leak_rate"} <= found[name].keys()
    assert "gap_closed" in found and found["phrases"]["largest"] <= 3 + 1e-6
    assert found["phrases"]["counted"] == "teachers"
    config = configs.parse((out / "config.yaml").read_text(), out)
    lm = models.load(config.model, device="cpu")
    read = measure.read_held_out(config, lm, 2000)
    sums, counts = models.row_nll(lm, read.rows, config.data.prefix_tokens)
    shown = [found["public"][name] for name in ("ppl", "ppl_low", "ppl_high")]
    assert read.people and shown == pytest.approx(perplexity(*by_person(sums, counts, read.people)))  # not over rows
    assert found["held_out_people"] == len(set(read.people)) and found["held_out_rows"] == len(read.rows)
    assert hearsay("report", out, "--shareable") == 0
    capsys.readouterr()
    handed_on = [path for path in (out / "release").rglob("*") if path.is_file()]
    assert {path.stat().st_mtime for path in handed_on} == {runs.NO_TIME}, "a file tells when it was made"
    assert hearsay("generate", out, "--prefix", "hello, i would", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["completion"]
    for flags in (("--tokens", 5000), ("--tokens", -3), ("--temperature", -1)):
        _refused(capsys, 2, "generate", out, "--prefix", "hello", *flags, says="--tokens")
    assert hearsay("forget", out) == 0
    assert not (out / "private").exists() and (out / "forgotten.json").exists()
    capsys.readouterr()
    assert hearsay("evaluate", out, "--completions", 8, "--json") == 0
    again = json.loads(capsys.readouterr().out)  # the reference was destroyed, not what was measured of it
    assert again["private"] == found["private"] and again["gap_closed"] == pytest.approx(found["gap_closed"], rel=1e-3)
    assert hearsay("ledger", "verify", out) == 0
    assert hearsay("generate", out, "--prefix", "hello") == 0


def test_a_run_that_is_not_finished_is_not_forgotten_by_mistake(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it paid would be lost for good."""
    out = tmp_path / "run"

    def stop(*_: object) -> None:
        raise BadInput("stopped here")

    monkeypatch.setattr(models, "save", stop)
    assert hearsay("run", desk / "hearsay.yaml", "--out", out, "--anyway", "--json") == 2
    monkeypatch.undo()
    _refused(capsys, 2, "forget", out, says="--anyway")
    assert (out / "private").is_dir()
    assert hearsay("forget", out, "--anyway") == 0 and not (out / "private").exists()


def test_the_saved_student_is_the_one_in_memory(desk: Path, tmp_path: Path) -> None:
    work = _generate(desk, tmp_path / "a")
    flat = load_file(work.file("student-1"))["value"]
    inside = merged(work.lm, work.stack.top, flat).model
    reloaded = AutoModelForCausalLM.from_pretrained(work.run.release / "student", dtype=torch.float32)
    weights = reloaded.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in inside.state_dict().items())
    with torch.no_grad():
        tokens = torch.tensor([[0, 5, 9, 30, 12]])
        assert torch.allclose(reloaded(tokens).logits, inside(tokens).logits, atol=1e-5)
    card = (work.run.release / "student" / "README.md").read_text()
    metadata = yaml.safe_load(card.split("---")[1])
    assert metadata["differential_privacy"]["epsilon"] <= 3
    assert metadata["differential_privacy"]["unit"] == "user"


def test_what_is_released_holds_no_private_text(desk: Path, tmp_path: Path) -> None:
    """Searches release/ and the public files of the run directory for private sentences and secrets."""
    work = _generate(desk, tmp_path / "a")
    private = [json.loads(line)["text"] for line in (desk / "private.jsonl").read_text().splitlines()]
    secrets = (desk / "secrets.txt").read_text().splitlines()
    needles = [text[:40].encode() for text in private] + [secret.encode() for secret in secrets if secret]
    for path in [p for p in work.run.folder.rglob("*") if p.is_file()]:
        if "private" in path.relative_to(work.run.folder).parts[:1]:
            continue
        content = path.read_bytes()
        assert not any(needle in content for needle in needles), path.name
    assert (work.run.folder / "private").stat().st_mode & 0o777 == 0o700


# Killed and resumed


def _calm_noise(scale: Fraction, size: int, entropy: object = None) -> Ints:
    """Injected by the test so that two runs can be compared bit for bit; there is no setting for this."""
    return np.rint(np.random.default_rng(0).normal(0, 1, size) * float(scale)).astype(np.int64)


def _generate(desk: Path, out: Path, watch: Callable[[str], Watch] = Watch) -> Work:
    """One run in a home of its own; all homes share one secret, so that all partitions are the same."""
    home = out / "home"
    home.mkdir(parents=True, exist_ok=True)
    (home / "secret").write_bytes(b"s" * 32)
    config = configs.load(desk / "hearsay.yaml")
    here = runs.begin(out / "run", configs.to_yaml(config), home / "ledger.sqlite", home)
    return pipeline.generate(config, here, watch, anyway=True)


class _Killer(Watch):
    """Kills the process at the n-th sign of life of any stage: its begin, each progress, its end."""

    left = 0

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._tick()

    def _tick(self) -> None:
        _Killer.left -= 1
        if _Killer.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def progress(self, done: int, total: int) -> None:
        self._tick()

    def close(self, *, failed: bool) -> None:
        self._tick()


class _Counter(Watch):
    """The same signs of life, counted."""

    seen = 0

    def __init__(self, name: str) -> None:
        super().__init__(name)
        _Counter.seen += 1

    def progress(self, done: int, total: int) -> None:
        _Counter.seen += 1

    def close(self, *, failed: bool) -> None:
        _Counter.seen += 1


def _in_child(work: Callable[[], object]) -> int:
    """Runs in a forked child; returns minus the signal that ended it, or its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_killed_in_every_stage_and_resumed_gives_the_same_student(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "rounded_normal", _calm_noise)
    whole = tmp_path / "whole"
    assert _in_child(lambda: _generate(desk, whole)) == 0
    _Counter.seen = 0
    shutil.copytree(whole, tmp_path / "copy")  # only to show that counting below starts from nothing
    _generate(desk, tmp_path / "counted", _Counter)
    moments = sorted({1, 3, _Counter.seen, *np.linspace(2, _Counter.seen - 1, 12).astype(int).tolist()})
    wanted = (whole / "run" / "release" / "student" / "model.safetensors").read_bytes()
    for moment in moments:
        out = tmp_path / f"killed-{moment}"
        _Killer.left = moment
        assert _in_child(lambda out=out: _generate(desk, out, _Killer)) == -signal.SIGKILL
        assert _in_child(lambda out=out: _generate(desk, out)) == 0
        assert (out / "run" / "release" / "student" / "model.safetensors").read_bytes() == wanted
        ledger = Ledger.open(out / "home" / "ledger.sqlite")
        verdict = verify.verify(ledger)
        assert verdict.ok, verdict.problems
        assert verdict.charges == 2  # one a round, however often it was killed
        here = runs.open_run(out / "run")
        assert not door.check_answers(ledger, here.id, here.folder)


def test_a_round_that_is_finished_is_neither_taught_nor_asked_again(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _generate(desk, tmp_path)
    monkeypatch.setattr(pipeline, "train_teachers", lambda *_: pytest.fail("taught again"))
    _generate(desk, tmp_path)


def test_a_second_run_finds_the_budget_spent(desk: Path, tmp_path: Path) -> None:
    assert hearsay("run", desk / "hearsay.yaml", "--out", tmp_path / "one", "--anyway", "--json") == 0
    assert hearsay("run", desk / "hearsay.yaml", "--out", tmp_path / "two", "--anyway", "--json") == 3
    half = variant(desk, privacy={"corpus": "half", "secrets": "secrets.txt", "spend": 0.5})
    os.environ["HEARSAY_HOME"] = str(tmp_path / "other")
    assert hearsay("run", half, "--out", tmp_path / "three", "--anyway", "--json") == 0
    assert hearsay("run", half, "--out", tmp_path / "four", "--anyway", "--json") == 0


def test_a_ledger_knows_by_which_column_units_are_told_apart(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Answers bounded for a dialogue must not be told as a promise to a customer, or the other way round."""
    data = yaml.safe_load((desk / "hearsay.yaml").read_text())["data"]
    half = {"corpus": "columns", "secrets": "secrets.txt", "spend": 0.5}
    one = variant(desk, privacy=half)
    assert hearsay("run", one, "--out", tmp_path / "one", "--anyway", "--json") == 0
    other = variant(desk, privacy=half, data={**data, "user": "dialogue"})
    assert hearsay("run", other, "--out", tmp_path / "two", "--anyway", "--json") == 3
    assert "column 'user'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "ask",
    [
        {"recipe": "seqpate", "rounds": 1, "clip": None, "selection": "rank", "rank_threshold": 5},
        {"recipe": "seqpate", "rounds": 1, "clip": None, "noise": "laplace", "aggregate": "vote", "top_p": None},
        {"rounds": 1, "clip": None},
        {"rounds": 1, "clip": "quantile"},
    ],
)
def test_every_recipe_and_ablation_runs_within_its_budget(desk: Path, tmp_path: Path, ask: dict[str, Any]) -> None:
    student = {"loss": "ce", "pseudo_loss": False} if ask.get("noise") == "laplace" else {}
    config = variant(desk, ask=ask, student=student)
    assert hearsay("run", config, "--out", tmp_path / "run", "--anyway", "--json") == 0
    verdict = verify.verify(Ledger.open(runs.open_run(tmp_path / "run").ledger))
    assert verdict.ok and 2.9 < verdict.epsilon <= 3
    assert verdict.charges == (2 if ask.get("clip") == "quantile" else 1)
    made = json.loads((tmp_path / "run" / "release" / "made.json").read_text())
    report = (tmp_path / "run" / "internal" / "report.html").read_text()
    assert f"were asked {made['questions']} questions in 1 round about" in report  # a clip's votes are none of them


def test_a_run_that_was_stopped_bears_no_times_either(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its questions and its student lies all private training."""
    monkeypatch.setattr(pipeline, "release_student", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        _generate(desk, tmp_path)
    left = [path for path in (tmp_path / "run" / "release").rglob("*") if path.is_file()]
    assert {"questions-1.safetensors", "student-1.safetensors", "pseudo.json"} <= {path.name for path in left}
    assert {path.stat().st_mtime for path in left} == {runs.NO_TIME}


@pytest.mark.parametrize("caution", [0, 1000])
def test_a_student_that_did_not_move_says_so_wherever_it_is_told_of(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caution: int
) -> None:
    """Whoever has no hold-out would take it for a student that had learnt something."""
    out, ask = tmp_path / "run", SETTINGS["ask"] | {"holdout": 0.4 if caution else 0}  # without one, every step counts
    config = variant(desk, ask=ask, student={"caution": caution})
    assert hearsay("run", config, "--out", out, "--anyway") == 0
    told = [capsys.readouterr().out, (out / "internal" / "report.html").read_text()]
    told += [(out / "release" / name).read_text() for name in ("made.json", "student/README.md", "statement.html")]
    for text in told:
        assert ("Nothing was learnt" in text) == bool(caution)
        assert ("as its warm-up had left it" in text) == bool(caution)
    assert "finished   before" not in told[0] and hearsay("run", config, "--out", out, "--anyway") == 0
    assert "finished   before: nothing was asked or charged" in capsys.readouterr().out


def test_answers_that_could_not_move_the_student_are_not_asked_for(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of too few held-out answers nobody can tell a gain from noise: the whole budget would be spent in vain."""
    out, ask = tmp_path / "run", {**SETTINGS["ask"], "questions": 400, "sentences": 2}
    config = variant(desk, ask=ask, student={"caution": 2})
    _refused(capsys, 2, "run", config, "--out", out, "--anyway", says="Nothing was asked or charged")
    assert not Ledger.open(runs.open_run(out).ledger).charges()


@pytest.mark.parametrize(
    ("ask", "caution"),
    [
        ({"selection": "rank", "rank_threshold": 400}, 0),
        ({"questions": 400, "sentences": 2}, 2),
    ],  # no position; too few
)
def test_a_round_that_would_buy_nothing_is_left_out_where_others_were_paid_for(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ask: dict[str, Any], caution: int
) -> None:
    """And no page tells of teachers that nobody asked."""
    out = tmp_path / "run"
    config = variant(
        desk, ask={"recipe": "mixed", "rounds": 1, **ask}, updates={"rounds": 2}, student={"caution": caution}
    )
    assert hearsay("run", config, "--out", out, "--anyway") == 0
    charges = Ledger.open(runs.open_run(out).ledger).charges()
    assert [charge.purpose for charge in charges] == ["update, round 1", "update, round 2"]
    told = [(out / "release" / name).read_text() for name in ("made.json", "student/README.md")]
    told += [capsys.readouterr().out, (out / "internal" / "report.html").read_text()]
    for text in told:
        assert "asked nothing and spent nothing" in text and "held out favour no step" not in text
        assert "asked 12 teachers" not in text and "12 teachers, each" not in text
    assert json.loads(told[0])["questions"] == 0 and "teachers" not in json.loads(told[0])["how"]


# Bad input


def _refused(capsys: pytest.CaptureFixture[str], code: int, *words: object, says: str) -> None:
    assert hearsay(*words) == code
    assert says in capsys.readouterr().err


def test_bad_input_is_refused_in_plain_words(desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    data = yaml.safe_load((desk / "hearsay.yaml").read_text())["data"]
    _refused(capsys, 3, "run", desk / "hearsay.yaml", "--out", out, says="--anyway")
    assert not out.exists()
    same = variant(desk, data={**data, "public": "private.jsonl"})
    _refused(capsys, 2, "run", same, "--out", out, "--anyway", says="data.public names a private file")
    shutil.copy(desk / "private.jsonl", desk / "theirs.jsonl")
    shared = variant(desk, data={**data, "public": "theirs.jsonl"})
    _refused(capsys, 2, "run", shared, "--out", out, "--anyway", says="other users")
    long = variant(desk, data={**data, "prefix_tokens": 30})
    _refused(capsys, 2, "run", long, "--out", out, "--anyway", says="prefix < min <= max")
    blind = variant(desk, ask={**SETTINGS["ask"], "holdout": 0}, student={"caution": 2})
    _refused(capsys, 2, "run", blind, "--out", out, "--anyway", says="hold out 0 answers")
    blind = variant(desk, ask={**SETTINGS["ask"], "questions": 150}, student={"caution": 2})
    _refused(capsys, 2, "run", blind, "--out", out, "--anyway", says="hold out 15 answers; need 20")
    _refused(capsys, 2, "run", blind, "--out", out, "--anyway", says="ask.questions to 200 or ask.holdout to 0.14, or")
    blind = variant(desk, ask={**SETTINGS["ask"], "questions": 30}, student={"caution": 2})
    _refused(capsys, 2, "run", blind, "--out", out, "--anyway", says="Raise ask.questions to 200, or")
    (desk / "words.jsonl").write_text('{"user": "a", "text": "hi"}\n')
    short = variant(desk, data={**data, "private": "words.jsonl"})
    _refused(capsys, 2, "run", short, "--out", tmp_path / "s", "--anyway", says="min_tokens")
    packed = variant(desk, data={**data, "max_tokens": 40})
    _refused(capsys, 2, "run", packed, "--out", out, "--anyway", says="row_tokens")
    body = yaml.safe_load((desk / "hearsay.yaml").read_text())
    (desk / "nomodel.yaml").write_text(yaml.safe_dump({**body, "model": str(desk / "nowhere")}))
    _refused(capsys, 2, "run", desk / "nomodel.yaml", "--out", tmp_path / "m", "--anyway", says="need a model folder")
    _refused(capsys, 2, "generate", tmp_path, "--prefix", "x", says="not a run directory")


def test_other_settings_in_the_same_directory_are_refused(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert hearsay("run", desk / "hearsay.yaml", "--out", out, "--anyway", "--json") == 0
    capsys.readouterr()
    other = variant(desk, teachers={"count": 12, "epochs": 0.5, "row_tokens": 32, "rows": 1})
    _refused(capsys, 2, "run", other, "--out", out, "--anyway", says="other settings")
    epsilon = variant(desk, privacy={"corpus": "tiny", "epsilon": 4.0})
    _refused(capsys, 3, "run", epsilon, "--out", tmp_path / "b", "--anyway", says="one budget")


def test_what_is_measured_is_from_all_over_the_files(tmp_path: Path, tiny_gpt2: LanguageModel) -> None:
    """Files are grouped by people: their first rows would be one person's."""
    rows = [{"user": f"u{n // 50}", "text": f"{n} is what my bag is called"} for n in range(1000)]
    short = [{"user": "u20", "text": "no"}] * 50
    (tmp_path / "holdout.jsonl").write_text("\n".join(json.dumps(row) for row in short + rows))
    (tmp_path / "other.jsonl").write_text(json.dumps(rows[0]))
    data = {"private": str(tmp_path / "other.jsonl"), "public": str(tmp_path / "public.jsonl"),
            "holdout": str(tmp_path / "holdout.jsonl"), "units": 10, "sentences": 100, "mean_tokens": 8}  # fmt: skip
    config = configs.Config.model_validate({"model": "embedded", "data": data, "privacy": {"corpus": "c"}})
    read = measure.read_held_out(config, tiny_gpt2, 100)
    people = [f"u{int(text.split()[0]) // 50}" for text in models.decode(tiny_gpt2, read.rows)]
    assert len(read.rows) == 100 and len(set(people)) > 15 and read.people == people
    assert read == measure.read_held_out(config, tiny_gpt2, 100)  # the same for every model
    assert len(measure.read_held_out(config, tiny_gpt2, 10**6).rows) == 1000  # all of them but the short
    by_record = config.model_copy(update={"privacy": config.privacy.model_copy(update={"unit": "record"})})
    assert measure.read_held_out(by_record, tiny_gpt2, 100).people is None
    (tmp_path / "holdout.jsonl").write_text("\n".join(json.dumps({"text": row["text"]}) for row in rows))
    assert measure.read_held_out(config, tiny_gpt2, 100).people is None  # nobody says whose they are


def test_a_perplexity_is_as_sure_as_there_are_people() -> None:
    """Ten rows of each of five people who differ tell as little as five rows; the perplexity itself is the same."""
    losses, tokens = torch.tensor([10.0, 15.0, 20.0, 25.0, 30.0] * 10).double(), torch.full((50,), 10)
    people = ["a", "b", "c", "d", "e"] * 10
    ppl, _, high = perplexity(losses, tokens)
    same, lower, higher = perplexity(*by_person(losses, tokens, people))
    assert same == pytest.approx(ppl) == pytest.approx(math.exp(2))
    five = (torch.tensor([1.0, 1.5, 2.0, 2.5, 3.0]), torch.ones(5))
    assert (same, lower, higher) == pytest.approx(perplexity(*five))
    assert high and higher and math.log(high / ppl) < math.log(higher / same) / 3
    error = statistics.stdev([1.0, 1.5, 2.0, 2.5, 3.0]) / math.sqrt(5)  # where all have as much text: the mean's
    assert math.log(higher / same) == pytest.approx(2.7764 * error, rel=1e-4)  # Student's t, four degrees
    assert perplexity(*by_person(losses[:20], tokens[:20], people[:4] * 5))[1:] == (None, None)  # four people
    most = (torch.tensor([3000.0, 2.0, 2.0, 2.0, 2.0, 2.0]), torch.tensor([1000, 1, 1, 1, 1, 1]))
    _, low, high = perplexity(*most)  # who has nearly all of the text is no sample of people
    assert low and high and high / low > 1.5


def test_people_who_were_trained_on_are_not_held_out(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed_up = desk / "mixed-up.jsonl"
    rows = (desk / "private.jsonl").read_text().splitlines()
    mixed_up.write_text((desk / "holdout.jsonl").read_text() + rows[-1] + "\n")
    overlapping = variant(desk, data={"holdout": str(mixed_up)})
    _refused(capsys, 2, "run", overlapping, "--out", tmp_path / "run", "--anyway", says="data.holdout belong")
    assert not identity.ledger_path("tiny").exists()
    nameless = desk / "nameless.jsonl"  # says nobody's name: nothing to compare, and nothing that a run needs
    nameless.write_text(json.dumps({"text": json.loads(rows[0])["text"]}) + "\n")
    whose = variant(desk, data={"holdout": str(nameless)})
    assert hearsay("run", whose, "--out", tmp_path / "whose", "--anyway", "--json") == 0


def test_a_ledger_that_promises_to_users_takes_no_run_by_record(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By record one user's rows go to many teachers: charged as one unit, told as a promise to the user."""
    half = variant(desk, privacy={"corpus": "tiny", "spend": 0.5})
    assert hearsay("run", half, "--out", tmp_path / "run", "--anyway", "--json") == 0
    capsys.readouterr()
    assert hearsay("plan", half, "--json") == 0
    assert json.loads(capsys.readouterr().out)["budget_left"] == pytest.approx(0.5, abs=1e-3)
    assert hearsay("plan", desk / "hearsay.yaml") == 0 and "will be refused" in capsys.readouterr().out
    assert hearsay("plan", variant(desk, privacy={"corpus": "tiny", "epsilon": 50.0}), "--json") == 0
    assert "begun with epsilon 3" in json.loads(capsys.readouterr().out)["refused"]
    privacy, data = {"corpus": "tiny", "spend": 0.5, "unit": "record"}, {"public": str(public_of_no_record(desk))}
    record = variant(desk, privacy=privacy, data=data)
    _refused(capsys, 3, "run", record, "--out", tmp_path / "b", "--anyway", says="one unit")


def test_a_ledger_of_another_corpus_is_refused(desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = tmp_path / "ledger.sqlite"
    assert hearsay("run", desk / "hearsay.yaml", "--out", tmp_path / "a", "--ledger", ledger, "--anyway", "--json") == 0
    capsys.readouterr()
    other = variant(desk, privacy={"corpus": "other"})
    _refused(capsys, 2, "run", other, "--out", tmp_path / "b", "--ledger", ledger, "--anyway", says="another corpus")
    assert len(Ledger.open(ledger).charges()) == 2


def test_the_same_people_as_another_corpus_leave_nothing_behind(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hearsay("run", desk / "hearsay.yaml", "--out", tmp_path / "a", "--anyway", "--json") == 0
    capsys.readouterr()
    other = variant(desk, privacy={"corpus": "other"})
    _refused(capsys, 3, "run", other, "--out", tmp_path / "b", "--anyway", says="set privacy.corpus to the name")
    assert not list((tmp_path / "b" / "private").iterdir())
    assert hearsay("doctor", desk / "hearsay.yaml") == 2 and "✗ ledger" in capsys.readouterr().out


def test_updates_need_no_teachers_and_answers_say_that_they_do(desk: Path) -> None:
    body = yaml.safe_load((desk / "hearsay.yaml").read_text())
    del body["teachers"]["count"]
    for asked in ({"recipe": "updates"}, {}):
        assert configs.Config.model_validate({**body, "ask": asked}).teachers.count == body["data"]["units"]
    many = {**body, "ask": {}, "data": {**body["data"], "units": 10**6}}
    assert configs.Config.model_validate(many).teachers.count == configs.PARTS
    baseline = {**body, "ask": {"recipe": "hellinger"}, "baseline": {"method": "public"}}
    assert configs.Config.model_validate(baseline).teachers.count == body["data"]["units"]
    with pytest.raises(ValueError, match=r"recipe hellinger needs teachers\.count"):
        configs.Config.model_validate({**body, "ask": {"recipe": "hellinger"}})


def test_a_setting_that_came_later_is_no_other_setting(desk: Path, tmp_path: Path) -> None:
    """A run that an earlier version began: its config lacks what nobody has set since."""
    now = configs.to_yaml(configs.load(desk / "hearsay.yaml"))
    body = yaml.safe_load(now)
    assert body["data"].pop("public_text", 0) is None
    then = yaml.safe_dump(body)
    begun = runs.begin(tmp_path / "run", then, tmp_path / "ledger.sqlite", tmp_path)
    (begun.release / "something").touch()
    assert runs.begin(tmp_path / "run", now, tmp_path / "ledger.sqlite", tmp_path).id == begun.id
    used = now.replace("public_text: null", "public_text: post")
    with pytest.raises(ConfigError, match="begun with other settings"):
        runs.begin(tmp_path / "run", used, tmp_path / "ledger.sqlite", tmp_path)


def test_public_text_may_be_called_otherwise(desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where it is read: for prefixes, for whose it is, and, with records as units, for texts that are private ones."""

    def posts(name: str, rows: Iterable[dict[str, str]]) -> dict[str, str]:
        path = tmp_path / name
        path.write_text("".join(json.dumps({"post": row["text"], "user": row["user"]}) + "\n" for row in rows))
        return {"public": str(path)}

    public, private = (
        [json.loads(line) for line in (desk / name).read_text().splitlines()]
        for name in ("public.jsonl", "private.jsonl")
    )
    own, both = posts("own.jsonl", public), posts("both.jsonl", [*public, private[0]])
    assert hearsay("doctor", variant(desk, data=own)) == 2 and "✗ public data" in capsys.readouterr().out
    data: dict[str, Any] = {**both, "public_text": "post"}
    _refused(capsys, 2, "run", variant(desk, data=data), "--out", tmp_path / "b", "--anyway", says="other users")
    record = variant(desk, data=data, privacy={"unit": "record", "corpus": "records"})
    _refused(capsys, 2, "run", record, "--out", tmp_path / "c", "--anyway", says="data.public")
    named = variant(desk, data={**own, "public_text": "post"})
    assert hearsay("run", named, "--out", tmp_path / "a", "--anyway", "--json") == 0


def test_a_hold_out_can_be_named_after_the_run(desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blind = variant(desk, data={"holdout": []})
    out = tmp_path / "run"
    assert hearsay("run", blind, "--out", out, "--anyway", "--json") == 0
    capsys.readouterr()
    _refused(capsys, 2, "evaluate", out, says="with --holdout")
    _refused(capsys, 2, "evaluate", out, "--holdout", desk / "private.jsonl", says="data.holdout belong")
    assert hearsay("evaluate", out, "--holdout", desk / "holdout.jsonl", "--completions", 4, "--json") == 0
    assert json.loads(capsys.readouterr().out)["student"]["ppl"] > 1


def test_a_directory_in_use_is_left_alone(desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = configs.load(desk / "hearsay.yaml")
    here: Run = runs.begin(tmp_path / "run", configs.to_yaml(config), identity.ledger_path("tiny"))
    with here.alone():
        _refused(capsys, 2, "run", desk / "hearsay.yaml", "--out", tmp_path / "run", "--anyway", says="another process")
        _refused(capsys, 2, "evaluate", tmp_path / "run", says="another process")
        _refused(capsys, 2, "forget", tmp_path / "run", says="another process")


def test_a_phrase_is_counted_by_who_holds_it(tiny_gpt2: LanguageModel) -> None:
    """Two units of one shard that say the same are two for rounds of updates, and one for a teacher."""
    texts = [["the flight to oslo leaves"], ["your seat is near oslo", "oslo please"], ["bring one bag only"]]
    units = [[np.array(row) for row in models.encode(tiny_gpt2, mine, 64)] for mine in texts]
    assert reach(tiny_gpt2, units, ["oslo", "near oslo", "one bag", "slo", "paris"]) == {
        "oslo": 2, "near oslo": 1, "one bag": 1, "slo": 0, "paris": 0,
    }  # fmt: skip
    assert reach(tiny_gpt2, [units[0] + units[1]], ["oslo"]) == {"oslo": 1}


def test_a_phrase_under_committed_samples_is_not_free() -> None:
    """Nothing is spent there besides what the first row committed."""
    sampled = budget.make(3, 1e-6, schedule=(SubsampledGaussian(Fraction(1, 50), Fraction(1), 100),))
    ledger: Any = SimpleNamespace(budget=sampled, account=lambda: SimpleNamespace(spent=Fraction(0), scheduled=1))
    told = phrase_table({"a name": 1, "a rumour": 3, "nowhere": 0}, ledger, "units")
    assert told.smallest == sampled.epsilon_spent(Fraction(0), 1) > 1 and told.largest > 2 * told.smallest
    assert (told.phrases, told.found) == (3, 2) and set(told.by_teachers) == {1, 3}
