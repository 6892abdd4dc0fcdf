"""The ledger's hash chain, and its heads outside the ledger.

Each row's hash covers the row and the hash before it, so a changed row breaks the chain. A chain alone cannot tell
that its tail was cut off or that an old copy was put back; so after each charge the head (row number and hash) is
also written into the run's own directory and into this machine's home (identity.py), and compared when the ledger is
written and verified.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hearsay.disk import write_text
from hearsay.errors import LedgerError

HEAD_FILE = "ledger-head.json"
GENESIS = "0" * 64


def canonical(body: dict[str, Any]) -> str:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def link(previous: str, body: str) -> str:
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


@dataclass(frozen=True)
class Head:
    ledger: str
    row: int
    hash: str


def write_head(folder: Path, head: Head, name: str = HEAD_FILE) -> None:
    """Atomic: a crash leaves the older head, which is still a true prefix of the chain."""
    write_text(folder / name, canonical(asdict(head)))


def read_head(folder: Path, name: str = HEAD_FILE) -> Head | None:
    path = folder / name
    if not path.exists():
        return None
    try:
        body = json.loads(path.read_text())
        return Head(str(body["ledger"]), int(body["row"]), str(body["hash"]))
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(f"{path} is not a ledger head; restore it from a backup") from error
