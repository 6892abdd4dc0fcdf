"""Runs of several methods, each attacked: one YAML of cells, one command, a JSON of what every attack found.

    python studies/audit.py studies/audit-demo.yaml --data . --model embedded --out DIR
    python studies/audit.py studies/audit-sgd.yaml --data DATA --model MODEL --out DIR

The same command continues: a run goes on where it stopped, and what was found is kept part by part. Each cell has a
research ledger of its own, as every study. Attacks read the text itself: what they find is the study's, not a release.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from hearsay import config as configs
from hearsay import pipeline
from hearsay import run as runs
from hearsay.accounting import identity
from hearsay.audit import ATTACKS
from hearsay.audit.scene import Effort
from hearsay.audit.whole import audit_run
from hearsay.config import Config
from hearsay.demo import show
from hearsay.disk import write_text
from hearsay.run import Run

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies import corpora
from studies.run import arguments, device, merge

HELD_OUT = 1700  # units that nobody trains on: an AUC's interval is .02 wide each way
LONG = ("roc",)  # of an attack's details: too long for a record


def demo(data: Path, out: Path) -> dict[str, Any]:
    """Fewer customers than the demo has, their secrets, and its settings unless the study says otherwise."""
    fewer = merge(show.SETTINGS, {"data": {"units": 5000, "sentences": 75_000, "cap": 20}})
    return show.demo_settings(show.corpus(out, 0, fewer), 0, fewer)


def sgd(data: Path, out: Path) -> dict[str, Any]:
    return {"data": corpora.sgd(data, out, held_out=HELD_OUT)}


PREPARE = {"demo": demo, "sgd": sgd}


def main() -> None:
    given = arguments(__doc__)
    attack_all(yaml.safe_load(given.study.read_text()), given)


def attack_all(study: dict[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    given.out = given.out.resolve()  # a run's config is read again from the run's own folder
    base = merge(PREPARE[study["corpus"]](given.data, given.out / "corpus"), study.get("base", {}))
    path = given.out / f"{given.study.stem}.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"cells": {}}
    results["machine"] = runs.environment() | {"device": device()}
    ends = time.monotonic() + 60 * given.minutes
    for name, own in study["cells"].items():
        if (given.only and name not in given.only) or time.monotonic() > ends:
            continue
        found = results["cells"].setdefault(name, {})
        settings = merge(base, own or {})
        parts = study.get("parts", ["attacks"])
        for part in [part for part in parts if part not in found]:
            found[part] = attacked(attackable(name, settings, given), part, Effort(**study.get("effort", {})))
            write_text(path, json.dumps(results, indent=1) + "\n")
            print(name, part, json.dumps(found[part]["seconds"]), flush=True)
    return results


def attackable(name: str, settings: dict[str, Any], given: argparse.Namespace) -> Run:
    """The cell's run, finished."""
    config = Config.model_validate(merge(settings, {"model": given.model, "privacy": {"corpus": name}}))
    folder = given.out / "cells" / name
    home = folder / "home"
    here = runs.begin(folder / "run", configs.to_yaml(config), home / "ledger.sqlite", home)
    with here.alone(), identity.at(home):
        if not (here.release / "student").is_dir():
            pipeline.generate(config, here, anyway=True, research=True)
    return here


def attacked(run: Run, part: str, effort: Effort) -> dict[str, Any]:
    """`part` is "attacks", or "canaries": the twin, which takes as long as the run."""
    birds = part == "canaries"
    seen, began = _stages(run), time.monotonic()
    with run.alone():
        found = audit_run(run, attacks=() if birds else ATTACKS, canaries=birds, effort=effort)
    whole = time.monotonic() - began
    seconds = {line["stage"]: line["seconds"] for line in _stages(run)[len(seen) :]}
    # audit.json holds what both parts found
    mine = {name: body for name, body in found["attacks"].items() if name.startswith("canary") == birds}
    return {
        "epsilon_claimed": found["epsilon_claimed"], "delta": found["delta"], "auc_allowed": found["auc_allowed"],
        "ok": all(body["ok"] for body in mine.values()), "look": [name for name in found["look"] if name in mine],
        "attacks": {name: _short(body) for name, body in mine.items()},
        "seconds": {"total": round(whole, 1), **seconds}, "device": device(),
    }  # fmt: skip


def _stages(run: Run) -> list[dict[str, Any]]:
    path = run.folder / "progress.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["event"] == "end"]


def _short(body: Any) -> Any:
    """Without what is too long for a record, and numbers to four digits."""
    if isinstance(body, dict):
        return {key: _short(value) for key, value in body.items() if key not in LONG}
    return float(f"{body:.4g}") if isinstance(body, float) else body


if __name__ == "__main__":
    main()
