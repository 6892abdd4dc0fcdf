"""The ledger's file: SQLite with a write-ahead log and full sync, one table of hash-chained rows.

Everything that can go wrong with a file becomes an error that says what to do. A file is made whole or not at all, and
one that cannot be written (an auditor's copy, a read-only disk) can still be read.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hearsay.accounting import chain
from hearsay.errors import BadInput, LedgerError

SCHEMA = """
CREATE TABLE IF NOT EXISTS ledger (
    row INTEGER PRIMARY KEY, kind TEXT NOT NULL, run TEXT, question TEXT,
    body TEXT NOT NULL, hash TEXT NOT NULL, UNIQUE (run, question));
"""
UNWRITABLE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR)


def connect(path: Path) -> sqlite3.Connection:
    if not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        return _connect_to_read(path)
    db = sqlite3.connect(path, timeout=120, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    return db


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """A write-ahead log wants files beside the ledger even to read; without one in use, it can be read as it lies."""
    address = f"file:{quote(str(path.resolve()))}?mode=ro"
    log = path.with_name(path.name + "-wal")
    if not log.exists() or not log.stat().st_size:
        return sqlite3.connect(address + "&immutable=1", uri=True, isolation_level=None)
    db = sqlite3.connect(address, uri=True, timeout=120, isolation_level=None)
    try:
        db.execute("SELECT 1 FROM ledger LIMIT 1")
    except sqlite3.OperationalError as error:
        raise BadInput(
            f"{path} has newer rows in {log.name}, and its folder is read-only; copy both elsewhere and read them there"
        ) from error
    return db


def create(path: Path, body: dict[str, Any]) -> None:
    """A ledger with its first row, under its name only once it is whole; refuses a name that is taken."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    made = _make_folder(path.parent)
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        db = connect(draft)
        try:
            db.execute(SCHEMA)
            with transaction(db):
                append(db, body, run=None, question=None)
        finally:
            db.close()  # folds the log into the file
        os.link(draft, path)
    except BaseException as error:
        _remove(draft)
        if made:
            path.parent.rmdir()
        if isinstance(error, FileExistsError):
            raise LedgerError(f"{path} exists already; open it instead of creating it") from error
        raise
    _remove(draft)


def _make_folder(folder: Path) -> bool:
    if folder.exists():
        return False
    folder.mkdir(parents=True, exist_ok=True)
    return True


def _remove(draft: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        draft.with_name(draft.name + ending).unlink(missing_ok=True)


def append(db: sqlite3.Connection, body: dict[str, Any], *, run: str | None, question: str | None) -> int:
    last = db.execute("SELECT row, hash FROM ledger ORDER BY row DESC LIMIT 1").fetchone()
    row, previous = (last[0] + 1, last[1]) if last else (1, chain.GENESIS)
    # The day is enough for an auditor; seconds between rows would tell how many units took part in a round.
    text = chain.canonical({**body, "row": row, "time": time.strftime("%Y-%m-%d", time.gmtime())})
    db.execute(
        "INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?)",
        (row, body["kind"], run, question, text, chain.link(previous, text)),
    )
    return int(row)


def check_tail(db: sqlite3.Connection, path: Path) -> None:
    """The newest row must follow from the one before: it states the total that the next charge is checked against."""
    rows = db.execute("SELECT row, body, hash FROM ledger ORDER BY row DESC LIMIT 2").fetchall()
    (row, body, stored), previous = rows[0], rows[1][2] if len(rows) == 2 else chain.GENESIS
    if chain.link(previous, body) != stored:
        raise LedgerError(f"row {row} of {path} was changed: its hash does not fit; type: hearsay ledger verify {path}")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")  # the write lock first: what is read below cannot change before the commit
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk may have rolled it back already
            db.execute("ROLLBACK")
        raise


@contextmanager
def in_words(path: Path) -> Iterator[None]:
    """SQLite's and the file system's refusals in words that say what to do."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise LedgerError(f"this question was already charged in {path}; its stored answer must be used") from error
    except sqlite3.DatabaseError as error:
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        if code in UNWRITABLE:
            raise BadInput(f"cannot write the ledger {path}: {error}; {_remedy(code)}") from error
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BadInput(f"the ledger {path} is held by another process; try again when it is done") from error
        raise LedgerError(f"{path} is damaged: {error}; restore the newest backup and verify it") from error
    except OSError as error:
        raise BadInput(f"cannot write the ledger {path}: {error.strerror}; name another with --ledger") from error


def _remedy(code: int) -> str:
    return "free space, then try again" if code == sqlite3.SQLITE_FULL else "name a writable one with --ledger"
