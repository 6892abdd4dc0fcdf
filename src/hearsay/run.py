"""The run directory: where stages hand over through files, so that resume, the page and an auditor see the same thing.

config.yaml  environment.json  progress.jsonl  run.json  ledger-head.json
private/     shards, teachers, uncommitted draws; mode 0700; may be destroyed at any time after the last answer
internal/    measurements that read private hold-out: for the owner's eyes, not covered by the guarantee; mode 0700
release/     answers, student/, statement: covered by the ledger, safe to share
"""

import contextlib
import fcntl
import json
import os
import platform
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from hearsay.accounting import chain, identity
from hearsay.disk import write_text
from hearsay.errors import BadInput, ConfigError

LOCK = ".lock"
PROGRESS = "progress.jsonl"
OWN = ("config.yaml", "environment.json", "run.json", "internal", "release", "private", LOCK, PROGRESS)
RECEIPT = "forgotten.json"
ELSEWHERE = ("engine", "address", "workers")  # of compute
PACKAGES = ("hearsay", "torch", "transformers", "peft", "opacus", "numpy", "dp-accounting", "mpmath")

NO_TIME = 315_619_200  # in January 1980: the first that every archive can hold


@dataclass(frozen=True)
class Run:
    folder: Path
    id: str
    ledger: Path
    home: Path  # of the secret that names this run's units and corpus

    @property
    def private(self) -> Path:
        return self.folder / "private"

    @property
    def internal(self) -> Path:
        return self.folder / "internal"

    @property
    def release(self) -> Path:
        return self.folder / "release"

    def note(self, stage: str, **public: Any) -> None:
        """One line of progress: public settings and times only. Nothing computed from private text may come here."""
        line = {"time": round(time.time(), 3), "stage": stage, **public}
        place = os.open(self.folder / PROGRESS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(place, "a") as file:  # for the owner: how long private work took tells how much there was of it
            file.write(json.dumps(line) + "\n")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One process works on a run directory at a time."""
        with _locked(self.folder):
            if open_run(self.folder).id != self.id:
                raise BadInput(f"{self.folder} has just been begun anew by another process; name another with --out")
            yield

    @contextmanager
    def working(self) -> Iterator[None]:
        """As `alone`, for what reads private text: none of it is left, or read again, once it was forgotten."""
        with self.alone():
            self.refuse_forgotten()
            yield

    def refuse_forgotten(self) -> None:
        if (self.folder / RECEIPT).exists():  # going on would read the private text again and make the receipt a lie
            raise BadInput(
                f"the private part of {self.folder} was destroyed (see {RECEIPT}); name another --out for a new run"
            )


def begin(folder: Path, config_text: str, ledger: Path, home: Path | None = None) -> Run:
    """Creates the directory, or takes up the one that is there if its settings are the same.

    `home` is where the secret lives that names units and corpus; the usual place if left out.
    """
    if _stands(folder, config_text):
        return _take_up(folder, config_text, ledger)
    existed = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(path.name not in OWN and not path.name.endswith(".draft") for path in folder.iterdir()):
            raise BadInput(f"{folder} is not empty and not a run directory; name another with --out")
        with _locked(folder):  # somebody else may be beginning, or has just begun
            if _stands(folder, config_text):
                return _take_up(folder, config_text, ledger)
            return _lay_out(folder, config_text, ledger, home or identity.home())
    except OSError as error:
        _clear(folder, existed)
        raise BadInput(f"cannot write {folder}: {error.strerror}; name another with --out") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The number of the process that holds it stands in the lock, so that it can be stopped."""
    with (folder / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"another process is working on {folder}; wait for it or stop it") from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _stands(folder: Path, config_text: str) -> bool:
    """Whether a run has its place here. One that was refused before it left or asked anything gives way to another."""
    if not (folder / "run.json").exists():
        return False
    return not (_other_settings(folder, config_text) and _untouched(open_run(folder)))


def refuse_foreign(folder: Path, own: tuple[str, ...]) -> None:
    """A folder that holds other things than ours is not written into."""
    if folder.exists() and any(path.name not in own for path in folder.iterdir()):
        raise BadInput(f"{folder} holds other files; name another folder with --out")


def _lay_out(folder: Path, config_text: str, ledger: Path, home: Path) -> Run:
    """run.json comes last, and goes first: without it the directory counts as not begun, and is laid out again."""
    (folder / "run.json").unlink(missing_ok=True)
    (folder / "release").mkdir(exist_ok=True)
    for name in ("private", "internal"):  # text, and what is measured on text: no other account may look
        (folder / name).mkdir(mode=0o700, exist_ok=True)
        (folder / name).chmod(0o700)
    run = Run(folder.resolve(), uuid.uuid4().hex, ledger.resolve(), home.resolve())
    write_text(folder / "config.yaml", config_text)
    write_text(folder / "environment.json", json.dumps(environment(), indent=1))
    facts = {"id": run.id, "ledger": str(run.ledger), "home": str(run.home)}
    write_text(folder / "run.json", json.dumps(facts))
    return run


def _clear(folder: Path, existed: bool) -> None:
    """Nothing half-begun stays. Only what `_lay_out` makes is removed, and folders only if they are empty."""
    with contextlib.suppress(OSError):
        for name in OWN:
            path = folder / name
            path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        if not existed:
            folder.rmdir()


def open_run(folder: Path) -> Run:
    try:
        body = json.loads((folder / "run.json").read_text())
        return Run(folder.resolve(), body["id"], Path(body["ledger"]), Path(body["home"]))
    except (OSError, ValueError, KeyError):
        raise BadInput(f"{folder} is not a run directory; type `hearsay run CONFIG --out {folder}`") from None


def worker(folder: Path) -> int | None:
    """The number of the process that works on a run directory now; None if there is none, however the last one ended.

    The lock itself is tried only if the process it names is alive (another program may have its number by now), so
    that looking never stands in the way of a run that begins.
    """
    try:
        number = int((folder / LOCK).read_text())
        os.kill(number, 0)
        with (folder / LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return number
    except (OSError, ValueError):
        return None
    return None


def _untouched(run: Run) -> bool:
    rooms = (run.private, run.internal, run.release)
    left = any(path.is_file() for room in rooms for path in room.rglob("*"))
    return not left and chain.read_head(run.folder) is None and not (run.folder / RECEIPT).exists()


def _take_up(folder: Path, config_text: str, ledger: Path) -> Run:
    run = open_run(folder)
    if _other_settings(folder, config_text):
        raise ConfigError(f"{folder} was begun with other settings (see its config.yaml); name another with --out")
    if run.ledger != ledger.resolve():
        raise ConfigError(f"{folder} is charged to {run.ledger}; continue with that ledger, or name another --out")
    run.refuse_forgotten()
    return run


def _other_settings(folder: Path, config_text: str) -> bool:
    open_run(folder)  # else it is another program's, and has no config of ours
    return bool(_settled((folder / "config.yaml").read_text()) != _settled(config_text))


def _settled(config_text: str) -> Any:
    """What a run may not change on its way: all but who does the work, which changes no number. What is null is left
    out: a setting that came after the run began, and that nobody uses, is no change.
    """
    body = yaml.safe_load(config_text) or {}
    for name in ELSEWHERE if isinstance(body, dict) else ():
        body.get("compute", {}).pop(name, None)
    return _said(body)


def _said(body: Any) -> Any:
    return {name: _said(one) for name, one in body.items() if one is not None} if isinstance(body, dict) else body


def environment() -> dict[str, Any]:
    return {
        "python": sys.version.split()[0],
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "packages": {name: installed(name) for name in PACKAGES},
    }


def installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def forget_time(path: Path) -> None:
    """A file's time becomes no time, the same for all: how long private work took tells how much there was of it."""
    os.utime(path, (NO_TIME, NO_TIME))


def forget(run: Run, *, anyway: bool = False) -> dict[str, Any]:
    """Destroys private/ and the internal model that is not private; leaves a receipt, which also names what stays of
    the owner's measurements. Nothing is refunded, so a run that is not finished wants to be named twice.
    """
    with run.alone():
        _refuse_links(run)
        made = any((run.release / name).exists() for name in ("student", "synthetic"))
        if not made and not anyway and not any(run.internal.glob("*NOT-PRIVATE*")):
            raise BadInput(
                f"{run.folder} is not finished: what it paid is not refunded, and without its private part it cannot "
                f"go on. Finish it with hearsay run {run.folder / 'config.yaml'} --out {run.folder}, or type --anyway"
            )
        for path in [*run.private.rglob("*"), *run.internal.rglob("*NOT-PRIVATE*")]:
            if path.is_file():
                _overwrite(path)
                path.unlink()
        if run.private.exists():
            shutil.rmtree(run.private)  # what cannot be removed is an error: no receipt for it
        receipt = {
            "run": run.id,
            "forgotten": "private",
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "stays": sorted(str(path.relative_to(run.folder)) for path in run.internal.rglob("*") if path.is_file()),
        }
        write_text(run.folder / RECEIPT, json.dumps(receipt))
    return receipt


def _refuse_links(run: Run) -> None:
    """What lies behind a link would outlive its receipt, or be overwritten though it is not the run's."""
    for path in (run.private, run.internal, *run.private.rglob("*"), *run.internal.rglob("*")):
        if path.is_symlink():
            raise BadInput(
                f"{path} is a link: hearsay neither follows nor trusts it. Destroy what it points to yourself, remove "
                "the link, and type this again"
            )


def _overwrite(path: Path) -> None:
    """With zeros, first: a deleted name leaves the blocks readable (best effort on copy-on-write file systems)."""
    left = path.stat().st_size
    with path.open("r+b") as file:
        while left > 0:
            left -= file.write(bytes(min(left, 1 << 20)))
        file.flush()
        os.fsync(file.fileno())
