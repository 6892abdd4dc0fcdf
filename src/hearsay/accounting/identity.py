"""Which corpus is this, and was it charged elsewhere? Answered under a local secret that never leaves the machine.

A corpus's identity is an HMAC of its name: nothing shareable holds a plain hash of private text, which anyone with a
guess could check. A second ledger for the same people would let the budget be spent twice, so a sketch of the corpus
(the smallest keyed hashes of its units, computed in private/) is remembered beside the ledger's place; a corpus that
shares units with one already known elsewhere is refused. Appending rows or renaming the corpus does not hide it.
"""

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from hearsay.disk import write_text
from hearsay.errors import BadInput, BudgetError, LedgerError

SKETCH_SIZE = 2**14  # as in private/corpus.py, which this room may not import (a test compares)
SHARED_PART = 4  # one in four: different corpora of one company may share some people


_at: ContextVar[Path | None] = ContextVar("home of the run at hand", default=None)


@contextmanager
def at(folder: Path) -> Iterator[None]:
    """Work on a run takes place at that run's own home, wherever the environment points by now."""
    token = _at.set(folder)
    try:
        yield
    finally:
        _at.reset(token)


def home() -> Path:
    """Where ledgers and the local secret live: the home of the run at hand, HEARSAY_HOME, else XDG's data folder."""
    if here := _at.get():
        return here
    if folder := os.environ.get("HEARSAY_HOME"):
        return Path(folder)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "hearsay"


def local_secret() -> bytes:
    """Made on first use, whole or not at all: of several processes that begin at once, all get the same."""
    path = home() / "secret"
    try:
        if not path.exists():
            _make_secret(path)
        key = path.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}; name a writable folder in HEARSAY_HOME") from error
    if len(key) != 32:
        raise LedgerError(f"{path} is not a hearsay secret; restore it from a backup (a new one orphans every ledger)")
    return key


def _make_secret(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".secret.{os.getpid()}.{secrets.token_hex(4)}.draft")
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was faster: its secret counts
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def derived_key(purpose: str, corpus_name: str) -> bytes:
    """A key for one purpose and corpus: the partition and the sketch must not share theirs with the identity."""
    return hmac.digest(local_secret(), f"{purpose}\0{corpus_name}".encode(), "sha256")


def sketch_key() -> bytes:
    """One key for all corpora, or the same people under another name would not be recognised."""
    return hmac.digest(local_secret(), b"sketch", "sha256")


def corpus_id(corpus_name: str) -> str:
    return derived_key("corpus", corpus_name).hex()


def ledger_path(corpus_name: str) -> Path:
    readable = "".join(c if c.isalnum() or c in "-_" else "-" for c in corpus_name)
    tag = hashlib.sha256(corpus_name.encode()).hexdigest()[:6] if readable != corpus_name else ""
    return home() / f"ledger-{readable}{'-' + tag if tag else ''}.sqlite"


def heads() -> Path:
    """The newest head of every ledger that was written from here: of two copies of one, only the newer goes on."""
    return home() / "heads"


@contextmanager
def one_copy(ledger: str) -> Iterator[None]:
    """While a ledger is written from this home, no copy of it is."""
    try:
        heads().mkdir(parents=True, exist_ok=True)
        lock = (heads() / f".{ledger}.lock").open("w")
    except OSError as error:
        raise BadInput(f"cannot write {heads()}: {error.strerror}; name a writable folder in HEARSAY_HOME") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remember(ledger: str, path: Path, sketch: tuple[bytes, ...]) -> None:
    """Refuses a corpus that another ledger already answers for, else notes it. Every sketch seen is kept."""
    registry = home() / "corpora.json"
    mine = sorted({entry.hex() for entry in sketch})
    try:
        registry.parent.mkdir(parents=True, exist_ok=True)
        with (registry.parent / ".corpora.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = _known(registry)
            _refuse_known(ledger, mine, known)
            entry = known.setdefault(ledger, {"path": str(path), "sketches": []})
            entry["path"] = str(path)
            if mine not in entry["sketches"]:
                entry["sketches"].append(mine)
            write_text(registry, json.dumps(known), mode=0o600)
    except OSError as error:
        raise BadInput(f"cannot write {registry}: {error.strerror}; name a writable folder in HEARSAY_HOME") from error


def _known(registry: Path) -> dict[str, Any]:
    if not registry.exists():
        return {}
    try:
        known: dict[str, Any] = json.loads(registry.read_text())
        for body in known.values():
            body["path"], body["sketches"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LedgerError(
            f"{registry} cannot be read; restore it from a backup (it knows which ledgers exist)"
        ) from error
    return known


def _refuse_known(ledger: str, mine: list[str], known: dict[str, Any]) -> None:
    for other, body in known.items():
        if other != ledger and any(same_people(mine, sketch) for sketch in body["sketches"]):
            raise BudgetError(
                f"these people's text is already charged to the ledger {body['path']} (corpus under another name or "
                f"file); two ledgers would spend the same budget twice: set privacy.corpus to the name that `hearsay "
                f"ledger show {body['path']}` tells, and take a new --out"
            )


def same_people(one: list[str], two: list[str]) -> bool:
    """Whether the smaller of two corpora shares a quarter of its units with the other, told from their sketches.

    A sketch holds the smallest hashes. Up to the smaller of the two largest ones both lists are complete, so there a
    corpus that only grew still has every hash of the old one, however few of the old sketch's are left. Of a corpus
    with more units than a sketch holds, a small part may have no hash in it and go unseen.
    """
    ends = [max(sketch) for sketch in (one, two) if len(sketch) >= SKETCH_SIZE]
    end = min(ends, default="g")  # after every hexadecimal digit
    first, second = ({name for name in sketch if name <= end} for sketch in (one, two))
    return len(first & second) * SHARED_PART >= max(1, min(len(first), len(second)))
