"""What an attacker can do with everything that was released: the figures people understand, for every kind of budget.

For Gaussians they follow from mu. For other budgets mu does not exist, and taking the mu that has the same epsilon at
one delta would be a guess; so both figures come from the whole curve delta(epsilon), which is an upper bound there:

  a 50:50 guess about one person is right at most (1 + TV) / 2, and TV <= (e^eps - 1 + 2 delta) / (e^eps + 1) for any
  point of the curve (exact at eps = 0);
  replacing a person is removing one and adding another: (2 eps, (1 + e^eps) delta) for any point of the curve.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from hearsay.accounting import costs, gaussian, normal
from hearsay.accounting.budget import Budget, beside, main_delta

LARGEST = 600.0  # an epsilon beyond this has no odds worth telling, and e^epsilon must stay a number


@dataclass(frozen=True)
class Odds:
    mu: float  # exact for Gaussians; else the least one whose guess rate and whose epsilon at delta are no smaller
    guess_rate: float
    replace_epsilon: float


def percent(rate: float) -> str:
    """One digit after the point, rounded up: what is told must not be better than what holds."""
    return f"{math.ceil(rate * 1000) / 10:g}"


def of(budget: Budget, spent: Fraction, scheduled: int) -> Odds:
    if not spent and not scheduled:
        return Odds(0.0, 0.5, 0.0)
    if budget.filter == "gaussian" and not scheduled:
        mu = math.sqrt(spent) * (1 + gaussian.GUARD)
        twice = gaussian.epsilon_of(gaussian.group(mu, 2), main_delta(budget.delta))
        return Odds(mu, gaussian.guess_rate(mu), twice)
    curve, most = _curve(budget, spent, scheduled)
    rate = min(1.0, (1 + min(most, *(_variation(eps, curve(eps)) for eps in _grid()))) / 2 * (1 + gaussian.GUARD))
    by_rate = 2 * normal.quantile(min(rate, 1 - 1e-16))
    epsilon = budget.epsilon_spent(spent, scheduled)
    by_epsilon = gaussian.mu_of(epsilon, budget.delta) if epsilon else 0.0
    return Odds(max(by_rate, by_epsilon), rate, _replace(curve, main_delta(budget.delta)))


def _curve(budget: Budget, spent: Fraction, scheduled: int) -> tuple[Callable[[float], float], float]:
    """delta(epsilon) after these charges, an upper bound; and a bound on the total variation from elsewhere."""
    if budget.filter == "renyi":
        order, start = budget.order, float(spent) * (1 + gaussian.GUARD) + math.log1p(-1 / budget.order)
        return (
            lambda eps: math.exp(min(0.0, (order - 1) * (start - eps) - math.log(order))),
            math.sqrt(spent / 2),  # Pinsker: a Renyi divergence of order above 1 is at least the relative entropy
        )
    loss = beside(costs.compose(list(budget.schedule)), math.sqrt(spent) * (1 + gaussian.GUARD))
    return lambda eps: float(loss.get_delta_for_epsilon(eps)), 1.0


def _variation(epsilon: float, delta: float) -> float:
    return math.tanh(epsilon / 2) + 2 * delta / (1 + math.exp(epsilon))


def _grid() -> list[float]:
    return [0.0, *(2.0**power for power in range(-8, 6))]


def _replace(curve: Callable[[float], float], delta: float) -> float:
    """Twice the smallest epsilon whose two removals still fit into delta, by halving; infinite if none does."""

    def fits(eps: float) -> bool:
        return (1 + math.exp(eps)) * curve(eps) <= delta

    low, high = 0.0, 0.25
    while not fits(high):
        low, high = high, 2 * high
        if high > LARGEST:
            return math.inf
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return 2 * high * (1 + gaussian.GUARD)
