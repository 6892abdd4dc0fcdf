"""A study: one YAML, one command, one table. Resumable cell by cell; several studies share their panels.

    python studies/study.py studies/table-3.yaml ... --data DATA --model MODEL --out DIR
        [--corpus NAME] [--seeds 0 1 2] [--only CELL ...] [--minutes 9] [--known studies/results] [--at-once 10]

Writes DIR/NAME-CORPUS.json (raw), .md (table) and .svg (where a picture says more). What a corpus settles for all
studies stands in bases.yaml. A seed is another public seed (pseudo text, questions, student), another partition key and
fresh noise. A GPU has room for several panels at once (--at-once); processes with different --seeds may share DIR. A
YAML without `about` is no table of cells: rehearse.py, audit.py, notes.py or run.py carries it out.
"""

import argparse
import hashlib
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hearsay import run
from hearsay.disk import write_text
from hearsay.errors import BadInput, HearsayError
from hearsay.evaluate.text import gap_closed
from hearsay.report import look

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies import (
    agenda,
    audit,
    cells,
    clinic,
    corpora,
    crew,
    notes,
    panel,
    phrases,
    pictures,
    references,
    rehearse,
    writing,
)
from studies import run as whole
from studies.agenda import Cell, Study, cells_of, rows, study_of
from studies.run import merge


def main() -> None:
    given, rest = _parser().parse_known_args()  # the rest is for another to know
    try:
        bodies = {path.stem: yaml.safe_load(_named(path).read_text()) for path in given.study}
        others = {by for body in bodies.values() if (by := another(body))}
        if not others:
            perform(bodies, arguments() if rest else given)
        elif len(bodies) > 1:
            raise BadInput(f"got {len(bodies)} studies, of which some are not tables of cells; name those one by one")
        else:
            others.pop()()
    except HearsayError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def another(body: dict[str, Any]) -> Callable[[], None] | None:
    """What carries out a YAML that is no table of cells, with the same arguments."""
    if "about" in body:
        return None
    marks = {"trials": rehearse.main, "parts": audit.main, "pool": notes.main}
    return next((by for mark, by in marks.items() if mark in body), whole.main)


def _named(path: Path) -> Path:
    if not path.is_file():
        others = ", ".join(sorted(one.stem for one in Path(__file__).parent.glob("*.yaml") if one != agenda.BASES))
        raise BadInput(f"no study {path.stem!r}; name one with NAME=: {others}")
    return path


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    return _parser().parse_args(words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, nargs="+")
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the corpora; simulated ones need none")
    parser.add_argument("--model", default="embedded", help="base model: folder, hub id or embedded")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--corpus", help=f"instead of the study's own: {', '.join(corpora.PREPARE)}")
    parser.add_argument("--seeds", type=int, nargs="*", help="all of the study's by default")
    parser.add_argument("--only", nargs="*", action="extend", help="cells to run (also --only=-KL); all by default")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no cell after this")
    parser.add_argument("--at-once", type=int, default=1, help="panels at once, each in a process of its own")
    parser.add_argument("--known", type=Path, help="folder of earlier results, whose cells are taken over, not redone")
    parser.add_argument("--cells-only", action="store_true", help="leave tables and pictures to a later call")
    return parser


def perform(bodies: dict[str, dict[str, Any]], given: argparse.Namespace) -> None:
    """Seed by seed, panel by panel, so that each is seated once, by one process."""
    studies = [study_of(name, body, given) for name, body in bodies.items()]
    for study in [one for one in studies if one.body.get("kind") == "labels"]:
        clinic.perform(study, given)
    asking = [one for one in studies if one.body.get("kind") != "labels"]
    every = [cell for study in asking for cell in cells_of(study, given)]
    seeds = sorted({seed for study in asking for seed in study.body["seeds"]})
    if given.known:
        take_over(every, seeds, given.known)
    ends = time.monotonic() + 60 * given.minutes
    todo = []
    for seed in given.seeds if given.seeds is not None else seeds:
        for key in dict.fromkeys(cell.key for cell in every):
            mine = [cell for cell in every if cell.key == key and not cell.file(seed).exists()]
            todo += [(mine, seed, ends, given)] if mine else []
    try:
        crew.carry_out(_panel, todo, given.at_once)
    finally:
        for study in [] if given.cells_only else studies:
            collect(study)
            print(f"wrote {study.out / study.label}.md, beside its JSON and picture")


def _panel(mine: list[Cell], seed: int, ends: float, given: argparse.Namespace) -> None:
    if time.monotonic() > ends:
        return
    first = mine[0]
    seated = panel.seat(first.panel, first.pool, given.out / "panels", seed)
    asking = [cell.settings for cell in mine if cell.extra.get("kind") != "phrases"]  # phrases need no teachers
    seated.ask([cells.wanted(settings) for settings in asking if cells.kind(settings) == "answers"])
    for cell in mine:
        if time.monotonic() > ends:
            return
        found = _once(cell, seated, seed, given)
        told = {"cell": cell.name, "seed": seed, "made": fingerprint(cell, seed), "device": whole.device()}
        told |= {**cell.extra, **found}
        write_text(cell.file(seed), json.dumps(told, indent=1))
        print(cell.study, cell.name, seed, {k: v for k, v in found.items() if isinstance(v, int | float)}, flush=True)


def _once(cell: Cell, seated: panel.Panel, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """The same settings in two studies are one cell: made once, shown twice."""
    settings = merge(json.loads(json.dumps(cell.settings)), {"compute": {"seed": seed}})
    place = given.out / "made" / fingerprint(cell, seed)
    kept = place.with_suffix(".json")
    if not kept.exists():
        place.parent.mkdir(exist_ok=True)
        if cell.extra.get("kind") == "phrases":
            found = phrases.measured(seated)
        else:
            found = cells.result(seated, settings, place, cell.wish)
        write_text(kept, json.dumps(found))
    body: dict[str, Any] = json.loads(kept.read_text())
    return body


def fingerprint(cell: Cell, seed: int) -> str:
    """Of what decides a cell's figures besides the code: model and corpus by content, settings with defaults spelt out
    and 3 the same as 3.0, and those of the panel that it asks.
    """
    plain = {name: value for name, value in cell.settings.items() if name != "noiseless"}
    mine, shared = (_plain(cells.checked(settings).model_dump(mode="json")) for settings in (plain, cell.panel))
    parts = [cell.origin, cell.extra.get("kind"), mine, cell.settings.get("ask"), cell.settings.get("noiseless")]
    named = json.dumps([*parts, shared, cell.wish, cell.pool, seed], sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()[:16]


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Without where files and texts in them lie, and of a reference without the rates of a trainer that it does not
    have.
    """
    baseline = settings["baseline"]
    if baseline and baseline["method"] in references.METHODS:
        settings = {**settings, "baseline": {name: baseline[name] for name in ("method", "known")}}
    data = {name: value for name, value in settings["data"].items() if name not in (*agenda.SOURCES, "public_text")}
    privacy = {name: value for name, value in settings["privacy"].items() if name != "secrets"}
    return {name: value for name, value in settings.items() if name != "model"} | {"data": data, "privacy": privacy}


def take_over(every: list[Cell], seeds: list[int], known: Path) -> None:
    """Cells of earlier results with these very settings, whichever study made them, as if they had been made here."""
    made: dict[str, dict[str, Any]] = {}
    for path in sorted(known.glob("*.json")):
        body = json.loads(path.read_text())
        every_cell = body["cells"].values() if isinstance(body.get("cells"), dict) else []
        ones = [one for cell in every_cell for one in cell.values() if isinstance(one, dict)]
        made |= {one["made"]: {"device": body["machine"]["device"], **one} for one in ones if "made" in one}
    for cell in every:
        for seed in seeds:
            found = made.get(fingerprint(cell, seed))
            if found and not cell.file(seed).exists():
                told = {"cell": cell.name, "seed": seed, **{k: v for k, v in found.items() if k != "called"}}
                write_text(cell.file(seed), json.dumps(told | cell.extra, indent=1))


def collect(study: Study) -> dict[str, Any]:
    """Everything that cells have left so far, as one JSON, a table and a picture."""
    place = study.out / study.label
    found: dict[str, dict[str, dict[str, Any]]] = {}
    order = [name for name, _, _ in rows(study.body)]
    for path in sorted((place / "cells").glob("*.json")):
        body = json.loads(path.read_text())
        found.setdefault(body.pop("cell"), {})[str(body.pop("seed"))] = body
    _fill_gaps(found)
    devices = {one.pop("device", "cpu") for cell in found.values() for one in cell.values()}
    devices = {part for device in devices for part in device.split(", ")}  # of cells taken over: all of their table's
    results = {
        "study": study.name,
        "corpus": study.corpus,
        "about": study.body["about"],
        "machine": {"device": ", ".join(sorted(devices)), "collected_by": run.environment()},
        "body": {k: v for k, v in study.body.items() if k not in ("cells", "where", "base", "methods")},
        "cells": {name: found[name] for name in order if name in found},
    }
    write_text(study.out / f"{study.label}.json", dense(json.dumps(results, indent=1)))
    write_text(study.out / f"{study.label}.md", writing.page(results))
    drawn = pictures.picture(results)
    if drawn:
        look.write_svg(study.out / f"{study.label}.svg", drawn)
    return results


def dense(text: str) -> str:
    """Lists of numbers (somebody's text each) on one line: hundreds of people are not hundreds of lines."""
    found = r'"(?:[^"\\]|\\.)*"|\[[-+\d.,e\s]+\]'  # strings are stepped over
    return re.sub(found, lambda one: one[0] if one[0].startswith('"') else re.sub(r"\s+", "", one[0]), text)


def _fill_gaps(found: dict[str, dict[str, dict[str, Any]]]) -> None:
    """From the references that the table shows, where it does; else panels of other shapes, which train no private
    reference, take the same seed's.
    """
    rows = {"public": "public", "public_pseudo": "public + pseudo", "private": "private"}
    for seed in {seed for cell in found.values() for seed in cell}:
        mine = [cell[seed] for cell in found.values() if seed in cell and "ppl" in cell[seed]]
        known = [one["references"] for one in mine if "private" in one.get("references", {})]
        shown = all(seed in found.get(row, {}) for row in rows.values())
        if shown:
            known = [{name: found[row][seed] for name, row in rows.items()}]
        for one in mine:
            if known and (shown or one.get("gap_closed") is None):
                ppl = {name: known[0][name]["ppl"] for name in rows}
                one["gap_closed"] = gap_closed(ppl | {"student": one["ppl"]})


if __name__ == "__main__":
    main()
