"""A study's raw JSON as a table in markdown: means over seeds, intervals, paired differences, the paper's ratios."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from studies.intervals import Difference, Estimate, Share, estimate, paired

from hearsay.evaluate.text import perplexity

Cells = dict[str, dict[str, dict[str, Any]]]  # name -> seed -> what was measured
HEADS = {
    "ppl": "perplexity", "gap_closed": "gap", "bleu3": "BLEU-3", "bleu4": "BLEU-4", "name_leak_rate": "leaked",
    "negative": "below zero", "epsilon": "epsilon", "questions": "questions", "candidates": "candidates",
    "noise_std_mean": "noise", "f1_macro": "F1 macro", "accuracy": "accuracy", "precision_macro": "precision",
    "recall_macro": "recall", "discriminator_auc": "discriminator's AUC", "ensemble": "ensemble",
    "per_teacher": "sentences a teacher",
}  # fmt: skip
DIGITS = {"ppl": 1, "ensemble": 1, "noise_std_mean": 4, "gap_closed": 2, "bleu3": 2, "bleu4": 2}


def page(results: dict[str, Any]) -> str:
    body = results["body"]
    if body.get("kind") == "phrases":
        return _head(results) + phrase_table(results["cells"])
    table = (curve_table(results) if "grid" in body else rows_table(results)) + unmoved(results["cells"])
    return _head(results) + table + (texts(results["cells"]) if body.get("measure", {}).get("texts") else "")


def _head(results: dict[str, Any]) -> str:
    seeds = [len(cell) for cell in results["cells"].values()]
    trials = f"{min(seeds)} to {max(seeds)}" if len(set(seeds)) > 1 else str(seeds[0] if seeds else 0)
    origins = sorted({one["from"] for cell in results["cells"].values() for one in cell.values() if "from" in one})
    note = f" Some cells are from {'; '.join(origins)}." if origins else ""
    read = {len(one["by_person"]["tokens"]) for cell in results["cells"].values() for one in cell.values()
            if "by_person" in one}  # fmt: skip
    whose = f"; perplexity on the text of all {read.pop()} held out" if read else ""
    small = " At this size nothing is learnt: its figures say nothing." if results["corpus"].endswith("-small") else ""
    return (
        f"{results['about']}{small} Corpus {results['corpus']}{whose}; seeds: {trials}; mean and half-width of the 95% "
        f"t-interval over seeds; {results['machine']['device']}.{note}\n\n"
    )


def unmoved(cells: Cells) -> str:
    """Students that are their own start: the answers held out for it chose not to learn from the others at all."""
    counts = {
        name: sum(one["ppl"] == one.get("references", {}).get("public_pseudo", {}).get("ppl") for one in cell.values())
        for name, cell in cells.items()
        if name != "public + pseudo" and all("ppl" in one for one in cell.values())
    }
    told = ", ".join(
        f"{label(name, cells[name])} ({count} of {len(cells[name])})" for name, count in counts.items() if count
    )
    return f"\nStudents that the stopping rule left at their start, by seeds: {told}.\n" if told else ""


def values(cell: dict[str, dict[str, Any]], name: str) -> list[float]:
    """By seed, in order; a figure that a cell does not have is left out."""
    found = [cell[seed].get(name) for seed in sorted(cell)]
    return [float(value) for value in found if value is not None]


def compared(cells: Cells, name: str, first: str, judge: str = "ppl") -> Difference | None:
    """ln perplexity (or another figure as it is) of a cell less that of the study's first, seed by seed."""
    if name == first or first not in cells or name not in cells:
        return None
    seeds = sorted(cells[name].keys() & cells[first].keys())
    both = [[_judged(cells[one][seed], judge) for seed in seeds] for one in (name, first)]
    return paired(*both) if seeds else None


def _judged(one: dict[str, Any], judge: str) -> float:
    return math.log(one["ppl"]) if judge == "ppl" else float(one[judge])


def plus_minus(found: Estimate, digits: int = 2, sign: str = "") -> str:
    half = "" if math.isinf(found.half) else f" ± {found.half:.{digits}f}"
    return f"{found.mean:{sign}.{digits}f}{half}"


def rows_table(results: dict[str, Any]) -> str:
    """Cells as rows, compared pair by pair with the one named `first`; the paper's figures as the same ratio."""
    body, cells = results["body"], results["cells"]
    columns, first, paper = body.get("columns", ["ppl", "gap_closed"]), body.get("first"), body.get("paper", {})
    heads = ["", *(HEADS[name] for name in columns)]
    everybody = any("by_person" in one for cell in cells.values() for one in cell.values())
    judge = body.get("judge", "ppl")
    if first:
        than = label(first, cells.get(first, {}))
        heads += [f"{'ln ratio to' if judge == 'ppl' else HEADS[judge] + ' less that of'} {than}", "p"]
        heads += ["over people, 95% interval"] if everybody else []
    heads += [f"the paper's, {name}" for name in paper]
    lines = [line(heads), "|---" * len(heads) + "|"]
    for name, cell in cells.items():
        row = [label(name, cell), *(shown(cell, column) for column in columns)]
        gap = compared(cells, name, first, judge) if first else None
        gap = None if gap and gap.trials < min(2, len(cell)) else gap
        row += (
            ([plus_minus(gap, 3, "+"), f"{gap.p:.2g}" if gap.trials > 1 else ""] if gap else ["", ""]) if first else []
        )
        row += [str(over_people(cells, name, first) or "")] if first and everybody else []
        lines.append(line(row + [_ratio(figures, name, first, judge) for figures in paper.values()]))
    return "\n".join(lines) + "\n"


def line(parts: list[str]) -> str:
    return "| " + " | ".join(parts) + " |"


def label(name: str, cell: dict[str, dict[str, Any]]) -> str:
    name = next((one["called"] for one in cell.values() if "called" in one), name)
    return f"{name} (NOT PRIVATE)" if any(one.get("NOT PRIVATE") for one in cell.values()) else name


def shown(cell: dict[str, dict[str, Any]], column: str) -> str:
    found = values(cell, column)
    if not found or len(found) < len(cell):  # of some seeds alone: another mean than those beside it
        return ""
    if column == "name_leak_rate":
        return share(leaked(cell))
    one = estimate(found)
    if column == "negative":
        return f"{one.mean:.1%}" + ("" if math.isinf(one.half) else f" ± {one.half:.1%}")
    if column == "epsilon":
        return f"{max(found):.4g}"
    if column in ("questions", "candidates", "per_teacher"):
        return f"{one.mean:,.0f}"
    return plus_minus(one, DIGITS.get(column, 3))


@dataclass(frozen=True)
class OverPeople:
    """A difference between two models with its 95% interval over people, all of whom both have read."""

    people: int
    mean: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        return self.low * self.high > 0

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ({self.low:+.3f} to {self.high:+.3f})"


def over_people(cells: Cells, name: str, first: str) -> OverPeople | None:
    """ln perplexity of a cell less that of the first, of everybody held out: mean over the seeds that both have."""
    seeds = sorted(cells[name].keys() & cells.get(first, {}).keys())
    pairs: list[tuple[Any, Any]] = [
        (cells[name][seed].get("by_person"), cells[first][seed].get("by_person")) for seed in seeds
    ]
    if name == first or not any(one for pair in pairs for one in pair):
        return None
    if not all(one for pair in pairs for one in pair):
        raise ValueError(f"{name} and {first}: some of their cells read everybody, some did not")
    gaps = torch.tensor([[a - b for a, b in zip(one["nll"], other["nll"], strict=True)] for one, other in pairs])
    tokens = torch.tensor(pairs[0][0]["tokens"]).double()
    mean, low, high = perplexity(gaps.double().mean(0), tokens)
    ends = (-math.inf, math.inf) if low is None or high is None else (math.log(low), math.log(high))
    return OverPeople(len(tokens), math.log(mean), *ends)


def clear(cells: Cells, name: str, first: str, judge: str = "ppl") -> bool:
    """Whether a difference is clear over seeds and, where everybody was read, over people."""
    gap, people = compared(cells, name, first, judge), over_people(cells, name, first)
    return gap is not None and gap.trials > 1 and gap.clear and (people is None or judge != "ppl" or people.clear)


def leaked(cell: dict[str, dict[str, Any]]) -> Share:
    """Completions of all seeds that hold a secret."""
    ones = cell.values()
    hits = sum(round(one["name_leak_rate"] * one["completions"]) for one in ones)
    return Share(hits, sum(one["completions"] for one in ones))


def share(found: Share) -> str:
    low, high = found.ends
    return f"{found.mean:.2%} ({low:.2%} to {high:.2%}; {found.hits} of {found.trials:,})"


def _ratio(figures: dict[str, float], name: str, first: str | None, judge: str) -> str:
    if first is None or name == first or name not in figures or first not in figures:
        return ""
    gap = math.log(figures[name] / figures[first]) if judge == "ppl" else figures[name] - figures[first]
    return f"{gap:+.3f}"


def curve_table(results: dict[str, Any]) -> str:
    """Series as rows, the grid's values as columns; what does not lie on the grid stands below."""
    judge = results["body"].get("judge", "ppl")
    ((dotted, grid),) = results["body"]["grid"].items()
    cells, grid = results["cells"], sorted(grid)
    lines = [
        line([f"{HEADS[judge]} at {dotted.split('.')[-1]}", *(f"{x:g}" for x in grid)]),
        "|---" * (len(grid) + 1) + "|",
    ]
    flat = []
    for name in series(cells):
        found = [cells.get(f"{name}, {x:g}") for x in grid]
        if any(found):
            lines.append(line([name, *(shown(cell, judge) if cell else "" for cell in found)]))
        else:
            flat.append(f"{label(name, cells[name])} {shown(cells[name], judge)}")
    return "\n".join(lines) + ("\n\nNo budget: " + "; ".join(flat) + ".\n" if flat else "\n")


def series(cells: Cells) -> list[str]:
    return list(dict.fromkeys(one["series"] for cell in cells.values() for one in cell.values()))


def phrase_table(cells: Cells) -> str:
    """Table 6's columns, exact and as the paper scales them; every user beside it."""
    lines = ["| phrases counted by | average | least | most, exactly | most, scaled linearly | at most the average |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for name, cell in cells.items():
        for counted, said in (("by_teachers", "teachers reached"), ("by_times", "times written (unit: record)")):
            for average in next(iter(cell.values()))[counted]:
                rows = [one[counted][average] for one in cell.values()]
                figures = [_range([row[key] for row in rows]) for key in ("least", "most", "linear_most")]
                share = _range([100 * row["share_at_most_average"] for row in rows])
                lines.append(line([f"{name}: {said}", average, *figures, f"{share}%"]))
        most = max(one["shards_of_a_user"] for one in cell.values())
        lines.append(line([f"**users**, each in {most} shard", *["3"] * 4, "100%"]))
    return "\n".join(lines) + "\n"


def _range(found: list[float]) -> str:
    low, high = f"{min(found):.3g}", f"{max(found):.3g}"
    return low if low == high else f"{low} to {high}"


def texts(cells: Cells) -> str:
    """The completions of the first seed, side by side: a page of cases."""
    firsts = {label(name, cell): cell[min(cell)] for name, cell in cells.items()}
    shown_by = {name: one["texts"] for name, one in firsts.items() if "texts" in one}
    parts = []
    for place, (prefix, _) in enumerate(next(iter(shown_by.values()), [])):
        parts.append(f"\n**{prefix}** …\n")
        parts += [f"- {name}: …{found[place][1]}" for name, found in shown_by.items()]
    return "\n".join(parts) + "\n"
