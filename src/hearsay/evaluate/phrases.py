"""The exact epsilon of each secret phrase: how many it reaches, and what they cost together. Owner's eyes only.

By answers of one run a phrase reaches teachers, and the figure covers whatever its writers might have said instead. By
updates, or where the ledger holds other runs too, it reaches units, and the figure is for all of them as if they had
never been there (a unit that stays and says something else is two changes: `replace_epsilon` of the statement).

How many a phrase reaches is itself private, and an average over phrases is no guarantee: the promise is the
unit's. This table is for seeing how far phrases that several people share lie from it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hearsay.accounting.ledger import Ledger
from hearsay.lm import LanguageModel, decode
from hearsay.private.shards import Partition

Counted = Literal["teachers", "units"]


@dataclass(frozen=True)
class PhraseTable:
    phrases: int
    found: int
    mean: float
    smallest: float
    largest: float
    share_below_mean: float
    counted: Counted
    by_teachers: dict[int, tuple[int, float]]  # teachers (or units) reached -> (phrases, exact epsilon)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def reach(lm: LanguageModel, holders: Iterable[Sequence[NDArray[np.integer]]], phrases: list[str]) -> dict[str, int]:
    """How many holders (shards, or units: their sentences) have each phrase."""
    found = dict.fromkeys(phrases, 0)
    listed: dict[str, list[str]] = {}  # by one word of each, the longest: most phrases share none with a holder
    for phrase in found:
        listed.setdefault(max(re.findall(r"\w+", phrase), key=len, default=""), []).append(phrase)
    for sentences in holders:
        text = "\n".join(decode(lm, [sentence.tolist() for sentence in sentences]))
        for word in {"", *re.findall(r"\w+", text)}:
            for phrase in listed.get(word, ()):
                found[phrase] += phrase in text
    return found


def shards(partition: Partition) -> Iterable[Sequence[NDArray[np.integer]]]:
    return (list(partition.shard(m)) for m in range(partition.settings.shards))


def phrase_table(reached: dict[str, int], ledger: Ledger, counted: Counted) -> PhraseTable:
    account = ledger.account()
    counts = [n for n in reached.values() if n]
    exact = {n: ledger.budget.epsilon_of_group(account.spent, account.scheduled, n) for n in set(counts)}
    values = [exact[n] for n in counts]
    mean = sum(values) / len(values) if values else 0.0
    return PhraseTable(
        phrases=len(reached),
        found=len(counts),
        mean=mean,
        smallest=min(values, default=0.0),
        largest=max(values, default=0.0),
        share_below_mean=sum(value <= mean * (1 + 1e-9) for value in values) / len(values) if values else 0.0,
        counted=counted,
        by_teachers={n: (counts.count(n), exact[n]) for n in sorted(exact)},
    )
