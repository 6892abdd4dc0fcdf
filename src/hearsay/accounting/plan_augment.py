"""What a budget buys for a synthetic corpus, before any private text is read: noise of tutor and discriminator.

A sum over units is worth what its noise leaves: divided by the units of an average label it is the noise on that
label's mean place, whose length is at most 1. Votes are worth what their noise leaves of the teachers' number.
"""

import math
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Literal

from hearsay.accounting import advice, gaussian
from hearsay.accounting.bounds import STEPS, UNIT_BALL, Bound
from hearsay.accounting.budget import check_sampler, main_delta
from hearsay.accounting.plan import scale_for

Method = Literal["means", "gradients", "clusters", "votes"]
MOST_NOISE = 0.25  # on an average label's mean: beyond it little stands out, even after shrinking
BOUNDS: dict[Method, Bound] = {
    "means": UNIT_BALL,
    "gradients": UNIT_BALL,
    "clusters": Bound("probability", alone=True),
    "votes": Bound("probability"),
}


@dataclass(frozen=True)
class Request:
    epsilon: float
    delta: float
    unit: str
    units: int
    labels: int
    method: Method = "means"
    steps: int = 20
    teachers: int = 15
    queries: int = 12
    spend: float = 1.0
    tutor: float | None = 0.1  # share of the budget; none: no tutor
    noise: str = "gaussian"


@dataclass(frozen=True)
class Plan:
    mu: float
    epsilon: float
    delta: float
    unit: str
    adjacency: str
    method: str
    queries: int
    teachers: int | None
    sensitivity: float
    noise_std_sum: float
    noise_std_mean: float
    tutor_noise_std: float | None
    feasible: bool
    why: str
    warnings: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def make(request: Request) -> Plan:
    gaussian.check_epsilon(request.epsilon)
    gaussian.check_delta(request.delta)
    check_sampler(request.epsilon, request.delta)
    mu = gaussian.mu_of(request.epsilon, main_delta(request.delta))
    whole = Fraction(mu) ** 2 * Fraction(request.spend)
    share = Fraction(request.tutor or 0)
    queries = {"gradients": request.steps, "votes": request.queries}.get(request.method, 1)
    bound = BOUNDS[request.method]
    laplace = request.noise == "laplace"
    one = 1 if request.method == "gradients" else queries  # each gradient is a release of its own
    scale = scale_for(bound, one, whole * (1 - share) / (queries // one), request.noise)
    std = float(scale) / STEPS * (math.sqrt(2) if laplace else 1)
    voted = request.method == "votes"
    mean = std / (request.teachers if voted else request.units / request.labels)
    feasible, why = _judge(request, mean)
    return Plan(
        mu=mu,
        epsilon=request.epsilon,
        delta=request.delta,
        unit=request.unit,
        adjacency="add-remove one unit",
        method=request.method,
        queries=queries,
        teachers=request.teachers if voted else None,
        sensitivity=2.0 if voted and laplace else math.sqrt(bound.sensitivity_squared(1)) / STEPS,
        noise_std_sum=std,
        noise_std_mean=mean,
        tutor_noise_std=_tutor_noise(whole * share) if request.tutor else None,
        feasible=feasible,
        why=why,
        warnings=(
            *advice.of_epsilon(request.epsilon, request.delta, request.unit),
            *advice.of_delta(request.delta, request.units),
        ),
    )


def _tutor_noise(share: Fraction) -> float:
    return float(scale_for(Bound("probability", alone=True), 1, share)) / STEPS


def _judge(request: Request, mean: float) -> tuple[bool, str]:
    if request.method == "votes":
        told = f"the noise on the teachers' mean vote is {mean:.2f}"
        if mean > 0.5:
            return False, f"{told}, more than the distance from a tie to agreement; ask fewer, or use method means"
        return True, f"{told}; {request.queries} candidates can be asked about, and no more"
    per = request.units / request.labels
    told = f"a label has {per:,.0f} of the declared units on average, and the noise on its mean is {mean:.3f}"
    if mean > MOST_NOISE:
        need = math.ceil(request.units * mean / MOST_NOISE)
        return (
            False,
            f"{told}; above {MOST_NOISE} little is learnt: need {need:,} units, fewer labels or a larger epsilon",
        )
    return True, f"{told} (a place has length 1)"
