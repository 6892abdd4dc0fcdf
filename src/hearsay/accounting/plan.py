"""What a budget buys, before any private text is read: noise, effective tokens, feasible or not, and why.

Only declared numbers enter (units, sentences): counting private rows would be a release.

Effective tokens. With square roots released (hellinger) each question carries 1 / (4 s^2) sampled tokens of Fisher
information, s the noise on the mean: over k questions N = M^2 mu^2 / (4 D^2), whatever k is. With probabilities
released (seqpate) the noise is the same on every candidate while a rare token's probability is small: for mass spread
evenly over K candidates a question carries (1 - 1/K) / (K s^2) tokens, about 4 / K of the former.
"""

import math
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

from hearsay.accounting import advice, gaussian, sampled
from hearsay.accounting.bounds import MAX_SCALE, STEPS, UNIT_BALL, Bound
from hearsay.accounting.budget import main_delta
from hearsay.accounting.request import RECIPES, Recipe, Request, check
from hearsay.errors import BudgetError

__all__ = ["RECIPES", "Plan", "Recipe", "Request", "bound_for", "make", "scale_for"]


@dataclass(frozen=True)
class Plan:
    mu: float
    epsilon: float
    delta: float
    unit: str
    adjacency: str
    recipe: str
    noise: str
    sensitivity: float
    queries: int
    teachers: int
    units: int | None
    noise_std_sum: float
    noise_std_mean: float
    effective_tokens: float
    sentences_per_teacher: float | None
    noise_over_clip: float | None  # updates: the length of a run's noise, in clips
    feasible: bool
    why: str
    spend: float
    suits: str
    warnings: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def bound_for(request: Request) -> Bound:
    if request.recipe == "seqpate":
        return Bound("probability", request.one_unit_per_teacher)
    if request.clip is None:
        return Bound("root", request.one_unit_per_teacher)
    return Bound("residual", request.one_unit_per_teacher, Fraction(request.clip))


def scale_for(bound: Bound, queries: int, mu_squared: Fraction, noise: str = "gaussian") -> Fraction:
    """Noise on the SUM in grid steps for a release that may cost mu^2; rounded up, to 1/1024 of a step.

    Refuses what the sampler cannot draw (more than MAX_SCALE steps): so much noise answers nothing anyway.
    """
    if mu_squared <= 0:
        raise BudgetError("nothing of the budget is left for this release")
    if noise == "laplace":
        epsilon = Fraction(gaussian.pure_epsilon_of(math.sqrt(mu_squared / queries)))
        scale = Fraction(math.ceil(bound.sensitivity_l1() / epsilon * 2**10), 2**10) if epsilon > 0 else None
    else:
        square = bound.sensitivity_squared(queries) / mu_squared * 2**20
        scale = Fraction(math.isqrt(math.ceil(square) - 1) + 1, 2**10)
    if scale is None or scale > MAX_SCALE:
        raise BudgetError(
            f"{queries:,} questions at mu {math.sqrt(mu_squared):.2g} need more noise than the grid holds (2^40 "
            "steps); ask fewer, or spend more of the budget on them"
        )
    return scale


def make(request: Request) -> Plan:
    """Of `mixed` the figures are those of its answers; its updates show in noise_over_clip."""
    check(request)
    mu = gaussian.mu_of(request.epsilon, main_delta(request.delta))
    updates = request.recipe == "updates"
    bound = UNIT_BALL if updates else bound_for(request)
    spent = mu * math.sqrt(request.spend)
    worth = spent / _price_of_sampling(request)
    slots, queries = (request.units or 1, request.rounds) if updates else (request.teachers, request.queries)
    part = 1 - request.share_of_updates * (not updates)
    each = (1, Fraction(worth) ** 2 / queries) if updates else (queries, Fraction(spent) ** 2 * Fraction(part))
    scale = scale_for(bound, *each, request.noise)
    std = float(scale) / STEPS * (math.sqrt(2) if request.noise == "laplace" else 1)
    per_teacher = request.sentences / slots if request.sentences and not updates else None
    tokens = effective_tokens(request, queries, std / slots)
    feasible, why = _judged(request, worth, tokens, std / slots, per_teacher)
    return Plan(
        mu=mu,
        epsilon=request.epsilon,
        delta=request.delta,
        unit=request.unit,
        adjacency="add-remove one unit",
        recipe=request.recipe,
        noise=request.noise,
        sensitivity=1.0 if updates else _per_query(bound, request),
        queries=queries,
        teachers=request.teachers,
        units=request.units,
        noise_std_sum=std * (request.sample if updates else 1),  # of those who take part, about
        noise_std_mean=std / slots,
        effective_tokens=tokens,
        sentences_per_teacher=per_teacher,
        noise_over_clip=advice.noise_over_clip(request, worth) if request.share_of_updates else None,
        feasible=feasible,
        why=why,
        spend=request.spend,
        suits=advice.suits(request, spent, worth),
        warnings=tuple(advice.warnings(request)),
    )


def _price_of_sampling(request: Request) -> float:
    """How many times the noise on the mean grows when a round's units are sampled: noise shrinks by less than they do.
    Solving for it takes seconds; a run needs the same solution.
    """
    if not request.share_of_updates or request.sample == 1:
        return 1.0
    rate, share = sampled.rate_of(request.sample), request.spend * request.share_of_updates
    some, all_of_them = (
        sampled.schedule_for(request.epsilon, request.delta, chance, request.rounds, share)
        for chance in (rate, Fraction(1))
    )
    return float(some.noise_multiplier / rate / all_of_them.noise_multiplier)


def _judged(request: Request, mu: float, tokens: float, mean: float, per_teacher: float | None) -> tuple[bool, str]:
    """Updates decide where there are any: answers that refine them need not teach alone."""
    if request.share_of_updates:
        return advice.judge_updates(request, mu, tokens)
    return advice.judge_answers(request, tokens, mean, per_teacher)


def _per_query(bound: Bound, request: Request) -> float:
    """L1 for Laplace, L2 for Gaussian noise: what one unit can move one question's sum."""
    if request.noise == "laplace":
        return float(bound.sensitivity_l1() / STEPS)
    return math.sqrt(bound.sensitivity_squared(request.queries) / request.queries) / STEPS


def effective_tokens(request: Request, queries: int, noise_std_mean: float) -> float:
    """For updates by the same formula: N = units^2 mu^2 / 4, one vector of norm 1 per unit."""
    per_query = 1 / (4 * noise_std_mean**2)
    if request.recipe == "seqpate":
        share = 1 / request.candidates
        per_query = share * (1 - share) / noise_std_mean**2
    return queries * per_query
