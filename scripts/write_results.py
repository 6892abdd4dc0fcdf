"""Writes docs/results.md and the README's table from the JSON files that the benchmarks and studies left.

python scripts/write_results.py          # rewrites both; a test checks that they are up to date
"""

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies.intervals import estimate
from studies.writing import plus_minus

ROOT = Path(__file__).parents[1]
RESULTS, STUDIES = ROOT / "benchmarks" / "results", ROOT / "studies" / "results"
METHODS = {"updates": "student", "DP-SGD": "DP-SGD by Opacus", "seqpate": "the SeqPATE paper's recipe"}
MARK = re.compile(r"(<!-- demo-table -->\n).*?(<!-- /demo-table -->)", re.DOTALL)


def main() -> None:
    texts = {ROOT / "docs" / "results.md": results(), ROOT / "README.md": readme()}
    stale = [path.name for path, text in texts.items() if path.read_text() != text] if "--check" in sys.argv else []
    if "--check" not in sys.argv:
        for path, text in texts.items():
            path.write_text(text)
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}; type: python scripts/write_results.py")


def _load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def readme() -> str:
    table = demo_table(_load(RESULTS / "demo.json"))
    return MARK.sub(lambda match: f"{match[1]}{table}\n{real_text()}{match[2]}", (ROOT / "README.md").read_text())


def real_text() -> str:
    """How the same recipe does on text that people wrote, beside two others: the README's one sentence about it."""
    told = []
    for corpus, who in (("sgd", "11,674 service dialogues"), ("europarl", "974 speakers of a parliament")):
        cells = _load(STUDIES / f"people-{corpus}.json")["cells"]
        gaps = {name: [one["gap_closed"] for one in cells[name].values()] for name in METHODS}
        read = next(iter(cells["updates"].values()))["by_person"]["tokens"]
        means = {name: plus_minus(estimate(found)) for name, found in gaps.items()}
        told.append(f"{who}: " + ", ".join(f"{METHODS[name]} {mean}" for name, mean in means.items()))
        told[-1] += f", on text of {len(read)} others ({_seeds(cells)} seeds)"
    alike = _load(STUDIES / "rehearsed-airline.json")["cells"]
    simulated = ", ".join(f"{METHODS[name]} {plus_minus(estimate([one['gap_closed'] for one in alike[name].values()]))}"
                          for name in METHODS)  # fmt: skip
    return (
        "On real text, with a base model of 20.7M parameters and the same budget, shares of the gap closed: "
        f"{'; '.join(told)} ([all methods](docs/studies.md); how often each one's settings were tried differs, and is "
        f"told there as far as it was recorded). On simulated customers, each by the best of six "
        f"trials of its own (updates had earlier ones, too): {simulated}.\n"
    )


def _seeds(cells: dict[str, Any]) -> str:
    counts = sorted({len(cells[name]) for name in METHODS})
    return " or ".join(map(str, counts))


def demo_table(demo: dict[str, Any]) -> str:
    runs = demo["runs"]

    def mean(name: str) -> str:
        values = [run["ppl"][name] for run in runs]
        return f"{sum(values) / len(values):.0f}"

    lines = [
        "| held-out customers | perplexity | guarantee |", "|---|---|---|",
        f"| public model | {mean('public')} | public |",
        f"| public model + pseudo text | {mean('public_pseudo')} | public |",
        *(f"| student by answers ({name}; seed 0) | {ppl:.0f} | epsilon 3 per customer |"
          for name, ppl in runs[0]["by_answers"].items()),
        f"| **student (updates)** | **{mean('student')}** | **epsilon 3 per customer** |",
        f"| one adapter on the private text | {mean('private')} | NOT PRIVATE |", "",
        f"Mean of {len(runs)} seeds; the student closes {demo['gap_closed_mean']:.2f} of the gap (standard deviation "
        f"{demo['gap_closed_standard_deviation']:.2f}). The longest run took {demo['seconds_longest']:.0f} s on "
        f"{demo['environment']['cores']} cores and {demo['peak_gib']:.1f} GiB, references included "
        "(`python benchmarks/demo.py`).", "",
    ]  # fmt: skip
    return "\n".join(lines)


def results() -> str:
    demo, spine = _load(RESULTS / "demo.json"), _load(RESULTS / "spine.json")
    parts = [
        "# Results\n\nWritten by `python scripts/write_results.py` from the JSON files named below.",
        "## The demo\n\n`benchmarks/results/demo.json`. Its first settings were chosen by trying some twenty on seed "
        "0's held-out customers, later ones on customers simulated for that alone (below), and of the last change "
        "(twice as many customers a round, a row of each) it was not recorded on whom it was tried: nobody's budget "
        "paid for it, but read the figures as slightly optimistic. The number of customers (12,000, of whom ten "
        "sentences are taken) is one of these settings: updates gain from more units at the same cost per round; the "
        "text itself is as hard as it was ([airline](airline.md)). The private reference sees the same sentences as "
        "the student.\n\n" + demo_table(demo),
        "## The spine\n\n`benchmarks/results/spine.json`\n\n" + _spine(spine),
        "## Service dialogues on a GPU\n\n" + _sgd(),
        "## Updates: what a round takes\n\n" + _rounds(),
        "## Updates: what single settings give\n\n" + _levers(),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _spine(spine: dict[str, Any]) -> str:
    flat = [(key, value) for key, value in _flatten(spine) if isinstance(value, int | float)]
    return "\n".join(["| what | measured |", "|---|---|", *(f"| {key} | {value:,.4g} |" for key, value in flat)])


def _flatten(body: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(body, dict):
        return [pair for key, value in body.items() for pair in _flatten(value, f"{path} {key}".strip())]
    return [(path.replace("_", " "), body)]


def _sgd() -> str:
    table, levers = _load(STUDIES / "sgd.json"), _load(STUDIES / "sgd-levers.json")
    cells = table["cells"]
    first = cells["seqpate-epsilon-3"]
    references = first["ppl"]
    start = min(references["public"], *(cell["ppl"]["public_pseudo"] for cell in cells.values()))
    low = math.log(references["private"])
    lines = [
        "Schema-Guided Dialogue, unit = dialogue (11,674 of them), 2000 teachers unless said otherwise, base model of "
        "20.7M parameters, delta 1e-6, one seed, settings tried on the same held-out dialogues (so read the figures as "
        "optimistic). Perplexity after the prefix on 500 dialogues that nobody trained on; gap = share of the way, in "
        f"nats, from the best public reference ({start:.1f}) to the private one.", "",
        f"`studies/sgd.yaml` on one {table['machine']['device']}: `python studies/run.py studies/sgd.yaml --data DATA "
        "--model MODEL --out DIR`", "",
        "| | perplexity | gap | teachers | answers | total |", "|---|---|---|---|---|---|",
        f"| public | {references['public']:.1f} | | | | |",
        f"| private (NOT PRIVATE) | {references['private']:.1f} | 1 | | | |",
        f"| ensemble of 2000 without noise, 300 sentences (public there: {first['ensemble_base_ppl']:.1f}) | "
        f"{first['ensemble_ppl']:.1f} | | | | |",
        *(_row(name, cell, start, low) for name, cell in cells.items()), "",
        "Updates and mixed here have coordinates all alike (`updates.weights: equal`, then the only way); what weighed "
        "ones reach is in [studies](studies.md). "
        "Times with a star were measured while other cells shared the GPU. At epsilon 1 the paper's recipe stops at "
        "its first step: the held-out answers say, rightly, that nothing is to be learnt from such noise. Mixed loses: "
        f"after its updates, which had four fifths of the budget, the student stood at "
        f"{cells['mixed-epsilon-3']['ppl']['updates']:.1f}; the round of answers, with the last fifth, made it "
        f"{cells['mixed-epsilon-3']['ppl']['student']:.1f}. So updates alone are the method to take here.", "",
        _packing(), "",
        "What single levers give (`studies/sgd-levers.yaml`; one round, 3 epochs, unless named):", "",
        "| | perplexity | gap | teachers | answers | total |", "|---|---|---|---|---|---|",
        *(_row(name, cell, start, low) for name, cell in levers["cells"].items()),
    ]  # fmt: skip
    return "\n".join(lines)


def _rounds() -> str:
    small, large = _load(RESULTS / "updates_round.json"), _load(RESULTS / "updates_round_large.json")
    ways = _load(RESULTS / "dpsgd_speed.json")
    lines = [
        f"A whole round over {small['settings']['units']:,} units on one {small['machine']['device']}, base model of "
        "20.7M parameters (`benchmarks/updates_round.py`; simulated units, best of five, the door included):", "",
        "| adapters | dimensions | tokens a unit | bounded sum | whole round | of the arithmetic | memory |",
        "|---|---|---|---|---|---|---|",
        *(f"| rank {one['settings']['rank']}, {one['settings']['blocks']} blocks | {one['dimensions']:,} | "
          f"{64 * one['settings']['rows']} | {one['sum']['best']:.2f} s | {one['round']['best']:.2f} s | "
          f"{one['share_of_peak']:.0%} | {one['peak_gib']:.1f} GiB |" for one in (small, large)), "",
        f"The same per-unit clipped gradients by Opacus (`benchmarks/dpsgd_speed.py`: {ways['work']['units']:,} units "
        f"of {ways['work']['tokens']} tokens, LoRA of rank {ways['work']['rank']} on {ways['work']['blocks']} blocks, "
        "both halves; in one run):", "",
        "| | units a second | beside the stack | memory | sums differ by |", "|---|---|---|---|---|",
        *(f"| {label} | {ways[name]['units_per_second']:,.0f} | "
          f"{ways[name]['units_per_second'] / ways['stack']['units_per_second']:.2f} | "
          f"{ways[name]['peak_gib']:.1f} GiB | {ways[name]['differs_from_stack']:.1e} |"
          for name, label in (("stack", "our stack"), ("opacus_flat", "Opacus, flat"),
                              ("opacus_ghost", "Opacus, ghost"))),
    ]  # fmt: skip
    return "\n".join(lines)


def _levers() -> str:
    found = _load(STUDIES / "airline-levers.json")
    cells = found["cells"]
    private = math.log(cells["sample-0.075"]["ppl"]["private"])
    lines = [
        "The demo's corpus with customers simulated for this alone (`studies/airline-levers.yaml`, one seed, epsilon "
        f"3, on one {found['machine']['device']}; all but the first four rows with a sample of .15; coordinates all "
        f"alike). The gap is to one private reference, {math.exp(private):.1f}.", "",
        "| | perplexity | gap |", "|---|---|---|",
    ]  # fmt: skip
    for name, cell in cells.items():
        start, ppl = (math.log(cell["ppl"][key]) for key in ("public_pseudo", "student"))
        lines.append(f"| {name} | {math.exp(ppl):.1f} | {(start - ppl) / (start - private):.2f} |")
    return "\n".join([*lines, "", *_text()])


def _text() -> list[str]:
    """What more of each customer's text gives: to the student and to the private reference."""
    cells = _load(STUDIES / "airline-text.json")["cells"]
    return [
        "Rounds that see other sentences of a customer (`updates.pages`, `data.cap`; `studies/airline-text.yaml`, one "
        "seed, sample .12 unless named). The largest single gain that was found, for the private reference as well:",
        "", "| | student | private (NOT PRIVATE) |", "|---|---|---|",
        *(f"| {name} | {cell['ppl']['student']:.1f} | {cell['ppl'].get('private', math.nan):.1f} |".replace("nan", "")
          for name, cell in cells.items()),
    ]  # fmt: skip


def _packing() -> str:
    found = _load(RESULTS / "packing.json")
    packed, plain = found["packed"], found["one sentence a row"]
    return (
        f"Packing (`benchmarks/packing.py`, {found['settings']['teachers']} teachers, one pass over the same "
        f"sentences): {packed['seconds']:.2f} s beside {plain['seconds']:.2f} s with one sentence a row, "
        f"{found['ratio']:.1f} times; "
        f"{packed['places_used']:.0%} of the places hold a token to learn, beside {plain['places_used']:.0%}."
    )


def _row(name: str, cell: dict[str, Any], start: float, low: float) -> str:
    ppl, seconds = cell["ppl"]["student"], cell["seconds"]
    gap = (math.log(start) - math.log(ppl)) / (math.log(start) - low)

    def total(stage: str) -> str:
        return f"{sum(value for key, value in seconds.items() if key.startswith(stage)):.0f} s"

    ensemble = cell.get("ensemble_ppl", math.nan)
    label = name if math.isnan(ensemble) else f"{name} (ensemble {ensemble:.1f})"
    star = "\\*" if cell.get("shared_device") else ""
    times = f"{total('teachers')} | {total('answers')} | {seconds['total']:.0f} s{star}"
    return f"| {label} | {ppl:.1f} | {gap:.2f} | {times} |"


if __name__ == "__main__":
    main()
