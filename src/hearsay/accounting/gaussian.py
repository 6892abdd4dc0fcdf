"""Gaussian differential privacy in closed form: one number, mu, and exact composition.

A sum of bounded contributions with L2 sensitivity D, released with N(0, s^2) noise, is mu-GDP with mu = D / s
(Dong, Roth and Su, 2019). Releases compose as mu^2 = sum mu_i^2, also when later ones are chosen after seeing earlier
answers, as long as the sum stays below a bound fixed beforehand (Smith and Thakurta, 2022). The (epsilon, delta)
guarantee is the one of a single Gaussian (Balle and Wang, 2018):

    delta(eps) = Phi(mu/2 - eps/mu) - exp(eps) Phi(-mu/2 - eps/mu)

Every conversion is nudged to the safe side by GUARD, which is a thousand times wider than the float error seen
against 50-digit arithmetic, and a thousand times narrower than anyone could notice.
"""

import math
from collections.abc import Callable

from hearsay.accounting.normal import below, erfcx, log_below, quantile
from hearsay.errors import ConfigError

GUARD = 1e-9


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta for which a mu-GDP release is (epsilon, delta)-DP; float accuracy, not nudged."""
    if mu <= 0:
        return 0.0
    x = epsilon / mu - mu / 2
    if x > -5:
        # exp(eps) phi(x + mu) = phi(x), so the two tails differ only in their Mills ratios: no cancellation of e^eps.
        return 0.5 * math.exp(-x * x / 2) * _erfcx_drop(x / math.sqrt(2), mu / math.sqrt(2))
    return below(-x) - math.exp(epsilon + log_below(-x - mu))


def _erfcx_drop(start: float, width: float) -> float:
    """erfcx(start) - erfcx(start + width). For a small width by integrating its slope, since a difference cancels."""
    if width > 0.01:
        return erfcx(start) - erfcx(start + width)
    nodes = ((0.5 - math.sqrt(0.15), 5 / 18), (0.5, 4 / 9), (0.5 + math.sqrt(0.15), 5 / 18))  # Gauss-Legendre
    points = [(start + place * width, weight) for place, weight in nodes]
    slope = sum(weight * (1 / math.sqrt(math.pi) - t * erfcx(t)) for t, weight in points)
    return 2 * width * slope


def epsilon_of(mu: float, delta: float) -> float:
    """The epsilon of a mu-GDP release at this delta, rounded up."""
    check_delta(delta)
    if not math.isfinite(mu):
        raise ConfigError(f"mu is {mu}; need a finite number: noise of zero protects nobody")
    if mu <= 0 or delta_of(mu, 0.0) * (1 + GUARD) <= delta:
        return 0.0
    return _bisect(lambda eps: delta_of(mu, eps) <= delta, low=0.0, high=mu * mu / 2 + 40 * mu) * (1 + GUARD)


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu that is (epsilon, delta)-DP, rounded down."""
    check_epsilon(epsilon)
    check_delta(delta)
    high = 1.0
    while delta_of(high, epsilon) <= delta:
        high *= 2
    return _bisect(lambda mu: delta_of(mu, epsilon) > delta, low=0.0, high=high) * (1 - GUARD)


def sigma_for(epsilon: float, delta: float, sensitivity: float, queries: int = 1) -> float:
    """Noise on the SUM (never on the mean) so that `queries` releases together are (epsilon, delta)-DP; rounded up."""
    _check_release(sensitivity, queries)
    return sensitivity * math.sqrt(queries) / mu_of(epsilon, delta) * (1 + GUARD)


def classic_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """The textbook bound, valid for epsilon at most 1: kept for comparison, always looser than `sigma_for`."""
    if not 0 < epsilon <= 1:
        raise ConfigError(f"the classic Gaussian bound holds for epsilon in (0, 1], got {epsilon}; use sigma_for")
    check_delta(delta)
    _check_release(sensitivity, 1)
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon * (1 + GUARD)


def mu_of_pure(epsilon: float) -> float:
    """The mu whose Gaussian covers ANY epsilon-DP mechanism (Laplace, randomized response, noisy max); rounded up.

    The trade-off curve of epsilon-DP is two straight lines through (a, a) with a = 1 / (1 + e^epsilon). A Gaussian
    curve is convex with the same ends, so it lies below both lines as soon as it passes at or below (a, a):
    mu = 2 Phi^-1(1 - a). This lets pure mechanisms into the Gaussian filter without giving up adaptivity.
    """
    check_epsilon(epsilon)
    if epsilon > 700:
        raise ConfigError(f"epsilon {epsilon} of one mechanism protects nobody; need at most 700")
    return -2 * quantile(1 / (1 + math.exp(epsilon))) * (1 + GUARD) + GUARD * 1e-3


def pure_epsilon_of(mu: float) -> float:
    """The largest epsilon that costs at most mu by `mu_of_pure`, rounded down; 0 where mu is too small to tell."""
    mu = (mu - GUARD * 1e-3) * (1 - 2 * GUARD)
    if mu <= 0:
        return 0.0
    if mu < 1:
        return 2 * math.atanh(math.erf(mu / 2 / math.sqrt(2))) * (1 - 3 * GUARD)
    return (log_below(mu / 2) - log_below(-mu / 2)) * (1 - 3 * GUARD)


def group(mu: float, size: int) -> float:
    """mu for `size` units that change together: exact for Gaussians, and linear in mu, not in epsilon."""
    return mu * size


def guess_rate(mu: float) -> float:
    """How often the best attacker is right about one person's presence, told 50:50 beforehand; rounded up."""
    return min(1.0, below(mu / 2) * (1 + GUARD))


def phrase_epsilon(sigma: float, sensitivity: float, queries: int, teachers_reached: int, delta: float) -> float:
    """Exact epsilon for a phrase that reaches n teachers: sensitivity n times as large, k queries.

    Scaling epsilon by n instead, as is often done, is not the guarantee: 9 teachers at 2.85 each are 41.2, not 25.64.
    """
    return epsilon_of(group(sensitivity * math.sqrt(queries) / sigma, teachers_reached), delta)


def check_epsilon(epsilon: float) -> None:
    if not (isinstance(epsilon, int | float) and math.isfinite(epsilon) and epsilon > 0):
        raise ConfigError(f"privacy.epsilon is {epsilon}; need a positive number, such as 3")


def check_delta(delta: float) -> None:
    if not (isinstance(delta, int | float) and 0 < delta < 1):
        raise ConfigError(f"privacy.delta is {delta}; need a number between 0 and 1, such as 1e-6")


def _check_release(sensitivity: float, queries: int) -> None:
    if not (math.isfinite(sensitivity) and sensitivity > 0 and queries >= 1):
        raise ConfigError(f"sensitivity {sensitivity}, queries {queries}; need more than 0, and at least 1")


def _bisect(right_of: Callable[[float], bool], low: float, high: float) -> float:
    """The point where `right_of` turns true, to the last bit that halving can give."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if right_of(middle) else (middle, high)
    return high
