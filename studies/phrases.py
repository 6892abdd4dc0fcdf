"""Secret phrases: how many teachers each reaches, and what that costs exactly. Reads private text: the owner's figures.

The paper fixes the *average* epsilon over phrases and scales it linearly with the teachers that a phrase reaches.
Neither is a guarantee: for a Gaussian, n teachers multiply mu by n, and epsilon grows faster than n. At user level
nothing is averaged: a user is in one shard, whatever they wrote, and has the budget's epsilon.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from studies.panel import Panel

from hearsay import measure
from hearsay.accounting import gaussian
from hearsay.errors import BadInput
from hearsay.evaluate.phrases import reach, shards
from hearsay.private.shards import Partition

AVERAGES = (3.0, 5.0)


def measured(panel: Panel) -> dict[str, Any]:
    """Of one partition: phrases by teachers reached and by times written; users by the shards they are in."""
    work = panel.work
    listed = measure.secrets(work.config)
    reached = Counter(n for n in reach(work.lm, shards(work.partition), listed).values() if n)
    sentences = ([row] for shard in shards(work.partition) for row in shard)  # counted where a record is the unit
    written = Counter(n for n in reach(work.lm, sentences, listed).values() if n)
    if not reached:
        raise BadInput(f"got {len(listed)} phrases of which none is in the text; need a list that speaks of it")
    delta = work.config.privacy.delta
    return {
        "phrases": sum(reached.values()),
        "reached": {str(n): reached[n] for n in sorted(reached)},
        "written": {str(n): written[n] for n in sorted(written)},
        "shards_of_a_user": most_shards(work.partition),
        "by_teachers": {f"{wanted:g}": spread(reached, wanted, delta) for wanted in AVERAGES},
        "by_times": {f"{wanted:g}": spread(written, wanted, delta) for wanted in AVERAGES},
    }


def most_shards(partition: Partition) -> int:
    """In how many shards one user's rows lie, at most. One, or the promise is broken."""
    shards: Counter[int] = Counter()
    for m in range(partition.settings.shards):
        shards.update(set(partition.units(m).tolist()))
    return max(shards.values(), default=0)


def spread(counts: Counter[int], average: float, delta: float) -> dict[str, float]:
    """Noise such that the average epsilon over phrases is `average`: the least, the most, and the share below it."""
    mu = _root(lambda one: mean_epsilon(counts, one, delta) - average)
    exact = {n: gaussian.epsilon_of(gaussian.group(mu, n), delta) for n in counts}
    total = sum(counts.values())
    return {
        "average": mean_epsilon(counts, mu, delta),
        "least": exact[min(counts)],
        "most": exact[max(counts)],
        "linear_most": max(counts) / min(counts) * exact[min(counts)],  # as the paper scales it
        "share_at_most_average": sum(counts[n] for n in counts if exact[n] <= average * (1 + 1e-9)) / total,
    }


def mean_epsilon(counts: Counter[int], mu: float, delta: float) -> float:
    total = sum(counts.values())
    return sum(many * gaussian.epsilon_of(gaussian.group(mu, n), delta) for n, many in counts.items()) / total


def _root(rises: Callable[[float], float]) -> float:
    """Where a rising function turns positive, from below."""
    low, high = 1e-6, 1e-3
    while rises(high) < 0:
        high *= 2
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if rises(middle) < 0 else (low, middle)
    return low
