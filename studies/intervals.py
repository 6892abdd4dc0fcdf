"""Means over seeds with 95% t-intervals, and paired tests: how sure a study is of a figure or of a difference."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from hearsay.audit.mechanism import clopper_pearson


@dataclass(frozen=True)
class Estimate:
    """`trials` values; `half` is the half-width of the 95% interval, infinite for a single value."""

    mean: float
    half: float
    trials: int

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half


@dataclass(frozen=True)
class Difference(Estimate):
    p: float  # of the paired two-sided t-test that there is none; 1 where it cannot be told

    @property
    def clear(self) -> bool:
        return self.p < 0.05


def estimate(values: Sequence[float]) -> Estimate:
    from scipy import stats

    n = len(values)
    half = stats.t.ppf(0.975, n - 1) * statistics.stdev(values) / math.sqrt(n) if n > 1 else math.inf
    return Estimate(statistics.fmean(values), float(half), n)


@dataclass(frozen=True)
class Share:
    """`hits` of `trials`, with the exact 95% interval (Clopper and Pearson): near zero a t-interval over seeds lies."""

    hits: int
    trials: int

    @property
    def mean(self) -> float:
        return self.hits / self.trials

    @property
    def ends(self) -> tuple[float, float]:
        return clopper_pearson(self.hits, self.trials, 0.05)


def paired(values: Sequence[float], others: Sequence[float]) -> Difference:
    """Of values less others, seed by seed: what the panels share (text, teachers) drops out."""
    from scipy import stats

    gaps = [a - b for a, b in zip(values, others, strict=True)]
    found = estimate(gaps)
    if len(gaps) < 2 or statistics.stdev(gaps) == 0:
        p = 0.0 if len(gaps) > 1 and gaps[0] else 1.0
    else:
        p = float(stats.ttest_rel(values, others).pvalue)
    return Difference(found.mean, found.half, found.trials, p)
