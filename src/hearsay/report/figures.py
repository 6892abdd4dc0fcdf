"""The figures: utility, budget, privacy against utility, audits, and what teachers buy. Units on axes, intervals drawn.

Each takes plain numbers and returns inline SVG (look.py), so that the report, the page, a study and the README show
the same picture of the same thing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hearsay.report import look
from hearsay.report.look import ACCENT, INK, MUTED, PAPER, RULE, SOFT, WARN

MODELS = {"public": "public model", "public_pseudo": "public + pseudo text", "student": "student",
          "private": "trained on the text (NOT PRIVATE)", "blacklist": "blacklist (NOT PRIVATE)",
          "seqpate": "by answers, as published (seqpate)", "hellinger": "by answers (hellinger)"}  # fmt: skip
REFERENCES = ("public", "public_pseudo", "private", "blacklist", "seqpate", "hellinger")
MARKS = {"public": "s", "public_pseudo": "D", "student": "o", "private": "X"}


@dataclass(frozen=True)
class Share:
    """A piece of a corpus's budget: what one run spent of it."""

    label: str
    share: float
    this: bool = False
    finished: bool = True


@dataclass(frozen=True)
class Point:
    """A run on the plane of privacy and utility."""

    label: str
    epsilon: float
    ppl: float
    low: float | None = None
    high: float | None = None


def utility(models: Mapping[str, Mapping[str, Any]], gap: float | None) -> str:
    """All models on one axis of perplexity, each with its interval; the student's row shows the gap it closes."""
    ppl = {name: float(body["ppl"]) for name, body in models.items()}
    names = sorted(ppl, key=lambda name: -ppl[name])
    own = own_model(ppl)
    ends = [float(body.get(key) or body["ppl"]) for body in models.values() for key in ("ppl_low", "ppl_high")]
    with look.canvas(0.36 * len(names) + 0.75) as (figure, axes):
        look.plain_log_axis(axes, min(ends) / 1.08, max(ends) * 1.22)
        _gap(axes, ppl, names.index(own) if own else 0, own, gap)
        for place, name in enumerate(names):
            color = ACCENT if name == own else WARN if name in ("private", "blacklist") else INK
            _interval(axes, models[name], place, color)
            fill = color if name == own else PAPER
            axes.plot([ppl[name]], [place], MARKS.get(name, "^"), color=color, markerfacecolor=fill, markersize=7.5)
            if name == own and gap is not None:  # the gap lies at its right
                axes.annotate(f"{ppl[name]:,.1f}", (ppl[name], place), xytext=(0, 6.5), ha="center",
                              textcoords="offset points", color=color)  # fmt: skip
            else:
                axes.annotate(f"{ppl[name]:,.1f}", (float(models[name].get("ppl_high") or ppl[name]), place),
                              xytext=(9, -3.2), textcoords="offset points", color=color)  # fmt: skip
        axes.set_yticks(range(len(names)), [MODELS.get(name, name) for name in names], color=INK)
        _bare(axes, len(names))
        axes.set_xlabel("perplexity per token of held-out text, after the prefix (logarithmic; left is better)")
        return look.svg(figure, "utility")


def own_model(names: Iterable[str]) -> str | None:
    """The run's own model: the student, or what a baseline calls itself; the rest are references."""
    found = list(names)
    return "student" if "student" in found else next((name for name in found if name not in REFERENCES), None)


def _gap(axes: Any, ppl: Mapping[str, float], place: int, own: str | None, gap: float | None) -> None:
    """From the better public reference to the private one, as far as the student went."""
    if gap is None or own is None or "private" not in ppl:
        return
    start = min(ppl[name] for name in ("public", "public_pseudo") if name in ppl)
    axes.plot([start, ppl["private"]], [place, place], color=RULE, linewidth=5, solid_capstyle="butt", zorder=0)
    axes.plot([start, ppl[own]], [place, place], color=SOFT, linewidth=5, solid_capstyle="butt", zorder=0)
    axes.annotate(f"{gap:.0%} of the gap", (max(start, ppl[own]), place), xytext=(9, -3.2),
                  textcoords="offset points", fontsize=8.5, color=MUTED)  # fmt: skip


def _interval(axes: Any, body: Mapping[str, Any], place: float, color: str) -> None:
    if body.get("ppl_low"):
        axes.plot([body["ppl_low"], body["ppl_high"]], [place, place], color=color, linewidth=1.4)


def budget(epsilon: float, spent: Sequence[Share]) -> str:
    """What each run took of the corpus's budget, and what is left. Runs that did not finish paid, too."""
    with look.canvas(0.95) as (figure, axes):
        left = 0.0
        for piece in spent:
            color = ACCENT if piece.this else SOFT
            axes.barh([0], [piece.share], left=left, color=color, edgecolor=PAPER, linewidth=1,
                      hatch="" if piece.finished else "////")  # fmt: skip
            if piece.share > 0.018 * len(piece.label):
                axes.text(left + piece.share / 2, 0, piece.label, ha="center", va="center", fontsize=8.5,
                          color=PAPER if piece.this else INK)  # fmt: skip
            left += piece.share
        _rest(axes, left)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"share of the corpus's whole budget (epsilon {epsilon:g}), over all its runs")
        return look.svg(figure, "budget")


def _rest(axes: Any, spent: float) -> None:
    rest = max(0.0, 1 - spent)
    axes.barh([0], [rest], left=spent, color="none", edgecolor=MUTED, linewidth=0.8)
    if rest > 0.08:
        axes.text(spent + rest / 2, 0, f"{rest:.0%} left", ha="center", va="center", fontsize=8.5, color=MUTED)


def curve(points: Sequence[Point], references: Mapping[str, float]) -> str:
    """Privacy against utility: each run by the epsilon it spent, between the public and the private reference."""
    values = [p.ppl for p in points] + [e for p in points for e in (p.low, p.high) if e] + list(references.values())
    with look.canvas(3.0) as (figure, axes):
        ordered = sorted(points, key=lambda point: (point.epsilon, -point.ppl))
        look.plain_log_axis(axes, min(values) / 1.15, max(values) * 1.15, which="y")
        look.plain_log_axis(axes, ordered[0].epsilon / 1.5, ordered[-1].epsilon * 1.9)
        for name, value in references.items():
            axes.axhline(value, color=WARN if name == "private" else MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
            axes.annotate(MODELS.get(name, name), (1, value), xycoords=("axes fraction", "data"), ha="right",
                          xytext=(0, 3), textcoords="offset points", fontsize=8, color=MUTED)  # fmt: skip
        for point, nudge in zip(ordered, _nudges(ordered), strict=True):
            if point.low and point.high:
                axes.plot([point.epsilon] * 2, [point.low, point.high], color=ACCENT, linewidth=1.4)
            axes.annotate(point.label, (point.epsilon, point.ppl), xytext=(8, nudge), textcoords="offset points",
                          fontsize=8)  # fmt: skip
        axes.plot([p.epsilon for p in ordered], [p.ppl for p in ordered], "o", color=ACCENT, markersize=6.5)
        axes.set_xlabel("epsilon that the run spent (logarithmic; left protects more)")
        axes.set_ylabel("perplexity (logarithmic)")
        return look.svg(figure, "curve")


def _nudges(points: Sequence[Point]) -> list[float]:
    """How far each label goes up or down, in points: of two close neighbours the lower one's goes below."""
    pairs = pairwise(points)
    close = [abs(math.log(a.epsilon / b.epsilon)) < 0.2 and abs(math.log(a.ppl / b.ppl)) < 0.12 for a, b in pairs]
    return [4.0, *(-9.0 if near else 4.0 for near in close)]


def audits(attacks: Mapping[str, Mapping[str, Any]], claimed: float) -> str:
    """What each attack could show of epsilon (a lower bound), beside what is promised (an upper one)."""
    shown = {name: body for name, body in attacks.items() if _number(body.get("epsilon_lower"))}
    most = claimed
    with look.canvas(0.36 * len(shown) + 0.9) as (figure, axes):
        for place, body in enumerate(reversed(shown.values())):
            most = max(most, _attack(axes, body, place))
        axes.set_xlim(-0.02 * most, most * 1.12)
        axes.set_yticks(range(len(shown)), [name.replace("_", " ") for name in reversed(shown)], color=INK)
        _bare(axes, len(shown))
        axes.set_xlabel("epsilon: dot, at least this was shown; bar, at most this is promised; "
                        "cross, shown on an unprotected model")  # fmt: skip
        return look.svg(figure, "audits")


def _attack(axes: Any, body: Mapping[str, Any], place: float) -> float:
    """One row; returns the largest value drawn. An attack on an unprotected model shows that the attack can see."""
    bound, holds = float(body["epsilon_lower"]), bool(body.get("ok", True))
    promised, other = body.get("epsilon_claimed"), (body.get("not_private") or {}).get("epsilon_lower")
    axes.plot([0, bound], [place, place], color=SOFT, linewidth=5, solid_capstyle="butt", zorder=0)
    if _number(promised):
        axes.plot([promised] * 2, [place - 0.32, place + 0.32], color=ACCENT, linewidth=2.2)
    if _number(other):
        axes.plot([other], [place], "x", color=WARN, markersize=6, markeredgewidth=1.6)
    color = INK if holds else WARN
    axes.plot([bound], [place], "o" if holds else "X", color=color, markersize=7, clip_on=False)
    axes.annotate(f"{bound:.2f}", (bound, place), xytext=(0, 6), ha="center", textcoords="offset points", color=color)
    return max(float(value) for value in (bound, promised or 0, other or 0))


def _number(value: Any) -> bool:
    return isinstance(value, int | float)


def teachers(chosen: tuple[int, float], line: Sequence[tuple[int, float]], enough: float) -> str:
    """The planner's picture: effective tokens against the number of teachers, and the choice on that line."""
    counts, tokens = [count for count, _ in line], [value for _, value in line]
    with look.canvas(2.4, look.HALF) as (figure, axes):
        look.plain_log_axis(axes, counts[0], counts[-1])
        look.plain_log_axis(axes, min(*tokens, enough) / 1.6, max(*tokens, enough) * 1.6, which="y")
        axes.axhline(enough, color=WARN, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.annotate(f"below {look.plain(enough)} they teach little", (1, enough), xycoords=("axes fraction", "data"),
                      xytext=(0, -11), textcoords="offset points", ha="right", fontsize=8, color=WARN)  # fmt: skip
        axes.plot(counts, tokens, color=SOFT, linewidth=2.4)
        feasible = chosen[1] >= enough
        axes.plot([chosen[0]], [chosen[1]], "o" if feasible else "X", color=ACCENT if feasible else WARN, markersize=9)
        axes.set_xlabel("teachers (logarithmic)")
        axes.set_ylabel("effective tokens (logarithmic)")
        return look.svg(figure, "teachers")


def classifiers(models: Mapping[str, Mapping[str, Any]], measure: str) -> str:
    """Accuracy or F1 of classifiers trained on synthetic and on real text, with intervals where they were measured."""
    names = sorted(models, key=lambda name: float(models[name][measure]))
    with look.canvas(0.34 * len(names) + 0.8) as (figure, axes):
        for place, name in enumerate(names):
            body = models[name]
            low, high = (body.get("interval") or {}).get(measure) or (None, None)
            axes.plot([0, body[measure]], [place, place], color=RULE, linewidth=5, solid_capstyle="butt", zorder=0)
            if low is not None and high is not None:
                axes.plot([low, high], [place, place], color=INK, linewidth=1.4)
            axes.plot([body[measure]], [place], "o", color=ACCENT if "synthetic" in name else INK, markersize=7)
            axes.annotate(f"{body[measure]:.3f}", (float(high or body[measure]), place), xytext=(9, -3.2),
                          textcoords="offset points")  # fmt: skip
        axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names], color=INK)
        axes.set_xlim(0, 1.08)
        _bare(axes, len(names))
        axes.set_xlabel(f"{measure.replace('_', ' ')} on held-out text (right is better)")
        return look.svg(figure, "classifiers")


def shares(rows: Sequence[Mapping[str, Any]]) -> str:
    """Shares of labels: the noisy ones as released, the true ones for the owner's eyes."""
    with look.canvas(0.34 * len(rows) + 0.8) as (figure, axes):
        for place, row in enumerate(reversed(rows)):
            axes.barh([place], [row["true"]], height=0.5, color=RULE)
            axes.plot([row["noisy"]], [place], "D", color=ACCENT, markersize=5.5)
        axes.set_yticks(range(len(rows)), [str(row["label"]) for row in reversed(rows)], color=INK)
        _bare(axes, len(rows))
        axes.set_xlabel("share of units: diamond, noisy, as released; bar, true, for the owner's eyes")
        return look.svg(figure, "shares")


def _bare(axes: Any, rows: int) -> None:
    """Rows with names need no line and no ticks at their left."""
    axes.set_ylim(-0.6, rows - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def odds(rate: float) -> str:
    """The promise as a rail from a coin's guess to certainty: how far the best attacker gets."""
    with look.canvas(0.62) as (figure, axes):
        axes.plot([50, 100], [0, 0], color=RULE, linewidth=6, solid_capstyle="butt")
        axes.plot([50, 100 * rate], [0, 0], color=ACCENT, linewidth=6, solid_capstyle="butt")
        for value, text, color in (
            (50, "a coin", MUTED),
            (100 * rate, "best attacker", ACCENT),
            (100, "certain", MUTED),
        ):
            axes.plot([value], [0], "|", color=color, markersize=15, markeredgewidth=1.6, clip_on=False)
            axes.annotate(text, (value, 0), xytext=(0, 10), textcoords="offset points", ha="center", fontsize=8.5,
                          color=color, annotation_clip=False)  # fmt: skip
        axes.set_xlim(49, 101)
        axes.set_ylim(-0.4, 0.8)
        axes.set_xticks([50, 60, 70, 80, 90, 100], ["50%", "60%", "70%", "80%", "90%", "100%"])
        axes.tick_params(length=0)
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(False)
        return look.svg(figure, "odds")
