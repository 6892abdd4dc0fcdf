"""The report of a run: what is promised, what was spent, what it is worth. For the owner: it shows internal figures."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from hearsay import config as configs
from hearsay.accounting import statement
from hearsay.accounting.ledger import Ledger
from hearsay.public.cards import render
from hearsay.report import figures
from hearsay.run import Run, write_text

FILE = "report.html"


def write(run: Run) -> Path:
    ledger = Ledger.open(run.ledger)
    values = _values(run, ledger)
    target = run.internal / FILE
    write_text(target, render("report.html.j2", values, html=True, room="report"))
    return target


def _values(run: Run, ledger: Ledger) -> dict[str, Any]:
    said = statement.make(ledger)
    config = configs.parse((run.folder / "config.yaml").read_text(), run.folder)
    measured = _json(run.internal / "evaluation.json")
    spent = spending(ledger)
    perplexity = {name: body["ppl"] for name, body in measured.items() if isinstance(body, dict) and "bleu1" in body}
    return {
        "statement": said.to_json(),
        "config": config,
        "run": run.id,
        "measured": {name: measured[name] for name in perplexity},
        "gap_closed": measured.get("gap_closed"),
        "phrases": measured.get("phrases"),
        "utility": figures.utility(perplexity, measured.get("gap_closed")) if perplexity else "",
        "budget": figures.budget_bar(ledger.budget.epsilon, list(spent.items())),
        "charges": [(charge.row, charge.purpose, charge.noise) for charge in ledger.charges()],
        "completions": _json(run.internal / "completions.json"),
        "other_recipe": _json(run.internal / "other-recipe.json"),
        "environment": _json(run.folder / "environment.json"),
        "settings": (run.folder / "config.yaml").read_text(),
    }


def spending(ledger: Ledger) -> dict[str, float]:
    """Share of the budget by purpose, over all runs of the corpus."""
    found: Counter[str] = Counter()
    for charge in ledger.charges():
        if charge.event not in ledger.budget.schedule:
            found[charge.purpose] += float(ledger.budget.cost(charge.event) / ledger.budget.capacity)  # type: ignore[assignment]
    return dict(found)


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}
