"""What only the owner sees: measurements on held-out private text, audits, settings. Read from internal/ and the run.

Nothing here is covered by the guarantee; the template marks it so.
"""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hearsay import config as configs
from hearsay.accounting import advice
from hearsay.accounting.ledger import Ledger
from hearsay.errors import HearsayError
from hearsay.report import figures, released
from hearsay.report.released import read
from hearsay.run import Run, open_run

COLUMNS = ("accuracy", "precision", "recall", "f1", "precision_macro", "recall_macro", "f1_macro", "f1_weighted")


def facts(run: Run, ledger: Ledger, others: Sequence[Run] = ()) -> dict[str, Any]:
    measured = read(run.internal / "evaluation.json")
    models = {name: body for name, body in measured.items() if isinstance(body, dict) and "ppl" in body}
    gap = measured.get("gap_closed")
    gap = gap if gap is None else round(gap, 2) + 0.0  # no minus before a nought
    spent, own = pieces(run, ledger), declared(run)
    moved = released.noise_of_updates(ledger, run.id, own["units"]) if own else None
    return {
        "name": run_name(run.folder),
        "budget": figures.budget(ledger.budget.epsilon, spent),
        "unfinished": [piece.label for piece in spent if not piece.finished and not piece.this],
        "models": dict(sorted(models.items(), key=lambda item: -float(item[1]["ppl"]))),
        "gap": gap,
        "held_out": _held_out(measured),
        "utility": figures.utility(models, gap) if models else "",
        "phrases": measured.get("phrases"),
        "curve": curve([run, *siblings(run, ledger), *others]),
        **audit(run.internal / "audit.json", ledger.budget.epsilon),
        **classification(measured),
        "settings": (run.folder / "config.yaml").read_text(encoding="utf-8"),
        "environment": read(run.folder / "environment.json"),
        "stages": stages(run.folder / "progress.jsonl"),
        "commands": commands(run),
        "declared": own,
        "moved": moved and f"over the run {moved:.2f} of the clip; {advice.measured_near(moved)}",
        "unprotected": unprotected(run),
    }


def _held_out(measured: dict[str, Any]) -> str:
    """On how much text, and what the intervals of perplexities are over."""
    rows, people = measured.get("held_out_rows"), measured.get("held_out_people")
    if not rows:
        return ""
    return (
        f"{rows:,} rows of {people:,} people; intervals are over people"
        if people
        else f"{rows:,} rows; intervals are over rows, as if those were independent"
    )


def pieces(run: Run, ledger: Ledger) -> list[figures.Share]:
    """Who took what of the budget, by the names of their folders."""
    folders = ledger.run_folders()
    return [
        figures.Share(run_name(folders[one]), share, this=one == run.id, finished=is_finished(folders[one]))
        for one, share in released.by_run(ledger).items()
    ]


def run_name(folder: Path) -> str:
    """What people call a run: its folder; the demo keeps its run one level deeper."""
    return folder.parent.name if folder.name == "run" else folder.name


def is_finished(folder: Path) -> bool:
    return (folder / "release" / "statement.json").exists()


def unprotected(run: Run) -> list[str]:
    """A run that released nothing may have made a model that protects nobody (a baseline): say so."""
    found = [] if (run.release / "student").is_dir() else run.internal.glob("*NOT-PRIVATE*")
    return sorted(path.name for path in found)


def siblings(run: Run, ledger: Ledger) -> list[Run]:
    """Other runs of the same ledger whose directories are at hand."""
    found = []
    for other, folder in ledger.run_folders().items():
        try:
            here = open_run(folder)
        except HearsayError:
            continue
        if here.id == other != run.id:
            found.append(here)
    return found


def curve(runs: Sequence[Run]) -> str:
    """Privacy against utility, once there are two measured runs to compare."""
    points, references = [], dict[str, float]()
    for run in {run.folder: run for run in runs}.values():
        measured = read(run.internal / "evaluation.json")
        own = figures.own_model(name for name, body in measured.items() if isinstance(body, dict) and "ppl" in body)
        if own is None or not run.ledger.exists():
            continue
        body = measured[own]
        epsilon = released.epsilon_of_run(Ledger.open(run.ledger), run.id)
        points.append(
            figures.Point(run_name(run.folder), epsilon, body["ppl"], body.get("ppl_low"), body.get("ppl_high"))
        )
        references |= {name: measured[name]["ppl"] for name in ("public", "private") if name in measured}
    points = [point for point in points if point.epsilon > 0]  # one that asked nothing has no place on the axis
    return figures.curve(points, references) if len(points) > 1 else ""


def audit(path: Path, claimed: float) -> dict[str, Any]:
    attacks = read(path).get("attacks", {})
    drawn = any(isinstance(body.get("epsilon_lower"), int | float) for body in attacks.values())
    return {"attacks": attacks, "audits": figures.audits(attacks, claimed) if drawn else ""}


def classification(measured: dict[str, Any]) -> dict[str, Any]:
    """Classifiers trained on synthetic text beside their references, where this run made such text."""
    bodies = measured.get("models", measured)
    found = {name: body for name, body in bodies.items() if isinstance(body, dict) and "accuracy" in body}
    columns = [name for name in COLUMNS if any(name in body for body in found.values())]
    best = next((name for name in ("f1_macro", "f1") if all(name in body for body in found.values())), "accuracy")
    tutor = measured.get("tutor") or {}
    return {
        "classifiers": found,
        "columns": columns,
        "classified": figures.classifiers(found, best) if found else "",
        "tutor": figures.shares(tutor["labels"]) if tutor.get("used") and tutor.get("labels") else "",
        "leaks": measured.get("leaks"),
    }


def stages(path: Path) -> list[tuple[str, float]]:
    """Seconds by stage, over all the times that the run was taken up."""
    found: dict[str, float] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        body = json.loads(line)
        if body.get("event") == "end":
            found[body["stage"]] = found.get(body["stage"], 0.0) + body["seconds"]
    return list(found.items())


def commands(run: Run) -> dict[str, str]:
    """What to type: to go on, to make this again (with fresh noise), and to check it."""
    folder = shlex.quote(str(run.folder))
    run_it = f"hearsay run {shlex.quote(str(run.folder / 'config.yaml'))} --out"
    return {
        "go_on": f"{run_it} {folder}",
        "again": f"{run_it} NEW-FOLDER",
        "verify": f"hearsay ledger verify {folder}",
        "share": f"hearsay report {folder} --shareable",
    }


def declared(run: Run) -> dict[str, Any]:
    """What the owner declared, and what the plan made of it. A config of another version is shown as text only."""
    try:
        config = configs.parse((run.folder / "config.yaml").read_text(encoding="utf-8"), run.folder)
    except HearsayError:
        return {}
    data, teachers = config.data, config.teachers
    return {"units": data.units, "sentences": data.sentences, "per_teacher": data.sentences / teachers.count}
