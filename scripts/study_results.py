"""What the pages on studies take from the recorded JSON, and how they stop where a sentence no longer holds."""

import json
from pathlib import Path
from typing import Any

from studies.intervals import estimate
from studies.writing import compared, plus_minus, values

RESULTS = Path(__file__).parents[1] / "studies" / "results"


def cells_of(label: str) -> dict[str, Any]:
    path = RESULTS / f"{label}.json"
    found: dict[str, Any] = json.loads(path.read_text())["cells"] if path.exists() else {}
    return found


def hold(true: bool, said: str) -> None:
    if not true:
        raise SystemExit(f"no longer true, so the page must be written anew: {said}")


def mean_ppl(cells: dict[str, Any], name: str) -> float:
    return estimate(values(cells[name], "ppl")).mean


def gap(cells: dict[str, Any], name: str, first: str, digits: int = 2) -> str:
    """ln perplexity of a cell less that of another, with its interval over seeds."""
    found = compared(cells, name, first)
    return plus_minus(found, digits, "+") if found else "not measured"


def listed(found: list[str]) -> str:
    return ", ".join(found[:-1]) + f" and {found[-1]}" if len(found) > 1 else found[0] if found else "none"
