"""How much noise Poisson-sampled steps need, and what they cost: calibrated by privacy loss distributions.

Each unit is in a step with probability `rate`; the clipped sum of a step gets normal noise of `noise_multiplier` times
the clip. Such steps have no cost of their own in a Gaussian filter: their whole schedule is committed in the ledger's
first row (budget.py), so the multiplier must be known before the first draw. With every unit in every step they are
plain Gaussians, in closed form, and any ledger takes them.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from hearsay.accounting import costs, gaussian
from hearsay.accounting.budget import main_delta
from hearsay.accounting.events import SubsampledGaussian
from hearsay.errors import BudgetError, ConfigError

FINENESS = 2**10  # multipliers are whole multiples of 1 / FINENESS
COARSE = 1e-3  # interval of the search's loss distributions; the answer is checked at the ledger's own, finer one
LARGEST = 2**16


def check(rate: Fraction, steps: int) -> None:
    if not 0 < rate <= 1 or steps < 1:
        raise ConfigError(f"got a sampling rate of {float(rate):g} over {steps} steps; need 0 < rate <= 1, steps >= 1")


def rate_of(sample: float) -> Fraction:
    """A chance as it is written, as exact as it is charged."""
    return Fraction(sample).limit_denominator(10**6)


def epsilon_of(event: SubsampledGaussian, delta: float, interval: float = 1e-4) -> float:
    """Epsilon of the whole schedule, an upper bound."""
    if event.rate == 1:
        return gaussian.epsilon_of(math.sqrt(costs.mu_squared(event)) * (1 + gaussian.GUARD), main_delta(delta))
    return float(costs.pld(event, interval).get_epsilon_for_delta(main_delta(delta)))


@lru_cache(maxsize=64)
def schedule_for(epsilon: float, delta: float, rate: Fraction, steps: int, share: float = 1.0) -> SubsampledGaussian:
    """The steps with the least noise (to 1 / FINENESS) whose whole costs at most this share of (epsilon, delta)."""
    check(rate, steps)
    epsilon = part_of(epsilon, delta, share)
    if rate == 1:
        return full_for(Fraction(gaussian.mu_of(epsilon, main_delta(delta))) ** 2, steps)

    def fits(ticks: int, interval: float) -> bool:
        event = SubsampledGaussian(rate, Fraction(ticks, FINENESS), steps)
        return bool(costs.pld(event, interval).get_delta_for_epsilon(epsilon) <= main_delta(delta))

    ticks = _least(lambda ticks: fits(ticks, COARSE))
    while not fits(ticks, 1e-4):  # both are upper bounds; the finer one is seldom the larger
        ticks += 1
    return SubsampledGaussian(rate, Fraction(ticks, FINENESS), steps)


def part_of(epsilon: float, delta: float, share: float) -> float:
    """The epsilon that a share of mu^2 buys: a share of the budget means the same for every method."""
    if share == 1:
        return epsilon
    mu = gaussian.mu_of(epsilon, main_delta(delta))
    return gaussian.epsilon_of(math.sqrt(share) * mu, main_delta(delta))


def full_for(mu_squared: Fraction, steps: int) -> SubsampledGaussian:
    """Every unit in every step, for at most mu^2."""
    if mu_squared <= 0:
        raise BudgetError("nothing of the budget is left for these steps")
    square = steps / (mu_squared - costs.UNIT) * FINENESS**2
    return SubsampledGaussian(Fraction(1), Fraction(math.isqrt(math.ceil(square) - 1) + 1, FINENESS), steps)


def _least(fits: Callable[[int], bool]) -> int:
    """The least number of ticks that fits, by doubling and halving. More noise never costs more."""
    high = FINENESS // 4
    while not fits(high):
        high *= 2
        if high > LARGEST * FINENESS:
            raise BudgetError("so many steps at this budget need more noise than could teach anything; take fewer")
    low = high // 2 if high > FINENESS // 4 else 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
