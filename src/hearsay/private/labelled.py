"""Private rows as units with vectors and labels: what the discriminator and the tutor sum over.

Each row's vector is computed alone, and what a unit keeps is a function of its own rows, the key and public settings:
adding or removing one unit leaves all others as they were, bit for bit. A record (a distinct text) that stands in
several rows is one unit with the labels of all its copies.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hearsay.disk import drafting
from hearsay.errors import DataError
from hearsay.private.corpus import BottomSketch, UnitKind, unit_hash, unit_of
from hearsay.reading import Row

Vector = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Note:
    """One text of a unit: its vector and the ids of its labels; the id after the last listed label is `other`."""

    vector: Vector
    labels: tuple[int, ...]


@dataclass(frozen=True)
class Labelled:
    """Private. Units in the order of their keyed names, which says nothing about the file."""

    units: dict[int, list[Note]]
    labels: int  # listed ones
    sketch: tuple[bytes, ...]

    def each(self) -> Iterator[list[Note]]:
        for name in sorted(self.units):
            yield self.units[name]

    def shard(self, m: int, shards: int) -> list[Note]:
        """All notes of the units of one shard; a unit's shard is its keyed name modulo their number."""
        return [note for name in sorted(self.units) if name % shards == m for note in self.units[name]]


@dataclass
class _Text:
    text: str
    labels: dict[int, None]


def collect(
    rows: Iterable[Row],
    labels: list[str],
    *,
    unit: UnitKind,
    cap: int,
    key: bytes,
    sketch_key: bytes,
    encode: Callable[[str], Vector],
    folder: Path,
) -> Labelled:
    """Reads, encodes and keeps in `folder` (inside private/), or loads what is there.

    Says nothing while it works: how far it got would tell how many units there are.
    """
    path = folder / "labelled.npz"
    if path.exists():
        return _load(path, len(labels))
    texts, sketch = _gather(rows, labels, unit, cap, key, sketch_key)
    units = {
        name: [Note(_vector(encode, one.text), tuple(sorted(one.labels))) for one in kept.values()]
        for name, kept in texts.items()
    }
    found = Labelled(units, len(labels), sketch)
    _save(found, path)
    return found


def _vector(encode: Callable[[str], Vector], text: str) -> Vector:
    """The encoder's own exceptions may quote the text, so only their type is passed on.

    A vector that is not finite becomes zero here: further on, numpy would warn, and a warning tells of a text.
    """
    try:
        found = encode(text)
        return found if np.isfinite(found).all() else np.zeros_like(found)
    except Exception as error:
        failure = type(error).__name__
    raise DataError(
        f"got {failure} from the encoder for a private text, need a vector, type the name of another model under "
        "`discriminator: encoder:`"
    )


def _gather(
    rows: Iterable[Row], labels: list[str], unit: UnitKind, cap: int, key: bytes, sketch_key: bytes
) -> tuple[dict[int, dict[str, _Text]], tuple[bytes, ...]]:
    index = {label: i for i, label in enumerate(labels)}
    sketch = BottomSketch(sketch_key)
    found: dict[int, dict[str, _Text]] = {}
    for row in rows:
        owner = unit_of(row, unit)
        sketch.add(owner)
        mine = found.setdefault(unit_hash(key, owner), {})
        if row.text not in mine and len(mine) >= cap:
            continue
        ids = {index.get(label, len(labels)): None for label in row.labels} or {len(labels): None}
        mine.setdefault(row.text, _Text(row.text, {})).labels.update(ids)
    if not found:
        raise DataError("got no private rows, need some, type the paths of files with rows under `data:`")
    return found, sketch.value()


def _save(found: Labelled, path: Path) -> None:
    notes = [(name, note) for name in sorted(found.units) for note in found.units[name]]
    arrays = {
        "names": np.array([name.to_bytes(16) for name, _ in notes], dtype="V16"),
        "vectors": np.stack([note.vector for _, note in notes]),
        "ids": np.array([i for _, note in notes for i in note.labels], np.int64),
        "lengths": np.array([len(note.labels) for _, note in notes], np.int64),
        "sketch": np.frombuffer(b"".join(found.sketch), np.uint8),
    }
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with drafting(path, mode=0o600) as draft, draft.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _load(path: Path, labels: int) -> Labelled:
    with np.load(path, allow_pickle=False) as file:
        names = [int.from_bytes(bytes(name)) for name in file["names"]]
        vectors, ids, lengths = file["vectors"], file["ids"], file["lengths"]
        content = file["sketch"].tobytes()
    ends = np.cumsum(lengths)
    units: dict[int, list[Note]] = {}
    for name, vector, end, length in zip(names, vectors, ends, lengths, strict=True):
        units.setdefault(name, []).append(Note(vector, tuple(int(i) for i in ids[end - length : end])))
    return Labelled(units, labels, tuple(content[i : i + 16] for i in range(0, len(content), 16)))
