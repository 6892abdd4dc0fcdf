"""The budget as a filter: fixed before the first answer, valid however later charges depend on earlier answers.

A budget is (epsilon, delta) and a capacity in one additive currency (see costs.py). A charge is allowed while the
exact rational sum stays at most the capacity; there is no tolerance. The capacity is computed once, rounded down:

  gaussian   mu_max^2. Mechanisms that a Gaussian cannot carry (Poisson sampling) must stand in `schedule`, committed
             before the first draw: their privacy loss distribution is composed with the Gaussian's, and what is left
             is mu_max^2. Choosing a schedule AFTER seeing answers is not covered, so the ledger has no way to add one.
  renyi      the divergence allowed at one order, fixed here. Looser, and takes every mechanism at any time.

The sampler's distance from a true normal (release/noise.py) is paid from SAMPLER_SHARE of delta.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from hearsay.accounting import costs, events, gaussian
from hearsay.accounting.events import Event
from hearsay.errors import BudgetError, ConfigError, LedgerError

SAMPLER_SHARE = 1e-6
SAMPLER_ERROR = Fraction(1, 2**200)  # per coordinate, in total variation; proved in docs/noise.md
MOST_COORDINATES = 2**40  # of one corpus, over all its answers
ORDERS = (*range(2, 64), 80, 96, 128, 192, 256, 512)

LARGEST_GROUP = 64  # whose loss distribution is worth its seconds

Filter = Literal["gaussian", "renyi"]


@dataclass(frozen=True)
class Budget:
    epsilon: float
    delta: float
    capacity: Fraction
    filter: Filter = "gaussian"
    order: int = 0
    schedule: tuple[Event, ...] = ()

    def cost(self, event: Event) -> Fraction:
        return costs.mu_squared(event) if self.filter == "gaussian" else costs.renyi(event, self.order)

    @property
    def whole(self) -> Fraction:
        """The capacity before any schedule was committed."""
        return make(self.epsilon, self.delta, self.filter).capacity if self.schedule else self.capacity

    def share(self, cost: Fraction) -> float:
        """A cost as a share of the whole budget."""
        return float(cost / self.whole)

    def share_of(self, event: Event) -> float:
        """What a committed schedule takes is told evenly over its events."""
        if event in self.schedule:
            return float(1 - self.capacity / self.whole) / len(self.schedule)
        return self.share(self.cost(event))

    def left(self, spent: Fraction) -> float:
        """Of the whole budget, what is neither spent nor committed: for a run that comes next."""
        return self.share(max(Fraction(0), self.capacity - spent))

    def epsilon_spent(self, spent: Fraction, scheduled: int) -> float:
        """Epsilon at the budget's delta after these charges, rounded up. The schedule counts whole once it began.

        Within the capacity it is at most the budget's epsilon by the capacity's definition; without the minimum, two
        roundings to the safe side would tell people 3.000000003.
        """
        rounded_up = self._epsilon_of(spent, scheduled)
        return min(self.epsilon, rounded_up) if spent <= self.capacity else rounded_up

    def epsilon_of_group(self, spent: Fraction, scheduled: int, size: int) -> float:
        """The same for `size` units that come or go together. It may well exceed the budget's, which is one unit's."""
        if size == 1:
            return self.epsilon_spent(spent, scheduled)
        if self.filter == "renyi":
            raise BudgetError("a Renyi filter promises for one unit; of several together it says nothing useful")
        mu = gaussian.group(math.sqrt(float(spent)) * (1 + gaussian.GUARD), size)
        if not scheduled:
            return gaussian.epsilon_of(mu, main_delta(self.delta)) if spent else 0.0
        if size > LARGEST_GROUP:  # as if each took part in every step: looser, at once
            everybody = gaussian.group(costs.mu_of_everybody(self.schedule), size)
            return gaussian.epsilon_of(math.hypot(mu, everybody), main_delta(self.delta))
        interval = 1e-3 * size  # coarser for more of them: right to four digits, and rounded up
        loss = beside(costs.compose_group(self.schedule, size, interval), mu, interval)
        return float(loss.get_epsilon_for_delta(main_delta(self.delta))) * (1 + gaussian.GUARD)

    def _epsilon_of(self, spent: Fraction, scheduled: int) -> float:
        if self.filter == "renyi":
            return _renyi_epsilon(float(spent), self.order, self.delta) if spent else 0.0
        mu = math.sqrt(float(spent)) * (1 + gaussian.GUARD)
        if not scheduled:
            return gaussian.epsilon_of(mu, main_delta(self.delta)) if spent else 0.0
        loss = beside(costs.compose(list(self.schedule)), mu)
        return float(loss.get_epsilon_for_delta(main_delta(self.delta))) * (1 + gaussian.GUARD)


def make(epsilon: float, delta: float, filter: Filter = "gaussian", schedule: tuple[Event, ...] = ()) -> Budget:
    gaussian.check_epsilon(epsilon)
    gaussian.check_delta(delta)
    check_sampler(epsilon, delta)
    if filter == "renyi":
        order = max(ORDERS, key=lambda order: _renyi_capacity(epsilon, delta, order) / order)
        capacity = costs.round_down(_renyi_capacity(epsilon, delta, order))
        if schedule:
            raise BudgetError("a Renyi filter takes every mechanism at any time; leave out the schedule")
        return Budget(epsilon, delta, _positive(capacity, epsilon, delta), "renyi", order)
    mu = gaussian.mu_of(epsilon, main_delta(delta)) if not schedule else _mu_beside(epsilon, delta, schedule)
    capacity = costs.round_down(Fraction(mu) ** 2)  # may be 0 beside a schedule that takes everything
    return Budget(
        epsilon, delta, capacity if schedule else _positive(capacity, epsilon, delta), "gaussian", 0, schedule
    )


def main_delta(delta: float) -> float:
    """Delta without the sampler's share, rounded down."""
    return delta * (1 - SAMPLER_SHARE) * (1 - 1e-15)


def sampler_delta(coordinates: int, epsilon: float) -> Fraction:
    """What n coordinates, each within total variation t of the exact law, add to delta: n t (1 + e^eps)."""
    return coordinates * SAMPLER_ERROR * (1 + Fraction(math.exp(epsilon) * (1 + gaussian.GUARD)))


def sampler_share(delta: float) -> Fraction:
    return Fraction(delta) * Fraction(SAMPLER_SHARE)


def check_sampler(epsilon: float, delta: float) -> None:
    """The sampler's error grows with e^eps: a budget under which nothing could ever be charged is refused at once."""
    if epsilon > 700 or sampler_delta(MOST_COORDINATES, epsilon) > sampler_share(delta):
        raise ConfigError(
            f"privacy.epsilon {epsilon} with privacy.delta {delta} is beyond what the noise can carry (its error times "
            "e^epsilon must stay far below delta), and protects nobody; take a smaller epsilon"
        )


def to_json(budget: Budget) -> dict[str, Any]:
    return {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "capacity": str(budget.capacity),
        "filter": budget.filter,
        "order": budget.order,
        "schedule": [events.to_json(event) for event in budget.schedule],
    }


def from_json(body: dict[str, Any]) -> Budget:
    schedule = tuple(events.from_json(event) for event in body["schedule"])
    return Budget(body["epsilon"], body["delta"], Fraction(body["capacity"]), body["filter"], body["order"], schedule)


def check_capacity(stated: Budget) -> None:
    """Recomputes the capacity: a first row that grants more than its epsilon would make every later check worthless."""
    allowed = make(stated.epsilon, stated.delta, stated.filter, stated.schedule).capacity
    if stated.capacity > allowed * (1 + Fraction(1, 10**8)):  # a libm that rounds otherwise is not a fraud
        raise LedgerError("the ledger's first row grants more than its epsilon and delta allow")


def _positive(capacity: Fraction, epsilon: float, delta: float) -> Fraction:
    if capacity <= 0:
        raise BudgetError(f"epsilon {epsilon}, delta {delta} leaves nothing to spend after what is committed")
    return capacity


def _renyi_capacity(epsilon: float, delta: float, order: int) -> float:
    """Inverse of the Renyi-to-DP conversion of Canonne, Kamath and Steinke (2020), rounded down."""
    main = main_delta(delta)
    return (epsilon - math.log1p(-1 / order) + math.log(main * order) / (order - 1)) * (1 - gaussian.GUARD)


def _renyi_epsilon(spent: float, order: int, delta: float) -> float:
    main = main_delta(delta)
    return max(0.0, spent + math.log1p(-1 / order) - math.log(main * order) / (order - 1)) * (1 + gaussian.GUARD)


def beside(schedule_loss: Any, mu: float, interval: float = 1e-4) -> Any:
    """A schedule's privacy loss composed with a mu-GDP release."""
    if not mu:
        return schedule_loss
    return schedule_loss.compose(costs.pld(events.Gaussian(Fraction(mu) ** 2, Fraction(1), 1), interval))


@lru_cache(maxsize=16)  # a dozen compositions: made for the first row, checked again by every verify
def _mu_beside(epsilon: float, delta: float, schedule: tuple[Event, ...]) -> float:
    """The largest mu that the committed schedule leaves, by halving; each trial is one pessimistic composition."""
    loss = costs.compose(list(schedule))
    if loss.get_delta_for_epsilon(epsilon) > main_delta(delta):
        raise BudgetError(f"the committed schedule alone costs more than epsilon {epsilon} at delta {delta}")
    low, high = 0.0, gaussian.mu_of(epsilon, delta)
    for _ in range(16):
        middle = (low + high) / 2
        within = beside(loss, middle).get_delta_for_epsilon(epsilon) <= main_delta(delta)
        low, high = (middle, high) if within else (low, middle)
    return low
