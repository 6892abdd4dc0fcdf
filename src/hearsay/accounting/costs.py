"""What an event costs, in each currency, rounded up. The only file that turns events into numbers.

Three currencies, from tight to general:
  mu^2      Gaussian DP; exact for Gaussians, a cover for pure mechanisms; a filter (charges may be adaptive)
  Renyi     at one order fixed beforehand; holds for every event; a filter too (Feldman and Zrnic, 2021)
  PLD       privacy loss distributions (dp-accounting); tight for all, but only for a schedule fixed beforehand
"""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

from hearsay.accounting import gaussian
from hearsay.accounting.events import Event, Gaussian, Laplace, NoisyMax, RandomizedResponse, SubsampledGaussian
from hearsay.errors import BudgetError, ConfigError

UNIT = Fraction(1, 2**80)  # costs are whole multiples of this, so that sums stay short and exact


def round_up(value: Fraction | float) -> Fraction:
    return math.ceil(Fraction(value) / UNIT) * UNIT


def round_down(value: Fraction | float) -> Fraction:
    return math.floor(Fraction(value) / UNIT) * UNIT


def check(event: Event) -> None:
    """An event with impossible numbers would be charged a nonsense cost."""
    match event:
        case Gaussian():
            good = event.sensitivity_squared > 0 and event.variance > 0 and event.coordinates > 0 and event.queries > 0
        case Laplace():
            good = event.sensitivity_l1 > 0 and event.scale > 0 and event.coordinates > 0 and event.queries > 0
        case RandomizedResponse():
            good = event.answers >= 2 and Fraction(1, event.answers) < event.keep < 1
        case NoisyMax():
            good = event.sensitivity > 0 and event.scale > 0
        case SubsampledGaussian():
            good = 0 < event.rate <= 1 and event.noise_multiplier > 0 and event.steps > 0
    whole = [value for name, value in vars(event).items() if name in ("coordinates", "queries", "answers", "steps")]
    if not good or not all(type(value) is int for value in whole):
        raise ConfigError(f"this release cannot be charged: {event}")


def pure_epsilon(event: Laplace | RandomizedResponse | NoisyMax) -> float:
    """The epsilon of a mechanism that needs no delta (of one query of a Laplace release); rounded up."""
    match event:
        case Laplace():
            exact = float(event.sensitivity_l1 / event.scale)
        case RandomizedResponse():
            exact = math.log(event.keep * (event.answers - 1) / (1 - event.keep))
        case NoisyMax():
            exact = float((1 if event.monotone else 2) * event.sensitivity / event.scale)
    return exact * (1 + gaussian.GUARD)


def mu_squared(event: Event) -> Fraction:
    """Cost in the Gaussian filter. Exact for Gaussians; a covering Gaussian for pure mechanisms."""
    check(event)
    match event:
        case Gaussian():
            return round_up(event.sensitivity_squared / event.variance)
        case SubsampledGaussian(rate=rate) if rate == 1:
            return round_up(event.steps / event.noise_multiplier**2)
        case SubsampledGaussian():
            raise BudgetError(
                "a Poisson-subsampled Gaussian has no cost of its own in a Gaussian filter; commit it in the ledger's "
                "first row before the first answer, or let every unit take part"
            )
        case _:
            return round_up(_repeats(event) * Fraction(gaussian.mu_of_pure(pure_epsilon(event))) ** 2)


def renyi(event: Event, order: int) -> Fraction:
    """Renyi divergence at this order, rounded up. Holds for every event, hence the general filter."""
    check(event)
    match event:
        case Gaussian():
            return round_up(order * event.sensitivity_squared / event.variance / 2)
        case SubsampledGaussian():
            return round_up(event.steps * Fraction(_renyi_of_sampled(event, order)))
        case _:
            return round_up(_repeats(event) * Fraction(_renyi_of_pure(pure_epsilon(event), order)))


def _repeats(event: Event) -> int:
    return event.queries if isinstance(event, Laplace) else 1


def _renyi_of_pure(epsilon: float, order: int) -> float:
    """Every epsilon-DP mechanism is dominated by two-valued randomized response; its Renyi divergence is exact.

    In 60 digits: for a small epsilon the divergence is the logarithm of almost 1, and floats would round it down.
    """
    import mpmath

    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        moment = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
        return float(mpmath.log(moment) / (order - 1)) * (1 + gaussian.GUARD)


def _renyi_of_sampled(event: SubsampledGaussian, order: int) -> float:
    """One step at a whole order, exactly (Mironov, Talwar and Zhang, 2019, equation 3): a binomial sum.

    dp-accounting has the same sum but gives no access to it without its conversion to epsilon; `verify` and the tests
    compare with it and with Opacus.
    """
    import mpmath

    with mpmath.workdps(60):
        rate = mpmath.mpf(event.rate.numerator) / event.rate.denominator
        variance = (mpmath.mpf(event.noise_multiplier.numerator) / event.noise_multiplier.denominator) ** 2
        terms = [
            mpmath.binomial(order, j) * (1 - rate) ** (order - j) * rate**j * mpmath.exp(j * (j - 1) / (2 * variance))
            for j in range(order + 1)
        ]
        return float(mpmath.log(mpmath.fsum(terms)) / (order - 1)) * (1 + gaussian.GUARD)


def pld(event: Event, interval: float = 1e-4, *, optimistic: bool = False) -> Any:
    """The privacy loss distribution of one event; pessimistic (an upper bound) unless asked otherwise."""
    from dp_accounting.pld import privacy_loss_distribution as plds

    check(event)
    plain = {"value_discretization_interval": interval, "pessimistic_estimate": not optimistic}
    rounding = {**plain, "use_connect_dots": not optimistic}  # which is pessimistic only
    match event:
        case Gaussian():
            multiplier = math.sqrt(event.variance / event.sensitivity_squared)
            return plds.from_gaussian_mechanism(multiplier, **rounding)
        case SubsampledGaussian():
            one = plds.from_gaussian_mechanism(
                float(event.noise_multiplier), sampling_prob=float(event.rate), **rounding
            )
            return one.self_compose(event.steps)
        case Laplace():
            return _laplace_pld(event, plds, rounding).self_compose(event.queries)
        case RandomizedResponse():
            noise = float((1 - event.keep) * event.answers / (event.answers - 1))
            return plds.from_randomized_response(noise, event.answers, **plain)
        case NoisyMax():
            return plds.from_privacy_parameters(_pure_parameters(pure_epsilon(event)), **plain)


def _laplace_pld(event: Laplace, plds: Any, rounding: dict[str, Any]) -> Any:
    """On one coordinate the exact distribution; on several the covering pure guarantee, which needs no worst case."""
    if event.coordinates > event.queries:
        plain = {name: value for name, value in rounding.items() if name != "use_connect_dots"}
        return plds.from_privacy_parameters(_pure_parameters(pure_epsilon(event)), **plain)
    if event.sensitivity_l1.denominator == 1:
        return plds.from_discrete_laplace_mechanism(
            float(1 / event.scale), sensitivity=int(event.sensitivity_l1), **rounding
        )
    return plds.from_laplace_mechanism(float(event.scale / event.sensitivity_l1), **rounding)


def _pure_parameters(epsilon: float) -> Any:
    from dp_accounting.pld import common

    return common.DifferentialPrivacyParameters(epsilon, 0.0)


def compose_group(events: Sequence[Event], size: int, interval: float) -> Any:
    """The PLD of committed samples for `size` units that come or go together, each drawn by a coin of its own: as many
    as a binomial law draws take part, and at worst all pull the same way (a mixture of Gaussians: Choquette-Choo,
    Ganesh, Steinke and Thakurta, 2023).
    """
    from dp_accounting.pld import privacy_loss_distribution as plds
    from scipy.stats import binom

    parts = []
    for event, n in Counter(_samples(events)).items():
        chances = binom.pmf(range(size + 1), size, float(event.rate))
        one = plds.from_mixture_gaussian_mechanism(
            float(event.noise_multiplier), range(size + 1), chances / chances.sum(),
            value_discretization_interval=interval,
        )  # fmt: skip
        parts.append(one.self_compose(n * event.steps))
    return reduce(lambda left, right: left.compose(right), parts)


def mu_of_everybody(events: Sequence[Event]) -> float:
    """Of one unit that takes part in every step of these samples: what a sample can cost at most; rounded up."""
    steps = sum((event.steps / event.noise_multiplier**2 for event in _samples(events)), Fraction(0))
    return math.sqrt(steps) * (1 + gaussian.GUARD)


def _samples(events: Sequence[Event]) -> list[SubsampledGaussian]:
    found = [event for event in events if isinstance(event, SubsampledGaussian)]
    if len(found) < len(events):
        raise BudgetError("of several units together only samples are told; this schedule holds other mechanisms")
    return found


def compose(events: list[Event], interval: float = 1e-4, *, optimistic: bool = False) -> Any:
    """The PLD of a fixed list of events; identical ones are raised to a power, Gaussians merged in closed form."""
    gaussians = [event for event in events if isinstance(event, Gaussian)]
    others: list[Event] = [event for event in events if not isinstance(event, Gaussian)]
    if gaussians:
        total = sum((event.sensitivity_squared / event.variance for event in gaussians), Fraction(0))
        others.append(Gaussian(sensitivity_squared=total, variance=Fraction(1), coordinates=1))
    parts = [pld(event, interval, optimistic=optimistic).self_compose(n) for event, n in Counter(others).items()]
    return reduce(lambda left, right: left.compose(right), parts)


def basic(guarantees: list[tuple[float, float]]) -> tuple[float, float]:
    """Basic composition: epsilons and deltas add. Always valid, never tight."""
    return sum(eps for eps, _ in guarantees), sum(delta for _, delta in guarantees)


def group_privacy(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """The general bound for `size` units that change together; for Gaussians `gaussian.group` is exact and better."""
    return size * epsilon, delta * sum(math.exp(i * epsilon) for i in range(size))
