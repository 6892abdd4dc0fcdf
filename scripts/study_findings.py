"""What the studies' tables say, in words: every figure is read from the JSON, and a sentence that no longer holds stops
the page (write_studies.py).
"""

import json
import textwrap
from pathlib import Path
from typing import Any

from scipy import stats
from studies import writing
from studies.intervals import estimate
from studies.writing import compared, values

import findings_on_everybody
from study_results import RESULTS, cells_of, gap, hold, listed, mean_ppl

ANSWERS = ("hellinger", "seqpate")
CHART = """![What share of the gap each method closes on real text](figures/gaps.svg)

*Share of the gap from the better public model to the private one, study `recipes`, mean of 3 seeds with its 95%
interval: full marks at epsilon 3, open ones at epsilon 1.*
"""
AT_3 = {"opacus": "DP-SGD at 3", "updates": "updates at 3"}
LOWER = {"lower": "rank 4, rate 0.0025", "chosen": "rank 4, rate 0.005"}
RANK_16 = {"opacus": "DP-SGD, rank 16", "updates": "updates, rank 16"}
BUDGETS = (0.1, 0.5, 1, 3, 10, 50)
ALIKE = {"updates": "", "mixed": "mixed", "DP-SGD": "opacus", "hellinger": "hellinger", "seqpate": "seqpate"}
ABLATIONS = ("-Merge_P", "-KL", "-pseudo loss", "-Effi KD", "-Gaussian", "-All")
SAYS = Path(__file__).with_name("findings.md")  # sentences with gaps for figures
REHEARSED = """What they chose stands at {shown} (study `rehearsed`, same customers and epsilon as above): in ln
perplexity to updates, mixed {mixed}, DP-SGD {opacus}, hellinger {hellinger}, seqpate {seqpate}. With six trials
more, of its clip and average (`rehearse-airline-dpsgd`), DP-SGD stands at {averaged}: {averaged_gap} to
updates{still}."""


def findings() -> str:
    """What the tables say, in figures that are read from them."""
    table, filters = cells_of("table-3-sgd"), cells_of("table-4-sgd")
    if not table or not filters:
        return ""
    differ = [name for name in ABLATIONS if writing.clear(table, name, "seqpate")]
    hold(differ == ["-Merge_P"] and _stayed(table["-Merge_P"]) == len(table["-Merge_P"]), "only votes differ clearly")
    best = min((name for name in filters if name.startswith("top-k")), key=lambda name: mean_ppl(filters, name))
    hold(best == "top-k 10", "10 candidates are best on dialogues")
    speeches = cells_of("table-4-europarl")
    helped = [
        name
        for name in speeches
        if writing.clear(speeches, name, "top-p") and mean_ppl(speeches, name) < mean_ppl(speeches, "top-p")
    ]
    hold(not helped, "on speeches no filter helped clearly")
    ablated = [mean_ppl(table, name) for name in ABLATIONS]
    facts = {
        "seqpate": mean_ppl(table, "seqpate"), "least": min(ablated), "most": max(ablated),
        "silent": mean_ppl(table, "no noise"), "ten": mean_ppl(filters, "top-k 10"),
        "one": mean_ppl(filters, "top-k 1"),
    }  # fmt: skip
    gaps = {
        "votes": gap(table, "-Merge_P", "seqpate"), "alone": gap(filters, "top-k 1", "top-p"),
        "silent_votes": gap(table, "no noise, -Merge_P", "no noise"),
        "silent_hard": gap(table, "no noise, -KL", "no noise"),
        "below": f"{estimate(values(table['seqpate'], 'negative')).mean:.0%}",
    }  # fmt: skip
    told = SAYS.read_text().format(
        **{name: f"{value:.1f}" for name, value in facts.items()}, **gaps, **_methods(), **_speeches(), **_caution(),
        **_budgets(), **_teachers(), **findings_on_everybody.facts(),
    )  # fmt: skip
    parts = [part.replace("\n", " ") for part in told.strip().split("\n\n")]
    wrapped = [textwrap.fill(part, 118, break_on_hyphens=False) for part in parts]
    return f"## What they say\n\n{CHART}\n" + "\n\n".join(wrapped) + "\n"


def _methods() -> dict[str, str]:
    """Of the table of all methods: what closed how much, seed by seed where seeds differ."""
    told: dict[str, str] = {}
    for label, closed, on in (("sgd", "dialogues", ""), ("europarl", "speakers", "_speakers")):
        cells = cells_of(f"recipes-{label}")
        for epsilon, at in ((3, ""), (1, "_at_1")):
            updates, mixed, opacus = (f"{name} at {epsilon}" for name in ("updates", "mixed", "DP-SGD"))
            stages = [one["by_stage"] for one in cells[mixed].values()]
            hold(_apart(cells, opacus, updates), f"updates lead DP-SGD clearly on {label} at {epsilon}")
            near = compared(cells, mixed, updates)
            hold(epsilon != 3 or (near is not None and not near.clear), f"mixed is not clearly apart on {label}")
            told[f"mixed{on}{at}_p"] = f"{near.p:.2f}" if near else ""
            told |= {
                f"{closed}{at}": _closed(cells, updates), f"opacus{on}{at}": _closed(cells, opacus),
                f"mixed{on}{at}": gap(cells, mixed, updates), f"behind{on}{at}": gap(cells, opacus, updates, 3),
                f"rounds{on}{at}": ", ".join(f"{one['updates']:.1f} and {one['student']:.1f}" for one in stages),
            }  # fmt: skip
    cells, larger = cells_of("recipes-airline"), cells_of("ranks-airline")
    told |= {f"{name}_airline": f"{mean_ppl(cells, cell):.1f}" for name, cell in AT_3.items()}
    lower = cells_of("dpsgd-europarl")
    told |= {f"opacus_{name}": f"{mean_ppl(lower, cell):.1f}" for name, cell in LOWER.items()}
    trials = json.loads((RESULTS / "rehearse-sgd.json").read_text())["methods"]["dpsgd"]["trials"]
    twice = next(one["ppl"] for one in trials if list(one["settings"].values()) == [64, 0.01])
    hold(twice["student"] > twice["public"], "at twice the chosen rate DP-SGD is worse than the public model")
    for name, corpus, cell in (("half", "europarl", "0.5 for updates"), ("fifth", "airline", "0.2 for updates")):
        split = cells_of(f"split-{corpus}")
        hold(_apart(split, cell, "updates alone"), f"mixed is worse with so much for answers on {corpus}")
        told[name] = gap(split, cell, "updates alone", 3)
    told |= {f"larger_{name}": f"{mean_ppl(larger, cell):.1f}" for name, cell in RANK_16.items()}
    return told | _alike() | {"behind_airline": gap(cells, AT_3["opacus"], AT_3["updates"], 3)}


def _alike() -> dict[str, str]:
    """Of the study in which every method had as many trials as every other."""
    cells = cells_of("rehearsed-airline")
    if not cells:
        return {"rehearsed": "What they chose was not measured on the customers of the tables yet."}
    shown = [f"{mean_ppl(cells, name):.1f} ({name}, {_closed(cells, name)} of the gap)" for name in ALIKE]
    gaps = {key: gap(cells, name, "updates", 3) for name, key in ALIKE.items() if key}
    more = "DP-SGD, averaged"
    told = {
        "averaged": f"{mean_ppl(cells, more):.1f}", "averaged_gap": gap(cells, more, "updates", 3),
        "still": "" if writing.clear(cells, more, "updates") else ", not clearly apart",
    }  # fmt: skip
    return {"rehearsed": REHEARSED.format(shown=", ".join(shown), **gaps, **told)}


def _speeches() -> dict[str, str]:
    """Of the paper's recipe on speeches: its ablations without noise, and what became of its students with it."""
    table, filters = cells_of("table-3-europarl"), cells_of("table-4-europarl")
    starts = cells_of("recipes-europarl")["public + pseudo"]
    private = [name for name in table if not name.startswith("no noise")]
    students = [(one["ppl"], starts[seed]["ppl"]) for name in private for seed, one in table[name].items()]
    students += [(one["ppl"], starts[seed]["ppl"]) for name in filters if name != "top-p"
                 for seed, one in filters[name].items()]  # fmt: skip
    return {
        "silent_speakers": f"{mean_ppl(table, 'no noise'):.1f}",
        "silent_votes_speakers": gap(table, "no noise, -Merge_P", "no noise"),
        "silent_hard_speakers": gap(table, "no noise, -KL", "no noise"),
        "stayed_speakers": str(sum(ppl == start for ppl, start in students)),
        "ruined_speakers": str(_harmed(students)), "of_speakers": str(len(students)),
    }  # fmt: skip


def _caution() -> dict[str, str]:
    """Both rules on the same teachers: who was harmed, and what the rule costs those who were not."""
    told: dict[str, str] = {}
    students: dict[str, list[tuple[float, float]]] = {"": [], ", cautious": []}
    turned_down = 0
    for label, on in (("sgd", ""), ("europarl", "_speakers")):
        cells = cells_of(f"caution-{label}")
        starts = cells["public + pseudo"]
        for rule, found in students.items():
            names = [f"{recipe} at {epsilon}{rule}" for recipe in ("seqpate", "hellinger") for epsilon in (3, 1, 0.1)]
            found += [(one["ppl"], starts[seed]["ppl"]) for name in names for seed, one in cells[name].items()]
        told |= {f"cost{on}{at}": gap(cells, f"hellinger at {epsilon}, cautious", f"hellinger at {epsilon}")
                 for epsilon, at in ((3, ""), (1, "_at_1"))}  # fmt: skip
        told[f"left_mixed{on}"] = gap(cells, "mixed at 1, cautious", "updates at 1", 3)
        stages = [one["by_stage"] for one in cells["mixed at 1, cautious"].values()]
        hold(all(one["updates"] == one["student"] for one in stages), "no cautious run of mixed moved")
        turned_down += len(stages)
    told["cost_seqpate"] = gap(cells_of("caution-sgd"), "seqpate at 3, cautious", "seqpate at 3")
    harmed, cautious = (str(_harmed(found)) for found in students.values())
    worst = max(students[", cautious"], key=lambda pair: pair[0] / pair[1])
    hold(cautious == "1", "with caution one student ended above its start")
    told |= {"worst": f"{worst[0]:.0f}", "worst_start": f"{worst[1]:.0f}"}
    return told | {"by_answers": str(len(students[""])), "harmed": harmed, "harmed_cautious": cautious,
                   "turned_down": str(turned_down)}  # fmt: skip


def _budgets() -> dict[str, str]:
    """Of the curves: how far updates lead, and what a small budget does."""
    told: dict[str, str] = {}
    students: list[tuple[float, float]] = []
    for label, on in (("sgd", ""), ("europarl", "_speakers")):
        cells = cells_of(f"figure-2-{label}")
        for x in BUDGETS:
            others = min(mean_ppl(cells, f"{name}, {x:g}") for name in ANSWERS)
            hold(mean_ppl(cells, f"updates, {x:g}") < others, f"updates lead at {x:g} on {label}")
        for name in ANSWERS:
            students += _beside(cells[f"{name}, 0.1"], cells["public + pseudo"])
        clear = [x for x in BUDGETS if all(_apart(cells, f"{name}, {x:g}", f"updates, {x:g}") for name in ANSWERS)]
        everywhere = clear == list(BUDGETS)
        told |= {f"small{on}": _closed(cells, "updates, 0.1"), f"at_50{on}": _closed(cells, "updates, 50"),
                 f"at_5{on}": _closed(cells_of(f"table-2-{label}"), "updates at 5"),
                 f"clear{on}": "every budget" if everywhere else listed([f"{x:g}" for x in clear])}  # fmt: skip
    dialogues = cells_of("figure-2-sgd")
    lowest, private = mean_ppl(dialogues, "updates, 50"), mean_ppl(dialogues, "private")
    hold(lowest < private, "updates at 50 are below the private reference")
    told |= {"ppl_50": f"{lowest:.1f}", "private": f"{private:.1f}"}
    return told | {"ruined": str(_harmed(students)), "tried": str(len(students))}


def _teachers() -> dict[str, str]:
    """Of the studies that change who is asked, or what a student starts from."""
    table, speeches = cells_of("table-7-sgd"), cells_of("table-7-europarl")
    split, names = cells_of("teachers-sgd"), cells_of("table-11-europarl")
    pseudo, of_speakers = cells_of("table-9-sgd"), cells_of("table-9-europarl")
    few, many = "250 teachers", "2000 teachers"
    starts = [(table, cells_of("recipes-sgd")), (speeches, cells_of("recipes-europarl"))]
    by_few, by_many = ([pair for cells, others in starts for name in asked
                        for pair in _beside(cells[name], others["public + pseudo"])]
                       for asked in (("200 teachers", "10 teachers", "1 teacher"), (many,)))  # fmt: skip
    hold(_stayed(of_speakers["seqpate"]) == len(of_speakers["seqpate"]), "no student of table 9 moved on speeches")
    counts = [[_harmed(found), len(found) - _harmed(found)] for found in (by_few, by_many)]
    ruined = float(stats.fisher_exact(counts).pvalue)
    hold(ruined > 0.05, "few teachers do not clearly harm more students than many")
    return {
        "ruined_p": f"{ruined:.1f}",
        **{f"answers_records{on}": gap(cells_of(f"units-{label}"), "hellinger, record", "hellinger, user", 3)
           for label, on in (("sgd", ""), ("europarl", "_speakers"))},
        "ruined_few": str(_harmed(by_few)), "asked_few": str(len(by_few)),
        "ruined_many": str(_harmed(by_many)), "asked_many": str(len(by_many)),
        "fewer_seeds": str(len(speeches["2000 teachers, hellinger"])), "pseudo_seeds": str(len(of_speakers["seqpate"])),
        "airline_leaks": "{0.hits} of {0.trials:,}".format(writing.leaked(cells_of("table-11-airline")["private"])),
        **{f"records{on}": gap(cells_of(f"units-{label}"), "updates, record", "updates, user", 3)
           for label, on in (("sgd", ""), ("europarl", "_speakers"), ("airline", "_airline"))},
        "fewer": gap(table, "200 teachers, hellinger", "2000 teachers, hellinger"),
        "fewer_speakers": gap(speeches, "200 teachers, hellinger", "2000 teachers, hellinger"),
        **{f"student_{key}": f"{mean_ppl(split, name):.1f}" for key, name in (("few", few), ("many", many))},
        **{f"ensemble_{key}": f"{estimate(values(split[name], 'ensemble')).mean:.1f}"
           for key, name in (("few", few), ("many", many))},
        "without": gap(pseudo, "seqpate, none", "seqpate", 3),
        "without_speakers": gap(of_speakers, "seqpate, none", "seqpate", 3),
        "updates_without": gap(pseudo, "updates, none", "updates", 3),
        "updates_without_speakers": gap(of_speakers, "updates, none", "updates", 3),
        **{f"{name}_names": f"{writing.leaked(names[name]).mean:.2%}" for name in ("public", "private")},
    }  # fmt: skip


def _beside(cell: dict[str, Any], starts: dict[str, Any]) -> list[tuple[float, float]]:
    """(perplexity, that of the start) by seed."""
    return [(one["ppl"], starts[seed]["ppl"]) for seed, one in cell.items()]


def _stayed(cell: dict[str, Any]) -> int:
    """Students that are their own start."""
    return sum(one["ppl"] == one["references"]["public_pseudo"]["ppl"] for one in cell.values())


def _apart(cells: dict[str, Any], name: str, first: str) -> bool:
    gap = compared(cells, name, first)
    return gap is not None and gap.trials > 1 and gap.clear and gap.mean > 0


def _harmed(students: list[tuple[float, float]]) -> int:
    """Of (perplexity, that of the start) those that ended 2% or more above."""
    return sum(ppl >= 1.02 * start for ppl, start in students)


def _closed(cells: dict[str, Any], name: str) -> str:
    return f"{estimate(values(cells[name], 'gap_closed')).mean:.2f}"
