"""Canaries: secrets of our own making, put into a twin run and looked for in what comes out of it.

*Exposure* (Carlini et al., 2019). A canary is a sentence with a random number in it. The model ranks all numbers that
could have stood there; exposure is log2 of how many there are over the canary's rank, so guessing gives about 1 and
knowing it gives log2 of the whole space. The rank is exact: every number is scored.

*One run* (Steinke, Nasr and Jagielski, 2023). Many canary units, each put in or left out by a coin. The auditor
guesses the coins of those it is surest of; under (epsilon, delta)-DP the number of right guesses is hardly above a
binomial's, which turns a count of right guesses into a lower bound on epsilon.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from hearsay import lm as models
from hearsay.audit.mechanism import clopper_pearson, plain_epsilon
from hearsay.audit.statistics import ERROR, Floats
from hearsay.lm import LanguageModel

REPETITIONS = (1, 2, 5, 10, 20, 50, 100)
TEMPLATES = ("the lock of my blue suitcase opens with {}", "please note that my locker is number {}")
DIGITS = 4
TOP = 0.01  # of the candidate space: a canary ranked within it counts as found


@dataclass(frozen=True)
class Canary:
    template: str
    number: str
    repetitions: int

    @property
    def text(self) -> str:
        return self.template.format(self.number)


def space(digits: int = DIGITS) -> list[str]:
    """The candidate space: every number of so many digits, leading zeros included."""
    return [f"{number:0{digits}d}" for number in range(10**digits)]


def draw(seed: int, digits: int = DIGITS, repetitions: Sequence[int] = REPETITIONS) -> list[Canary]:
    """One canary for each template and number of repetitions; no two share a number."""
    stream = np.random.default_rng(seed)
    numbers = stream.choice(10**digits, size=len(TEMPLATES) * len(repetitions), replace=False)
    places = [(template, count) for template in TEMPLATES for count in repetitions]
    return [Canary(t, f"{n:0{digits}d}", r) for (t, r), n in zip(places, numbers.tolist(), strict=True)]


def rows_of(canaries: Sequence[Canary], cap: int, name: str = "canary") -> list[tuple[str, str]]:
    """(user, text). A canary that is repeated more often than one unit may contribute belongs to several units."""
    found = []
    for number, canary in enumerate(canaries):
        found += [(f"{name}-{number}-{copy // cap}", canary.text) for copy in range(canary.repetitions)]
    return found


def ranks(lm: LanguageModel, canaries: Sequence[Canary], digits: int = DIGITS) -> list[float]:
    """Each canary's rank among all fillings of its template, 1 for the likeliest; ties count half."""
    found: dict[tuple[str, str], float] = {}
    for template in dict.fromkeys(canary.template for canary in canaries):
        texts = [template.format(number) for number in space(digits)]
        sums, _ = models.row_nll(lm, models.encode(lm, texts, 10_000), 0)
        values = sums.numpy()
        for canary in canaries:
            if canary.template == template:
                own = values[int(canary.number)]
                found[template, canary.number] = 1 + float((values < own).sum() + ((values == own).sum() - 1) / 2)
    return [found[canary.template, canary.number] for canary in canaries]


def exposure(rank: float, digits: int = DIGITS) -> float:
    return math.log2(10**digits) - math.log2(rank)


def epsilon_from_ranks(found: Sequence[float], delta: float, digits: int = DIGITS) -> float:
    """A canary is drawn evenly, so without it in the run its rank is within TOP with probability TOP exactly."""
    hits = sum(rank <= TOP * 10**digits for rank in found)
    low, _ = clopper_pearson(hits, len(found), ERROR)
    return plain_epsilon(low, TOP, delta)


# --- one run --------------------------------------------------------------------------------------------------------


def coin_canaries(count: int, seed: int) -> tuple[list[str], list[bool]]:
    """Texts of `count` canary units, and the coin of each: in the run or not. Numbers of eight digits, all distinct."""
    stream = np.random.default_rng(seed)
    numbers = stream.choice(10**8, size=count, replace=False)
    texts = [f"my membership card carries the number {n // 10**4:04d} {n % 10**4:04d} on its back" for n in numbers]
    return texts, (stream.random(count) < 0.5).tolist()


def right_guesses(scores: Floats, coins: Sequence[bool], share: float = 0.25) -> tuple[int, int]:
    """(right, guessed): "in" for the highest share of the scores, "out" for the lowest; the rest is not guessed."""
    k = max(1, int(share * len(coins)))
    order = np.argsort(scores, kind="stable")
    truth = np.asarray(coins, dtype=bool)
    return int(truth[order[-k:]].sum() + (~truth[order[:k]]).sum()), 2 * k


def chance(right: int, guessed: int, canaries: int, epsilon: float, delta: float) -> float:
    """The largest probability of so many right guesses that (epsilon, delta)-DP allows (their theorem 5.2)."""
    odds = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guessed, odds))
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guessed, odds))  # P[right - i <= B < right], i = 1, 2 ...
    steepest = float((below / np.arange(1, right + 1)).max()) if right else 0.0
    return min(1.0, tail + 2 * canaries * delta * steepest)


def one_run_epsilon(right: int, guessed: int, canaries: int, delta: float) -> float:
    """The largest epsilon that so many right guesses refute at 95%."""
    low, high = 0.0, 30.0
    if chance(right, guessed, canaries, low, delta) > ERROR:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(right, guessed, canaries, middle, delta) <= ERROR else (low, middle)
    return low
