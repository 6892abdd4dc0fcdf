"""The exact epsilon of each secret phrase: how many teachers it reaches, and what that costs. Owner's eyes only.

How many teachers a phrase reaches is itself private, and an average over phrases is no guarantee: the promise is the
unit's. This table is for seeing how far phrases that several people share lie from it.
"""

import math
import re
from dataclasses import asdict, dataclass
from typing import Any

from hearsay.accounting import gaussian
from hearsay.accounting.ledger import Ledger
from hearsay.lm import LanguageModel, decode
from hearsay.private.shards import Partition


@dataclass(frozen=True)
class PhraseTable:
    phrases: int
    found: int
    mean: float
    smallest: float
    largest: float
    share_below_mean: float
    by_teachers: dict[int, tuple[int, float]]  # teachers reached -> (phrases, exact epsilon)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def reach(lm: LanguageModel, partition: Partition, phrases: list[str]) -> dict[str, int]:
    """How many shards hold each phrase."""
    found = dict.fromkeys(phrases, 0)
    split = {phrase: set(re.findall(r"\w+", phrase)) for phrase in phrases}
    for m in range(partition.settings.shards):
        rows = [sentence.tolist() for sentence in partition.shard(m)]
        text = "\n".join(decode(lm, rows))
        words = set(re.findall(r"\w+", text))  # a quick look first: most phrases share no word with a shard
        for phrase, parts in split.items():
            found[phrase] += parts <= words and phrase in text
    return found


def phrase_table(reached: dict[str, int], ledger: Ledger) -> PhraseTable:
    account = ledger.account()
    mu = math.sqrt(float(account.spent))
    counts = [n for n in reached.values() if n]
    exact = {n: gaussian.epsilon_of(gaussian.group(mu, n), ledger.budget.delta) for n in set(counts)}
    values = [exact[n] for n in counts]
    mean = sum(values) / len(values) if values else 0.0
    return PhraseTable(
        phrases=len(reached),
        found=len(counts),
        mean=mean,
        smallest=min(values, default=0.0),
        largest=max(values, default=0.0),
        share_below_mean=sum(value <= mean * (1 + 1e-9) for value in values) / len(values) if values else 0.0,
        by_teachers={n: (counts.count(n), exact[n]) for n in sorted(exact)},
    )
