"""Every unit's sentences as rows of a fixed shape, packed once: what rounds of updates learn from.

A unit's rows come from its own sentences and its own random stream (its keyed name), so they do not depend on anyone
else. How many units there are is private: it shows in this folder and nowhere else.

    units = packed_units(partition, frame, pages=2, folder=...)
    for tokens, targets, positions in units.blocks(64, page=0):    # int32 [64, rows, T] each, the last one padded
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hearsay.errors import DataError
from hearsay.private.packing import Frame, Rows, pack
from hearsay.private.shards import MARKER, Partition, building, is_finished, private_file

KINDS = ("tokens", "targets", "positions")
Block = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]


@dataclass(frozen=True)
class Units:
    """Arrays [units, pages, rows, T] on disk. Private, its length too."""

    arrays: tuple[NDArray[np.int32], ...]
    empty: Rows  # what fills up the last block: rows with nothing to learn

    def __len__(self) -> int:
        return len(self.arrays[0])

    @property
    def pages(self) -> int:
        return int(self.arrays[0].shape[1])

    def blocks(self, size: int, page: int, chosen: NDArray[np.bool_] | None = None) -> Iterator[Block]:
        """`chosen` [units] leaves out the others, as a Poisson sample does."""
        wanted = np.arange(len(self)) if chosen is None else np.flatnonzero(chosen)
        for start in range(0, len(wanted), size):
            members = wanted[start : start + size]
            yield tuple(  # type: ignore[misc]
                _filled(np.asarray(array[members, page]), getattr(self.empty, kind), size)
                for kind, array in zip(KINDS, self.arrays, strict=True)
            )


def packed_units(partition: Partition, frame: Frame, pages: int, folder: Path) -> Units:
    """Packs all units, or opens what an earlier call packed with the same settings."""
    made_with = {"units": 1, "frame": asdict(frame), "pages": pages}
    if not is_finished(folder):
        with building(folder, made_with) as unfinished:
            _pack_all(partition, frame, pages, unfinished)
    if json.loads((folder / MARKER).read_bytes()) != made_with:
        raise DataError(f"{folder}: got units packed with other settings, need the same, type another --out")
    return _open(folder, frame, pages)


def _pack_all(partition: Partition, frame: Frame, pages: int, folder: Path) -> None:
    whole = Frame(frame.row_tokens, frame.rows * pages, frame.start, frame.end)
    with ExitStack() as open_files:
        files = {kind: open_files.enter_context(private_file(folder / f"{kind}.bin")) for kind in KINDS}
        for unit, sentences in by_unit(partition):
            rows = pack(sentences, whole, np.random.default_rng(unit))
            for kind, file in files.items():
                file.write(np.ascontiguousarray(getattr(rows, kind), np.int32).tobytes())


def by_unit(partition: Partition) -> Iterator[tuple[int, list[NDArray[np.integer]]]]:
    """(keyed name, sentences) of every unit; all of them lie in one shard."""
    for m in range(partition.settings.shards):
        found: dict[int, list[NDArray[np.integer]]] = {}
        for name, sentence in zip(np.asarray(partition.units(m)).tolist(), partition.shard(m), strict=True):
            found.setdefault(name, []).append(sentence)
        yield from sorted(found.items(), key=lambda unit: unit[0])


def _open(folder: Path, frame: Frame, pages: int) -> Units:
    shape = (-1, pages, frame.rows, frame.row_tokens)
    arrays = tuple(np.memmap(folder / f"{kind}.bin", np.int32, "r").reshape(shape) for kind in KINDS)
    return Units(arrays, pack([], frame, np.random.default_rng(0)))


def _filled(found: NDArray[np.int32], empty: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    missing = size - len(found)
    return np.concatenate([found, np.repeat(empty[None], missing, 0)]) if missing else found
