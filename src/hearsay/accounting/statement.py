"""The guarantee in words: who is protected, from whom, how strongly in odds, and what is not covered.

Every number comes from the ledger. Odds come from mu, because epsilon alone overstates what an attacker can do: with
epsilon 3 and delta 1e-6 the best attacker, told 50:50 beforehand, is right at most 62.7% of the time about a person's
presence.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from hearsay.accounting import odds
from hearsay.accounting.ledger import Ledger

NOT_COVERED = (
    "Facts about people in general that hold with or without any one person's text: learning those is the purpose.",
    "A group: text about one person written by many others is protected only as strongly as the size of that group "
    "allows.",
    "The public inputs (prefixes, base model) and the declared settings, which are taken as public.",
    "The folders private/ and internal/ of a run, and whoever can read the machine while it works.",
    "Measurements on private hold-out text; they are for the owner's eyes.",
    "Other data sets about the same people, and the same text under another ledger.",
)


@dataclass(frozen=True)
class Statement:
    unit: str
    corpus: str
    adjacency: str
    epsilon: float
    delta: float
    mu: float
    budget_epsilon: float
    guess_rate: float
    replace_epsilon: float
    accountant: str
    charges: int
    research: bool
    research_noise: bool
    not_covered: tuple[str, ...] = NOT_COVERED

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "sentences": self.sentences(),
            "guess_percent": self.guess_percent,
            "epsilon_told": rounded_up(self.epsilon),
        }

    @property
    def guess_percent(self) -> str:
        return odds.percent(self.guess_rate)

    def sentences(self) -> list[str]:
        who = "person" if self.unit == "user" else "record"
        return [
            f"Protected is every {who} in the corpus {self.corpus!r}, with everything that {who} contributed to it.",
            "It holds against anyone who sees what was released, whatever they know and however much they compute.",
            f"The guarantee is ({rounded_up(self.epsilon)}, {self.delta:g})-differential privacy for adding or "
            f"removing one {who}, over all releases from this corpus so far ({self.charges}) (the corpus may spend up "
            f"to epsilon {self.budget_epsilon:g}).",
            f"In odds: an attacker who must guess whether a given {who} is in the corpus, at 50:50, is right at most "
            f"{self.guess_percent}% of the time.",
            f"Replacing one {who} by another, instead of adding or removing, corresponds to epsilon "
            f"{rounded_up(self.replace_epsilon)}.",
            *(["RESEARCH LEDGER: the same corpus was used under other budgets; not a production guarantee."]
              if self.research else []),
            *(["RESEARCH NOISE: some of it was drawn by a library in ordinary floats, which is not proven to keep this "
               "guarantee to the last digit; not for production."] if self.research_noise else []),
        ]  # fmt: skip


def rounded_up(value: float) -> str:
    """Four digits, rounded up: a promise in prose must not be stronger than the one in the ledger."""
    if not value or not math.isfinite(value):
        return f"{value:g}"
    step = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.ceil(value / step - 1e-9) * step:.4g}"


def make(ledger: Ledger) -> Statement:
    account, budget = ledger.account(), ledger.budget
    found = odds.of(budget, account.spent, account.scheduled)
    first = next(ledger.bodies("budget"))
    return Statement(
        unit=first["unit"],
        corpus=ledger.corpus_name,
        adjacency=first["adjacency"],
        epsilon=budget.epsilon_spent(account.spent, account.scheduled),
        delta=budget.delta,
        mu=found.mu,
        budget_epsilon=budget.epsilon,
        guess_rate=found.guess_rate,
        replace_epsilon=found.replace_epsilon,
        accountant=budget.filter + (" beside committed samples (loss distributions)" if account.scheduled else ""),
        charges=len(ledger.charges()),
        research=ledger.research,
        research_noise=any(charge.noise.startswith("research") for charge in ledger.charges()),
    )
