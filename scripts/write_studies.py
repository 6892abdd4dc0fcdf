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
from studies.writing import plus_minus

import findings_on_everybody
from hearsay.report import look
from study_findings import findings
from study_results import RESULTS, cells_of

ROOT = Path(__file__).parents[1]
PAGE, FIGURES = ROOT / "docs" / "studies.md", ROOT / "docs" / "figures"
ORDER = ("table-1", "table-2", "table-3", "table-4", "table-6", "table-7", "table-9", "figure-2", "table-11",
         "table-14", "clinic", "clinic-curve", "recipes", "people", "people-parts", "weights", "units", "teachers",
         "split", "caution", "dpsgd", "ranks", "rehearsed")  # fmt: skip
REHEARSALS = {  # name of the YAML and the JSON -> what it was, before the number of trials
    "rehearse-airline": "Every method on other simulated customers who play the private ones, noise to scale; study "
    "`rehearsed` shows on the customers of the tables what was chosen here.",
    "rehearse-airline-dpsgd": "DP-SGD's clip and average on the same other customers, at the rank and rate chosen "
    "above; shown in study `rehearsed`, too.",
    "rehearse-sgd": "DP-SGD by Opacus on dialogues of the dev split that play the private ones, noise to scale; the "
    "tables above use the best.",
}
GAPS = {"updates": "updates (the default)", "mixed": "mixed", "DP-SGD": "DP-SGD (Opacus)", "ghost": "ghost (Opacus)",
        "hellinger": "hellinger", "seqpate": "seqpate (the paper)"}  # fmt: skip
REAL = {"sgd": "11,674 service dialogues", "europarl": "974 speakers of a parliament"}
DRAWN = ("figure-2", "clinic-curve", "table-3")  # where a picture says more than the table
AGAIN = """These (on simulated customers; no cell made on a GPU) were made a second time from nothing, with
other noise and other partition keys, by the command above, and compared by `python studies/again.py`:"""
HEAD = """# Studies

The papers' tables and our own, each by one command: `make study NAME=table-3 [CORPUS=airline] [DATA=… MODEL=…]`.
Corpora: `sgd` (service dialogues, unit = dialogue) and `europarl` (parliament, unit = speaker) with a base model of
20.7M parameters, which want a GPU (`AT_ONCE=6` seats six panels at once, if its memory holds them); `airline` and
`clinic` are simulated and need nothing. DATA is a folder with `sgd-train.jsonl.xz` and `sgd-dev.jsonl.xz`
(Schema-Guided Dialogue) or `europarl.jsonl.xz` (debates 1999 to 2012): a row a turn or sentence with `user`, `text`
and, for speakers, `name` (`studies/corpora.py` reads them). MODEL is a GPT-2; with another one figures are others.
Raw figures are in `studies/results/`; this page is written from them by `python scripts/write_studies.py`. What
follows for the papers is in [claims](claims.md).

IN SHORT

## How it was measured

Cells of one seed whose teachers and adapters are alike share them (`studies/panel.py`): they differ by their noise,
their ledger and their student. Differences are paired by seed; between methods with other adapters a seed means the
same public seed only, with a start of its own. A figure's interval is over seeds: another partition key, other pseudo
text, fresh noise, and always the same held-out text. *gap* is the share of the way, in nats, from the better public
reference to the private one; *below zero* the share of noisy values that came out negative; *noise* its standard
deviation on the mean of the teachers; *leaked* counts the completions of all seeds together, with the exact 95%
interval of such a share, as if completions were independent (three seeds go on from the same beginnings). The private
reference is an adapter of rank 8 in four blocks (airline: rank 4 in two), whatever a method's own is, trained as the
table's YAML says (`measure`; longer where leaks are looked for), so gaps compare within a table. Epsilon is from each
cell's ledger, verified by the second accountant, except where a table says that some cells are from a printed line.

MEASURED

Settings (`studies/bases.yaml`) come from `studies/sgd.yaml`, where they were tried on the same held-out dialogues,
how often for which method was not recorded: between methods read the figures as optimistic. Those of `updates` at
epsilon 3 were then tried anew on text that is in none of these figures, some forty times on other dialogues (the dev
split, which lends prefixes only) and some twenty on the speeches of those who lend prefixes: more than any other
method was, so part of its lead is tuning. DP-SGD's rank and rate on dialogues are the best of nine, rehearsed on the
dev split (below); on speeches they were seen on the very text of the figures (study `dpsgd`), which favours it, as
does the split of `mixed` there. On simulated customers every method had six recorded trials, on customers who are in
none of the figures (`rehearse-airline`; study `rehearsed` shows what they chose); but what was not tried there
(rounds, sample, clip and average of updates, batch, steps, clip and average of DP-SGD) came for updates from some
sixteen earlier trials on such customers (`airline-levers`, `airline-text`), for DP-SGD from six later ones, of its
clip and average alone (`rehearse-airline-dpsgd`). Ablations, filters and budgets share all other settings with the
recipe they vary and were not tuned. A cell of the same settings in two tables is one cell, shown twice (but the first
seed of DP-SGD on speeches was made twice); tables 7, 9, 11 and 14, `units`, `teachers` and the clinic's curve have
other teachers, pseudo text, references or notes, and `people` and `people-parts` other text to be measured on, so the
same recipe may stand there once more, by other noise. What names a cell's settings was added to the oldest ones
afterwards, from their study's YAML (`stamped` in the JSON). On airline a few cells were made on a GPU, in bfloat16,
and stand beside others made on CPUs. Where a row has one seed there is no interval; a table or row that is missing
here was not measured.
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
    look.write_svg(FIGURES / "gaps.svg", pictures.gaps({REAL[one]: cells_of(f"recipes-{one}") for one in REAL}, GAPS))
    for results in _all():
        if results["study"] in DRAWN and (drawn := pictures.picture(results)):
            look.write_svg(FIGURES / f"{_label(results)}.svg", drawn)


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


def _all() -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    return [one for one in found if one.get("study") in ORDER]


def _label(results: dict[str, Any]) -> str:
    return f"{results['study']}-{results['corpus']}"


def measured_on() -> str:
    """On whose text: of the people held out, as held_out.py counted them."""
    found = json.loads((RESULTS / "held-out.json").read_text())

    def listed(figure: str) -> str:
        first, second, third = (str(found[one][figure]["people"]) for one in ("sgd", "europarl", "airline"))
        return f"{first}, {second} and {third}"

    dialogues, speakers, customers = (
        f"{found[one]['perplexity']['people']} of {found[one]['people']}" for one in ("sgd", "europarl", "airline")
    )
    return textwrap.fill(
        "Figures are measured on people whom nobody trained on; most of them on few, on the first rows of a file "
        f"that is grouped by people. Perplexity reads {dialogues} held-out dialogues, {speakers} speakers and "
        f"{customers} customers; BLEU {listed('BLEU')}, leaks {listed('leaks')}, ensembles {listed('ensemble')} "
        "(`studies/held_out.py`). Methods of a table read the same text, so differences are safer than levels. Studies "
        "`people` and `people-parts` were made anew and read everybody (BLEU 500 rows from all over), with intervals "
        "over people beside those over seeds: what they say of the others stands below. (`hearsay evaluate` reads rows "
        "from all over its files.)",
        118,
    )  # fmt: skip


def page() -> str:
    head = HEAD.replace("MEASURED", measured_on()).replace("IN SHORT", findings_on_everybody.in_short())
    parts, seen = [head, findings()], ""
    for results in sorted(_all(), key=lambda one: ORDER.index(one["study"])):
        if results["study"] != seen:
            parts.append(f"## {results['study']}\n")
            seen = results["study"]
        parts.append(writing.page(results))
        if results["study"] in DRAWN:
            parts.append(f"![{_label(results)}](figures/{_label(results)}.svg)\n")
    return "\n".join([*parts, rehearsed(), made_again(), findings_on_everybody.section()])


if __name__ == "__main__":
    main()
