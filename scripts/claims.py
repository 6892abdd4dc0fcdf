"""The claims of the papers, each with the paper's figure, ours, and a verdict that follows from the figures by rule.

A difference is judged on every corpus that was measured: it *holds* where the sign is the paper's and the paired test
over seeds is clear (p < .05; of everybody held out: the interval over people, too), is *opposite* where it is clear
the other way, else *not clear*. Exact claims are
computed by the product's accounting. A share of the gap holds above .7 of the paper's. Nothing is typed in from a run.
"""

import json
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import Any

from studies.intervals import estimate
from studies.writing import clear, compared, leaked, plus_minus, values

from hearsay.accounting import gaussian

STUDIES = Path(__file__).parents[1] / "studies" / "results"
CORPORA = ("sgd", "europarl", "airline")
CLINIC = ("notes-12", "notes-39", "clinic")
NAMES = {
    "sgd": "service dialogues", "europarl": "parliament", "airline": "airline", "clinic": "clinic",
    "notes-12": "notes, 12 labels", "notes-39": "notes, 39 labels",
}  # fmt: skip
TOLD = {"holds": "reproduced", "opposite": "not reproduced: the opposite", "not clear": "not clear"}
FAR_LESS = TOLD | {"opposite": "not reproduced: far less"}
BEYOND_HALF = 0.7  # of the paper's share of the gap: what still counts as the same
NOTED = {  # cells of the simulated clinic -> those of the real notes, where both have one, and their epsilon
    "sums by label at 1": ("sums by label", 1), "public only": ("public only", 0), "private": ("private", math.inf),
    "DP-SGD": ("DP-SGD directly", 4), "DP-SGD discriminator": ("DP-SGD discriminator", 4), "paper": ("paper", 4),
    "paper, one teacher": ("paper, one teacher", 4), "paper, Laplace": ("paper, Laplace", 4),
    "paper, no tutor": ("paper, no tutor", 4), "paper, 0.5": ("paper", 0.5),
    "DP-SGD discriminator, 0.5": ("DP-SGD discriminator", 0.5),
}  # fmt: skip
DELTA = 1e-6
NOT_MEASURED = "not measured"
KINDS = ("by_teachers", "by_times")  # how phrases are counted


@dataclass(frozen=True)
class Finding:
    ours: str
    verdict: str


@dataclass(frozen=True)
class Claim:
    source: str
    says: str
    paper: str
    study: str  # the YAML, or the function whose arithmetic it is
    find: Callable[[], Finding]
    anew: Callable[[], Finding] | None = None  # the same of everybody held out (people.yaml, people-parts.yaml)


@cache
def cells(study: str, corpus: str) -> dict[str, Any]:
    if corpus.startswith("notes"):
        return _noted(int(corpus.partition("-")[2]))
    path = STUDIES / f"{study}-{corpus}.json"
    found: dict[str, Any] = json.loads(path.read_text())["cells"] if path.exists() else {}
    return found


def _noted(labels: int) -> dict[str, Any]:
    """Of real notes (studies/augment.py), by the names that the simulated clinic has for the same."""
    found: dict[str, Any] = {}
    for one in json.loads((STUDIES / "augment.json").read_text())["cells"].values():
        for name, (called, epsilon) in NOTED.items():
            if (one["labels"], one["name"], one["epsilon"]) == (labels, called, epsilon):
                found.setdefault(name, {})[str(one["seed"])] = one
    return found


def measured(study: str, *needed: str, among: tuple[str, ...] = CORPORA) -> list[str]:
    """Corpora on which all these cells were measured on at least two seeds that they share."""
    found = []
    for corpus in among:
        mine = cells(study, corpus)
        shared = set.intersection(*(set(mine.get(name, {})) for name in needed))
        found += [corpus] if len(shared) > 1 else []
    return found


def joined(verdicts: dict[str, str], told: dict[str, str] = TOLD) -> str:
    """One verdict over corpora."""
    if not verdicts:
        return NOT_MEASURED
    kinds = set(verdicts.values())
    if len(kinds) == 1 and kinds <= told.keys():
        return told[kinds.pop()]
    words = {"opposite": told["opposite"].removeprefix("not reproduced: ").removeprefix("the ")}
    return "; ".join(f"{NAMES[one]}: {words.get(said, said)}" for one, said in verdicts.items())


def worse(
    study: str, cell: str, first: str, judge: str = "ppl", among: tuple[str, ...] = CORPORA
) -> Callable[[], Finding]:
    """That a cell is worse than another: a higher perplexity, or a lower figure of another kind."""

    def find() -> Finding:
        shows, verdicts = [], {}
        for corpus in measured(study, cell, first, among=among):
            gap = compared(cells(study, corpus), cell, first, judge)
            if gap is None:
                continue
            harm = gap.mean if judge == "ppl" else -gap.mean
            mine = cells(study, corpus)
            sure = f"p {gap.p:.2g}, {gap.trials} seeds"
            verdicts[corpus] = (
                "not clear" if not clear(mine, cell, first, judge) else "holds" if harm > 0 else "opposite"
            )
            still = [name for name in (cell, first) if "public" not in name and _all_stayed(mine[name])]
            sure += "".join(f"; {name}: no student moved" for name in still)
            sure += "".join(_overspent(name, mine[name]) for name in (cell, first))
            shows.append(f"{NAMES[corpus]} {plus_minus(gap, 3, '+')} ({sure})")
        once = [corpus for corpus in among if corpus not in verdicts and {cell, first} <= cells(study, corpus).keys()]
        return Finding("; ".join(shows), joined(verdicts | dict.fromkeys(once, "one seed alone")))

    return find


def _all_stayed(cell: dict[str, Any]) -> bool:
    """Whether every student is its own start: then a difference is the start's."""
    starts = [one.get("references", {}).get("public_pseudo", {}).get("ppl") for one in cell.values()]
    return all(one.get("ppl") == start is not None for one, start in zip(cell.values(), starts, strict=True))


def _overspent(name: str, cell: dict[str, Any]) -> str:
    """A library's accountant allowed it another epsilon than it was asked for, by the ledger's."""
    asked = float(name.rpartition(", ")[2]) if name.rpartition(", ")[2].replace(".", "").isdigit() else 4.0
    spent = max((one.get("epsilon") or 0.0 for one in cell.values()), default=0.0)
    return f"; {name} spent epsilon {spent:.3g}" if "discriminator" in name and spent > 1.01 * asked else ""


def gaps(study: str, cell: str, least: float) -> Callable[[], Finding]:
    """Share of the gap between the public and the private reference that a cell closes; `least` is the paper's."""

    def find() -> Finding:
        shows, verdicts = [], {}
        for corpus in measured(study, cell):
            found = values(cells(study, corpus)[cell], "gap_closed")
            if found:
                one = estimate(found)
                same = BEYOND_HALF * least
                verdicts[corpus] = "holds" if one.low > same else "opposite" if one.high < same else "not clear"
                shows.append(f"{NAMES[corpus]} {plus_minus(one)}")
        return Finding("; ".join(shows), joined(verdicts, FAR_LESS))

    return find


def below_zero() -> Finding:
    """And what no text can change: probabilities sum to 1, so fewer than 1 / noise of a question's candidates are
    above the noise's standard deviation, and each of the others is below zero with a chance of Phi(-1) at least.
    """
    found = {one: cells("table-3", one)["seqpate"] for one in measured("table-3", "seqpate")}
    shown = ", ".join(f"{NAMES[one]} {estimate(values(cell, 'negative')).mean:.0%}" for one, cell in found.items())
    seen = min((estimate(values(cell, "negative")).mean for cell in found.values()), default=0.0)
    bounds = [
        (1 - 1 / estimate(values(cell, "noise_std_mean")).mean / estimate(values(cell, "candidates")).mean)
        * NormalDist().cdf(-1)
        for cell in found.values()
    ]
    least = max(0.0, min(bounds, default=0.0))
    said = "reproduced" if seen < RARE else "wrong in the paper" if least > RARE else "not reproduced"
    told = f"of the candidates asked about: {shown}; whatever the text, at this noise at least {least:.0%}"
    return Finding(told, said if found else NOT_MEASURED)


def best_filter(study: str = "table-4", chosen: str = "top-p") -> Finding:
    """The order of mean perplexities. It is the paper's where top-p or 50 is best and one candidate worst, clearly
    worse than top-p; the opposite where another one is clearly better than both.
    """
    shows, verdicts = [], {}
    for corpus in measured(study, chosen, "top-k 1", "top-k 50"):
        mine = cells(study, corpus)
        filters = [name for name in mine if name == chosen or name.startswith("top-k")]
        seeds = set.intersection(*(set(mine[name]) for name in filters))
        order = sorted(filters, key=lambda name: statistics.fmean(mine[name][seed]["ppl"] for seed in seeds))
        shows.append(f"{NAMES[corpus]}: {' < '.join(order)}".replace(chosen, "top-p"))
        best = [name for name in (chosen, "top-k 50") if name != order[0]]
        if len(best) == 2 and all(clear(mine, order[0], name) for name in best):
            verdicts[corpus] = "opposite"  # another one is best, clearly
        elif len(best) == 1 and order[-1] == "top-k 1" and clear(mine, "top-k 1", chosen):
            verdicts[corpus] = "holds"
        else:
            verdicts[corpus] = "not clear"
    return Finding("; ".join(shows), joined(verdicts))


def ablation_order(study: str = "table-3") -> Finding:
    paper = ["-pseudo loss", "-Effi KD", "-Gaussian", "-Merge_P", "-KL", "-All"]
    shows, verdicts = [], {}
    for corpus in measured(study, "seqpate", *paper):
        mine = cells(study, corpus)
        order = sorted(paper, key=lambda name: estimate(values(mine[name], "ppl")).mean)
        shows.append(f"{NAMES[corpus]}: {' < '.join(order)}")
        verdicts[corpus] = "holds" if order == paper else "not clear"
        # The paper says that losing the first of a pair costs less than losing the second.
        found = {pair: compared(mine, *pair) for pair in combinations(paper, 2)}
        tested = sorted((gap.p, pair) for pair, gap in found.items() if gap is not None)
        for rank, (p, (less, more)) in enumerate(tested):
            if p * (len(tested) - rank) >= 0.05:  # Holm: so many pairs, so much chance
                break
            gap = found[less, more]
            if gap is not None and gap.mean > 0 and clear(mine, less, more):
                verdicts[corpus] = "opposite"
                shows[-1] += f" (clearly {less} above {more}: {plus_minus(gap, 3, '+')}, p {p:.2g})"
    return Finding("; ".join(shows), joined(verdicts))


RARE = 0.01
ENOUGH_LEAKS = 10  # of the model that leaks, over all seeds: fewer are chance


def leaks(cell: str, other: str) -> Callable[[], Finding]:
    def find() -> Finding:
        shows, verdicts = [], {}
        for corpus in measured("table-11", cell, other):
            mine = cells("table-11", corpus)
            few, many, chance = (leaked(mine[name]) for name in (cell, other, "public"))
            counts = [f"{one.hits} of {one.trials:,}" for one in (few, many, chance)]
            shows.append(f"{NAMES[corpus]} {counts[0]} beside {counts[1]} (the public model {counts[2]})")
            tells = many.hits >= ENOUGH_LEAKS and chance.ends[1] < many.ends[0]  # else it is no leak that is counted
            fewer, more = few.mean < many.mean / 5, few.ends[0] > many.ends[1]
            verdicts[corpus] = "not clear" if not tells else "holds" if fewer else "opposite" if more else "not clear"
        return Finding("; ".join(shows), joined(verdicts))

    return find


def blacklisted() -> Finding:
    """That a list leaves what it does not list: of the model trained on the text, three ways."""
    names = ("private", "private, blacklist of all secrets", "private, blacklist of half of them")
    shows, verdicts = [], {}
    for corpus in measured("table-11", *names):
        without, every, half = (leaked(cells("table-11", corpus)[name]) for name in names)
        shows.append(f"{NAMES[corpus]} of {without.trials:,}: {without.hits} without a list, {every.hits} where all "
                     f"are listed (by construction), {half.hits} where half are")  # fmt: skip
        left = half.hits > without.hits / 4
        verdicts[corpus] = "not clear" if without.hits < ENOUGH_LEAKS else "holds" if left else "opposite"
    return Finding("; ".join(shows), joined(verdicts))


def phrase_most() -> Finding:
    mu = gaussian.mu_of(2.85, DELTA)
    exactly = gaussian.epsilon_of(9 * mu, DELTA)
    return Finding(f"9 teachers at 2.85 each: exactly {exactly:.1f}", _exact(abs(exactly - 25.64) < 0.1))


def _exact(holds: bool) -> str:
    """Of what follows from the mechanism alone."""
    return "reproduced" if holds else "wrong in the paper"


def several_teachers() -> Finding:
    mu = gaussian.mu_of(3, DELTA)
    exactly = {n: gaussian.epsilon_of(n * mu, DELTA) for n in (2, 3, 4)}
    told = ", ".join(f"{n} teachers {epsilon:.1f}" for n, epsilon in exactly.items())
    shards = [max(one["shards_of_a_user"] for one in cells("table-6", corpus)[name].values())
              for corpus in CORPORA for name in cells("table-6", corpus)]  # fmt: skip
    counted = f"; here every user is in {max(shards)} shard" if shards else ""
    linear = all(epsilon <= 3 * n + 0.1 for n, epsilon in exactly.items())
    return Finding(f"a user in several teachers at epsilon 3 has, exactly: {told}{counted}", _exact(linear))


def average_phrase() -> Finding:
    shows, largest = [], 0.0
    for corpus in CORPORA:
        for name, body in cells("table-6", corpus).items():
            most = {kind: max(one[kind]["3"]["most"] for one in body.values()) for kind in KINDS}
            largest = max(largest, *most.values())
            teachers = max(int(n) for one in body.values() for n in one["reached"])
            reached = "each reaches one teacher" if teachers == 1 else f"one reaches {teachers} teachers"
            shows.append(f"{NAMES[corpus]}, {name}, at an average of 3: most {most['by_teachers']:.1f} by teachers "
                         f"({reached}), {most['by_times']:.1f} by times written")  # fmt: skip
    told = "; ".join(shows) + ". At user level every user has 3. In the paper's own table: 41.2"
    return Finding(told, _exact(largest < 3.1)) if shows else Finding("", NOT_MEASURED)


def certainty() -> Finding:
    most = math.ceil(1000 * gaussian.guess_rate(gaussian.mu_of(5, DELTA))) / 10  # per cent; a bound is rounded up
    return Finding(
        f"e^5 / (1 + e^5) is the bound of pure epsilon; a Gaussian at epsilon 5, delta 1e-6 allows {most:.1f}%",
        _exact(most > 99),
    )


def uncounted() -> Finding:
    def cost(queries: int) -> float:
        return gaussian.epsilon_of(math.sqrt(2 * queries) / 6, DELTA)

    bought = max(n for n in range(1, 100) if cost(n) <= 4)
    return Finding(
        f"sigma 6 costs epsilon {cost(1):.2f} for one question; epsilon 4 buys {bought}; 6,000 cost {cost(6000):.0f}",
        _exact(cost(6000) <= 4),
    )


def discriminator() -> Finding:
    mine = cells("clinic", "clinic").get("paper", {})
    found = values(mine, "discriminator_auc") if mine else []
    return Finding(
        f"simulated clinic: AUC {plus_minus(estimate(found))} from the 12 answers that epsilon 4 buys" if found else "",
        "not reproduced" if found and estimate(found).mean < 0.9 else "reproduced" if found else NOT_MEASURED,
    )


def tutor() -> Finding:
    mine = cells("clinic", "clinic").get("tutor alone at 0.4", {})
    off = values(mine, "shares_off") if mine else []
    return Finding(
        f"simulated clinic: off by {plus_minus(estimate(off), 3)} (total variation)" if off else "",
        "reproduced" if off and estimate(off).mean < 0.1 else "not reproduced" if off else NOT_MEASURED,
    )
