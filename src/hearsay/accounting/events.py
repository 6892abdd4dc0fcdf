"""What happened: frozen, versioned, serialisable records of releases. What they cost is another file's business.

An event states its own sensitivity, so that mechanism, accounting and neighbouring relation cannot drift apart. All
are for adding or removing one unit. Numbers that enter an exact sum are rationals, written "a/b".
"""

from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any

from hearsay.errors import LedgerError

VERSION = 1


@dataclass(frozen=True)
class Gaussian:
    """A vector sum with L2 sensitivity D, plus a normal of variance s^2 on each coordinate, all on one integer grid."""

    sensitivity_squared: Fraction
    variance: Fraction
    coordinates: int
    queries: int = 1


@dataclass(frozen=True)
class Laplace:
    """A vector sum, plus (discrete) Laplace noise of this scale; L1 sensitivity D per query: epsilon = D / scale each.

    A release of k queries is k mechanisms, not one with sensitivity k D: composing them is much cheaper.
    """

    sensitivity_l1: Fraction
    scale: Fraction
    coordinates: int
    queries: int = 1


@dataclass(frozen=True)
class RandomizedResponse:
    """One of `answers` values, the true one kept with probability `keep`, else one of the others, evenly.

    Each slot answers once, an empty one as well (with a public value, noised alike), or the number of answers would
    tell who is there. Adding or removing a unit changes one slot's value: epsilon = ln(keep (answers - 1)/(1 - keep)).
    """

    answers: int
    keep: Fraction


@dataclass(frozen=True)
class NoisyMax:
    """The index of the largest count after Laplace noise of this scale; one unit moves every count by at most D.

    epsilon = 2 D / scale, or D / scale if one unit moves all counts in the same direction (`monotone`).
    """

    sensitivity: Fraction
    scale: Fraction
    monotone: bool = False


@dataclass(frozen=True)
class SubsampledGaussian:
    """`steps` rounds of DP-SGD: each unit in a round with probability `rate` (Poisson), sum clipped to norm 1.

    `noise_multiplier` is the noise's standard deviation over the clip. `coordinates` are those drawn by our sampler,
    whose error is paid for; a library's own noise has none.
    """

    rate: Fraction
    noise_multiplier: Fraction
    steps: int = 1
    coordinates: int = 0


Event = Gaussian | Laplace | RandomizedResponse | NoisyMax | SubsampledGaussian
KINDS: dict[str, type[Event]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "randomized_response": RandomizedResponse,
    "noisy_max": NoisyMax,
    "subsampled_gaussian": SubsampledGaussian,
}
NAMES = {kind: name for name, kind in KINDS.items()}


def to_json(event: Event) -> dict[str, Any]:
    body = {key: str(value) if isinstance(value, Fraction) else value for key, value in asdict(event).items()}
    return {"event": NAMES[type(event)], "version": VERSION, **body}


def from_json(body: dict[str, Any]) -> Event:
    """Refuses what it does not know: an event that is read wrongly is a guarantee that is stated wrongly."""
    kind = KINDS.get(str(body.get("event")))
    if kind is None or body.get("version") != VERSION:
        raise LedgerError(f"event {body.get('event')!r} version {body.get('version')!r} is unknown to this hearsay")
    names = {field.name: field.type for field in fields(kind)}
    if set(body) - {"event", "version"} != set(names):
        raise LedgerError(f"event {body['event']!r} has fields {sorted(body)}; need {sorted(names)}")
    values: dict[str, Any] = {name: Fraction(body[name]) if names[name] is Fraction else body[name] for name in names}
    return kind(**values)
