"""What an attack's scores prove: AUC with its interval, true alarms at few false ones, a lower bound on epsilon.

Scores are higher for whom the attacker takes for a member; one score a unit, so that scores are independent. Intervals
are at 95%. For a mu-GDP release no attack's AUC can exceed Phi(mu / sqrt 2): the area under the Gaussian trade-off
curve (Dong, Roth and Su, 2022). Above GUESSING nothing is proved, but a bug should be looked for.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from hearsay.accounting import gaussian
from hearsay.audit.mechanism import clopper_pearson, lower_bounds, plain_epsilon

Floats = NDArray[np.float64]
ERROR = 0.05
GUESSING = 0.52  # an AUC whose lower end lies above this asks for a bug hunt
FALSE_ALARMS = (0.01, 0.001)
ROC_POINTS = 40


@dataclass(frozen=True)
class Interval:
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Promise:
    """What an attack is held against."""

    epsilon: float
    delta: float

    @property
    def mu(self) -> float:
        return gaussian.mu_of(self.epsilon, self.delta)

    @property
    def highest_auc(self) -> float:
        return float(ndtr(self.mu / math.sqrt(2)))


def auc(members: Floats, others: Floats) -> Interval:
    """The chance that a member scores above a non-member, with DeLong's interval (DeLong et al., 1988; by midranks)."""
    m, n = members.size, others.size
    together = rankdata(np.concatenate([members, others]))
    value = float((together[:m].sum() - m * (m + 1) / 2) / (m * n))
    of_members = (together[:m] - rankdata(members)) / n
    of_others = 1 - (together[m:] - rankdata(others)) / m
    variance = _variance(of_members) / m + _variance(of_others) / n
    if variance == 0:  # complete separation: as sure as so many draws without a miss can make it
        edge = (ERROR / 2) ** (1 / min(m, n))
        return Interval(value, edge if value == 1 else value, 1 - edge if value == 0 else value)
    half = float(ndtri(1 - ERROR / 2)) * math.sqrt(variance)
    return Interval(value, max(0.0, value - half), min(1.0, value + half))


def _variance(values: Floats) -> float:
    return float(values.var(ddof=1)) if values.size > 1 else 0.0


def true_alarms(members: Floats, others: Floats, false_alarms: float) -> Interval:
    """Share of members above the threshold that at most this share of the non-members exceeds (Clopper-Pearson)."""
    allowed = int(false_alarms * others.size)
    threshold = np.sort(others)[::-1][allowed]
    hits = int((members > threshold).sum())
    return Interval(hits / members.size, *clopper_pearson(hits, members.size, ERROR))


def epsilon_lower(members: Floats, others: Floats, delta: float) -> float:
    """A lower bound on epsilon at 95%, Gaussian trade-off assumed.

    The threshold is chosen on one half of the units and judged on the other: one chosen on the very draws that it is
    judged by would prove too much.
    """
    choose, judge = (members[::2], others[::2]), (members[1::2], others[1::2])
    if not all(part.size for part in judge):
        return 0.0
    candidates = np.quantile(np.concatenate(choose), np.linspace(0.02, 0.98, 25))
    best = max(candidates, key=lambda cut: lower_bounds(choose[1], choose[0], float(cut), delta, ERROR)[0])
    return lower_bounds(judge[1], judge[0], float(best), delta, ERROR)[0]


def epsilon_from_counts(hits: int, members: int, false_hits: int, others: int, delta: float) -> float:
    """The same from counts of a test without a threshold, as when a text is or is not extracted. Nothing assumed."""
    true_low, _ = clopper_pearson(hits, members, ERROR)
    _, false_high = clopper_pearson(false_hits, others, ERROR)
    return plain_epsilon(true_low, false_high, delta)


def roc(members: Floats, others: Floats) -> list[tuple[float, float]]:
    """(false alarms, true alarms) at false-alarm rates evenly spaced on a logarithmic axis."""
    order = np.sort(others)[::-1]
    allowed = np.unique(np.geomspace(1, others.size, ROC_POINTS).astype(int)) - 1
    return [(int(k) / others.size, float((members > order[k]).mean())) for k in allowed]
