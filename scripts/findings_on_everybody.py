"""What comes out if the studies' methods are made anew and measured on everybody held out (studies people and
people-parts), beside what is recorded on the first rows: a table for docs/studies.md, and facts for its sentences.
"""

import textwrap
from typing import Any

from studies import again, writing
from studies.intervals import estimate
from studies.writing import OverPeople, clear, over_people, plus_minus

from study_results import cells_of, gap, hold, mean_ppl

METHODS = ("updates", "mixed", "DP-SGD", "ghost", "hellinger", "seqpate")
APART = ("updates", "DP-SGD", "hellinger", "seqpate")  # whose order is told; mixed and ghost are near one of them
CORPORA = {"sgd": "dialogues", "europarl": "speeches", "airline": "simulated customers"}
ABOUT = """Shares of the gap: recorded on the first rows held out (study `recipes`), and of other runs, with other
noise and other partition keys, on the text of everybody held out (study `people`). The texts differ, so equal shares
are more than was to be expected. Cells of one seed are left out."""


def facts() -> dict[str, str]:
    told: dict[str, str] = {}
    widest = 0.0
    for corpus in CORPORA:
        cells = cells_of(f"people-{corpus}")
        for name in (one for one in METHODS if one != "updates" and one in cells):
            apart = _over(cells, name, "updates")
            told[f"{_key(name)}_on_{corpus}"] = str(apart)
            widest = max(widest, (apart.high - apart.low) / 2)
        told[f"everybody_{corpus}"] = str(_over(cells, "seqpate", "updates").people)
        hold(_order(cells, "") == _order(cells_of(f"recipes-{corpus}"), " at 3"), f"the same order on {corpus}")
    differ = {corpus: _differ(cells_of(f"people-parts-{corpus}")) for corpus in ("sgd", "europarl")}
    hold(differ["sgd"] == ["-Merge_P", "-Gaussian", "top-k 10"] and not differ["europarl"], "what differs from seqpate")
    parts = cells_of("people-parts-sgd")
    for key, name in (("votes", "-Merge_P"), ("laplace", "-Gaussian"), ("ten", "top-k 10")):
        told[f"{key}_anew"] = gap(parts, name, "seqpate", 3)
    for corpus, on in (("sgd", ""), ("europarl", "_speakers")):
        parts = cells_of(f"people-parts-{corpus}")
        for key, name in (("silent_votes", "no noise, -Merge_P"), ("silent_hard", "no noise, -KL")):
            hold(clear(parts, name, "no noise"), f"without noise {name} hurts on {corpus}")
            told[f"{key}{on}_anew"] = gap(parts, name, "no noise")
    seeds = sorted(len(cell) for one in ("sgd", "europarl") for cell in cells_of(f"people-{one}").values())
    counted = f"{seeds[0]} to {seeds[-1]}" if seeds[0] < seeds[-1] else f"{seeds[0]}"
    return told | {"widest": f"{widest:.3f}", "back": again.said(_beside()), "seeds_anew": counted}


def section() -> str:
    found = _beside()
    rows = [["corpus", "method", "first rows, recorded", "everybody, made anew", "p (Welch)"], ["---"] * 5]
    for one in found:
        both = [f"{plus_minus(estimate(one[key]))} ({len(one[key])})" for key in ("recorded", "again")]
        rows.append([CORPORA[one["study"].rpartition(" ")[2]], one["cell"], *both, f"{one['p']:.2g}"])
    about = textwrap.fill(f"{ABOUT} {again.said(found)}; seeds in brackets.".replace("\n", " "), 118)
    return f"## Everybody, made anew\n\n{about}\n\n" + "\n".join(map(writing.line, rows)) + "\n"


def _beside() -> list[dict[str, Any]]:
    """Every method of both studies with two seeds or more, by its share of the gap."""
    found = []
    for corpus in CORPORA:
        recorded = {name: cells_of(f"recipes-{corpus}").get(f"{name} at 3", {}) for name in METHODS}
        new = {name: cell for name, cell in cells_of(f"people-{corpus}").items() if name in METHODS}
        old = {"study": "people", "corpus": corpus, "body": {"judge": "gap_closed"}, "cells": recorded}
        found += again.beside(old, {"cells": new})
    return found


def _differ(cells: dict[str, Any]) -> list[str]:
    """Ablations and filters that are clearly apart from the recipe."""
    return [name for name in cells if not name.startswith("no noise") and clear(cells, name, "seqpate")]


def _order(cells: dict[str, Any], at: str) -> list[str]:
    return sorted(APART, key=lambda name: mean_ppl(cells, f"{name}{at}"))


def _over(cells: dict[str, Any], name: str, first: str) -> OverPeople:
    found = over_people(cells, name, first)
    if found is None:
        raise SystemExit(f"{name} was not measured on everybody")
    return found


def _key(name: str) -> str:
    return name.replace("-", "").lower()
