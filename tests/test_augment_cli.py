"""`task: augment` as its user meets it: init, plan, doctor, a tiny demo, and the simulated clinic behind it."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

import tiny_hearsay
from hearsay import config as configs
from hearsay.cli.setup import EXAMPLE_AUGMENT
from hearsay.config_augment import AugmentConfig, Generator
from hearsay.demo import clinic, clinic_show
from hearsay.lm import LanguageModel
from hearsay.public import encoder as encoders
from hearsay.public import generator

ROOT = Path(__file__).parents[1]
TINY = clinic_show.SETTINGS | {
    "data": clinic_show.SETTINGS["data"] | {"units": 60},
    "generator": clinic_show.SETTINGS["generator"] | {"texts": 64, "tokens": 10, "least_words": 3},
    "selection": {"texts": 40},
}


@pytest.fixture
def hearsay(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))

    def call(*words: object) -> tuple[int, str, str]:
        code = tiny_hearsay.hearsay(*words)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_init_writes_the_example_and_plan_and_doctor_read_it(hearsay: Any, tmp_path: Path) -> None:
    assert hearsay("init", tmp_path / "new", "--task", "augment")[0] == 0
    path = tmp_path / "new" / "hearsay.yaml"
    text = configs.commented_yaml(EXAMPLE_AUGMENT, AugmentConfig)
    assert path.read_text() == text == (ROOT / "examples" / "augment.yaml").read_text()
    code, out, _ = hearsay("plan", path, "--json")
    assert code == 0
    made = json.loads(out)
    assert made["feasible"]
    assert made["sensitivity"] == 1.0
    assert "noise" in hearsay("plan", path)[1]
    code, out, _ = hearsay("doctor", path)
    assert code == 2
    assert "private data: " in out
    assert "no such file" in out


def test_flags_of_the_other_task_are_refused(hearsay: Any, tmp_path: Path) -> None:
    hearsay("init", tmp_path / "new", "--task", "augment")
    code, _, err = hearsay("plan", tmp_path / "new" / "hearsay.yaml", "--teachers", "5")
    assert code == 2
    assert "--teachers does not go with task: augment" in err
    assert hearsay("init", tmp_path / "other", "--task", "paint")[0] == 2


def test_a_tiny_demo_from_end_to_end_and_again(hearsay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clinic_show, "SETTINGS", TINY)
    monkeypatch.setattr(clinic_show, "HELD_OUT", 30)
    code, out, err = hearsay("demo", "--task", "augment", "--out", tmp_path / "demo", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert set(found["models"]) == {"synthetic", "tutor_only", "public", "private", "scorer"}
    assert found["leaks"]["found"] == 0
    assert found["statement"]["epsilon"] <= 1.0
    report = Path(found["report"]).read_text()
    assert "NOT PRIVATE" in report
    assert "<svg" in report
    run = tmp_path / "demo" / "run"
    assert json.loads(hearsay("ledger", "verify", run, "--json")[1])["ok"]
    code, again, _ = hearsay("evaluate", run, "--json")
    assert code == 0
    assert json.loads(again)["models"] == found["models"]
    assert hearsay("forget", run)[0] == 0
    assert not list((run / "private").rglob("*.npz")) if (run / "private").exists() else True


def test_a_label_column_that_is_not_there_is_told_before_a_directory_is_made(hearsay: Any, tmp_path: Path) -> None:
    files = clinic.write_corpus(tmp_path / "corpus", patients=5, holdout=2)
    body = {
        "task": "augment",
        "data": {"private": str(files.private), "label": "ward", "labels": list(clinic.LABELS), "units": 2000},
        "privacy": {"corpus": "c", "unit": "record"},
    }
    path = tmp_path / "hearsay.yaml"
    path.write_text(yaml.safe_dump(body))
    code, _, err = hearsay("run", path, "--out", tmp_path / "run")
    assert code == 2
    assert "ward" in err
    assert not (tmp_path / "run").exists()


def test_a_patient_is_the_same_in_any_clinic() -> None:
    few, many = list(clinic.notes(5, seed=3)), list(clinic.notes(50, seed=3))
    assert many[: len(few)] == few
    assert list(clinic.notes(5, seed=4)) != few
    shares = Counter(note.labels.split("|")[0] for note in clinic.notes(600))
    assert shares["cardiology"] > 3 * shares["psychiatry"] > 0
    names = list(clinic.secrets(5, seed=3))
    assert all(names[1 + 2 * int(note.patient.split("-")[1])] in note.text for note in few), "record numbers are there"


def test_a_local_model_writes_what_was_asked_and_encodes_alone(tiny_gpt2: LanguageModel) -> None:
    body = {"texts": 6, "tokens": 8, "prompt": "", "openings": ["the {term} leaves"], "terms": {"a": ["flight"]}}
    settings = Generator.model_validate(body)
    asked = generator.requests(settings, ["a", "b"], seed=1)
    assert [one.label for one in asked] == ["a", "b"] * 3
    assert asked[0].opening == "the flight leaves"
    assert asked[1].opening == "the b leaves", "a label without terms stands for itself"
    texts = generator.written_by(tiny_gpt2, asked, settings, 1, lambda done, total: None)
    assert texts == generator.written_by(tiny_gpt2, asked, settings, 1, lambda done, total: None)
    assert all(text.startswith(one.opening) for one, text in zip(asked, texts, strict=True))
    encoder = encoders.Encoder("tiny", lambda rows: encoders.pooled(tiny_gpt2, rows, 16))
    together, alone = encoder(texts), [encoder.alone(text) for text in texts]
    assert all(abs(a @ b - 1) < 1e-5 for a, b in zip(together, alone, strict=True))


def test_the_page_shows_what_was_measured() -> None:
    import subprocess

    command = [sys.executable, str(ROOT / "scripts" / "write_augmentation.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
