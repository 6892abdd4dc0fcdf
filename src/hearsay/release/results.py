"""What a library trains with noise of its own leaves once: charged before the first step, bound after the last.

    charge, answer pending ─► train into private/trained ─► ledger: the result's hash, free ─► move to release/

Killed anywhere, the rule holds: a try without its result row left nothing outside private/, and another may be made.
From that row on there is this one result, for ever; if it is gone or changed, nothing is drawn in its place.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

from hearsay.accounting.ledger import Charge, Ledger
from hearsay.disk import sync
from hearsay.errors import LedgerError
from hearsay.release import door as doors
from hearsay.release.door import Door
from hearsay.run import forget_time

ONLY = "it was paid for once and is not made again: restore it from a backup, or begin a new run, which pays anew"


def release_once(door: Door, charge: Charge, make: Callable[[Path], None]) -> bytes:
    """The content of a pending charge's only result; `make` writes it, and runs only while none is bound."""
    inside, outside = _places(charge, door.folder)
    with door.alone():
        bound = door.ledger.result(charge)
        if bound is None:
            _make(door, charge, make)
            bound = door.ledger.bind(charge, doors.file_hash(inside), folder=door.folder)
            doors.reached("bound")
        if not outside.exists():
            _hand_over(door, charge, bound)
        content = outside.read_bytes()  # once: what is checked is what is returned
    if hashlib.sha256(content).hexdigest() != bound:
        raise LedgerError(f"{charge.pending} is not the result bound to row {charge.row}; {ONLY}")
    return content


def _make(door: Door, charge: Charge, make: Callable[[Path], None]) -> None:
    inside, outside = _places(charge, door.folder)
    if outside.exists():
        raise LedgerError(f"{charge.pending} is there, but the ledger has no result for row {charge.row}; {ONLY}")
    with doors.in_words(door.folder):
        inside.parent.mkdir(mode=0o700, exist_ok=True)
        inside.unlink(missing_ok=True)  # of a try that was never bound: deleted unread
    doors.reached("before training")
    make(inside)
    with doors.in_words(door.folder):
        sync(inside)
        sync(inside.parent)
    doors.reached("trained")


def _hand_over(door: Door, charge: Charge, bound: str) -> None:
    inside, outside = _places(charge, door.folder)
    if not inside.exists():
        raise LedgerError(f"{charge.pending}, the result of row {charge.row}, is gone; {ONLY}")
    if doors.file_hash(inside) != bound:
        raise LedgerError(f"the trained result in private/ is not the one bound to row {charge.row}; {ONLY}")
    with doors.in_words(door.folder):
        outside.parent.mkdir(parents=True, exist_ok=True)
        forget_time(inside)
        inside.replace(outside)
        sync(outside.parent)
    doors.reached("released")


def check_results(ledger: Ledger, run: str, folder: Path) -> list[str]:
    """For `ledger verify RUN`: every trained result that lies outside is the one bound to its charge."""
    problems = []
    for charge in ledger.charges(run):
        if charge.pending is None:
            continue
        bound, (inside, outside) = ledger.result(charge), _places(charge, folder)
        if bound is None and outside.exists():
            problems.append(f"{charge.pending} has no result row in the ledger")
        elif bound is not None and not outside.exists():
            if not inside.exists() and (folder / "private").exists():  # else forgotten before it was released
                problems.append(f"{charge.pending}, the result of row {charge.row}, is gone")
        elif bound is not None and doors.file_hash(outside) != bound:
            problems.append(f"{charge.pending} is not the result bound to row {charge.row}")
    return problems


def _places(charge: Charge, folder: Path) -> tuple[Path, Path]:
    """Where the result is made, and where it is released."""
    if charge.pending is None:
        raise LedgerError(f"row {charge.row} was charged without a result to come; begin a new run with another --out")
    return folder / "private" / "trained" / f"{charge.question}.safetensors", folder / charge.pending
