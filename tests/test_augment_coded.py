"""Both systems in one ledger: examples/coded-student.yaml, then coded-corpus.yaml, with fewer of everything."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearsay.accounting.ledger import Ledger
from hearsay.demo import clinic
from hearsay.lm import LanguageModel, save
from tiny_hearsay import hearsay

ROOT = Path(__file__).parents[1]
PATIENTS = 40


def example(name: str, folder: Path, **change: Any) -> Path:
    body = yaml.safe_load((ROOT / "examples" / f"{name}.yaml").read_text())
    for section, values in change.items():
        body[section] = {**body.get(section, {}), **values} if isinstance(values, dict) else values
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(body))
    return path


def test_a_coded_student_and_the_corpus_it_writes_share_one_ledger(
    tmp_path: Path, tiny_gpt2: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))
    clinic.write_corpus(tmp_path, patients=PATIENTS, holdout=2)
    save(tiny_gpt2, tmp_path / "model", "tiny")
    sizes = {"units": PATIENTS, "cap": 2}
    student = example(
        "coded-student", tmp_path, data={**sizes, "sentences": 60, "min_tokens": 10, "max_tokens": 24},
        model="./model", adapter={"rank": 2, "blocks": 1}, teachers={"count": 4, "row_tokens": 32},
        updates={"rounds": 2}, student={"pseudo": 8, "warm_up": 1, "batch": 4}, compute={"device": "cpu"},
    )  # fmt: skip
    corpus = example(
        "coded-corpus", tmp_path, data=sizes, generator={"texts": 32, "tokens": 8, "least_words": 1},
        discriminator={"encoder": "./model", "dimensions": 4}, selection={"texts": 16}, compute={"device": "cpu"},
    )  # fmt: skip
    runs = tmp_path / "runs"
    assert hearsay("run", student, "--out", runs / "student", "--anyway") == 0
    assert hearsay("run", corpus, "--out", runs / "corpus", "--anyway") == 0
    (path,) = (tmp_path / "home").glob("ledger-*.sqlite")
    ledger = Ledger.open(path)
    paid = [charge.purpose for charge in ledger.charges()]
    assert len(paid) == 4 and paid[2:] == ["tutor: histogram of labels", "discriminator: sums by label"]
    said = json.loads((runs / "corpus" / "release" / "statement.json").read_text())
    assert said["charges"] == 4 and 2.99 < said["epsilon"] <= said["budget_epsilon"] == 3.0
    before = json.loads((runs / "student" / "release" / "statement.json").read_text())
    assert before["charges"] == 2 and before["epsilon"] < said["epsilon"]
    for name in ("student", "corpus"):
        assert hearsay("ledger", "verify", runs / name) == 0
    card = (runs / "corpus" / "release" / "synthetic" / "README.md").read_text()
    assert "what they say comes from the corpus too" in card and f"epsilon: {said['epsilon']}" in card
    assert hearsay("run", corpus, "--out", runs / "more", "--anyway") == 3, "nothing is left for a third run"
