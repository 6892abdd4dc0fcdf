"""The augmentation paper's tables and figures on simulated notes: methods, ablations, budgets, teachers, the tutor.

    python studies/study.py studies/clinic.yaml --out DIR [--corpus clinic-small]

Candidates are written and encoded once for each seed by the public model; every cell is one of studies/augment.py's,
through the product's door, with a research ledger of its own. On real notes the study is studies/augment.yaml.
"""

import argparse
import dataclasses
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from studies import agenda, augment
from studies.agenda import Study, rows

from hearsay import lm as models
from hearsay.accounting import identity
from hearsay.config_augment import Generator
from hearsay.demo import clinic, clinic_show
from hearsay.disk import write_text
from hearsay.private.labelled import collect
from hearsay.public import encoder as encoders
from hearsay.public import generator, scoring
from hearsay.public.generator import Candidate
from hearsay.reading import Row


def perform(study: Study, given: argparse.Namespace) -> None:
    ends = time.monotonic() + 60 * given.minutes
    place = given.out / study.label
    (place / "cells").mkdir(parents=True, exist_ok=True)
    for seed in given.seeds if given.seeds is not None else study.body["seeds"]:
        split: augment.Split | None = None
        for number, (name, cell, extra) in enumerate(rows(study.body)):
            path = place / "cells" / f"{number:03d}-{seed}.json"
            if path.exists() or (given.only and name not in given.only) or time.monotonic() > ends:
                continue
            split = split or prepared(study, given, seed)
            found = measured(split, cell, place / "runs" / str(seed))
            told = {"cell": name, "seed": seed, "made": fingerprint(study, cell, seed, given.model), "device": "cpu"}
            write_text(path, json.dumps(told | extra | found, indent=1))
            print(study.name, name, seed, found["f1_macro"], found["accuracy"], flush=True)


def fingerprint(study: Study, cell: dict[str, Any], seed: int, model: str) -> str:
    """Of what decides a cell's figures besides the code: settings, the base model, and the notes as they are now."""
    body = study.body["base"]
    texts = [
        note.text for note in (*clinic.notes(body["patients"], seed), *clinic.notes(body["holdout"], seed, "holdout"))
    ]
    named = json.dumps([cell, body, seed, agenda.origin(model), texts], sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()[:16]


def prepared(study: Study, given: argparse.Namespace, seed: int) -> augment.Split:
    """Notes, their vectors, and candidates that the public model wrote: what all cells of a seed share."""
    body, labels = study.body["base"], list(clinic.LABELS)
    encode = encoders.load(given.model, max_tokens=64, device=torch.device("cpu"))
    private = _notes(clinic.notes(body["patients"], seed), labels)
    held = _notes(clinic.notes(body["holdout"], seed, "holdout"), labels)
    folder = given.out / study.label / "runs" / str(seed)
    with identity.at(folder / "home"):
        units = collect(
            private, labels, unit="record", cap=1, key=identity.derived_key("partition", "study"),
            sketch_key=identity.sketch_key(), encode=encode.alone, folder=folder / "labelled",
        )  # fmt: skip
    candidates = written(given.model, body["candidates"], labels, seed, folder / "candidates.jsonl")
    return augment.Split(
        labels, private, units,
        encode([row.text for row in private]), np.array([labels.index(row.labels[0]) for row in private]),
        encode([row.text for row in held]), np.array([labels.index(row.labels[0]) for row in held]),
        candidates, encode([one.text for one in candidates]), np.array([labels.index(one.label) for one in candidates]),
        encode, body["texts"], seed,
    )  # fmt: skip


def _notes(notes: Any, labels: list[str]) -> list[Row]:
    """One label a note, the first, as in the paper; what is listed nowhere is left out."""
    found = [(note.text, note.labels.split("|")[0]) for note in notes]
    kept = {text: label for text, label in found if label in labels}  # a note that is written twice is one record
    return [Row(number, text, None, (label,)) for number, (text, label) in enumerate(kept.items())]


def written(model: str, count: int, labels: list[str], seed: int, path: Path) -> list[Candidate]:
    """By the demo's prompts; kept, so that cells choose from the same texts."""
    if not path.exists():
        settings = Generator.model_validate({**clinic_show.SETTINGS["generator"], "texts": count})
        asked = generator.requests(settings, labels, seed)
        lm = models.load(model, device="cpu")
        texts = generator.written_by(lm, asked, settings, seed, lambda done, total: None)
        path.parent.mkdir(parents=True, exist_ok=True)
        generator.save(generator.cleaned(asked, texts, settings), path)
    return generator.load(path)


def measured(split: augment.Split, cell: dict[str, Any], folder: Path) -> dict[str, Any]:
    epsilon = float(cell.get("epsilon", 4.0))
    found = augment._cell(dataclasses.replace(split), cell, epsilon, folder)
    path = folder / "run" / "release" / "stages" / "scorer.npz"
    votes = cell.get("discriminator", {}).get("method") == "votes"
    if cell["kind"] == "door" and votes and path.exists():
        found["discriminator_auc"] = _auc(scoring.load(path), split)
    if cell["kind"] == "tutor":
        found["true"] = [round(float(share), 4) for share in split.true_shares()]
    if cell["kind"] == "private" or cell.get("true_shares"):
        return {**found, "NOT PRIVATE": True}
    own = epsilon if cell["kind"] == "sgd_discriminator" else 0.0  # Opacus's, beside the tutor's in the ledger
    return {**found, "epsilon": own + found["spent"] if "spent" in found else epsilon}


def _auc(scorer: scoring.Scorer, split: augment.Split) -> float:
    """How often the released discriminator finds a held-out private note more private than a generated text."""
    own, other = (scorer.scores(vectors.astype(np.float64))[:, 0] for vectors in (split.held, split.vectors))
    above = (own[:, None] > other[None]).mean() + 0.5 * (own[:, None] == other[None]).mean()
    return float(above)
