"""Figures as inline SVG: one look, readable in grey, units on the axes."""

import io
import math
from typing import Any

NAMES = {"public": "public model", "public_pseudo": "public + pseudo text", "student": "student (private)",
         "private": "trained on the text (NOT PRIVATE)"}  # fmt: skip


def svg(figure: Any) -> str:
    import matplotlib.pyplot as plt

    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _axes(height: float) -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10, "axes.spines.top": False,
                         "axes.spines.right": False, "axes.spines.left": False})  # fmt: skip
    figure, axes = plt.subplots(figsize=(7, height))
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    return figure, axes


def utility(perplexity: dict[str, float], gap: float | None) -> str:
    """All models on one logarithmic axis of perplexity, from good to bad."""
    figure, axes = _axes(1.8)
    axes.set_xscale("log")
    marks = {"public": "s", "public_pseudo": "D", "student": "o", "private": "X"}
    for place, (name, value) in enumerate(perplexity.items()):
        filled = "black" if name == "student" else "white"
        axes.plot([value], [place], marks.get(name, "o"), color="black", markerfacecolor=filled, markersize=9)
        axes.annotate(
            f"{NAMES.get(name, name)}: {value:.1f}", (value, place), xytext=(10, -4), textcoords="offset points"
        )
    low, high = min(perplexity.values()), max(perplexity.values())
    axes.set_xlim(low * 0.9, high * math.sqrt(high / low) * 1.2)
    axes.set_ylim(-0.7, len(perplexity) - 0.3)
    axes.set_yticks([])
    axes.set_xlabel("perplexity on held-out text, per token after the prefix (logarithmic; left is better)")
    if gap is not None:
        axes.set_title(f"the student closes {gap:.0%} of the gap (in nats)", fontsize=11, loc="left")
    return svg(figure)


def budget_bar(epsilon: float, spent: list[tuple[str, float]]) -> str:
    """Shares of the corpus's budget (mu squared) by purpose, and what is left."""
    figure, axes = _axes(0.9)
    left, greys = 0.0, ["0.25", "0.45", "0.6", "0.72", "0.82"]
    for index, (purpose, share) in enumerate(spent):
        axes.barh([0], [share], left=left, color=greys[index % len(greys)], edgecolor="white")
        if share > 0.08:
            axes.text(left + share / 2, 0, purpose, ha="center", va="center", color="white", fontsize=8)
        left += share
    axes.barh([0], [max(0.0, 1 - left)], left=left, color="none", edgecolor="0.5", hatch="//")
    axes.set_xlim(0, 1)
    axes.set_yticks([])
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
    axes.set_xlabel(f"share of the corpus's budget (epsilon {epsilon:g}) over all its runs")
    return svg(figure)
