"""The study that attacks runs: DP-SGD at tiny size, flat with its canary twin, and ghost; nothing is found twice."""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearsay import lm as models
from hearsay.audit import whole
from hearsay.config import Config
from hearsay.demo import show
from hearsay.demo.airline import write_corpus
from hearsay.lm import LanguageModel
from test_audit_run import SETTINGS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from studies import audit  # noqa: E402

EFFORT = {
    "units": 40, "rows": 1, "neighbours": 1, "remembered": 10, "epochs": 60, "shadows": 4, "shadow_epochs": 2,
    "texts": 6, "beams": 2, "finished": 10, "released": 8, "known": 20, "draws": 2000, "through": 2,
}  # fmt: skip
BASELINE = {"method": "dpsgd", "batch": 20, "steps": 3, "tokens": 64, "clip": 0.1, "learning_rate": 1e-2}
STUDY: dict[str, Any] = {
    "corpus": "tiny", "parts": ["attacks", "canaries"], "effort": EFFORT, "cells": {"dpsgd": {"baseline": BASELINE}},
}  # fmt: skip


@pytest.fixture
def given(tmp_path: Path, tiny_gpt2: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    def tiny(data: Path, out: Path) -> dict[str, Any]:
        if not out.exists():
            out.mkdir()
            write_corpus(out, private_customers=60, public_customers=20, holdout_customers=40, seed=1)
        files = {name: str(out / f"{name}.jsonl") for name in ("private", "public", "holdout")}
        return audit.merge(SETTINGS, {"data": files, "privacy": {"secrets": str(out / "secrets.txt")}})

    monkeypatch.setitem(audit.PREPARE, "tiny", tiny)
    monkeypatch.setattr(whole.birds, "DIGITS", 2)
    for name, size in (("COINS", 24), ("EPOCHS", 4), ("ORDINARY", 20)):
        monkeypatch.setattr(whole.twin, name, size)
    models.save(tiny_gpt2, tmp_path / "model", "tiny")
    place = {"study": tmp_path / "tiny.yaml", "data": tmp_path, "model": str(tmp_path / "model"), "out": tmp_path}
    return argparse.Namespace(**place, only=None, minutes=1e9)


def test_dp_sgd_stands_with_its_twin_and_nothing_is_done_twice(
    given: argparse.Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    found = audit.attack_all(STUDY, given)
    attacks, twin = (found["cells"]["dpsgd"][part] for part in ("attacks", "canaries"))
    assert attacks["ok"] and twin["ok"] and attacks["epsilon_claimed"] <= 3
    assert "mechanism" not in attacks["attacks"]  # Opacus's noise does not come through the door
    for name, body in {**attacks["attacks"], **twin["attacks"]}.items():
        assert (body.get("epsilon_lower") or 0) <= attacks["epsilon_claimed"], name
    loss = attacks["attacks"]["membership.loss"]
    assert loss["not_private"]["low"] > 0.6 and loss["low"] < attacks["auc_allowed"], loss["sentence"]
    assert attacks["attacks"]["extraction.near-verbatim"]["score"] == 0
    assert twin["attacks"]["canary.one-run"]["not_private"]["score"] > 0.8
    assert attacks["seconds"]["shadow models"] > 0 and "roc" not in json.dumps(found)
    capsys.readouterr()
    kept = (given.out / "tiny.json").read_text()
    assert audit.attack_all(STUDY, given)["cells"] == found["cells"] and not capsys.readouterr().out
    assert json.loads(kept)["cells"] == found["cells"]


def test_ghost_clipping_stands_too(given: argparse.Namespace) -> None:
    study = STUDY | {"parts": ["attacks"], "cells": {"ghost": {"baseline": BASELINE | {"method": "ghost"}}}}
    found = audit.attack_all(study, given)["cells"]["ghost"]["attacks"]
    assert found["ok"] and found["attacks"]["membership.calibrated"]["low"] < found["auc_allowed"]
    assert found["attacks"]["membership.loss"]["not_private"]["low"] > 0.6


def test_the_studies_in_the_repository_are_well_formed() -> None:
    data = {"private": ["a"], "public": ["b"], "holdout": ["c"], "units": 5000, "sentences": 25_000}
    for path in sorted((ROOT / "studies").glob("audit-*.yaml")):
        study = yaml.safe_load(path.read_text())
        base = audit.merge(show.SETTINGS if study["corpus"] == "demo" else {}, study.get("base", {}))
        for cell in study["cells"].values():
            settings = audit.merge(base, cell or {})
            Config.model_validate(audit.merge(settings, {"data": data, "privacy": {"corpus": "c"}}))


def test_the_page_shows_what_was_found() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "write_audits.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
