"""A finished partition on disk: every teacher's sentences, found at once.

    partition/                    0700, every file 0600
      tokens.bin                  all tokens in file order, uint16 or uint32
      bounds.npy                  where each shard begins in the index below (M + 1 numbers)
      starts.npy  lengths.npy     the index: one sentence an entry, sorted by shard, in file order inside one
      units.npy                   a keyed name of the unit each sentence belongs to
      sketch.bin                  which corpus this is, for the ledger (see corpus.BottomSketch)
      partition.json              written last: public settings only, no key and no count

The folder is built under another name and renamed when it is complete, so a crash leaves no partition rather than half
of one. One process writes at a time; the run directory sees to that.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from hearsay.disk import sync
from hearsay.errors import ConfigError, DataError
from hearsay.private.corpus import DIGEST, UnitKind, key_id

FORMAT = 2  # 1 had settings for labels and duplicates
MARKER = "partition.json"
Index = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class PartitionSettings:
    """Everything that decides what is in a shard, besides the rows and the key. All of it is public."""

    shards: int  # M, the number of teachers
    unit: UnitKind
    cap: int  # sentences a unit may contribute: its first ones that are long enough
    min_tokens: int  # shorter sentences are left out
    max_tokens: int  # longer ones are cut
    vocabulary: int  # token ids are below this
    tokeniser: str = ""  # its public name, so that a partition made by another one is not taken for this one

    def __post_init__(self) -> None:
        for name in ("shards", "cap", "min_tokens", "max_tokens", "vocabulary"):
            if not 1 <= getattr(self, name) < 2**31:
                raise ConfigError(f"got {name} {getattr(self, name)}, need 1 to {2**31 - 1}, type `{name}: 1` or more")
        if self.min_tokens > self.max_tokens:
            raise ConfigError(
                f"got min_tokens {self.min_tokens} above max_tokens {self.max_tokens}, need at most that, "
                f"type `min_tokens: {self.max_tokens}` or less"
            )
        if self.unit not in ("user", "record"):
            raise ConfigError(f"got unit {self.unit!r}, need user or record, type `unit: user`")

    @property
    def token_dtype(self) -> np.dtype[Any]:
        return np.dtype("<u2" if self.vocabulary <= 2**16 else "<u4")

    def fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Partition:
    """What the teachers learn from. Only private/ and release/ may hold one; nothing in it is for printing."""

    folder: Path
    settings: PartitionSettings
    sketch: tuple[bytes, ...]
    _tokens: npt.NDArray[Any]
    _bounds: Index
    _starts: Index
    _lengths: Index
    _units: Index

    def shard(self, m: int) -> list[npt.NDArray[Any]]:
        """Teacher m's sentences as token ids, in file order; read-only views of the file. Often empty: that is fine."""
        low, high = self._range(m)
        places = zip(self._starts[low:high].tolist(), self._lengths[low:high].tolist(), strict=True)
        return [self._tokens[start : start + length] for start, length in places]

    def units(self, m: int) -> Index:
        """For each sentence of shard m a keyed name of its unit, to tell units apart inside the shard."""
        low, high = self._range(m)
        return self._units[low:high]

    def _range(self, m: int) -> tuple[int, int]:
        if not 0 <= m < self.settings.shards:
            raise DataError(f"got shard {m}, need 0 to {self.settings.shards - 1}, type a number in that range")
        return int(self._bounds[m]), int(self._bounds[m + 1])


def is_finished(folder: Path) -> bool:
    return (folder / MARKER).is_file()


def open_partition(folder: Path, settings: PartitionSettings, key: bytes) -> Partition:
    """The partition in this folder, provided it was made with these settings and this key."""
    if not is_finished(folder):
        raise DataError(f"{folder}: got no finished partition, need one, type `hearsay run` to make it")
    marker = json.loads((folder / MARKER).read_bytes())
    if marker != marker_of(settings, key):
        made = marker.get("settings", {})
        names = [name for name, value in marker_of(settings, key)["settings"].items() if made.get(name) != value]
        got = f"other values of {', '.join(names)}" if names else "another key or format"
        raise DataError(f"{folder}: got a partition made with {got}, need the same, type another --out for a new run")
    return opened(folder, settings)


def opened(folder: Path, settings: PartitionSettings) -> Partition:
    """The same without the key, which stays with the process that made it: what a worker elsewhere reads."""
    if json.loads((folder / MARKER).read_bytes()).get("settings_hash") != settings.fingerprint():
        raise DataError(f"{folder}: got a partition made with other settings, need the run's own, type another --out")
    names_of_units = (folder / "sketch.bin").read_bytes()
    return Partition(
        folder=folder,
        settings=settings,
        sketch=tuple(names_of_units[i : i + DIGEST] for i in range(0, len(names_of_units), DIGEST)),
        _tokens=np.asarray(np.memmap(folder / "tokens.bin", settings.token_dtype, "r")),
        _bounds=_load(folder, "bounds"),
        _starts=_load(folder, "starts"),
        _lengths=_load(folder, "lengths"),
        _units=_load(folder, "units"),
    )


def _load(folder: Path, name: str) -> Index:
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))


def marker_of(settings: PartitionSettings, key: bytes) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "key_id": key_id(key),
        "token_dtype": settings.token_dtype.name,
        "settings": asdict(settings),
        "settings_hash": settings.fingerprint(),
    }


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that only the owner may read from its first moment on, on the disk when the block ends."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def save_array(path: Path, values: Index) -> None:
    with private_file(path) as file:
        np.save(file, values, allow_pickle=False)


@contextmanager
def building(folder: Path, marker: dict[str, Any]) -> Iterator[Path]:
    """A folder to build in; it becomes `folder` when the block ends, and vanishes when the block fails.

    `marker` says with which settings it was made, and that it is whole.
    """
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{folder}: got a folder that is in use, need an empty or new one, type another --out")
        shutil.rmtree(unfinished, ignore_errors=True)  # what a killed run left
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.mkdir(mode=0o700)
        yield unfinished
        with private_file(unfinished / MARKER) as file:
            file.write(json.dumps(marker, indent=1).encode())
        sync(unfinished)
        unfinished.rename(folder)
        sync(folder.parent)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"{folder}: got '{reason}', need a disk with room to write, type another --out") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
