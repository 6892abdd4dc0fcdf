"""A study as a picture, in the report's look: curves along a grid, or one row a cell. Intervals are drawn."""

import math
from typing import Any

from studies.intervals import Estimate, estimate
from studies.writing import HEADS, Cells, label, series, shown, values

from hearsay.report import look
from hearsay.report.look import ACCENT, INK, MUTED, PAPER, WARN

MARKS = "osD^vP*X"
CLOSE = 0.05  # of an axis: lines whose words would meet
Line = list[tuple[float, Estimate]]


def picture(results: dict[str, Any]) -> str | None:
    """Inline SVG; none where a table says it better."""
    if not results["cells"] or results["body"].get("kind") == "phrases":
        return None
    return _curves(results) if "grid" in results["body"] else _rows(results)


def _curves(results: dict[str, Any]) -> str:
    cells: Cells = results["cells"]
    judge = results["body"].get("judge", "ppl")
    lines = {name: line for name in series(cells) if (line := _line(cells, name, judge))}
    flat = {name: estimate(values(cell, judge)).mean for name, cell in cells.items() if _x(cell) is None}
    heights = [found.mean for line in lines.values() for _, found in line] + list(flat.values())
    places = [x for line in lines.values() for x, _ in line]
    with look.canvas(3.4) as (figure, axes):
        if judge == "ppl":
            look.plain_log_axis(axes, min(heights) / 1.1, max(heights) * 1.1, which="y")
        look.plain_log_axis(axes, min(places) / 1.3, max(places) * 1.3)
        ends = axes.get_ylim() if judge != "ppl" else (min(heights) / 1.1, max(heights) * 1.1)
        for name, (value, lift) in _apart(flat, ends, logarithmic=judge == "ppl").items():
            axes.axhline(value, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            axes.annotate(label(name, cells[name]), (1, value), xycoords=("axes fraction", "data"), ha="right",
                          xytext=(0, lift), textcoords="offset points", fontsize=8, color=MUTED)  # fmt: skip
        for mark, (name, line) in zip(MARKS, lines.items(), strict=False):
            _draw(axes, mark, name, line)
        if flat:
            axes.set_xlim(right=axes.get_xlim()[1] * 12)  # where labels stand clear of lines
        axes.legend(frameon=False, fontsize=8)
        axes.set_xlabel(f"{next(iter(results['body']['grid'])).split('.')[-1]} (logarithmic)")
        axes.set_ylabel("perplexity (logarithmic)" if judge == "ppl" else HEADS[judge])
        return look.svg(figure, results["study"])


def _apart(flat: dict[str, float], ends: tuple[float, float], *, logarithmic: bool) -> dict[str, tuple[float, int]]:
    """(height, how far its words stand above it): below it where a line close above has its own words there."""
    at = math.log if logarithmic else float
    found: dict[str, tuple[float, int]] = {}
    above = math.inf
    for name, value in sorted(flat.items(), key=lambda one: -one[1]):
        close = (above - at(value)) / (at(ends[1]) - at(ends[0])) < CLOSE
        found[name], above = (value, -9 if close else 3), at(value)
    return found


def gaps(tables: dict[str, Cells], methods: dict[str, str]) -> str:
    """Several corpora at once: how much of its gap each method closes, full marks at epsilon 3, open ones at 1.

    `methods` names the rows. What lies left of the axis (a student worse than the public model) is told at its edge.
    """
    names, height = list(methods), 0.42
    with look.canvas(height * len(names) * len(tables) / 2 + 1.4) as (figure, first):
        first.remove()
        panels = figure.subplots(1, len(tables), sharey=True)
        for axes, (title, cells) in zip(panels, tables.items(), strict=True):
            axes.set_title(title)
            axes.set_xlim(-0.04, 0.8)
            axes.axvline(0, color=MUTED, linewidth=0.7)
            axes.set_yticks(range(len(names)), [methods[name] for name in reversed(names)], color=INK)
            axes.tick_params(axis="y", length=0)
            axes.set_xlabel("share of the gap closed")
            for place, name in enumerate(reversed(names)):
                for epsilon, lift in ((3, 0.13), (1, -0.13)):
                    _gap(axes, estimate(values(cells[f"{name} at {epsilon}"], "gap_closed")), place + lift, epsilon)
        return look.svg(figure, "gaps")


def _gap(axes: Any, found: Estimate, place: float, epsilon: int) -> None:
    color = ACCENT if epsilon == 3 else INK
    if found.mean < 0:
        text = f"‹ {found.mean:.2f} at epsilon {epsilon}: worse than public"
        axes.annotate(text, (0, place), xytext=(4, -3), textcoords="offset points", fontsize=8, color=WARN)
        return
    axes.plot([found.mean - _half(found), found.mean + _half(found)], [place] * 2, color=color, linewidth=1.4)
    axes.plot([found.mean], [place], "o", color=color, markerfacecolor=color if epsilon == 3 else PAPER, markersize=6)
    axes.annotate(f"{found.mean:.2f}", (found.mean + _half(found), place), xytext=(7, -3),
                  textcoords="offset points", fontsize=8, color=color)  # fmt: skip


def _x(cell: dict[str, dict[str, Any]]) -> float | None:
    return next(iter(cell.values())).get("x")


def _line(cells: Cells, name: str, judge: str) -> Line:
    mine = [cell for cell in cells.values() if next(iter(cell.values()))["series"] == name]
    found = [(x, estimate(values(cell, judge))) for cell in mine if (x := _x(cell)) is not None]
    return sorted(found, key=lambda pair: pair[0])


def _draw(axes: Any, mark: str, name: str, line: Line) -> None:
    color = ACCENT if mark == "o" else INK
    half = [_half(found) for _, found in line]
    axes.errorbar([x for x, _ in line], [found.mean for _, found in line], yerr=half, marker=mark, color=color,
                  markerfacecolor=color if mark == "o" else PAPER, linewidth=1.3, markersize=5, label=name)  # fmt: skip


def _half(found: Estimate) -> float:
    return 0.0 if math.isinf(found.half) else found.half


def _rows(results: dict[str, Any]) -> str:
    cells: Cells = results["cells"]
    judge = results["body"].get("judge", "ppl")
    found = {name: estimate(values(cell, judge)) for name, cell in cells.items()}
    with look.canvas(0.3 * len(found) + 0.8) as (figure, axes):
        for place, (name, one) in enumerate(reversed(found.items())):
            first = place == len(found) - 1
            color = WARN if "NOT PRIVATE" in label(name, cells[name]) else ACCENT if first else INK
            axes.plot([one.mean - _half(one), one.mean + _half(one)], [place] * 2, color=color, linewidth=1.4)
            axes.plot([one.mean], [place], "o", color=color, markersize=6)
            axes.annotate(
                shown(cells[name], judge).split()[0],
                (one.mean + _half(one), place),
                xytext=(8, -3),
                textcoords="offset points",
            )
        axes.set_yticks(range(len(found)), [label(name, cells[name]) for name in reversed(found)], color=INK)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"{HEADS[judge]} on held-out text, mean over seeds with its 95% interval")
        axes.margins(x=0.12)
        return look.svg(figure, results["study"])
