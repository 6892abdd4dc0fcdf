"""A second, independent accountant: from raw events to epsilon without any of costs.py or gaussian.py.

Gaussians, and the pure mechanisms that a Gaussian covers, are added as mu^2 in 50-digit arithmetic (mpmath), and
delta(epsilon) is evaluated there. Where a budget is not purely Gaussian, dp-accounting is given the events in its own
language: its loss distributions for a committed schedule, its Renyi accountant for a Renyi filter.
"""

import math
from fractions import Fraction
from typing import Any

import mpmath

from hearsay.accounting.budget import Budget, main_delta
from hearsay.accounting.events import Event, Gaussian, Laplace, NoisyMax, RandomizedResponse, SubsampledGaussian
from hearsay.accounting.ledger import Account

DIGITS = 50


def second(budget: Budget, account: Account, loose: list[Event]) -> dict[str, Any]:
    """Epsilon of the committed schedule (if it began) and the other, `loose`, events."""
    delta = main_delta(budget.delta)
    if not loose and not account.scheduled:
        return {"epsilon": 0.0, "accountant": "nothing charged"}
    if budget.filter == "renyi":
        return {"epsilon": _renyi_epsilon(loose, budget.order, delta), "accountant": "dp-accounting Renyi"}
    mu = mpmath_mu(loose)
    if account.scheduled:
        return {"epsilon": _pld_epsilon(budget.schedule, float(mu), delta), "accountant": "dp-accounting PLD"}
    return {"epsilon": mpmath_epsilon(mu, delta), "accountant": f"mpmath, {DIGITS} digits"}


def mpmath_mu(history: list[Event]) -> Any:
    with mpmath.workdps(DIGITS):
        return mpmath.sqrt(mpmath.fsum(_mpmath_mu_squared(event) for event in history))


def _mpmath_mu_squared(event: Event) -> Any:
    match event:
        case Gaussian():
            return _real(event.sensitivity_squared) / _real(event.variance)
        case SubsampledGaussian():
            return event.steps / _real(event.noise_multiplier) ** 2  # all units in every round: plain Gaussians
    half = mpmath.sqrt(2) * mpmath.erfinv(mpmath.tanh(_pure_epsilon(event) / 2))  # Phi^-1(e^eps / (1 + e^eps))
    return (event.queries if isinstance(event, Laplace) else 1) * (2 * half) ** 2


def _pure_epsilon(event: Laplace | RandomizedResponse | NoisyMax) -> Any:
    match event:
        case Laplace():
            return _real(event.sensitivity_l1) / _real(event.scale)
        case RandomizedResponse():
            return mpmath.log(_real(event.keep) * (event.answers - 1) / _real(1 - event.keep))
        case NoisyMax():
            return (1 if event.monotone else 2) * _real(event.sensitivity) / _real(event.scale)


def mpmath_delta(mu: Any, epsilon: Any) -> Any:
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def mpmath_epsilon(mu: Any, delta: float) -> float:
    with mpmath.workdps(DIGITS):
        mu = mpmath.mpf(mu)
        if not mu or mpmath_delta(mu, mpmath.mpf(0)) <= delta:
            return 0.0
        low, high = mpmath.mpf(0), mu * mu / 2 + 40 * mu
        for _ in range(90):
            middle = (low + high) / 2
            low, high = (low, middle) if mpmath_delta(mu, middle) <= delta else (middle, high)
        return float(high)


def _pld_epsilon(schedule: tuple[Event, ...], mu: float, delta: float) -> float:
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for event in schedule:
        accountant.compose(_in_their_words(event))
    if mu:
        accountant.compose(dp_event.GaussianDpEvent(1 / mu))
    return float(accountant.get_epsilon(delta))


def _renyi_epsilon(history: list[Event], order: int, delta: float) -> float:
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant([order])
    for event in history:
        accountant.compose(_in_their_words(event))
    return float(accountant.get_epsilon(delta))


def _in_their_words(event: Event) -> Any:
    """The event in dp-accounting's language; pure mechanisms as the Laplace mechanism of the same epsilon."""
    from dp_accounting import dp_event as theirs

    match event:
        case Gaussian():
            return theirs.GaussianDpEvent(math.sqrt(event.variance / event.sensitivity_squared))
        case SubsampledGaussian():
            step = theirs.PoissonSampledDpEvent(
                float(event.rate), theirs.GaussianDpEvent(float(event.noise_multiplier))
            )
            return theirs.SelfComposedDpEvent(step, event.steps)
    laplace = theirs.LaplaceDpEvent(1 / float(_pure_epsilon(event)))
    return theirs.SelfComposedDpEvent(laplace, event.queries if isinstance(event, Laplace) else 1)


def _real(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator
