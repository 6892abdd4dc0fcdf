"""What an attack found, in one shape for every attack: numbers for programs, one plain sentence for people."""

from dataclasses import asdict, dataclass, field
from typing import Any

from hearsay.audit.mechanism import clopper_pearson
from hearsay.audit.statistics import (
    ERROR,
    FALSE_ALARMS,
    GUESSING,
    Floats,
    Interval,
    Promise,
    auc,
    epsilon_from_counts,
    epsilon_lower,
    roc,
    true_alarms,
)

DELTA = 1e-6  # for bounds on a model that promises nothing


@dataclass(frozen=True)
class Finding:
    """`ok` is whether the promise stands; `look` asks for a bug hunt. Without a promise there is nothing to break."""

    score: float
    low: float
    high: float
    epsilon_lower: float | None
    epsilon_claimed: float | None
    ok: bool
    look: bool
    sentence: str
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def from_scores(powers: str, members: Floats, others: Floats, promise: Promise | None, **details: Any) -> Finding:
    """A membership test: AUC, its interval, alarms at few false ones, the curve, and what it proves about epsilon."""
    found = auc(members, others)
    bound = epsilon_lower(members, others, promise.delta if promise else DELTA)
    broken = promise is not None and (found.low > promise.highest_auc or bound > promise.epsilon)
    rates = {f"tpr_at_{rate:g}": asdict(true_alarms(members, others, rate)) for rate in FALSE_ALARMS}
    return Finding(
        score=found.value,
        low=found.low,
        high=found.high,
        epsilon_lower=bound,
        epsilon_claimed=promise.epsilon if promise else None,
        ok=not broken,
        look=promise is not None and found.low > GUESSING,
        sentence=_auc_sentence(powers, found, promise, broken),
        details={
            **details, **rates, "members": members.size, "non_members": others.size, "roc": roc(members, others),
            "auc_allowed": promise.highest_auc if promise else None,
        },
    )  # fmt: skip


def from_counts(
    what: str, hits: int, members: int, false_hits: int, others: int, promise: Promise | None, **details: Any
) -> Finding:
    """A test that hits or misses: how often for members, beside how often for units whose text was not used."""
    low, high = clopper_pearson(hits, members, ERROR)
    bound = epsilon_from_counts(hits, members, false_hits, others, promise.delta if promise else DELTA)
    broken = promise is not None and bound > promise.epsilon
    rate = Interval(hits / members, low, high)
    said = f"{what}: {hits} of {members} units whose text was used, {false_hits} of {others} others"
    return Finding(
        score=rate.value, low=low, high=high, epsilon_lower=bound,
        epsilon_claimed=promise.epsilon if promise else None, ok=not broken, look=promise is not None and bound > 0,
        sentence=_promise_kept(said, broken, bound > 0, promise),
        details={**details, "hits": hits, "members": members, "false_hits": false_hits, "non_members": others},
    )  # fmt: skip


def _auc_sentence(powers: str, found: Interval, promise: Promise | None, broken: bool) -> str:
    figures = f"AUC {shown(found.value)} [{shown(found.low)}, {shown(found.high)}]"
    if found.low <= 0.5 or (found.low <= GUESSING and promise is not None):
        return f"an attacker {powers} did no better than guessing: {figures}"
    said = f"an attacker {powers} did better than guessing: {figures}"
    return _promise_kept(said, broken, found.low > GUESSING, promise)


def _promise_kept(said: str, broken: bool, look: bool, promise: Promise | None) -> str:
    if promise is None:
        return said
    if broken:
        return f"{said}; epsilon {promise.epsilon:g} does not allow that: THE PROMISE IS BROKEN"
    if look:
        return (
            f"{said}; epsilon {promise.epsilon:g} allows as much, but it should be less: look for a bug, "
            "or for what else tells the people of the hold-out apart (another period, other products)"
        )
    return said


def shown(value: float) -> str:
    """.51, as a probability is said."""
    return f"{value:.2f}".removeprefix("0")
