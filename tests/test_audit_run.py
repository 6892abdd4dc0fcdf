"""`hearsay audit` through the command line, both ways: what is not private is seen, the student is not."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2ForSequenceClassification

from hearsay import config as configs
from hearsay import lm as models
from hearsay import pipeline
from hearsay import run as runs
from hearsay.adapter_files import merged
from hearsay.audit import anymodel, whole
from hearsay.audit.scene import Effort
from hearsay.audit.shadows import overfit_shape
from hearsay.demo.airline import write_corpus
from hearsay.lm import LanguageModel
from hearsay.private.teaching import training_shape
from hearsay.stacked import StackedTop
from tiny_hearsay import hearsay

pytestmark = pytest.mark.xdist_group("audit")  # the tests look at one run in turn
SETTINGS: dict[str, Any] = {
    "data": {
        "private": "private.jsonl", "public": "public.jsonl", "holdout": "holdout.jsonl", "units": 60,
        "sentences": 240, "mean_tokens": 24, "cap": 4, "max_tokens": 24,
    },
    "privacy": {"corpus": "audited", "secrets": "secrets.txt"},
    "adapter": {"rank": 2, "blocks": 2},
    "teachers": {"count": 12, "epochs": 0.5, "row_tokens": 32, "rows": 2},
    "ask": {"recipe": "hellinger", "sentences": 12, "questions": 60, "candidates": 8, "tail": 4, "clip": 0.5},
    "student": {"pseudo": 24, "warm_up": 4, "steps": 12, "batch": 6, "caution": 0},
    "compute": {"device": "cpu", "block": 6},
}  # fmt: skip
TINY = Effort(
    units=60, rows=2, neighbours=2, remembered=10, epochs=80, shadows=4, shadow_epochs=25, texts=12, beams=3,
    finished=16, released=24, known=40, draws=4000, through=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tiny_gpt2: LanguageModel) -> runs.Run:
    folder = tmp_path_factory.mktemp("audited")
    write_corpus(folder, private_customers=60, public_customers=20, holdout_customers=60, seed=1)
    models.save(tiny_gpt2, folder / "model", "tiny")
    (folder / "hearsay.yaml").write_text(yaml.safe_dump(SETTINGS | {"model": str(folder / "model")}))
    config = configs.load(folder / "hearsay.yaml")
    here = runs.begin(folder / "run", configs.to_yaml(config), folder / "home" / "ledger.sqlite", folder / "home")
    (folder / "home").mkdir()
    pipeline.generate(config, here, anyway=True)
    return here


@pytest.fixture(autouse=True)
def tiny_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "Effort", lambda: TINY)
    monkeypatch.setattr(anymodel, "Effort", lambda: TINY)
    monkeypatch.setattr(whole.birds, "DIGITS", 2)
    monkeypatch.setattr(whole.twin, "COINS", 24)
    monkeypatch.setattr(whole.twin, "EPOCHS", 4)
    monkeypatch.setattr(whole.twin, "ORDINARY", 20)


def test_the_student_stands_and_the_reference_falls(run: runs.Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert hearsay("audit", run.folder, "--json") == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["ok"] and found["target"] == "student" and found["auc_allowed"] == pytest.approx(0.677, abs=1e-3)
    assert '"progress"' in said.err  # long work is shown
    assert json.loads((run.internal / whole.FILE).read_text()) == found
    attacks = found["attacks"]
    for name, body in attacks.items():
        if name != "linkage.anonymised":
            assert {"score", "low", "high", "epsilon_lower", "epsilon_claimed", "ok", "sentence"} <= body.keys(), name
            assert body["epsilon_lower"] is None or body["epsilon_lower"] <= found["epsilon_claimed"]
    for name in ("loss", "calibrated", "zlib", "min-k++", "neighbourhood", "shadow"):
        student, broken = attacks[f"membership.{name}"], attacks[f"membership.{name}"]["not_private"]
        assert broken["low"] > 0.6, broken["sentence"]
        # So few units prove little: by chance the student's interval would lie above this once in 10,000 times.
        assert student["low"] < found["auc_allowed"] and student["score"] < broken["score"], student["sentence"]
    assert attacks["membership.loss"]["control"]["low"] < 0.52
    assert attacks["membership.loss.record"]["details"]["level"] == "record"
    assert attacks["extraction.near-verbatim"]["score"] == 0
    assert attacks["extraction.near-verbatim"]["not_private"]["score"] > 0.1
    assert attacks["linkage.anonymised"]["not_private"]["score"] > 2 / 40


def test_nothing_but_internal_is_written_and_forget_takes_the_reference(run: runs.Run) -> None:
    stamped = list(run.internal.glob("audit-*-NOT-PRIVATE.safetensors"))
    assert len(stamped) == 1
    assert not list(run.release.rglob("*audit*")) and run.internal.stat().st_mode & 0o777 == 0o700


def test_canaries_live_in_a_twin_with_a_research_ledger(run: runs.Run, capsys: pytest.CaptureFixture[str]) -> None:
    before = whole.Ledger.open(run.ledger).rows()
    student = (run.release / "student" / "model.safetensors").read_bytes()
    whole.audit_run(run, attacks=("linkage",))
    found = whole.audit_run(run, attacks=(), canaries=True, digits=2)
    broken = found["attacks"]["canary.exposure"]["not_private"]
    calm = found["attacks"]["canary.exposure"]
    assert broken["details"]["by_repetitions"]["100"] > 4.5 and broken["details"]["candidates"] == 100
    assert broken["details"]["by_repetitions"]["100"] > calm["score"] and calm["ok"]
    one_run = found["attacks"]["canary.one-run"]
    assert one_run["ok"] and one_run["epsilon_lower"] <= 3 and one_run["not_private"]["score"] > 0.9
    assert "linkage.closeness" in found["attacks"]  # what was found before stays
    twin = run.private / "canary-twin"
    ledger = whole.Ledger.open(twin / "home" / "ledger.sqlite")
    assert ledger.research and ledger.charges()
    assert whole.Ledger.open(run.ledger).rows() == before
    assert (run.release / "student" / "model.safetensors").read_bytes() == student
    assert (twin / "rows.jsonl").stat().st_mode & 0o777 == 0o600


def test_any_model_with_a_file_of_members_and_one_of_others(
    run: runs.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reference as a model folder: without a promise it is told about, with one the promise is broken."""
    config = configs.parse((run.folder / "config.yaml").read_text(), run.folder)
    base = models.load(config.model, device="cpu")
    path = next(run.internal.glob("audit-*-NOT-PRIVATE.safetensors"))
    shape = overfit_shape(training_shape(config), 100, 1)
    broken = merged(base, StackedTop(base.model, shape.adapter), load_file(path)["value"])
    models.save(broken, tmp_path / "broken", "NOT PRIVATE")
    scene = whole._scene(run, config, whole.Stages(run, whole.stages.Watch), TINY)
    for name, side in (("members", scene.remembered), ("others", scene.others)):
        rows = [{"who": one.name, "said": text} for one in side for text in one.texts]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["audit", "--model", tmp_path / "broken", "--members", tmp_path / "members.jsonl", "--text", "said",
             "--non-members", tmp_path / "others.jsonl", "--attack", "membership", "--json"]  # fmt: skip
    assert hearsay(*words, "--user", "who") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["attacks"]["membership.loss"]["low"] > 0.6 and found["epsilon_claimed"] is None
    assert "membership.calibrated" not in found["attacks"]  # nothing to calibrate by
    assert hearsay(*words, "--user", "who", "--base", config.model, "--epsilon", "0.5") == 1
    said = capsys.readouterr()
    assert "BROKEN" in said.err and not json.loads(said.out)["attacks"]["membership.calibrated"]["ok"]
    assert hearsay(*words) == 0  # by record
    assert "membership.loss.record" not in json.loads(capsys.readouterr().out)["attacks"]
    public = ["audit", "--model", config.model, *words[3:], "--user", "who", "--epsilon", "0.5"]
    assert hearsay(*public) == 0  # the base model itself knows nobody
    assert json.loads(capsys.readouterr().out)["ok"]


def test_a_classifier_is_inverted(tmp_path: Path, tiny_gpt2: LanguageModel, capsys: pytest.CaptureFixture[str]) -> None:
    size = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 320, "pad_token_id": 0}
    GPT2ForSequenceClassification(GPT2Config(**size, num_labels=2)).save_pretrained(tmp_path / "judge")
    tiny_gpt2.tokenizer.save_pretrained(tmp_path / "judge")
    for name, word in (("used", "oslo"), ("other", "window")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": f"the {word} leaves"}) + "\n")
    words = ["--members", tmp_path / "used.jsonl", "--non-members", tmp_path / "other.jsonl", "--json"]
    assert hearsay("audit", "--classifier", tmp_path / "judge", *words) == 0
    found = json.loads(capsys.readouterr().out)["attacks"]["inversion"]
    assert 0 <= found["low"] <= found["score"] <= found["high"] <= 1 and "holds the classifier" in found["sentence"]
    assert hearsay("audit", "--classifier", tmp_path / "nowhere", *words) == 2


def test_a_table_for_people(run: runs.Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert hearsay("audit", run.folder, "--attack", "linkage") == 0
    said = capsys.readouterr().out
    assert "linkage.closeness" in said and "no attack exceeds it" in said and "did no better than guessing" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["audit"], "name a run directory"),
        (["audit", "--model", "x"], "--members and --non-members"),
        (["audit", "RUN", "--attack", "telepathy"], "need one of mechanism"),
        (["audit", "nowhere"], "not a run directory"),
    ],
)
def test_bad_input(run: runs.Run, capsys: pytest.CaptureFixture[str], words: list[str], says: str) -> None:
    assert hearsay(*(run.folder if word == "RUN" else word for word in words)) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("task: augment", "made a labelled corpus"),
        (yaml.safe_dump(SETTINGS | {"baseline": {"method": "private"}}), "promises nothing that could be broken"),
        (yaml.safe_dump(SETTINGS), "has no finished student"),
    ],
)
def test_a_run_without_a_promise_to_attack_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, says: str
) -> None:
    here = runs.begin(tmp_path / "run", settings, tmp_path / "ledger.sqlite", tmp_path / "home")
    if "baseline" in settings:
        (here.internal / "private-NOT-PRIVATE.safetensors").touch()
    for name in ("private.jsonl", "public.jsonl", "holdout.jsonl", "secrets.txt"):
        (here.folder / name).touch()
    assert hearsay("audit", here.folder) == 2
    assert says in capsys.readouterr().err


def test_a_forgotten_run_is_not_read_again(run: runs.Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Last of all: the reference and the twin go with the rest, and no new reference is made."""
    assert hearsay("forget", run.folder) == 0
    assert not list(run.internal.glob("*NOT-PRIVATE*")) and not run.private.exists()
    assert hearsay("audit", run.folder) == 2
    assert "audit before `hearsay forget`" in capsys.readouterr().err
