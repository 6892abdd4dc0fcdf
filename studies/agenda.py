"""What a study has to do on a corpus: its cells, each with its settings, its panel and where its result lies."""

import argparse
import fcntl
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from studies import corpora
from studies.run import merge

import hearsay
from hearsay.disk import write_text
from hearsay.errors import ConfigError

EMBEDDED = Path(hearsay.__file__).parent / "demo" / "base"
BASES = Path(__file__).with_name("bases.yaml")
SOURCES = ("private", "public", "holdout")
SHARED = ("adapter", "teachers", "compute", "model", "data")  # what a panel takes from a cell; the rest is the base's


@dataclass(frozen=True)
class Cell:
    """One row of a study's table, as its YAML and the corpus give it."""

    study: str
    name: str
    settings: dict[str, Any]
    wish: dict[str, Any]
    panel: dict[str, Any]
    pool: dict[str, int]
    place: Path
    origin: str = ""  # of the base model and the corpus: their digest
    extra: dict[str, Any] = field(default_factory=dict)

    def file(self, seed: int) -> Path:
        return self.place / "cells" / f"{re.sub(r'[^A-Za-z0-9.]+', '-', self.name)}-{seed}.json"

    @property
    def key(self) -> str:
        return json.dumps([self.panel, self.pool], sort_keys=True, default=str)


@dataclass(frozen=True)
class Study:
    name: str
    body: dict[str, Any]
    corpus: str
    out: Path

    @property
    def label(self) -> str:
        return f"{self.name}-{self.corpus}"


def study_of(name: str, body: dict[str, Any], given: argparse.Namespace) -> Study:
    """The study on one corpus: what the corpus settles, then the study, then what the study changes on this corpus."""
    corpus, bases = given.corpus or body["corpus"], yaml.safe_load(BASES.read_text())
    fitting = [one for one in bases if (one in corpora.PREPARE) == (body.get("kind") != "labels")]
    if corpus not in fitting:
        raise ConfigError(f"no corpus {corpus!r} for {name} in {BASES.name}; it has {', '.join(fitting)}")
    return Study(name, merge(merge(bases[corpus], body), body.get("where", {}).get(corpus, {})), corpus, given.out)


def cells_of(study: Study, given: argparse.Namespace) -> Iterator[Cell]:
    body, files = study.body, _files(study.corpus, given)
    secrets = Path(files["private"][0]).with_name("secrets.txt")
    sought = [secrets] if secrets.exists() and "name_leak_rate" in body.get("columns", []) else []
    place = given.out / study.label
    sources = origin(given.model, *(Path(files[name][0]) for name in SOURCES), *sought)
    (place / "cells").mkdir(parents=True, exist_ok=True)
    own = {"privacy": {"corpus": study.corpus, **({"secrets": str(secrets)} if secrets.exists() else {})}}
    base = merge(merge(body["base"], own), {"model": given.model, "data": files})
    for name, over, extra in rows(body):
        if given.only and name not in given.only:
            continue
        settings = merge(merge(base, body["methods"][over.pop("method", "seqpate")]), over)
        if settings["privacy"].get("unit") == "record":
            settings["data"] = _apart(settings["data"])
        wish = merge(body.get("measure", {}), settings.pop("measure", {}))
        if wish["rows"] not in ("everybody", "first"):
            raise ConfigError(f"{study.name} measures rows: {wish['rows']}; need everybody or first")
        wish["rows"] = None if wish["rows"] == "everybody" else body["first_rows"]
        shared = _shared(base, settings)
        yield Cell(study.name, name, settings, wish, shared, body.get("pool", {}), place, sources, extra)


@lru_cache
def origin(model: str, *corpus: Path) -> str:
    """By content, wherever they lie; a model of the hub by its name."""
    folder = EMBEDDED if model == "embedded" else Path(model)
    weights = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    found = hashlib.sha256(b"" if weights else model.encode())
    for path in (*weights, *corpus):
        with path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def rows(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, settings, what the table needs to know); a grid repeats every cell along one setting. A cell's `at` says
    what else it changes at some of the grid's values, `called` how its row is called on this corpus.
    """
    common = {"kind": body["kind"]} if "kind" in body else {}
    for name, cell in body["cells"].items():
        if name not in body.get("only", body["cells"]):  # a corpus may want fewer
            continue
        cell = cell or {}
        if "grid" not in body or "grid" in cell:
            extra = common | {"series": name} | ({"called": cell["called"]} if "called" in cell else {})
            yield name, {k: v for k, v in cell.items() if k not in ("grid", "called")}, extra
            continue
        ((dotted, values),) = body["grid"].items()
        if unknown := cell.get("at", {}).keys() - set(values):
            raise ConfigError(f"cell {name!r} has settings at {unknown}, need some of the grid's {values}")
        for value in values:
            over: Any = value
            for part in reversed(dotted.split(".")):
                over = {part: over}
            plain = {k: v for k, v in cell.items() if k != "at"}
            settings = merge(merge(plain, cell.get("at", {}).get(value, {})), over)
            yield f"{name}, {value:g}", settings, common | {"series": name, "x": value}


def _shared(base: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """A panel's settings. The student's own steps and rates differ between cells, its warm-up must not."""
    start = {k: settings.get("student", {}).get(k, v) for k, v in base.get("student", {}).items()
             if k in ("pseudo", "warm_up")}  # fmt: skip
    privacy = {k: v for k, v in settings["privacy"].items() if k in ("corpus", "unit", "secrets")}
    return {k: settings[k] for k in SHARED if k in settings} | {
        "student": merge(base.get("student", {}), start), "privacy": privacy,
    }  # fmt: skip


def _files(corpus: str, given: argparse.Namespace) -> dict[str, Any]:
    return laid_out(corpora.PREPARE[corpus], given.data, given.out / "corpora" / corpus)


def laid_out(prepare: Callable[[Path, Path], dict[str, Any]], data: Path, place: Path) -> dict[str, Any]:
    """Once; another process waits for it."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "files.json").exists():
            write_text(place / "files.json", json.dumps(prepare(data, place)))
    found: dict[str, Any] = json.loads((place / "files.json").read_text())
    return found


def _apart(files: dict[str, Any]) -> dict[str, Any]:
    """Where a text is the unit, public rows that say the same as a private one go: both corpora are published."""
    place = Path(files["public"][0]).with_name("public-apart.jsonl")
    if not place.exists():
        private, public = (Path(files[name][0]).read_text().splitlines() for name in ("private", "public"))
        taken = {_words(line) for line in private}
        write_text(place, "\n".join(line for line in public if _words(line) not in taken) + "\n")
    return {**files, "public": [str(place)]}


def _words(line: str) -> str:
    return " ".join(json.loads(line)["text"].split())
