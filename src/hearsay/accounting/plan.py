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
from typing import Any, Literal

from hearsay.accounting import gaussian
from hearsay.accounting.bounds import MAX_SCALE, STEPS, Bound
from hearsay.accounting.budget import check_sampler, main_delta
from hearsay.errors import BudgetError, ConfigError

Recipe = Literal["seqpate", "hellinger"]
RECIPES: tuple[Recipe, ...] = ("seqpate", "hellinger")

ENOUGH_TOKENS = 1e4  # fewer teach little
ENOUGH_SENTENCES = 100  # fewer per teacher cap what the ensemble can know
GOOD_SENTENCES = 300
MOST = 10**12  # of anything that is counted


@dataclass(frozen=True)
class Request:
    epsilon: float = 3.0
    delta: float = 1e-6
    unit: str = "user"
    recipe: Recipe = "hellinger"
    teachers: int = 2000
    queries: int = 10_000
    units: int | None = None  # declared by the owner
    sentences: int | None = None  # declared by the owner
    one_unit_per_teacher: bool = False
    clip: float | None = None  # hellinger only: joint clip of the residuals
    candidates: int = 50
    noise: Literal["gaussian", "laplace"] = "gaussian"


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
    noise_std_sum: float
    noise_std_mean: float
    effective_tokens: float
    sentences_per_teacher: float | None
    feasible: bool
    why: str
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
    _check(request)
    mu = gaussian.mu_of(request.epsilon, main_delta(request.delta))
    bound = bound_for(request)
    scale = scale_for(bound, request.queries, Fraction(mu) ** 2, request.noise)
    std = float(scale) / STEPS * (math.sqrt(2) if request.noise == "laplace" else 1)
    mean = std / request.teachers
    tokens = effective_tokens(request, mean)
    per_teacher = request.sentences / request.teachers if request.sentences else None
    feasible, why = _judge(request, tokens, mean, per_teacher)
    return Plan(
        mu=mu,
        epsilon=request.epsilon,
        delta=request.delta,
        unit=request.unit,
        adjacency="add-remove one unit",
        recipe=request.recipe,
        noise=request.noise,
        sensitivity=_per_query(bound, request),
        queries=request.queries,
        teachers=request.teachers,
        noise_std_sum=std,
        noise_std_mean=mean,
        effective_tokens=tokens,
        sentences_per_teacher=per_teacher,
        feasible=feasible,
        why=why,
        suits=_suits(request, mu),
        warnings=tuple(_warnings(request)),
    )


def _per_query(bound: Bound, request: Request) -> float:
    """L1 for Laplace, L2 for Gaussian noise: what one unit can move one question's sum."""
    if request.noise == "laplace":
        return float(bound.sensitivity_l1() / STEPS)
    return math.sqrt(bound.sensitivity_squared(request.queries) / request.queries) / STEPS


def effective_tokens(request: Request, noise_std_mean: float) -> float:
    per_query = 1 / (4 * noise_std_mean**2)
    if request.recipe == "seqpate":
        share = 1 / request.candidates
        per_query = share * (1 - share) / noise_std_mean**2
    return request.queries * per_query


def _judge(request: Request, tokens: float, mean: float, per_teacher: float | None) -> tuple[bool, str]:
    if tokens < ENOUGH_TOKENS:
        return False, (
            f"the answers carry about {tokens:,.0f} tokens of information; below {ENOUGH_TOKENS:,.0f} they teach "
            f"little. {_remedy(request, tokens)}"
        )
    if request.recipe == "seqpate" and mean > 1 / request.candidates:
        return False, (
            f"the noise on the mean ({mean:.3f}) is larger than an even share of {request.candidates} candidates "
            f"({1 / request.candidates:.3f}): a third or more of the noisy values will be negative. Use recipe "
            "hellinger, more teachers or fewer queries"
        )
    if per_teacher is not None and per_teacher < ENOUGH_SENTENCES:
        return True, (
            f"the answers carry about {tokens:,.0f} tokens of information, but {per_teacher:.0f} sentences per teacher "
            f"cap what the teachers know (aim at {GOOD_SENTENCES} or more)"
        )
    return True, f"the answers carry about {tokens:,.0f} tokens of information, enough to teach"


def _remedy(request: Request, tokens: float) -> str:
    """The smallest change that would do, in the terms of the setting."""
    need = math.ceil(request.teachers * math.sqrt(ENOUGH_TOKENS / tokens))
    if request.units is None or need <= request.units:
        advice = f"Need {need:,} teachers at this budget"
        return advice + (", or recipe hellinger" if request.recipe == "seqpate" else "")
    return f"Even {request.units:,} teachers (one per unit) are too few: need a larger epsilon or more units"


def _suits(request: Request, mu: float) -> str:
    """Which method and how many teachers suit the declared corpus (docs/how-it-works.md gives the figures)."""
    if not request.sentences:
        return "hellinger; declare data.sentences to learn how many teachers suit"
    best = max(1, round(request.sentences / GOOD_SENTENCES))
    least = math.ceil(math.sqrt(ENOUGH_TOKENS * 8) / mu)
    if request.units is not None:
        best, least = min(best, request.units), min(least, request.units)
    count = max(best, least)
    return f"hellinger with about {count:,} teachers ({request.sentences / count:.0f} sentences each)"


def _warnings(request: Request) -> list[str]:
    if request.units and request.delta > 0.1 / request.units:
        return [
            f"delta {request.delta:g} is above a tenth of 1/{request.units:,}: a mechanism that publishes one person "
            f"in {request.units:,} outright would pass; take at most {0.1 / request.units:.1g}"
        ]
    return []


def _check(request: Request) -> None:
    gaussian.check_epsilon(request.epsilon)
    gaussian.check_delta(request.delta)
    check_sampler(request.epsilon, request.delta)
    if request.recipe not in RECIPES:
        raise ConfigError(f"ask.recipe is {request.recipe!r}; need one of {', '.join(RECIPES)}")
    for name, known in (("noise", ("gaussian", "laplace")), ("unit", ("user", "record"))):
        if getattr(request, name) not in known:
            raise ConfigError(f"{name} is {getattr(request, name)!r}; need one of {', '.join(known)}")
    if request.clip is not None and not 0 < request.clip <= 2:
        raise ConfigError(f"ask.clip is {request.clip}; need more than 0 and at most 2")
    if request.recipe == "seqpate" and request.clip is not None:
        raise ConfigError("ask.clip belongs to recipe hellinger; leave it out for seqpate")
    for name, least in (("teachers", 1), ("queries", 1), ("candidates", 2), ("units", 1), ("sentences", 1)):
        value = getattr(request, name)
        if value is not None and not least <= value <= MOST:
            raise ConfigError(f"{name} is {value}; need at least {least} and at most {MOST:,}")
    if request.noise == "laplace" and request.recipe != "seqpate":
        raise ConfigError("Laplace noise needs ask.recipe: seqpate (square roots have no useful L1 bound)")
    if request.units is not None and request.teachers > request.units:
        raise ConfigError(
            f"teachers.count is {request.teachers:,} but data.units declares {request.units:,}; "
            "a teacher without a unit knows nothing: need at most one teacher per unit"
        )
