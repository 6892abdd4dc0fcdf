"""Writes docs/studies.md and its pictures from studies/results/: each study's table as its JSON gives it.

python scripts/write_studies.py               # rewrites them; --check says whether the page is up to date (a test does)
python scripts/write_studies.py --from DIR    # first takes the JSON that `make study` left in DIR
"""

import json
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies import again, pictures, writing
from studies.intervals import estimate
from studies.writing import compared, plus_minus, values

from hearsay.report import look

ROOT = Path(__file__).parents[1]
RESULTS, PAGE, FIGURES = ROOT / "studies" / "results", ROOT / "docs" / "studies.md", ROOT / "docs" / "figures"
ORDER = ("table-1", "table-2", "table-3", "table-4", "table-6", "table-7", "table-9", "figure-2", "table-11",
         "table-14", "clinic", "clinic-curve", "recipes", "weights", "units", "teachers", "split", "caution",
         "dpsgd", "ranks", "rehearsed")  # fmt: skip
REHEARSALS = {  # name of the YAML and the JSON -> what it was, before the number of trials
    "rehearse-airline": "Every method on other simulated customers who play the private ones, noise to scale; study "
    "`rehearsed` shows on the customers of the tables what was chosen here.",
    "rehearse-sgd": "DP-SGD by Opacus on dialogues of the dev split that play the private ones, noise to scale; the "
    "tables above use the best.",
}
GAPS = {"updates": "updates (the default)", "mixed": "mixed", "DP-SGD": "DP-SGD (Opacus)", "ghost": "ghost (Opacus)",
        "hellinger": "hellinger", "seqpate": "seqpate (the paper)"}  # fmt: skip
REAL = {"sgd": "11,674 service dialogues", "europarl": "974 speakers of a parliament"}
CHART = """![What share of the gap each method closes on real text](figures/gaps.svg)

*Share of the gap from the better public model to the private one, study `recipes`, mean of 3 seeds with its 95%
interval: full marks at epsilon 3, open ones at epsilon 1.*
"""
DRAWN = ("figure-2", "clinic-curve", "table-3")  # where a picture says more than the table
AT_3 = {"opacus": "DP-SGD at 3", "updates": "updates at 3"}
RANK_16 = {"opacus": "DP-SGD, rank 16", "updates": "updates, rank 16"}
ALIKE = {"updates": "", "mixed": "mixed", "DP-SGD": "opacus", "hellinger": "hellinger", "seqpate": "seqpate"}
ABLATIONS = ("-Merge_P", "-KL", "-pseudo loss", "-Effi KD", "-Gaussian", "-All")
SAYS = """
On service dialogues at epsilon 3 the paper's recipe stands at {seqpate}, and its ablations lie between {least} and
{most}; only votes differ clearly ({votes} in ln perplexity). {below} of the noisy values are negative. With one
candidate, where the teachers can say nothing at all, the student stands at {one} ({alone}): with the paper's filter, at
this noise, their answers add nothing that three seeds could show. So its order of ablations does not show here.

Without any noise (NOT PRIVATE) the recipe reaches {silent}, and the two ablations that were tried there hurt clearly:
votes {silent_votes}, the likeliest token alone {silent_hard} (the paper, at epsilon 3 on AirDialog: +0.40 and +0.41).
That would fit less noise in the paper than epsilon 3 costs; another corpus, a larger model and tuned settings are other
explanations, and nothing here tells them apart. On speeches the same: without noise {silent_speakers}, votes
{silent_votes_speakers}, the likeliest token {silent_hard_speakers}; with it {stayed_speakers} of {of_speakers} students
of the recipe, its ablations and filters stayed where they had started, and {ruined_speakers} ended 2% or more above.

Of the filters, 10 candidates are best ({ten}; the paper's best keep 50 or more). A likely reason, not tested by itself:
clamping negative values leaves the positive half of the noise on every further candidate.

At epsilon 3 updates have the lowest mean on both corpora: they closed {dialogues} of the gap on service dialogues and
{speakers} on speeches. The nearest is `mixed` ({mixed} and {mixed_speakers} in ln perplexity to updates: not clearly
apart), which keeps a part of its budget for a round of answers by teachers restarted from the student. The answers
brought nothing: before and after that round the perplexity was {rounds} on dialogues and {rounds_speakers} on speeches
(all held-out rows; where both are the same, the held-out answers chose not to move at all). With half of the budget for
answers `mixed` was worse on speeches (one seed; study `split`). So nothing here speaks for answers after updates, and
the default spends the whole budget on updates.

DP-SGD by Opacus closed {opacus} and {opacus_speakers}: at these settings behind updates by {behind} and
{behind_speakers} in ln perplexity, clearly on both, and before every recipe by answers. Rank and rate decide: at twice
the chosen rate the rehearsal's student with 64 ranks was worse than the public model. The best trials lie at the edge
of their grids (the largest rank on dialogues, the lowest rate on both), so better ones may exist. Unit gradients are
clipped the same way (a test compares the sums). What differs: DP-SGD trains both halves of an adapter, updates the
outer ones only, over directions taken from public text and weighed by it; updates take every speaker in every round
(DP-SGD half of them) and show more of a speaker's text, or more dialogues in more rounds; and they had more trials.

It is not so everywhere: on simulated customers, with the embedded model and the studies' small settings, DP-SGD
stands at {opacus_airline} and updates at {updates_airline} ({behind_airline} in ln perplexity), both with adapters
of rank 4. Updates move only the outer half of an adapter: with rank 16 they stand at {larger_updates}, DP-SGD at
{larger_opacus} (study `ranks`; seen on the figures' own text, by one seed). There every method was rehearsed alike:
six trials each on other simulated customers (`rehearse-airline`, below). {rehearsed}

At epsilon 1 updates lead on real text again: they closed {dialogues_at_1} and {speakers_at_1}, DP-SGD
{opacus_at_1} and {opacus_speakers_at_1} (behind by {behind_at_1} and {behind_speakers_at_1}). There the answers of
`mixed` did harm: before and after them {rounds_at_1} on dialogues, {rounds_speakers_at_1} on speeches. Held-out
answers choose the step without bias but under the same noise, and the less they cost, the likelier they choose a
wrong one.

So the product asks for more: a student moves only if the answers held out favour a step by two standard errors
(`student.caution: 2`; all other tables were measured with 0). Study `caution` has both: of {by_answers} students by
answers at epsilon 3, 1 and 0.1 on both corpora {harmed} ended 2% or more above their start without the rule, with it
{harmed_cautious}. What it costs: `hellinger`, whose answers do say something, {cost} and {cost_speakers} at epsilon 3,
{cost_at_1} and {cost_speakers_at_1} at 1 (ln perplexity, dialogues and speeches); the paper's recipe on dialogues its
small gain ({cost_seqpate} at 3). In all {turned_down} cautious runs of `mixed` at epsilon 1 the answers were turned
down, so it stands where its part of the updates ended ({left_mixed} and {left_mixed_speakers} to updates alone).
"""
REHEARSED = """What they chose stands at {shown} (study `rehearsed`, same customers and epsilon as above): in ln
perplexity to updates, mixed {mixed}, DP-SGD {opacus}, hellinger {hellinger}, seqpate {seqpate}."""
AGAIN = """These were made a second time from nothing, with other noise and other partition keys, by the command
above, and compared by `python studies/again.py`:"""
HEAD = """# Studies

The papers' tables and our own, each by one command: `make study NAME=table-3 [CORPUS=airline] [DATA=… MODEL=…]`.
Corpora: `sgd` (service dialogues, unit = dialogue) and `europarl` (parliament, unit = speaker) with a base model of
20.7M parameters, which need the data and want a GPU; `airline` and `clinic` are simulated and need nothing. Raw
figures are in `studies/results/`; this page is written from them by `python scripts/write_studies.py`. What follows
for the papers is in [claims](claims.md).

Cells of one seed share their teachers (`studies/panel.py`): they differ by their noise, their ledger and their
student, so differences are paired by seed. A figure's interval is over seeds: another partition key, other pseudo
text, fresh noise. *gap* is the share of the way, in nats, from the better public reference to the private one; *below
zero* the share of noisy values that came out negative; *noise* its standard deviation on the mean of the teachers.
The private reference is an adapter of rank 8 in four blocks (airline: rank 4 in two), whatever a method's own is,
trained as the table's YAML says (`measure`; longer where leaks are looked for), so gaps compare within a table.
Epsilon is from each cell's ledger, verified by the second accountant, except where a table says that some cells are
from a printed line. Perplexities and completions are measured on people whom nobody trained on.

Settings (`studies/bases.yaml`) come from `studies/sgd.yaml`, where they were tried on the same held-out dialogues,
how often for which method was not recorded: between methods read the figures as optimistic. Those of `updates` at
epsilon 3 were then tried anew on text that is in none of these figures, some forty times on other dialogues (the dev
split, which lends prefixes only) and some twenty on the speeches of those who lend prefixes: more than any other
method was, so part of its lead is tuning. DP-SGD's rank and rate on dialogues are the best of nine, rehearsed on the
dev split (below); on speeches they were seen on the very text of the figures (study `dpsgd`), which favours it, as
does the split of `mixed` there. Only on simulated customers had every method as many trials as every other, on
customers who are in none of the figures (`rehearse-airline`; study `rehearsed` shows what they chose). Ablations,
filters and budgets share all other settings with the recipe they vary and were not tuned. A cell of the same settings
in two tables is one cell, shown twice (but the first seed of DP-SGD on speeches was made twice); tables 9, 11 and 14
were made with other pseudo text or on other teachers, so the same recipe stands there once more, by other noise.
Where a row has one seed there is no interval; a table or row that is missing here was not measured.
"""


def main() -> None:
    if "--from" in sys.argv:
        for path in Path(sys.argv[sys.argv.index("--from") + 1]).glob("*.json"):
            shutil.copy(path, RESULTS / path.name)
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text() != text:
            sys.exit("out of date: docs/studies.md; type: python scripts/write_studies.py")
        return
    PAGE.write_text(text)
    look.write_svg(FIGURES / "gaps.svg", pictures.gaps({REAL[one]: _cells(f"recipes-{one}") for one in REAL}, GAPS))
    for results in _all():
        if results["study"] in DRAWN and (drawn := pictures.picture(results)):
            look.write_svg(FIGURES / f"{_label(results)}.svg", drawn)


def findings() -> str:
    """What the tables say, in figures that are read from them."""
    table, filters = _cells("table-3-sgd"), _cells("table-4-sgd")
    if not table or not filters:
        return ""
    ablated = [_ppl(table, name) for name in ABLATIONS]
    facts = {
        "seqpate": _ppl(table, "seqpate"), "least": min(ablated), "most": max(ablated),
        "silent": _ppl(table, "no noise"), "ten": _ppl(filters, "top-k 10"), "one": _ppl(filters, "top-k 1"),
    }  # fmt: skip
    gaps = {
        "votes": _gap(table, "-Merge_P", "seqpate"), "alone": _gap(filters, "top-k 1", "top-p"),
        "silent_votes": _gap(table, "no noise, -Merge_P", "no noise"),
        "silent_hard": _gap(table, "no noise, -KL", "no noise"),
        "below": f"{estimate(values(table['seqpate'], 'negative')).mean:.0%}",
    }  # fmt: skip
    told = SAYS.format(
        **{name: f"{value:.1f}" for name, value in facts.items()}, **gaps, **_methods(), **_speeches(), **_caution()
    )
    wrapped = [textwrap.fill(part.replace("\n", " "), 118) for part in told.strip().split("\n\n")]
    return f"## What they say\n\n{CHART}\n" + "\n\n".join(wrapped) + "\n"


def _methods() -> dict[str, str]:
    """Of the table of all methods: what closed how much, seed by seed where seeds differ."""
    told: dict[str, str] = {}
    for label, closed, on in (("sgd", "dialogues", ""), ("europarl", "speakers", "_speakers")):
        cells = _cells(f"recipes-{label}")
        for epsilon, at in ((3, ""), (1, "_at_1")):
            updates, mixed, opacus = (f"{name} at {epsilon}" for name in ("updates", "mixed", "DP-SGD"))
            stages = [one["by_stage"] for one in cells[mixed].values()]
            told |= {
                f"{closed}{at}": _closed(cells, updates), f"opacus{on}{at}": _closed(cells, opacus),
                f"mixed{on}{at}": _gap(cells, mixed, updates), f"behind{on}{at}": _gap(cells, opacus, updates, 3),
                f"rounds{on}{at}": ", ".join(f"{one['updates']:.1f} and {one['student']:.1f}" for one in stages),
            }  # fmt: skip
    cells, larger = _cells("recipes-airline"), _cells("ranks-airline")
    told |= {f"{name}_airline": f"{_ppl(cells, cell):.1f}" for name, cell in AT_3.items()}
    told |= {f"larger_{name}": f"{_ppl(larger, cell):.1f}" for name, cell in RANK_16.items()}
    return told | _alike() | {"behind_airline": _gap(cells, AT_3["opacus"], AT_3["updates"], 3)}


def _alike() -> dict[str, str]:
    """Of the study in which every method had as many trials as every other."""
    cells = _cells("rehearsed-airline")
    if not cells:
        return {"rehearsed": "What they chose was not measured on the customers of the tables yet."}
    shown = [f"{_ppl(cells, name):.1f} ({name}, {_closed(cells, name)} of the gap)" for name in ALIKE]
    gaps = {key: _gap(cells, name, "updates", 3) for name, key in ALIKE.items() if key}
    return {"rehearsed": REHEARSED.format(shown=", ".join(shown), **gaps)}


def _speeches() -> dict[str, str]:
    """Of the paper's recipe on speeches: its ablations without noise, and what became of its students with it."""
    table, filters = _cells("table-3-europarl"), _cells("table-4-europarl")
    starts = _cells("recipes-europarl")["public + pseudo"]
    private = [name for name in table if not name.startswith("no noise")]
    students = [(one["ppl"], starts[seed]["ppl"]) for name in private for seed, one in table[name].items()]
    students += [(one["ppl"], starts[seed]["ppl"]) for name in filters if name != "top-p"
                 for seed, one in filters[name].items()]  # fmt: skip
    return {
        "silent_speakers": f"{_ppl(table, 'no noise'):.1f}",
        "silent_votes_speakers": _gap(table, "no noise, -Merge_P", "no noise"),
        "silent_hard_speakers": _gap(table, "no noise, -KL", "no noise"),
        "stayed_speakers": str(sum(ppl == start for ppl, start in students)),
        "ruined_speakers": str(_harmed(students)), "of_speakers": str(len(students)),
    }  # fmt: skip


def _caution() -> dict[str, str]:
    """Both rules on the same teachers: who was harmed, and what the rule costs those who were not."""
    told: dict[str, str] = {}
    students: dict[str, list[tuple[float, float]]] = {"": [], ", cautious": []}
    turned_down = 0
    for label, on in (("sgd", ""), ("europarl", "_speakers")):
        cells = _cells(f"caution-{label}")
        starts = cells["public + pseudo"]
        for rule, found in students.items():
            names = [f"{recipe} at {epsilon}{rule}" for recipe in ("seqpate", "hellinger") for epsilon in (3, 1, 0.1)]
            found += [(one["ppl"], starts[seed]["ppl"]) for name in names for seed, one in cells[name].items()]
        told |= {f"cost{on}{at}": _gap(cells, f"hellinger at {epsilon}, cautious", f"hellinger at {epsilon}")
                 for epsilon, at in ((3, ""), (1, "_at_1"))}  # fmt: skip
        told[f"left_mixed{on}"] = _gap(cells, "mixed at 1, cautious", "updates at 1", 3)
        stages = [one["by_stage"] for one in cells["mixed at 1, cautious"].values()]
        turned_down += sum(one["updates"] == one["student"] for one in stages)
        if turned_down < len(stages):
            raise SystemExit("a cautious run of mixed moved: the page's sentence about them is no longer true")
    told["cost_seqpate"] = _gap(_cells("caution-sgd"), "seqpate at 3, cautious", "seqpate at 3")
    harmed, cautious = (str(_harmed(found)) for found in students.values())
    return told | {"by_answers": str(len(students[""])), "harmed": harmed, "harmed_cautious": cautious,
                   "turned_down": str(turned_down)}  # fmt: skip


def _harmed(students: list[tuple[float, float]]) -> int:
    """Of (perplexity, that of the start) those that ended 2% or more above."""
    return sum(ppl >= 1.02 * start for ppl, start in students)


def made_again() -> str:
    """Studies that were made twice, the second time from nothing: what came back."""
    path = RESULTS / "again.json"
    if not path.exists():
        return ""
    found = json.loads(path.read_text())["made_again"]
    rows = [["study", "cell", "recorded", "again", "p (Welch)"], ["---"] * 5]
    for one in found:
        both = [plus_minus(estimate(one[key]), writing.DIGITS.get(one["judge"], 3)) for key in ("recorded", "again")]
        rows.append([one["study"], one["cell"], *both, f"{one['p']:.2g}"])
    table = "\n".join(writing.line(row) for row in rows)
    return f"## Made again\n\n{AGAIN} {again.said(found)}.\n\n{table}\n"


def rehearsed() -> str:
    """Every trial of every rehearsal, by the two settings that its method's grid has."""
    parts = []
    for name, about in REHEARSALS.items():
        path = RESULTS / f"{name}.json"
        if not path.exists():
            continue
        body = json.loads(path.read_text())
        lines = [line for method, found in body["methods"].items() for line in _trials(method, found)]
        width = max(len(line) for line in lines)
        rows = [["method", "perplexity of the student at", *[""] * (width - 2)], ["---"] * width]
        rows += [line + [""] * (width - len(line)) for line in lines]
        start = next(iter(body["methods"].values()))["trials"][0]["ppl"]["public"]
        table = "\n".join(writing.line(row) for row in rows)
        told = f"{about} {body['trials_per_method']} trials a method, one seed; the public model stands at {start:.1f}."
        parts.append(f"## {name}\n\n{textwrap.fill(told, 118)}\n\n{table}\n")
    return "\n".join(parts)


def _trials(method: str, found: dict[str, Any]) -> list[list[str]]:
    """One line for each value of the setting with fewer values; the chosen trial in bold."""
    tried = {tuple(one["settings"].values()): one["ppl"]["student"] for one in found["trials"]}
    names = [dotted.rpartition(".")[2] for dotted in found["chosen"]]
    few, many = sorted((0, 1), key=lambda at: len({key[at] for key in tried}))
    lines = []
    for value in sorted({key[few] for key in tried}):
        line = [f"{method}, {names[few]} {value:g}"]
        for key in sorted((key for key in tried if key[few] == value), key=lambda key: key[many]):
            shown = f"{names[many]} {key[many]:g}: {tried[key]:.1f}"
            line.append(f"**{shown}**" if key == tuple(found["chosen"].values()) else shown)
        lines.append(line)
    return lines


def _closed(cells: dict[str, Any], name: str) -> str:
    return f"{estimate(values(cells[name], 'gap_closed')).mean:.2f}"


def _ppl(cells: dict[str, Any], name: str) -> float:
    return estimate(values(cells[name], "ppl")).mean


def _gap(cells: dict[str, Any], name: str, first: str, digits: int = 2) -> str:
    gap = compared(cells, name, first)
    return plus_minus(gap, digits, "+") if gap else "not measured"


def _cells(label: str) -> dict[str, Any]:
    path = RESULTS / f"{label}.json"
    found: dict[str, Any] = json.loads(path.read_text())["cells"] if path.exists() else {}
    return found


def _all() -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    return [one for one in found if one.get("study") in ORDER]


def _label(results: dict[str, Any]) -> str:
    return f"{results['study']}-{results['corpus']}"


def page() -> str:
    parts, seen = [HEAD, findings()], ""
    for results in sorted(_all(), key=lambda one: ORDER.index(one["study"])):
        if results["study"] != seen:
            parts.append(f"## {results['study']}\n")
            seen = results["study"]
        parts.append(writing.page(results))
        if results["study"] in DRAWN:
            parts.append(f"![{_label(results)}](figures/{_label(results)}.svg)\n")
    return "\n".join([*parts, rehearsed(), made_again()])


if __name__ == "__main__":
    main()
