"""The augmentation study: private notes by specialty, every method on one pool, at three budgets, by seeds.

    PYTHONPATH=src python studies/augment.py studies/augment.yaml --pool POOL --features DIR --data DATA --out DIR

A cell is (labels, budget, method, seed). Methods of the product run the product's own stages through its door, with a
research ledger each, since a study asks the same corpus again and again. Results grow in one JSON file; a finished cell
is not redone. Figures read held-out notes; they are the study's, not a release.
"""

import argparse
import itertools
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hearsay import augmenting, run
from hearsay.accounting import identity
from hearsay.charging import answerable
from hearsay.config_augment import AugmentConfig
from hearsay.evaluate.classify import Ids, Vectors, classifier, figures
from hearsay.measure_augment import at_random, scorer_says
from hearsay.private.labelled import Labelled, collect
from hearsay.public.encoder import Encoder
from hearsay.public.generator import Candidate
from hearsay.public.selection import select, tempered
from hearsay.public.space import Floats
from hearsay.reading import Row
from hearsay.release.door import Door
from hearsay.release.labelled import Asker
from hearsay.stages import Stages, Watch

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies.augment_features import cached, note_rows, pool
from studies.noisy_sgd import Recipe, train

HELD_OUT = 0.25
DELTA = 1e-6

Wanted = tuple[str, float, dict[str, Any]]  # name, epsilon, cell


@dataclass(frozen=True)
class Split:
    """One label set and seed: what is private, what is held out, and the shared candidates."""

    labels: list[str]
    rows: list[Row]
    units: Labelled
    private: Vectors
    private_ids: Ids
    held: Vectors
    truth: Ids
    candidates: list[Candidate]
    vectors: Vectors
    asked: Ids
    encoder: Encoder
    texts: int
    seed: int

    def score(self, vectors: Vectors, ids: Ids) -> dict[str, float]:
        return self.judged(classifier(vectors, ids).predict(self.held))

    def judged(self, said: Ids) -> dict[str, float]:
        return figures(self.truth, said, len(self.labels)).to_json()

    def true_shares(self) -> Floats:
        found: Floats = np.bincount(self.private_ids, minlength=len(self.labels)) / len(self.private_ids)
        return found


def main() -> None:
    given = _arguments()
    study = yaml.safe_load(given.study.read_text())
    encoder = cached(given.features)
    candidates = pool(given.pool, study["pool"])
    path = given.out / "augment.json"
    given.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"cells": {}}
    results["machine"] = run.environment()
    results["features"] = json.loads((given.features / "features.json").read_text())
    results["pool"] = {"texts": len(candidates), **_pool_facts(given.pool)}
    if "true_shares" not in results:  # of a published data set: a study may show them, a run may not
        results["true_shares"] = {}
        for count, texts in study["labels"].items():
            split = _split(int(count), int(texts), study["seeds"][0], encoder, candidates, given.data, given.out)
            true = [round(float(share), 4) for share in split.true_shares()]
            results["true_shares"][str(count)] = dict(zip(split.labels, true, strict=True))
        path.write_text(json.dumps(results, indent=1))
    ends = time.monotonic() + 60 * given.minutes
    # The cells that the goal is judged by are done for every seed before the others.
    for first, seed, count in itertools.product((True, False), study["seeds"], study["labels"]):
        wanted = [one for one in _cells(study, int(count)) if (one[0] in study["first"]) == first]
        missing = [one for one in wanted if _key(count, one[0], one[1], seed) not in results["cells"]]
        if missing and time.monotonic() <= ends:
            texts = int(study["labels"][count])
            split = _split(int(count), texts, seed, encoder, candidates, given.data, given.out)
            for key, found in _measured(int(count), split, missing, given.out / "cells" / f"{count}-{seed}"):
                results["cells"][key] = found
                path.write_text(json.dumps(results, indent=1))


def _measured(count: int, split: Split, cells: list[Wanted], folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(key, figures) of each cell, as soon as it is done."""
    for name, epsilon, cell in cells:
        began = time.monotonic()
        found = _cell(split, cell, epsilon, folder)
        found |= {"labels": count, "name": name, "epsilon": epsilon, "seed": split.seed}
        found["seconds"] = round(time.monotonic() - began, 2)
        key = _key(count, name, epsilon, split.seed)
        print(key, found["f1_macro"], found["accuracy"], flush=True)
        yield key, found


def _key(count: object, name: str, epsilon: float, seed: int) -> str:
    return f"{count} labels, {name}, epsilon {epsilon:g}, seed {seed}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--pool", type=Path, required=True, help="pool.jsonl.xz of studies/augment_pool.py")
    parser.add_argument("--features", type=Path, required=True, help="folder of studies/augment_features.py")
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no cell after this")
    return parser.parse_args()


def _pool_facts(path: Path) -> dict[str, Any]:
    facts = json.loads(path.with_name("pool.json").read_text())
    return {key: facts[key] for key in ("model", "passages", "seconds_tuning", "seconds_writing", "device")}


def _cells(study: dict[str, Any], count: int) -> list[Wanted]:
    """A cell may say at which budgets and for how many labels it is wanted."""
    found = []
    for name, cell in study["methods"].items():
        for epsilon in cell.get("epsilons", study["epsilons"]):
            if count in cell.get("only", [count]):
                found.append((name, float(epsilon), cell))
    return found


def _split(
    count: int, texts: int, seed: int, encoder: Encoder, candidates: list[Candidate], data: Path, out: Path
) -> Split:
    notes = note_rows(data)
    labels = [label for label, _ in Counter(row["specific_specialty"] for row in notes).most_common(count)]
    rows = [row for row in notes if row["specific_specialty"] in labels]
    order = np.random.default_rng(seed).permutation(len(rows))
    cut = int(HELD_OUT * len(rows))
    held, kept = [rows[i] for i in order[:cut]], [rows[i] for i in order[cut:]]
    private = [Row(n, row["transcription"], None, (row["specific_specialty"],)) for n, row in enumerate(kept)]
    folder = out / "cells" / f"{count}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    with identity.at(folder / "home"):
        units = collect(
            private, labels, unit="record", cap=1, key=identity.derived_key("partition", "study"),
            sketch_key=identity.sketch_key(), encode=encoder.alone, folder=folder / "labelled",
        )  # fmt: skip
    mine = [one for one in candidates if one.label in labels]
    return Split(
        labels, private, units,
        encoder([row.text for row in private]), np.array([labels.index(row.labels[0]) for row in private]),
        encoder([row["transcription"] for row in held]),
        np.array([labels.index(row["specific_specialty"]) for row in held]),
        mine, encoder([one.text for one in mine]), np.array([labels.index(one.label) for one in mine]),
        encoder, texts, seed,
    )  # fmt: skip


def _cell(split: Split, cell: dict[str, Any], epsilon: float, folder: Path) -> dict[str, Any]:
    kind = cell["kind"]
    if kind == "private":
        return split.score(split.private, split.private_ids)
    if kind == "public":
        even = np.full(len(split.labels), 1 / len(split.labels))
        chosen = at_random(split.asked, even, split.texts, split.seed)
        return split.score(split.vectors[chosen], split.asked[chosen])
    if kind == "noisy_sgd":
        recipe = Recipe(epsilon, DELTA, ghost=cell["ghost"])
        made = train(split.private, split.private_ids, len(split.labels), recipe, split.seed)
        return {**split.judged(made.scores(split.held).argmax(1)), "event": str(made.event)}
    return _through_the_door(split, cell, epsilon, folder)


def _through_the_door(split: Split, cell: dict[str, Any], epsilon: float, folder: Path) -> dict[str, Any]:
    """The product's stages on the shared candidates, under a research ledger of its own."""
    config = _config(split, cell, epsilon)
    place = folder / "run"
    shutil.rmtree(place, ignore_errors=True)
    here = run.begin(
        place, "{}", place / "home" / "ledger.sqlite", folder / "home" / cell["kind"] / str(time.time_ns())
    )
    with identity.at(here.home):
        ledger = answerable(config, here, split.units.sketch, research=True)
    asker = Asker(Door(ledger, here.id, here.folder), split.units, here.id, split.encoder.name)
    work = augmenting.Work(
        config, here, ledger, Stages(here, Watch), split.encoder, split.candidates, split.vectors, asker
    )
    shares = split.true_shares() if cell.get("true_shares") else augmenting.tutored(work)
    if cell["kind"] == "tutor":
        chosen = at_random(split.asked, tempered(shares, config.selection.temper), split.texts, split.seed)
        found = split.score(split.vectors[chosen], split.asked[chosen])
    elif cell["kind"] == "sgd_discriminator":
        found = _sgd_discriminator(split, cell, epsilon, shares)
    else:
        scores = augmenting.discriminated(work, shares)
        if cell.get("scorer"):
            said = scorer_says(here, split.held)
            return split.judged(said) if said is not None else {}
        picked = augmenting.selected(work, scores, shares)
        found = split.score(split.vectors[picked.places], picked.labels)
        found["relabelled"] = round(float((picked.labels != split.asked[picked.places]).mean()), 4)
    spent = ledger.budget.epsilon_spent(ledger.account().spent, 0)
    off = float(np.abs(shares - split.true_shares()).sum() / 2)
    shown = {"shares": [round(float(share), 4) for share in shares]} if cell["kind"] == "tutor" else {}
    return {**found, **shown, "spent": round(spent, 4), "shares_off": round(off, 4)}


def _sgd_discriminator(split: Split, cell: dict[str, Any], epsilon: float, shares: Floats) -> dict[str, Any]:
    """Private against generated by DP-SGD, given the whole epsilon beside the tutor's: generous to this baseline."""
    chance = np.random.default_rng(split.seed)
    generated = split.vectors[chance.permutation(len(split.vectors))[: len(split.private)]]
    vectors = np.concatenate([split.private, generated])
    ids = np.concatenate([np.ones(len(split.private), np.int64), np.zeros(len(generated), np.int64)])
    made = train(vectors, ids, 2, Recipe(epsilon, DELTA, ghost=cell["ghost"]), split.seed)
    odds = made.scores(split.vectors)
    score = np.repeat((odds[:, 1] - odds[:, 0])[:, None], len(split.labels), axis=1)
    picked = select(
        score, split.asked, split.vectors, tempered(shares, 0.5), texts=split.texts, relabel=False, near_copy=0.98
    )
    return split.score(split.vectors[picked.places], picked.labels)


def _config(split: Split, cell: dict[str, Any], epsilon: float) -> AugmentConfig:
    body = {
        "data": {"private": ["notes"], "labels": split.labels, "units": len(split.rows)},
        "privacy": {"epsilon": epsilon, "delta": DELTA, "unit": "record", "corpus": "study"},
        "generator": {"backend": "file", "files": ["pool"]},
        "selection": {"texts": split.texts, **cell.get("selection", {})},
        "discriminator": cell.get("discriminator", {}),
        "tutor": {**cell.get("tutor", {}), **({"use": False} if cell.get("true_shares") else {})},
        "compute": {"seed": split.seed},
    }
    return AugmentConfig.model_validate(body)


if __name__ == "__main__":
    main()
