"""A study: one YAML of cells, one command, a JSON of results that grows cell by cell (a finished cell is not redone).

    python studies/run.py studies/sgd.yaml --data DATA --model MODEL --out DIR [--only NAME ...] [--minutes 9]

Each cell is a run of the product (`hearsay.pipeline`) with its own research ledger: a study reruns one corpus at many
budgets, which no production ledger may do. Figures read held-out text; they are the study's, not a release.
"""

import argparse
import json
import math
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file

from hearsay import lm as models
from hearsay import pipeline, run
from hearsay.adapter_files import merged
from hearsay.baselines import unprotected
from hearsay.config import Config
from hearsay.evaluate.references import ensemble_perplexity, train_private
from hearsay.evaluate.text import gap_closed
from hearsay.reading import Columns, read_rows
from hearsay.stages import save_tensor
from hearsay.work import Work

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies import corpora


def main() -> None:
    given = arguments(__doc__)
    study = yaml.safe_load(given.study.read_text())
    files = corpora.PREPARE[study["corpus"]](given.data, given.out / "corpus")
    results_path = given.out / f"{given.study.stem}.json"
    results = json.loads(results_path.read_text()) if results_path.exists() else {"cells": {}}
    results["machine"] = run.environment() | {"device": device()}
    ends = time.monotonic() + 60 * given.minutes
    for name, changes in study["cells"].items():
        wanted = not given.only or name in given.only
        if name in results["cells"] or not wanted or time.monotonic() > ends:
            continue
        settings = merge(study["base"], changes or {})
        results["cells"][name] = cell(name, settings, files, given)
        results_path.write_text(json.dumps(results, indent=1))
        print(name, json.dumps({k: v for k, v in results["cells"][name].items() if k != "settings"}), flush=True)


def arguments(about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--model", required=True, help="base model: folder, hub id or embedded")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", help="cells or methods to run; all that are missing by default")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after this")
    return parser.parse_args()


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    mixed = {**base, **over}
    for key in base.keys() & over.keys():
        if isinstance(base[key], dict) and isinstance(over[key], dict):
            mixed[key] = merge(base[key], over[key])
    return mixed


def device() -> str:
    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu"


def cell(name: str, settings: dict[str, Any], files: dict[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    """One run and what was measured of it. `given` has the model and the folder (out)."""
    measure = settings.pop("measure", {})
    settings = merge(
        settings, {"model": given.model, "data": {**files, **settings.get("data", {})}, "privacy": {"corpus": name}}
    )
    config = Config.model_validate(settings)
    folder = given.out / "cells" / name
    shutil.rmtree(folder, ignore_errors=True)
    os.environ["HEARSAY_HOME"] = str(folder / "home")  # a ledger and a secret per cell: research, stamped as such
    began = time.monotonic()
    work = pipeline.generate(
        config, run.begin(folder, json.dumps(settings, default=str), folder / "home" / "ledger.sqlite"),
        anyway=True, research=True,
    )  # fmt: skip
    seconds = {"total": time.monotonic() - began, **work.stages.seconds}
    found = _measure(work, config, measure, folder)
    keep = {key: settings[key] for key in settings if key not in ("data", "model")}
    shutil.rmtree(folder / "private", ignore_errors=True)
    return {**found, "seconds": {k: round(v, 2) for k, v in seconds.items()}, "settings": keep}


def _measure(work: Work, config: Config, measure: dict[str, Any], folder: Path) -> dict[str, Any]:
    data = config.data
    texts = [row.text for row in read_rows(data.holdout, Columns(text=data.text))]
    rows = [row for row in models.encode(work.lm, texts, data.max_tokens) if len(row) >= data.min_tokens]
    adapters = {"public_pseudo": pipeline.warmed_up(work)}
    if config.baseline is None:
        adapters |= {"updates": _stored(work, "updates")} if config.share_of_updates else {}
    for number in range(0 if config.baseline else config.rounds_of_answers):
        adapters[f"round_{number + 1}"] = _stored(work, f"student-{number}")
    if "private" in measure:
        adapters["private"] = train_private(work.lm, work.partition, work.stack.shape, **measure["private"])
        save_tensor(folder / "internal" / "private-NOT-PRIVATE.safetensors", adapters["private"].cpu())
    ppl = {"public": _perplexity(work.lm, rows, data.prefix_tokens)}
    for name, adapter in adapters.items():
        ppl[name] = _perplexity(merged(work.lm, work.stack.top, adapter), rows, data.prefix_tokens)
    student = _student(work, config, adapters)
    ppl["student"] = _perplexity(student, rows, data.prefix_tokens)
    found: dict[str, Any] = {"ppl": {k: round(v, 3) for k, v in ppl.items()}, "gap_closed": gap_closed(ppl)}
    if measure.get("ensemble"):
        store = pipeline.train_teachers(work, adapters["public_pseudo"], 0)
        some = rows[: measure["ensemble"]]
        found["ensemble_ppl"] = ensemble_perplexity(work.stack, store, some, data.prefix_tokens)
        found["ensemble_base_ppl"] = _perplexity(work.lm, some, data.prefix_tokens)
    return found


def _student(work: Work, config: Config, adapters: dict[str, torch.Tensor]) -> models.LanguageModel:
    """The cell's own model. A baseline's is the folder that it released, or internal/'s, which is NOT PRIVATE."""
    if config.baseline is None:
        taught = [name for name in adapters if name == "updates" or name.startswith("round_")]
        return merged(work.lm, work.stack.top, adapters[taught[-1]])
    if config.baseline.protects:
        return models.load(str(work.run.release / "student"), device=work.lm.device, dtype=work.lm.model.dtype)
    return merged(work.lm, work.stack.top, load_file(work.run.internal / unprotected.FILE)["value"])


def _stored(work: Work, name: str) -> torch.Tensor:
    return work.stages.tensor(name, work.file(name), lambda _: torch.empty(0))


def _perplexity(lm: models.LanguageModel, rows: list[list[int]], prefix: int) -> float:
    nll, tokens = models.token_nll(lm, rows, prefix)
    return math.exp(nll / tokens)


if __name__ == "__main__":
    main()
