"""What may be shown to anybody: read from release/ and the ledger, and from nothing else.

The functions here get the release folder and the ledger, never the run directory, so the shareable report cannot show
what lies beside them.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from hearsay.accounting import plan, statement
from hearsay.accounting.bounds import STEPS
from hearsay.accounting.events import Event, Gaussian, Laplace, SubsampledGaussian
from hearsay.accounting.ledger import Charge, Ledger
from hearsay.report import figures

SHOWN = 8  # synthetic texts
UPDATE = "update"  # what rounds of updates are charged for, without their numbers
KEPT = ("student/model.safetensors", "student/config.json", "statement.json", "made.json", "completions.json")


def facts(release: Path, ledger: Ledger, run: str) -> dict[str, Any]:
    made = read(release / "made.json")
    spent = by_run(ledger)
    pieces = [figures.Share("this run" if one == run else f"run {n}", share, this=one == run)
              for n, (one, share) in enumerate(spent.items(), start=1)]  # fmt: skip
    said = statement.make(ledger)
    return {
        "statement": said.to_json(),
        "odds": figures.odds(said.guess_rate),
        "run": run,
        "made": made,
        "budget": figures.budget(ledger.budget.epsilon, pieces),
        "left": ledger.budget.left(ledger.account().spent),
        "again": _again(ledger, run, spent),
        "runs": len(spent),
        "purposes": by_purpose(ledger),
        "answers": answers(ledger, run, made),
        "asked": sum(queries(charge.event) for charge in ledger.charges(run) if _answers(charge)),
        "completions": read(release / "completions.json").get("rows", []),
        "synthetic": synthetic(release / "synthetic"),
        "texts": texts(release / "synthetic" / "corpus.jsonl"),
        "how": read(release / "synthetic" / "facts.json").get("how", ""),
        "student": (release / "student").is_dir(),
        "hashes": hashes(release),
        "head": _head(ledger),
    }


def _again(ledger: Ledger, run: str, spent: dict[str, float]) -> bool:
    """Whether the ledger would take the same settings once more: samples were committed for one run alone."""
    sampled = any(charge.event in ledger.budget.schedule for charge in ledger.charges(run))
    return not sampled and ledger.budget.left(ledger.account().spent) >= spent.get(run, 0.0)


def by_run(ledger: Ledger) -> dict[str, float]:
    """Share of the corpus's budget by run, in the order of their first charge."""
    found: dict[str, float] = {}
    for charge in ledger.charges():
        found[charge.run] = found.get(charge.run, 0.0) + share(ledger, charge)
    return found


def share(ledger: Ledger, charge: Charge) -> float:
    """Of the whole budget, what was committed beforehand included: a schedule takes its part evenly over its events."""
    return ledger.budget.share_of(charge.event)


@dataclass
class Purpose:
    """One line of the ledger as people read it: what the budget was spent for, over all runs."""

    name: str
    runs: set[str]
    charges: int = 0
    questions: int = 0
    share: float = 0.0
    noise: str = ""


def by_purpose(ledger: Ledger) -> list[Purpose]:
    found: dict[str, Purpose] = {}
    for charge in ledger.charges():
        name = aim(charge.purpose)
        one = found.setdefault(name, Purpose(name, set(), noise=charge.noise))
        one.runs.add(charge.run)
        one.charges += 1
        one.questions += queries(charge.event)
        one.share += share(ledger, charge)
    return list(found.values())


def _answers(charge: Charge) -> bool:
    return charge.purpose.startswith("answers")


def aim(purpose: str) -> str:
    """A purpose without its round: sixty rounds of updates are one line to a reader."""
    return purpose.split(", round ")[0]


def queries(event: Event) -> int:
    return event.steps if isinstance(event, SubsampledGaussian) else getattr(event, "queries", 1)


def answers(ledger: Ledger, run: str, made: dict[str, Any]) -> list[dict[str, Any]]:
    """This run's answers as they were charged, rounds of equal noise together: the ledger's noise, not the plan's."""
    found: dict[tuple[str, Event], dict[str, Any]] = {}
    for charge in ledger.charges(run):
        key = aim(charge.purpose), charge.event
        one = found.setdefault(
            key, {"purpose": key[0], "rounds": 0, "questions": 0, "share": 0.0, **_noise(charge, made)}
        )
        one["rounds"] += 1
        one["questions"] += queries(charge.event)
        one["share"] += share(ledger, charge)
    return [one | {"tokens": one["tokens"] * one["rounds"]} if "tokens" in one else one for one in found.values()]


def noise_of_updates(ledger: Ledger, run: str, units: int) -> float | None:
    """Of all rounds so far together: the length of their noise, in clips of so many units' mean update."""
    rounds = [charge.event for charge in ledger.charges(run) if aim(charge.purpose) == UPDATE]
    means = [_deviation(event) / (units * float(getattr(event, "rate", 1))) for event in rounds]
    dimensions = max((getattr(event, "coordinates", 0) for event in rounds), default=0)
    return math.sqrt(dimensions * sum(mean**2 for mean in means)) / len(means) if dimensions else None


def _noise(charge: Charge, made: dict[str, Any]) -> dict[str, Any]:
    event = charge.event
    if not isinstance(event, Gaussian | Laplace | SubsampledGaussian):
        return {"kind": type(event).__name__}
    total = _deviation(event)
    found: dict[str, Any] = {"kind": type(event).__name__, "on_sum": total}
    answered = isinstance(event, Gaussian | Laplace) and _answers(charge)
    if made and answered and made.get("recipe") in ("seqpate", "hellinger"):
        found["on_mean"] = total / made["teachers"]
        asked = plan.Request(recipe=made["recipe"], queries=queries(event), candidates=made["candidates"])
        found["tokens"] = plan.effective_tokens(asked, asked.queries, found["on_mean"])
    return found


def _deviation(event: Event) -> float:
    """Of the noise on one coordinate of a sum, in the units of what is summed: answers, or clips."""
    if isinstance(event, Gaussian):
        return math.sqrt(event.variance) / STEPS
    if isinstance(event, Laplace):
        return math.sqrt(2) * float(event.scale) / STEPS
    return float(event.noise_multiplier) if isinstance(event, SubsampledGaussian) else 0.0


def epsilon_of_run(ledger: Ledger, run: str) -> float:
    """What this run alone spent, at the budget's delta."""
    budget = ledger.budget
    costs = [budget.cost(charge.event) for charge in ledger.charges(run) if charge.event not in budget.schedule]
    scheduled = sum(charge.event in budget.schedule for charge in ledger.charges(run))
    return budget.epsilon_spent(sum(costs, Fraction(0)), scheduled)


def synthetic(folder: Path) -> list[dict[str, Any]]:
    """The synthetic corpus's files, if this run made one."""
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    return [{"name": str(path.relative_to(folder)), "bytes": path.stat().st_size} for path in files]


def texts(path: Path) -> list[dict[str, Any]]:
    """Some of the synthetic texts, evenly over the file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines[:: max(1, len(lines) // SHOWN)][:SHOWN]]


def hashes(release: Path) -> dict[str, str]:
    found = {}
    for path in [*(release / name for name in KEPT), *sorted((release / "synthetic").rglob("*"))]:
        if path.is_file():
            with path.open("rb") as file:
                found[str(path.relative_to(release))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _head(ledger: Ledger) -> dict[str, Any]:
    row, _, link = ledger.rows()[-1]
    return {"row": row, "hash": link}


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
