"""The direct audit of a mechanism: how much do its answers on two neighbouring ensembles really differ?

An attacker sees one number per draw (the answer projected on the direction in which the neighbours differ) and says
"with" above a threshold that was fixed beforehand. From how often that is right on each side follows a lower bound on
mu, hence on epsilon. Assuming the Gaussian trade-off curve (it is what is claimed) one threshold bounds the whole
curve; the plain bound assumes nothing and is weaker.

What an audit by threshold cannot see is noise that is a few per cent too small. The variance test beside it does.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri
from scipy.stats import chi2

from hearsay.accounting import gaussian


@dataclass(frozen=True)
class Audit:
    epsilon_claimed: float
    epsilon_lower: float  # Gaussian trade-off assumed
    epsilon_lower_plain: float  # nothing assumed
    draws: int
    confidence: float

    @property
    def ok(self) -> bool:
        return self.epsilon_lower <= self.epsilon_claimed

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}


def clopper_pearson(successes: int, trials: int, error: float) -> tuple[float, float]:
    """An interval for a probability, each end wrong with at most half of `error`."""
    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, error / 2))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - error / 2))
    return low, high


def audit(
    without: NDArray[np.float64],
    with_unit: NDArray[np.float64],
    threshold: float,
    *,
    epsilon: float,
    delta: float,
    confidence: float = 0.999,
    plain_threshold: float | None = None,
) -> Audit:
    """Scores of draws on both sides -> a lower bound on epsilon that holds with this confidence.

    Thresholds are fixed before the draws. The plain bound sees most in the tail, so it may have one of its own.
    """
    error = 1 - confidence
    assumed, _ = lower_bounds(without, with_unit, threshold, delta, error)
    _, plain = lower_bounds(without, with_unit, threshold if plain_threshold is None else plain_threshold, delta, error)
    return Audit(
        epsilon_claimed=epsilon,
        epsilon_lower=assumed,
        epsilon_lower_plain=plain,
        draws=without.size,
        confidence=confidence,
    )


def lower_bounds(
    without: NDArray[np.float64], with_unit: NDArray[np.float64], threshold: float, delta: float, error: float
) -> tuple[float, float]:
    """(epsilon if the trade-off is Gaussian, epsilon whatever it is), each wrong with at most this probability.

    The plain one takes Clopper-Pearson at both ends.
    """
    true_low, false_high = _rates(without, with_unit, threshold, error)
    mu = max(0.0, float(ndtri(true_low)) - float(ndtri(false_high)))
    return gaussian.epsilon_of(mu, delta), plain_epsilon(true_low, false_high, delta)


def plain_epsilon(true_low: float, false_high: float, delta: float) -> float:
    """The least epsilon with TPR <= e^epsilon FPR + delta, at these rates; nothing assumed."""
    return math.log((true_low - delta) / false_high) if true_low > delta + false_high else 0.0


def _rates(
    without: NDArray[np.float64], with_unit: NDArray[np.float64], threshold: float, error: float
) -> tuple[float, float]:
    """The least rate of true alarms and the greatest of false ones that the counts allow."""
    _, false_high = clopper_pearson(int((without > threshold).sum()), without.size, error)
    true_low, _ = clopper_pearson(int((with_unit > threshold).sum()), with_unit.size, error)
    return true_low, false_high


def variance_ratio(noise: NDArray[np.int64], sigma: float) -> tuple[float, float]:
    """Measured over promised variance of a rounded normal, and the two-sided chi-square p-value."""
    expected = sigma**2 + 1 / 12  # rounding adds a twelfth of a grid step squared
    statistic = float((noise.astype(np.float64) ** 2).sum()) / expected
    tails = float(chi2.cdf(statistic, noise.size)), float(chi2.sf(statistic, noise.size))
    return statistic / noise.size, 2 * min(tails)
