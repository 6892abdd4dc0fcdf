"""Which corpus is this, and was it charged elsewhere? Answered under a local secret that never leaves the machine.

A corpus's identity is an HMAC of its name: nothing shareable holds a plain hash of private text, which anyone with a
guess could check. A second ledger for the same people would let the budget be spent twice, so a sketch of the corpus
(the smallest keyed hashes of its units, computed in private/) is remembered beside the ledger's place; a corpus that
shares units with one already known elsewhere is refused. Appending rows or renaming the corpus does not hide it.
"""

import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path

from hearsay.errors import BadInput, LedgerError

SAME_CORPUS = 16  # shared sketch entries out of 64: keyed hashes do not collide, and a corpus may have grown fourfold


_settled: list[Path] = []


def settle(folder: Path) -> None:
    """Uses this home from now on in this process: that of the run at hand, wherever the environment points."""
    _settled[:] = [folder]


def home() -> Path:
    """Where ledgers and the local secret live: the run's own home, HEARSAY_HOME, else XDG's data folder."""
    if _settled:
        return _settled[0]
    if folder := os.environ.get("HEARSAY_HOME"):
        return Path(folder)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "hearsay"


def local_secret() -> bytes:
    path = home() / "secret"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return _known_secret(path)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}; name a writable folder in HEARSAY_HOME") from error
    with os.fdopen(handle, "wb") as file:
        file.write(secrets.token_bytes(32))
        file.flush()
        os.fsync(file.fileno())
    return path.read_bytes()


def _known_secret(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != 32:
        raise LedgerError(f"{path} is not a hearsay secret; restore it from a backup (a new one orphans every ledger)")
    return key


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


def remember(ledger: str, path: Path, sketch: tuple[bytes, ...]) -> None:
    """Refuses a corpus that another ledger already answers for, else notes it."""
    registry = home() / "corpora.json"
    known = json.loads(registry.read_text()) if registry.exists() else {}
    mine = {entry.hex() for entry in sketch}
    for other, body in known.items():
        shared = len(mine & set(body["sketch"]))
        if other != ledger and shared >= min(SAME_CORPUS, len(mine), len(body["sketch"])) > 0:
            raise LedgerError(
                f"these people's text is already charged to the ledger {body['path']} (corpus under another name or "
                "file); use that one with --ledger, since two ledgers would spend the same budget twice"
            )
    known[ledger] = {"path": str(path), "sketch": sorted(mine)}
    draft = registry.with_suffix(f".{os.getpid()}.draft")
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(known))
    draft.replace(registry)
