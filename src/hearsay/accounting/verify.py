"""`hearsay ledger verify`: everything recomputed from the events by a second, independent accountant.

The first accountant adds rationals in float-derived costs; this one reads the raw events, adds their mu^2 in 50-digit
arithmetic (mpmath) and evaluates delta(epsilon) there. Where a budget is not purely Gaussian the second opinion is
dp-accounting: its privacy loss distributions for a committed schedule, its Renyi accountant's conversion for a Renyi
filter. Beside it: the hash chain, the running totals, the budget's capacity, and the heads kept in run directories.
"""

import json
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath

from hearsay.accounting import budget as budgets
from hearsay.accounting import chain, costs, events
from hearsay.accounting.events import Event, Gaussian, Laplace, NoisyMax, RandomizedResponse, SubsampledGaussian
from hearsay.accounting.ledger import Account, Ledger, charged
from hearsay.errors import HearsayError

DIGITS = 50
AGREEMENT = 1e-6  # how far the two accountants may lie apart, relatively, before we say that one is wrong


@dataclass
class Verdict:
    epsilon: float
    delta: float
    mu: float
    budget_epsilon: float
    second_opinion: dict[str, Any]
    charges: int
    answers: int
    runs: int
    chain: str = "intact"
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}


def verify(ledger: Ledger) -> Verdict:
    problems: list[str] = []
    bodies = _walk_chain(ledger, problems)
    intact = not problems
    charges = [body for body in bodies if body["kind"] == "charge"]
    account = _replay(ledger, charges, problems)
    budget = ledger.budget
    _collect(problems, lambda: budgets.check_capacity(budget))
    if account.spent > budget.capacity:
        problems.append("the charges exceed the budget")
    epsilon = budget.epsilon_spent(account.spent, account.scheduled)
    second = second_opinion(ledger, [events.from_json(body["event"]) for body in charges])
    if second["epsilon"] > epsilon * (1 + AGREEMENT) + 1e-9:
        problems.append(f"the second accountant finds epsilon {second['epsilon']}, more than {epsilon}")
    unchecked = _check_heads(ledger, bodies, problems)
    return Verdict(
        epsilon=epsilon,
        delta=budget.delta,
        mu=float(account.spent) ** 0.5 if budget.filter == "gaussian" else 0.0,
        budget_epsilon=budget.epsilon,
        second_opinion=second,
        charges=len(charges),
        answers=len({body["answer"] for body in charges}),
        runs=sum(body["kind"] == "run" for body in bodies),
        chain="intact" if intact else "broken",
        problems=problems,
        unchecked=unchecked,
    )


def _walk_chain(ledger: Ledger, problems: list[str]) -> list[dict[str, Any]]:
    """The rows up to the first bad one, which is named; nothing after it can be trusted."""
    previous, bodies = chain.GENESIS, []
    for expected, (row, text, stored) in enumerate(ledger.rows(), start=1):
        if row != expected:
            problems.append(f"row {expected} is missing")
            break
        if chain.link(previous, text) != stored:
            problems.append(f"row {row} was changed: its hash does not fit")
            break
        try:
            bodies.append(json.loads(text))
        except ValueError:
            problems.append(f"row {row} cannot be read")
            break
        previous = stored
    return bodies


def _replay(ledger: Ledger, charges: list[dict[str, Any]], problems: list[str]) -> Account:
    account = Account(Fraction(0), 0, 0)
    for body in charges:
        try:
            account = charged(ledger.budget, account, events.from_json(body["event"]))
        except HearsayError as error:
            problems.append(f"row {body['row']}: {error}")
            return account
        if Fraction(body["spent"]) != account.spent:
            problems.append(f"row {body['row']} states a total that its events do not add up to")
    return account


def _check_heads(ledger: Ledger, bodies: list[dict[str, Any]], problems: list[str]) -> list[str]:
    """Compares the heads in the run directories with the chain; returns the directories that are not at hand."""
    hashes = {row: stored for row, _, stored in ledger.rows()[: len(bodies)]}
    unchecked = []
    for body in bodies:
        if body["kind"] != "run":
            continue
        folder = Path(body["folder"])
        if not (folder / chain.HEAD_FILE).exists():
            unchecked.append(str(folder))
            continue
        _collect(problems, lambda folder=folder: _check_one_head(ledger, folder, hashes))
    return unchecked


def check_run_head(ledger: Ledger, folder: Path) -> list[str]:
    """The same for one directory that the ledger may have forgotten (its row was in the deleted tail)."""
    problems: list[str] = []
    _collect(problems, lambda: _check_one_head(ledger, folder, {row: stored for row, _, stored in ledger.rows()}))
    return problems


def _check_one_head(ledger: Ledger, folder: Path, hashes: dict[int, str]) -> None:
    head = chain.read_head(folder)
    if head is None:
        raise HearsayError(f"{folder} has no {chain.HEAD_FILE}: it never saw this ledger, or the file was removed")
    if head.ledger != ledger.id:
        raise HearsayError(f"{folder} was charged to another ledger file of this corpus")
    if hashes.get(head.row) != head.hash:
        raise HearsayError(
            f"row {head.row}, which {folder} has seen, is missing or different: "
            "the ledger's tail was deleted or an old copy restored"
        )


def _collect(problems: list[str], check: Any) -> None:
    try:
        check()
    except HearsayError as error:
        problems.append(str(error))


def second_opinion(ledger: Ledger, history: list[Event]) -> dict[str, Any]:
    budget = ledger.budget
    delta = budgets.main_delta(budget.delta)
    if not history:
        return {"epsilon": 0.0, "accountant": "nothing charged"}
    if budget.filter == "renyi":
        return {"epsilon": _renyi_opinion(history, budget.order, delta), "accountant": "dp-accounting Renyi"}
    loose = [event for event in history if isinstance(event, SubsampledGaussian) and event.rate != 1]
    mu = _mpmath_mu([event for event in history if event not in loose])
    if loose:
        rest = [Gaussian(Fraction(float(mu)) ** 2, Fraction(1), 1)] if mu else []
        epsilon = costs.compose([*budget.schedule, *rest]).get_epsilon_for_delta(delta)
        return {"epsilon": float(epsilon), "accountant": "dp-accounting PLD"}
    return {"epsilon": mpmath_epsilon(mu, delta), "accountant": f"mpmath, {DIGITS} digits"}


def _mpmath_mu(history: list[Event]) -> Any:
    with mpmath.workdps(DIGITS):
        return mpmath.sqrt(mpmath.fsum(_mpmath_mu_squared(event) for event in history))


def _mpmath_mu_squared(event: Event) -> Any:
    def real(value: Fraction) -> Any:
        return mpmath.mpf(value.numerator) / value.denominator

    match event:
        case Gaussian():
            return real(event.sensitivity_squared) / real(event.variance)
        case SubsampledGaussian():
            return event.steps / real(event.noise_multiplier) ** 2
        case Laplace():
            epsilon = real(event.sensitivity_l1) / real(event.scale)
        case RandomizedResponse():
            epsilon = mpmath.log(real(event.keep) * (event.answers - 1) / real(1 - event.keep))
        case NoisyMax():
            epsilon = (1 if event.monotone else 2) * real(event.sensitivity) / real(event.scale)
    repeats = event.queries if isinstance(event, Laplace) else 1
    half = mpmath.sqrt(2) * mpmath.erfinv(mpmath.tanh(epsilon / 2))  # Phi^-1(e^eps / (1 + e^eps))
    return repeats * (2 * half) ** 2


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


def _renyi_opinion(history: list[Event], order: int, delta: float) -> float:
    from dp_accounting import rdp

    divergence = [float(sum(costs.renyi(event, order) for event in history))]
    return float(rdp.compute_epsilon([order], divergence, delta)[0])
