"""`hearsay ledger verify`: everything recomputed from the rows as they are stored, and a second accountant's opinion.

Checked are the hash chain, the columns by which rows are found, the running totals, the budget's capacity, the results
bound to charges, the file itself and the heads kept in run directories; the first bad row is named.
"""

import json
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from hearsay.accounting import budget as budgets
from hearsay.accounting import chain, events, odds, opinion
from hearsay.accounting.events import Event
from hearsay.accounting.ledger import PENDING, Account, Ledger, charged, result_name
from hearsay.errors import HearsayError

AGREEMENT = 1e-6  # how far the two accountants may lie apart, relatively, before we say that one is wrong

NEEDED: dict[str, tuple[str, ...]] = {  # of each kind of row
    "budget": (),
    "run": ("run", "folder"),
    "charge": ("run", "question", "event", "answer", "spent"),
    "result": ("run", "question", "answer"),
}


@dataclass
class Verdict:
    epsilon: float
    delta: float
    mu: float
    budget_epsilon: float
    second_opinion: dict[str, Any]
    charges: int
    answers: int
    runs: int
    chain: str = "intact"
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}


def verify(ledger: Ledger) -> Verdict:
    problems: list[str] = []
    bodies = _walk_chain(ledger, problems)
    intact = not problems
    charges = [body for body in bodies if body["kind"] == "charge"]
    results = [body for body in bodies if body["kind"] == "result"]
    account, loose = _replay(ledger, charges, problems)
    _check_results(charges, results, problems)
    budget = ledger.budget
    _collect(problems, lambda: budgets.check_capacity(budget))
    if account.spent > budget.capacity:
        problems.append("the charges exceed the budget")
    if budgets.sampler_delta(account.coordinates, budget.epsilon) > budgets.sampler_share(budget.delta):
        problems.append("the noisy coordinates exceed what the sampler's share of delta covers")
    if intact and account != ledger.account():
        problems.append("the ledger's own account is not what its rows add up to")
    epsilon = budget.epsilon_spent(account.spent, account.scheduled)
    second = opinion.second(budget, account, loose)
    if second["epsilon"] > epsilon * (1 + AGREEMENT) + 1e-9:
        problems.append(f"the second accountant finds epsilon {second['epsilon']}, more than {epsilon}")
    unchecked = _check_heads(ledger, bodies, problems)
    _collect(problems, ledger.check_home)
    return Verdict(
        epsilon=epsilon,
        delta=budget.delta,
        mu=odds.of(budget, account.spent, account.scheduled).mu,
        budget_epsilon=budget.epsilon,
        second_opinion=second,
        charges=len(charges),
        answers=sum(not body["answer"].startswith(PENDING) for body in charges) + len(results),
        runs=len({body["run"] for body in bodies if body["kind"] == "run"}),
        chain="intact" if intact else "broken",
        problems=problems,
        unchecked=unchecked,
    )


def _walk_chain(ledger: Ledger, problems: list[str]) -> list[dict[str, Any]]:
    """The rows up to the first bad one, which is named; nothing after it can be trusted."""
    previous, bodies = chain.GENESIS, []
    columns = ledger.columns()
    for expected, (row, text, stored) in enumerate(ledger.rows(), start=1):
        fault = _row_fault(expected, row, text, chain.link(previous, text) == stored, columns[expected - 1][1:])
        if fault:
            problems.append(fault)
            break
        bodies.append(json.loads(text))
        previous = stored
    if damage := ledger.damage():
        problems.append(f"SQLite finds the file damaged: {damage}")
    return bodies


def _row_fault(expected: int, row: int, text: str, fits: bool, columns: tuple[Any, ...]) -> str | None:
    if row != expected:
        return f"row {expected} is missing"
    if not fits:
        return f"row {row} was changed: its hash does not fit"
    try:
        body = json.loads(text)
        whole = body["row"] == row and all(name in body for name in NEEDED[body["kind"]])
    except (ValueError, KeyError, TypeError):
        return f"row {row} cannot be read"
    asked = "question" in NEEDED[body["kind"]]
    copies = (body["kind"], body["run"], body["question"]) if asked else (body["kind"], None, None)
    if not whole or copies != columns or (body["kind"] == "budget") != (row == 1):
        return f"row {row} was changed: its columns are not what its body says"
    return None


def _replay(ledger: Ledger, charges: list[dict[str, Any]], problems: list[str]) -> tuple[Account, list[Event]]:
    """The account that the events add up to, and those that were not of the committed schedule."""
    account = Account(Fraction(0), 0, 0)
    loose: list[Event] = []
    for body in charges:
        try:
            event = events.from_json(body["event"])
            before, account = account, charged(ledger.budget, account, event)
            stated = Account(Fraction(body["spent"]), body["scheduled"], body["coordinates"])
        except (HearsayError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
            problems.append(f"row {body['row']}: {error}")
            return account, loose
        if account.scheduled == before.scheduled:
            loose.append(event)
        if stated != account:
            problems.append(f"row {body['row']} states a total that its events do not add up to")
    return account, loose


def _check_results(charges: list[dict[str, Any]], results: list[dict[str, Any]], problems: list[str]) -> None:
    """A result is free, so it must be one that an earlier charge left open, and the only one."""
    left = {
        (body["run"], result_name(body["question"])): body["row"]
        for body in charges
        if body["answer"].startswith(PENDING)
    }
    for body in results:
        paid = left.pop((body["run"], body["question"]), None)
        if paid is None or paid > body["row"]:
            problems.append(f"row {body['row']} is a result that no charge before it left open")


def _check_heads(ledger: Ledger, bodies: list[dict[str, Any]], problems: list[str]) -> list[str]:
    """Compares the heads in the run directories with the chain; returns the directories that are not at hand."""
    hashes = {row: stored for row, _, stored in ledger.rows()[: len(bodies)]}
    folders = {body["run"]: Path(body["folder"]) for body in bodies if body["kind"] == "run"}
    charged_runs = {body["run"] for body in bodies if body["kind"] == "charge"}
    unchecked = []
    for run, folder in folders.items():
        if not folder.exists() or not _lives_in(run, folder):
            unchecked.append(str(folder))
        elif (folder / chain.HEAD_FILE).exists():
            _collect(problems, lambda folder=folder: _check_one_head(ledger, folder, hashes))
        elif run in charged_runs:
            problems.append(f"{folder} was charged, but its {chain.HEAD_FILE} was removed")
    return unchecked


def _lives_in(run: str, folder: Path) -> bool:
    """False if the directory was deleted and another run made in its place: its head is not ours to judge."""
    try:
        return bool(json.loads((folder / "run.json").read_text())["id"] == run)
    except (OSError, ValueError, KeyError, TypeError):
        return True


def check_run_head(ledger: Ledger, folder: Path) -> list[str]:
    """The same for one directory that the ledger may have forgotten (its row was in the deleted tail)."""
    problems: list[str] = []
    _collect(problems, lambda: _check_one_head(ledger, folder, {row: stored for row, _, stored in ledger.rows()}))
    return problems


def _check_one_head(ledger: Ledger, folder: Path, hashes: dict[int, str]) -> None:
    head = chain.read_head(folder)
    if head is None:
        raise HearsayError(f"{folder} has no {chain.HEAD_FILE}: it never saw this ledger, or the file was removed")
    if head.ledger != ledger.id:
        raise HearsayError(f"{folder} was charged to another ledger file of this corpus")
    if hashes.get(head.row) != head.hash:
        raise HearsayError(
            f"row {head.row}, which {folder} has seen, is missing or different: "
            "the ledger's tail was deleted or an old copy restored"
        )


def _collect(problems: list[str], check: Any) -> None:
    try:
        check()
    except HearsayError as error:
        problems.append(str(error))
