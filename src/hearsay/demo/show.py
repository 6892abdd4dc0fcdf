"""`hearsay demo`: the whole method on simulated customers and the embedded model, on a laptop.

Its ledger and its secret live in its own directory, since nobody real is protected by them. Beside the student it
measures the references; with `compare` also students by answers (seqpate, as published, and hellinger), each with the
same budget, under research ledgers inside internal/: comparisons, not releases.
"""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from hearsay import charging, measure, pipeline
from hearsay import config as configs
from hearsay import lm as models
from hearsay import run as runs
from hearsay.accounting import identity
from hearsay.adapter_files import merged
from hearsay.config import Config
from hearsay.demo.airline import CorpusFiles, files_in, write_corpus
from hearsay.disk import write_text
from hearsay.public import samples
from hearsay.release.door import Door
from hearsay.run import Run
from hearsay.stages import Watch
from hearsay.work import Work

OTHERS = {"public_customers": 400, "holdout_customers": 1700}
SETTINGS: dict[str, Any] = {
    "data": {"units": 12_000, "sentences": 120_000, "mean_tokens": 26, "cap": 10, "max_tokens": 32},
    "privacy": {"epsilon": 3.0, "delta": 1.0e-6, "unit": "user", "corpus": "kestrel-air"},
    "adapter": {"rank": 16, "blocks": 2},
    "updates": {
        "rounds": 56, "sample": 0.0392, "rows": 1, "pages": 4, "clip": 0.5, "learning_rate": 0.012, "average": 0.05,
        "vocabulary": 2560,
    },
    "teachers": {"count": 1000, "epochs": 0.8, "learning_rate": 1.0e-2, "row_tokens": 64, "rows": 1},
    "ask": {
        "rounds": 1, "sentences": 80, "questions": 2000, "candidates": 96, "tail": 32, "clip": 0.3, "stride": 1.7,
    },
    "student": {"pseudo": 300, "warm_up": 40, "steps": 150, "batch": 16, "learning_rate": 7.0e-4},
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "seqpate": {
        "ask": {"recipe": "seqpate", "rounds": 1, "clip": None, "stride": 1.0, "selection": "rank", "sentences": 30,
                "questions": 300, "candidates": 50},
        "student": {"learning_rate": 1.0e-4, "steps": 60},
    },
    "hellinger": {"ask": {"recipe": "hellinger"}},
}  # fmt: skip
HELD_OUT_ROWS = 400
COMPLETIONS = 100
PRIVATE_STEPS = 300


def play(
    out: Path, seed: int = 0, watch: Any = Watch, settings: dict[str, Any] | None = None, *, compare: bool = False
) -> tuple[Path, dict[str, Any]]:
    """Runs or resumes the demo; returns its directory and what was measured."""
    home = out.resolve() / "home"
    runs.refuse_foreign(out, ("corpus", "home", "run"))
    config = Config.model_validate(demo_settings(files_in(out / "corpus"), seed, settings))
    here = runs.begin(out / "run", configs.to_yaml(config), home / "ledger.sqlite", home)  # refuses other settings
    corpus(out / "corpus", seed, settings)
    with here.working(), identity.at(home):
        work = pipeline.generate(config, here, watch)
        samples.write(here, work.lm, work.prefixes, config.compute.seed)
        found = measure.evaluate(here, watch, completions=COMPLETIONS, rows=HELD_OUT_ROWS, steps=PRIVATE_STEPS)
        found |= {recipe: by_answers(work, recipe) for recipe in ANSWERS} if compare else {}
        write_text(here.internal / measure.FILE, json.dumps(found, indent=1))
    return here.folder, found


def demo_settings(files: CorpusFiles, seed: int, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(settings or SETTINGS))
    body["data"] |= {name: str(getattr(files, name).resolve()) for name in ("private", "public", "holdout")}
    body["privacy"] |= {"secrets": str(files.secrets.resolve())}
    body["compute"] = {"device": "cpu", "block": 64, "seed": seed, **body.get("compute", {})}
    return body


def corpus(folder: Path, seed: int, settings: dict[str, Any] | None) -> CorpusFiles:
    """Written once."""
    done = folder / "seed.json"
    units = (settings or SETTINGS)["data"]["units"]
    if not done.exists() or json.loads(done.read_text()) != [seed, units]:
        write_corpus(folder, private_customers=units, **OTHERS, seed=seed)
        write_text(done, json.dumps([seed, units]))
    return files_in(folder)


def by_answers(work: Work, recipe: str) -> dict[str, float]:
    """Perplexity of a student that teachers taught by answers, with the same budget and starting point."""
    folder = work.run.internal / recipe
    path = folder / "found.json"
    if path.exists():
        kept: dict[str, float] = json.loads(path.read_text())
        return kept
    config = _with(work.config, ANSWERS[recipe])
    (folder / "release" / "stages").mkdir(parents=True, exist_ok=True)
    ledger = charging.open_ledger(config, folder / "ledger.sqlite", research=True)
    other = Run(folder, work.run.id, ledger.path, work.run.home)
    ledger.register(other.id, folder)
    asking = dataclasses.replace(
        work, config=config, run=other, ledger=ledger, door=Door(ledger, other.id, folder),
        stages=work.stages.named(recipe),
    )  # fmt: skip
    start = pipeline.warmed_up(work)
    questions = pipeline.ask_about(asking, start, 0)
    answered = pipeline.answers(asking, questions, pipeline.train_teachers(work, start, 0), start, 0)
    student = pipeline.taught(asking, start, answered, 0)
    rows = measure.read_held_out(config, work.lm, HELD_OUT_ROWS).rows
    nll, tokens = models.token_nll(merged(work.lm, work.stack.top, student), rows, config.data.prefix_tokens)
    found = {"ppl": math.exp(nll / tokens), "epsilon": ledger.budget.epsilon}
    write_text(path, json.dumps(found))
    return found


def _with(config: Config, changes: dict[str, Any]) -> Config:
    body = config.model_dump()
    for section, values in changes.items():
        body[section] |= values
    return Config.model_validate(body)
