"""One ledger per corpus, over all its runs, failed ones included. SQLite, one transaction per charge.

Row 1 holds the budget; then one row per run, and one per charge. Check-and-charge happens inside one write
transaction, so any number of processes can share the file and none can overspend. Nothing is ever refunded: a charge
whose answer was lost stays charged. Sums are exact rationals (costs.py).

A charge carries the hash of its answer: (run, question) is unique, so a question is paid for once and has one answer.
Where a library draws its noise while it trains, the answer is pending: it gets a row of its own, which costs nothing,
before anyone sees it, and the charge has this one result.
"""

import json
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from hearsay.accounting import budget as budgets
from hearsay.accounting import chain, events, identity, store
from hearsay.accounting.budget import Budget
from hearsay.accounting.events import Event, Gaussian, Laplace, SubsampledGaussian
from hearsay.accounting.store import in_words, transaction
from hearsay.errors import BadInput, BudgetError, LedgerError

PENDING = "pending: "  # then the place, in the run directory, where the result will lie


@dataclass(frozen=True)
class Charge:
    row: int
    run: str
    question: str
    purpose: str
    event: Event
    answer: str
    noise: str

    @property
    def pending(self) -> str | None:
        """Where the result will lie, if it is bound after the charge (`bind`)."""
        return self.answer.removeprefix(PENDING) if self.answer.startswith(PENDING) else None


@dataclass(frozen=True)
class Account:
    """Where the corpus stands after the newest row."""

    spent: Fraction
    scheduled: int
    coordinates: int


class Ledger:
    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.home = identity.home()  # its heads stay together, wherever the environment points later
        self._db = connection
        first = self._first_row()
        try:
            self.id: str = first["ledger"]
            self.corpus: str = first["corpus"]
            self.corpus_name: str = first["corpus_name"]
            self.unit: str = first["unit"]
            self.column: str = first.get("column", "")  # what tells one unit from another; unstated in early ledgers
            self.adjacency: str = first["adjacency"]
            self.research: bool = first["research"]
            self.budget: Budget = budgets.from_json(first["budget"])
            if not self.id.isalnum():  # files are named by it
                raise ValueError("a name that is none")
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise LedgerError(f"row 1 of {path} was changed: it states no budget ({error})") from error

    @classmethod
    def create(
        cls,
        path: Path,
        budget: Budget,
        *,
        corpus: str,
        corpus_name: str,
        unit: str,
        column: str = "",
        research: bool = False,
    ) -> "Ledger":
        """Writes the budget as row 1, whole or not at all. A second creator is refused and may `open` it."""
        body = {
            "kind": "budget", "ledger": uuid.uuid4().hex, "corpus": corpus, "corpus_name": corpus_name,
            "unit": unit, "column": column, "adjacency": "add-remove one unit", "budget": budgets.to_json(budget),
            "research": research,
        }  # fmt: skip
        with in_words(path):
            store.create(path, body)
            return cls(path, store.connect(path))

    @classmethod
    def open(cls, path: Path, *, corpus: str | None = None) -> "Ledger":
        """For writing where the file allows it, else for reading. A connection must not cross a fork."""
        if not path.is_file():
            raise BadInput(f"no ledger at {path}; type `hearsay run CONFIG` to begin one, or name another")
        with in_words(path):
            ledger = cls(path, store.connect(path))
        if corpus is not None and ledger.corpus != corpus:
            raise BadInput(
                f"{path} is the ledger of another corpus ({ledger.corpus_name!r}); "
                "name the right one with --ledger FILE, or correct privacy.corpus"
            )
        return ledger

    def close(self) -> None:
        self._db.close()

    def register(self, run: str, folder: Path) -> None:
        """Notes a run and where its directory (and so a head of this chain) lies. The same run twice is one row.

        Every head at hand is compared first: a new run must not go on from a restored backup, nor may an old run's
        head, which is the evidence, be overwritten.
        """
        with self._writing(run, folder):
            for other in self.run_folders().values():
                self._check_head(other, own=False)

    def charge(
        self, run: str, question: str, event: Event, *, answer: str, purpose: str, folder: Path, noise: str = "grid"
    ) -> Charge:
        """Checks and charges in one transaction, or raises BudgetError and changes nothing."""
        with self._writing(run, folder):
            before = self.account()
            after = self._after(before, event)
            body = {
                "kind": "charge", "run": run, "question": question, "purpose": purpose, "noise": noise,
                "event": events.to_json(event), "answer": answer, "spent": str(after.spent),
                "scheduled": after.scheduled, "coordinates": after.coordinates,
            }  # fmt: skip
            row = store.append(self._db, body, run=run, question=question)
        return Charge(row, run, question, purpose, event, answer, noise)

    def bind(self, charge: Charge, answer: str, *, folder: Path) -> str:
        """The hash of a pending charge's only result. Costs nothing: what the result shows was charged before."""
        if charge.pending is None:
            raise LedgerError(f"row {charge.row} of {self.path} has its answer already; no result can be bound to it")
        question = result_name(charge.question)
        with self._writing(charge.run, folder):
            body = {"kind": "result", "run": charge.run, "question": question, "answer": answer}
            store.append(self._db, body, run=charge.run, question=question)
        return answer

    def result(self, charge: Charge) -> str | None:
        """What was bound to a pending charge."""
        found = self._find("result", charge.run, result_name(charge.question))
        return str(_parse(*found)["answer"]) if found else None

    def find(self, run: str, question: str) -> Charge | None:
        found = self._find("charge", run, question)
        return _charge(*found) if found else None

    def _find(self, kind: str, run: str, question: str) -> tuple[int, str] | None:
        sql = "SELECT row, body FROM ledger WHERE kind = ? AND run = ? AND question = ?"
        found = self._query(sql, (kind, run, question))
        return found[0] if found else None

    def charges(self, run: str | None = None) -> list[Charge]:
        rows = self._query("SELECT row, body FROM ledger WHERE kind = 'charge' ORDER BY row")
        found = [_charge(row, body) for row, body in rows]
        return [charge for charge in found if run in (None, charge.run)]

    def bodies(self, kind: str) -> Iterator[dict[str, Any]]:
        for row, body in self._query("SELECT row, body FROM ledger WHERE kind = ? ORDER BY row", (kind,)):
            yield _parse(row, body)

    def rows(self) -> list[tuple[int, str, str]]:
        """(row, body, hash) as stored, for the auditor."""
        return self._query("SELECT row, body, hash FROM ledger ORDER BY row")

    def columns(self) -> list[tuple[int, str, str | None, str | None]]:
        """(row, kind, run, question): copies of what the body says, by which SQLite finds rows. Not in the chain."""
        return self._query("SELECT row, kind, run, question FROM ledger ORDER BY row")

    def damage(self) -> str | None:
        """What SQLite itself finds wrong with the file (an index that hides a row, say)."""
        found = str(self._query("PRAGMA integrity_check(1)")[0][0])
        return None if found == "ok" else found

    def run_folders(self) -> dict[str, Path]:
        """Where each run's directory was last seen."""
        return {body["run"]: Path(body["folder"]) for body in self.bodies("run")}

    def account(self) -> Account:
        last = self._query("SELECT row, body FROM ledger WHERE kind = 'charge' ORDER BY row DESC LIMIT 1")
        if not last:
            return Account(Fraction(0), 0, 0)
        body = _parse(*last[0])
        return Account(Fraction(body["spent"]), body["scheduled"], body["coordinates"])

    @contextmanager
    def _writing(self, run: str, folder: Path) -> Iterator[None]:
        """One transaction for a row of this run, and the new head in its directory and at home."""
        with identity.at(self.home), identity.one_copy(self.id):
            with in_words(self.path), transaction(self._db):
                store.check_tail(self._db, self.path)
                self.check_home()
                self._check_head(folder)
                self._note_run(run, folder)
                yield
                head = self._head()
            _keep_head(folder, head)
            _keep_head(identity.heads(), head, f"{self.id}.json")

    def _after(self, before: Account, event: Event) -> Account:
        after = charged(self.budget, before, event)
        if budgets.sampler_delta(after.coordinates, self.budget.epsilon) > budgets.sampler_share(self.budget.delta):
            raise BudgetError("so many noisy coordinates that the sampler's error no longer fits into delta")
        if after.spent > self.budget.capacity:
            left, asked = self.budget.capacity - before.spent, after.spent - before.spent
            raise BudgetError(
                f"corpus {self.corpus_name!r} has {self.budget.share(left):.1%} of its budget left (epsilon "
                f"{self.budget.epsilon}, delta {self.budget.delta}); this asks for {self.budget.share(asked):.1%}. "
                "Ask for less; nothing is refunded"
            )
        return after

    def _check_head(self, folder: Path, *, own: bool = True) -> None:
        """A restored backup would let the same budget be spent twice: the head a run has seen must be in the chain."""
        head = chain.read_head(folder)
        if head is None or (head.ledger != self.id and not own):  # another run may live there by now
            return
        if head.ledger != self.id:
            raise LedgerError(f"{folder} was charged to another ledger than {self.path}; name that one with --ledger")
        self._check_seen(head, str(folder))

    def check_home(self) -> None:
        """Two copies of one ledger, each with rows of its own, would be two budgets."""
        with identity.at(self.home):
            head = chain.read_head(identity.heads(), f"{self.id}.json")
        if head is not None:
            self._check_seen(head, "this machine")

    def _check_seen(self, head: chain.Head, by: str) -> None:
        stored = self._query("SELECT hash FROM ledger WHERE row = ?", (head.row,))
        if not stored or stored[0][0] != head.hash:
            raise LedgerError(
                f"{self.path} lacks row {head.row}, which {by} has seen: a tail was deleted or an old copy restored; "
                "go on with the newest one"
            )

    def _note_run(self, run: str, folder: Path) -> None:
        place = folder.resolve()
        if self.run_folders().get(run) != place:
            store.append(self._db, {"kind": "run", "run": run, "folder": str(place)}, run=None, question=None)

    def _head(self) -> chain.Head:
        row, last = self._query("SELECT row, hash FROM ledger ORDER BY row DESC LIMIT 1")[0]
        return chain.Head(self.id, row, last)

    def _first_row(self) -> dict[str, Any]:
        found = self._query("SELECT body, hash FROM ledger WHERE row = 1")
        body = _parse(1, found[0][0]) if found else {}
        if body.get("kind") != "budget":
            raise LedgerError(f"{self.path} has no budget in row 1: no hearsay ledger, or the row was changed")
        if chain.link(chain.GENESIS, found[0][0]) != found[0][1]:
            raise LedgerError(f"row 1 of {self.path} was changed: its hash does not fit")
        return body

    def _query(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        with in_words(self.path):
            return self._db.execute(sql, values).fetchall()


def result_name(question: str) -> str:
    """The row of a charge's result among the questions of its run: unique, as they are."""
    return f"{question}-result"


def charged(budget: Budget, before: Account, event: Event) -> Account:
    """The account after an event: a scheduled event must be the next of the committed ones; others cost capacity."""
    coordinates = event.coordinates if isinstance(event, Gaussian | Laplace | SubsampledGaussian) else 0
    position = before.scheduled
    if position < len(budget.schedule) and budget.schedule[position] == event:
        return Account(before.spent, position + 1, before.coordinates + coordinates)
    return Account(before.spent + budget.cost(event), before.scheduled, before.coordinates + coordinates)


def _charge(row: int, text: str) -> Charge:
    body = _parse(row, text)
    try:
        event = events.from_json(body["event"])
        return Charge(row, body["run"], body["question"], body["purpose"], event, body["answer"], body["noise"])
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(f"row {row} of the ledger was changed: it is no charge ({error})") from error


def _parse(row: int, text: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except (TypeError, ValueError) as error:
        raise LedgerError(f"row {row} of the ledger was changed: it cannot be read") from error
    if not isinstance(body, dict):
        raise LedgerError(f"row {row} of the ledger was changed: it holds no fields")
    return body


def _keep_head(folder: Path, head: chain.Head, name: str = chain.HEAD_FILE) -> None:
    """After the commit. If it fails, the older head stays, which is still true; what was charged stays charged."""
    try:
        chain.write_head(folder, head, name)
    except OSError as error:
        raise BadInput(
            f"row {head.row} is in the ledger, but its head could not be kept in {folder}: {error.strerror}; "
            "mend that, then the same command continues and pays nothing twice"
        ) from error
