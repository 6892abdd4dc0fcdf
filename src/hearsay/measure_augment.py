"""`hearsay evaluate` for a synthetic corpus: a classifier trained on it beside its references.

Everything here reads private text, so it goes to internal/ and is for the owner's eyes. The reference trained on the
private notes is not kept at all.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from hearsay import augmenting, stages
from hearsay import config as configs
from hearsay.accounting import identity
from hearsay.config_augment import AugmentConfig
from hearsay.disk import write_text
from hearsay.errors import BadInput
from hearsay.evaluate.classify import Ids, Vectors, classifier, measured
from hearsay.measure import FILE, secrets
from hearsay.private.labelled import Labelled
from hearsay.public import encoder as encoders
from hearsay.public import generator, scoring
from hearsay.public import space as spaces
from hearsay.public.encoder import Encoder
from hearsay.public.selection import quotas, tempered
from hearsay.reading import Columns, read_rows
from hearsay.run import Run
from hearsay.stages import Stages


def evaluate(
    run: Run, watch: Any = stages.Watch, *, encoder: Encoder | None = None, holdout: list[Path] | None = None
) -> dict[str, Any]:
    """Figures of synthetic, tutor_only, public and private; the tutor's shares beside the true ones; leaks."""
    config = configs.parse_as(AugmentConfig, (run.folder / "config.yaml").read_text(), run.folder)
    if not (run.release / "synthetic").is_dir():
        raise BadInput(f"{run.folder} has no finished corpus; type `hearsay run CONFIG --out {run.folder}` first")
    if holdout:
        config = config.model_copy(update={"data": config.data.model_copy(update={"holdout": holdout})})
    if not config.data.holdout:
        raise BadInput("nothing to measure on: name files of held-out units with --holdout")
    flow = Stages(run, watch)
    encoder = encoder or augmenting.load_encoder(config)
    with flow.start("encode hold-out"):
        vectors, truth = held_out(config, encoder)
    with identity.at(run.home), flow.start("measure"):
        units = augmenting.private_units(config, run, encoder) if run.private.exists() else None
        found = _figures(config, run, encoder, vectors, truth, units)
    write_text(run.internal / FILE, json.dumps(found, indent=1))
    return found


def held_out(config: AugmentConfig, encoder: Encoder) -> tuple[Vectors, Ids]:
    """Notes of listed labels; of a note with several, the first listed one counts."""
    data = config.data
    index = {label: i for i, label in enumerate(data.labels)}
    texts, ids = [], []
    for row in read_rows(data.holdout, Columns(text=data.text, label=data.label), label_separator=data.separator):
        known = [index[label] for label in row.labels if label in index]
        if known:
            texts.append(row.text)
            ids.append(known[0])
    if not texts:
        raise BadInput("no hold-out row has a label that data.labels lists; nothing can be measured")
    return encoder(texts), np.array(ids)


def _figures(
    config: AugmentConfig, run: Run, encoder: Encoder, vectors: Vectors, truth: Ids, units: Labelled | None
) -> dict[str, Any]:
    labels, facts = config.data.labels, json.loads((run.release / "synthetic" / "facts.json").read_text())
    shares = np.array([row["share"] for row in facts["labels"]])

    def score(name: str, features: Vectors, ids: Ids) -> dict[str, Any]:
        if len(np.unique(ids)) < 2:
            return {"texts": len(ids), "note": f"{name}: texts of one label only, so no classifier"}
        said = classifier(features, ids).predict(vectors)
        return {"texts": len(ids), **measured(truth, said, len(labels), config.compute.seed)}

    sets = _training_sets(config, run, encoder, shares)
    found: dict[str, Any] = {"task": "augment", "classifier": "logistic regression on the encoder's vectors"}
    found["models"] = {name: score(name, *body) for name, body in sets.items()}
    if (said := scorer_says(run, vectors)) is not None:
        found["models"]["scorer"] = measured(truth, said, len(labels), config.compute.seed)
    if units is not None:
        found["models"]["private"] = {**score("private", *_private(units)), "stamp": "NOT-PRIVATE"}
        found["tutor"] = _tutor(config, units, shares)
    found["held_out_notes"] = len(truth)
    found["leaks"] = _leaks(config, run)
    return found


def scorer_says(run: Run, vectors: Vectors) -> Ids | None:
    """Labels by the released discriminant itself: what was paid for, without the way through texts."""
    paths = [run.release / "stages" / name for name in ("space.npz", "scorer.npz")]
    if not all(path.exists() for path in paths):
        return None
    said: Ids = scoring.load(paths[1]).scores(spaces.load(paths[0]).places(vectors)).argmax(1)
    return said


def _training_sets(
    config: AugmentConfig, run: Run, encoder: Encoder, shares: np.ndarray[Any, Any]
) -> dict[str, tuple[Vectors, Ids]]:
    index = {label: i for i, label in enumerate(config.data.labels)}
    candidates = generator.load(run.release / "stages" / "candidates.jsonl")
    pool = encoders.kept(
        encoder, [one.text for one in candidates], run.release / "stages" / "candidates", lambda a, b: None
    )
    asked = np.array([index[one.label] for one in candidates])
    place = {one.text: i for i, one in enumerate(candidates)}
    lines = (run.release / "synthetic" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    chosen = np.array([place[row["text"]] for row in rows])
    even = np.full(len(index), 1 / len(index))
    public = at_random(asked, even, len(rows), config.compute.seed)
    wanted = tempered(shares, config.selection.temper)
    tutored = at_random(asked, wanted, len(rows), config.compute.seed)
    return {
        "synthetic": (pool[chosen], np.array([index[row["label"]] for row in rows])),
        "tutor_only": (pool[tutored], asked[tutored]),
        "public": (pool[public], asked[public]),
    }


def at_random(asked: Ids, shares: np.ndarray[Any, Any], texts: int, seed: int) -> Ids:
    """Candidates by the label they were asked for, in these shares, no private score looked at."""
    chance = np.random.default_rng(seed)
    found = [
        chance.permutation(np.flatnonzero(asked == label))[:quota] for label, quota in enumerate(quotas(shares, texts))
    ]
    return np.concatenate(found)


def _private(units: Labelled) -> tuple[Vectors, Ids]:
    notes = [note for unit in units.each() for note in unit if note.labels[0] < units.labels]
    return np.stack([note.vector for note in notes]), np.array([note.labels[0] for note in notes])


def _tutor(config: AugmentConfig, units: Labelled, shares: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Noisy and true shares: only the noisy ones were released."""
    truth = np.zeros(units.labels + 1)
    for unit in units.each():
        for note in unit:
            truth[list(note.labels)] += 1 / len(note.labels) / len(unit)  # one vote a unit, as through the door
    truth = truth[:-1] / max(truth[:-1].sum(), 1e-9)
    rows = [
        {"label": label, "noisy": round(float(a), 4), "true": round(float(b), 4)}
        for label, a, b in zip(config.data.labels, shares, truth, strict=True)
    ]
    return {
        "used": config.tutor.use,
        "total_variation": round(float(np.abs(shares - truth).sum() / 2), 4),
        "labels": rows,
    }


def _leaks(config: AugmentConfig, run: Run) -> dict[str, Any] | None:
    """How many of the named secrets stand in the synthetic corpus."""
    phrases = secrets(config)
    if not phrases:
        return None
    text = (run.release / "synthetic" / "corpus.jsonl").read_text(encoding="utf-8")
    return {"secrets": len(phrases), "found": sum(phrase in text for phrase in phrases)}
