"""One ledger per corpus, over all its runs, failed ones included. SQLite, one transaction per charge.

Row 1 holds the budget; then one row per run, and one per charge. Check-and-charge happens inside one write
transaction, so any number of processes can share the file and none can overspend. Nothing is ever refunded: a charge
whose answer was lost stays charged. Sums are exact rationals (costs.py).

A charge carries the hash of its answer: (run, question) is unique, so a question is paid for once and has one answer.
"""

import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from hearsay.accounting import budget as budgets
from hearsay.accounting import chain, events
from hearsay.accounting.budget import Budget
from hearsay.accounting.events import Event, Gaussian, Laplace
from hearsay.errors import BadInput, BudgetError, LedgerError

SCHEMA = """
CREATE TABLE IF NOT EXISTS ledger (
    row INTEGER PRIMARY KEY, kind TEXT NOT NULL, run TEXT, question TEXT,
    body TEXT NOT NULL, hash TEXT NOT NULL, UNIQUE (run, question));
"""


@dataclass(frozen=True)
class Charge:
    row: int
    run: str
    question: str
    purpose: str
    event: Event
    answer: str
    noise: str


@dataclass(frozen=True)
class Account:
    """Where the corpus stands after the newest row."""

    spent: Fraction
    scheduled: int
    coordinates: int


class Ledger:
    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection
        first = self._row(1)
        if first is None or first["kind"] != "budget":
            raise LedgerError(f"{path} has no budget in its first row; it is not a hearsay ledger")
        self.id: str = first["ledger"]
        self.corpus: str = first["corpus"]
        self.corpus_name: str = first["corpus_name"]
        self.research: bool = first["research"]
        self.budget: Budget = budgets.from_json(first["budget"])

    @classmethod
    def create(
        cls, path: Path, budget: Budget, *, corpus: str, corpus_name: str, unit: str, research: bool = False
    ) -> "Ledger":
        """Writes the budget as row 1. A second creator of the same file finds it there and must agree (`open`)."""
        body = {
            "kind": "budget", "ledger": uuid.uuid4().hex, "corpus": corpus, "corpus_name": corpus_name, "unit": unit,
            "adjacency": "add-remove one unit", "budget": budgets.to_json(budget), "research": research,
        }  # fmt: skip
        with _readable(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            db = _connect(path)
            db.execute(SCHEMA)
            with _transaction(db):
                if db.execute("SELECT 1 FROM ledger WHERE row = 1").fetchone():
                    raise LedgerError(f"{path} exists already; open it instead of creating it")
                _append(db, body, run=None, question=None)
            path.chmod(0o600)
        return cls(path, db)

    @classmethod
    def open(cls, path: Path, *, corpus: str | None = None) -> "Ledger":
        if not path.is_file():
            raise BadInput(
                f"no ledger at {path}; type `hearsay run CONFIG` to begin one, or name it with --ledger FILE"
            )
        with _readable(path):
            ledger = cls(path, _connect(path))
        if corpus is not None and ledger.corpus != corpus:
            raise BadInput(
                f"{path} is the ledger of another corpus ({ledger.corpus_name!r}); "
                "name the right one with --ledger FILE, or correct privacy.corpus"
            )
        return ledger

    def close(self) -> None:
        self._db.close()

    def register(self, run: str, folder: Path) -> None:
        """Notes a run and where its directory (and so a head of this chain) lies. The same run twice is one row."""
        with _readable(self.path), _transaction(self._db):
            if not any(body["run"] == run for body in self.bodies("run")):
                _append(self._db, {"kind": "run", "run": run, "folder": str(folder)}, run=None, question=None)
            head = self._head()
        chain.write_head(folder, head)

    def charge(
        self, run: str, question: str, event: Event, *, answer: str, purpose: str, folder: Path, noise: str = "grid"
    ) -> Charge:
        """Checks and charges in one transaction, or raises BudgetError and changes nothing."""
        with _readable(self.path), _transaction(self._db):
            self._check_head(folder)
            before = self.account()
            after = self._after(before, event)
            body = {
                "kind": "charge", "run": run, "question": question, "purpose": purpose, "noise": noise,
                "event": events.to_json(event), "answer": answer, "spent": str(after.spent),
                "scheduled": after.scheduled, "coordinates": after.coordinates,
            }  # fmt: skip
            row = _append(self._db, body, run=run, question=question)
            head = self._head()
        chain.write_head(folder, head)
        return Charge(row, run, question, purpose, event, answer, noise)

    def find(self, run: str, question: str) -> Charge | None:
        with _readable(self.path):
            found = self._db.execute(
                "SELECT row, body FROM ledger WHERE run = ? AND question = ?", (run, question)
            ).fetchone()
        return _charge(found[0], json.loads(found[1])) if found else None

    def charges(self, run: str | None = None) -> list[Charge]:
        rows = self._db.execute("SELECT row, body FROM ledger WHERE kind = 'charge' ORDER BY row").fetchall()
        found = [_charge(row, json.loads(body)) for row, body in rows]
        return [charge for charge in found if run in (None, charge.run)]

    def bodies(self, kind: str) -> Iterator[dict[str, Any]]:
        for (body,) in self._db.execute("SELECT body FROM ledger WHERE kind = ? ORDER BY row", (kind,)).fetchall():
            yield json.loads(body)

    def rows(self) -> list[tuple[int, str, str]]:
        """(row, body, hash) as stored, for the auditor."""
        return self._db.execute("SELECT row, body, hash FROM ledger ORDER BY row").fetchall()

    def run_folders(self) -> dict[str, Path]:
        return {body["run"]: Path(body["folder"]) for body in self.bodies("run")}

    def account(self) -> Account:
        last = self._db.execute("SELECT body FROM ledger WHERE kind = 'charge' ORDER BY row DESC LIMIT 1").fetchone()
        if last is None:
            return Account(Fraction(0), 0, 0)
        body = json.loads(last[0])
        return Account(Fraction(body["spent"]), body["scheduled"], body["coordinates"])

    def _after(self, before: Account, event: Event) -> Account:
        after = charged(self.budget, before, event)
        share = Fraction(self.budget.delta) * Fraction(budgets.SAMPLER_SHARE)
        if budgets.sampler_delta(after.coordinates, self.budget.epsilon) > share:
            raise BudgetError("so many noisy coordinates that the sampler's error no longer fits into delta")
        if after.spent > self.budget.capacity:
            left = self.budget.capacity - before.spent
            raise BudgetError(
                f"corpus {self.corpus_name!r} has {float(left / self.budget.capacity):.1%} of its budget left (epsilon "
                f"{self.budget.epsilon}, delta {self.budget.delta}); this asks for "
                f"{float((after.spent - before.spent) / self.budget.capacity):.1%}. Ask for less; nothing is refunded"
            )
        return after

    def _check_head(self, folder: Path) -> None:
        """A restored backup would let the same budget be spent twice: the run's own head must be in the chain."""
        head = chain.read_head(folder)
        if head is None:
            return
        stored = self._db.execute("SELECT hash FROM ledger WHERE row = ?", (head.row,)).fetchone()
        if head.ledger != self.id:
            raise LedgerError(f"{folder} was charged to another ledger than {self.path}; name that one with --ledger")
        if stored is None or stored[0] != head.hash:
            raise LedgerError(
                f"{self.path} lacks row {head.row}, which {folder} has seen: a tail was deleted or an old copy restored"
            )

    def _head(self) -> chain.Head:
        row, last = self._db.execute("SELECT row, hash FROM ledger ORDER BY row DESC LIMIT 1").fetchone()
        return chain.Head(self.id, row, last)

    def _row(self, row: int) -> dict[str, Any] | None:
        try:
            found = self._db.execute("SELECT body FROM ledger WHERE row = ?", (row,)).fetchone()
            body: dict[str, Any] | None = json.loads(found[0]) if found else None
        except (sqlite3.DatabaseError, ValueError) as error:
            raise LedgerError(f"{self.path} cannot be read as a ledger: {error}") from error
        return body


def charged(budget: Budget, before: Account, event: Event) -> Account:
    """The account after an event: a scheduled event must be the next of the committed ones; others cost capacity."""
    coordinates = event.coordinates if isinstance(event, Gaussian | Laplace) else 0
    position = before.scheduled
    if position < len(budget.schedule) and budget.schedule[position] == event:
        return Account(before.spent, position + 1, before.coordinates + coordinates)
    return Account(before.spent + budget.cost(event), before.scheduled, before.coordinates + coordinates)


def _charge(row: int, body: dict[str, Any]) -> Charge:
    event = events.from_json(body["event"])
    return Charge(row, body["run"], body["question"], body["purpose"], event, body["answer"], body["noise"])


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=120, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    return db


def _append(db: sqlite3.Connection, body: dict[str, Any], *, run: str | None, question: str | None) -> int:
    last = db.execute("SELECT row, hash FROM ledger ORDER BY row DESC LIMIT 1").fetchone()
    row, previous = (last[0] + 1, last[1]) if last else (1, chain.GENESIS)
    text = chain.canonical({**body, "row": row, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
    db.execute(
        "INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?)",
        (row, body["kind"], run, question, text, chain.link(previous, text)),
    )
    return int(row)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")  # the write lock first: what is read below cannot change before the commit
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """SQLite's and the file system's refusals in words that say what to do."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise LedgerError(f"this question was already charged in {path}; its stored answer must be used") from error
    except (sqlite3.OperationalError, OSError) as error:
        folder = path.parent
        if not os.access(folder, os.W_OK) or "readonly" in str(error):
            raise BadInput(f"cannot write the ledger {path}: read-only; name another with --ledger") from error
        raise BadInput(f"cannot write the ledger {path}: {error}; free space or name another with --ledger") from error
    except sqlite3.DatabaseError as error:
        raise LedgerError(f"{path} is damaged: {error}; restore the newest backup and verify it") from error
