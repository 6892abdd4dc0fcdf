"""The report of a synthetic corpus, for its owner: what is promised, what was spent, what it is worth."""

import json
from pathlib import Path
from typing import Any

from hearsay.accounting import statement
from hearsay.accounting.ledger import Ledger
from hearsay.public.cards import render
from hearsay.report import figures
from hearsay.report.page import FILE, spending
from hearsay.run import Run, write_text

SHOWN = 8  # texts
COLUMNS = ("precision_macro", "recall_macro", "f1_macro", "f1_weighted", "accuracy")


def write(run: Run) -> Path:
    ledger = Ledger.open(run.ledger)
    measured = _json(run.internal / "evaluation.json")
    values = {
        "statement": statement.make(ledger).to_json(),
        "facts": _json(run.release / "synthetic" / "facts.json"),
        "budget": figures.budget_bar(ledger.budget.epsilon, list(spending(ledger).items())),
        "charges": [(charge.row, charge.purpose, charge.noise) for charge in ledger.charges()],
        "measured": measured,
        "columns": COLUMNS,
        "tutor": tutor_plot(measured["tutor"]["labels"]) if measured.get("tutor", {}).get("used") else "",
        "texts": _texts(run.release / "synthetic" / "corpus.jsonl"),
        "environment": _json(run.folder / "environment.json"),
        "settings": (run.folder / "config.yaml").read_text(),
        "run": run.id,
    }
    target = run.internal / FILE
    write_text(target, render("corpus_report.html.j2", values, html=True, room="report"))
    return target


def tutor_plot(rows: list[dict[str, Any]]) -> str:
    """Noisy shares of labels beside the true ones: only the noisy ones were released."""
    figure, axes = figures._axes(0.3 * len(rows) + 0.8)
    for place, row in enumerate(reversed(rows)):
        axes.barh([place + 0.2], [row["true"]], height=0.36, color="0.75", label="true" if not place else None)
        axes.barh([place - 0.2], [row["noisy"]], height=0.36, color="0.2", label="noisy" if not place else None)
    axes.set_yticks(range(len(rows)), [row["label"] for row in reversed(rows)])
    axes.set_xlabel("share of units (grey: true, for the owner's eyes; black: noisy, as released)")
    return figures.svg(figure)


def _texts(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[:: max(1, len(lines) // SHOWN)][:SHOWN]]


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}
