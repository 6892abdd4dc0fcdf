"""Gives every unit to one shard, in one pass over the rows, in memory that grows with the units and not with the text.

The rule that everything rests on: **what a unit puts into its shard is a function of that unit's own rows, the key and
public settings.** So adding or removing one unit changes one shard and leaves all others as they were, byte for byte.
Hence a hash and not a balanced split (one more unit would shift the others), a cap that counts within a unit, and no
removing of duplicates across units (if two users wrote the same text and one copy were kept, removing its owner would
move the text to the other's shard).

Nothing here logs, prints or counts for the outside.
"""

from array import array
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np

from hearsay.errors import DataError
from hearsay.private.corpus import BottomSketch, batches, check_key, unit_hash, unit_of
from hearsay.private.shards import (
    Partition,
    PartitionSettings,
    building,
    marker_of,
    open_partition,
    private_file,
    save_array,
)
from hearsay.reading import Row

AT_ONCE = 16  # rows of a unit that are tokenised in a pass, at least: many short ones must not cost many passes
Tokenise = Callable[[list[str]], list[list[int]]]  # each text on its own: no padding, nothing learnt from the batch


def partition(
    rows: Iterable[Row],
    settings: PartitionSettings,
    *,
    key: bytes,
    tokenise: Tokenise,
    folder: Path,
    sketch_key: bytes | None = None,
) -> Partition:
    """Streams rows into shards under `folder`, which must be new or empty; all or nothing.

    `sketch_key` is the key of the corpus sketch, for when the shards' key belongs to a single run but the sketch must
    be comparable over all of them; left out, it is `key`.
    """
    check_key(key)
    check_key(sketch_key or key)
    with building(folder, marker_of(settings, key)) as unfinished:
        sketch = BottomSketch(sketch_key or key)
        with private_file(unfinished / "tokens.bin") as tokens:
            collected = _Collector(settings, key, tokenise, sketch, tokens)
            for batch in batches(rows):
                collected.take(batch)
        collected.save(unfinished)
        with private_file(unfinished / "sketch.bin") as file:
            file.write(b"".join(sketch.value()))
    return open_partition(folder, settings, key)


class _Collector:
    """The state of the pass: tokens go to the file at once, a few bytes a sentence and a counter a unit stay here."""

    def __init__(
        self, settings: PartitionSettings, key: bytes, tokenise: Tokenise, sketch: BottomSketch, tokens: BinaryIO
    ) -> None:
        self._settings, self._key, self._tokenise = settings, key, tokenise
        self._sketch, self._tokens = sketch, tokens
        self._given: dict[int, int] = {}  # sentences each unit has contributed
        self._shards, self._lengths, self._units = array("i"), array("i"), array("Q")

    def take(self, batch: list[Row]) -> None:
        """Tokenises no more of a unit than may still be needed, and writes in the order of the file: where a batch ends
        depends on everybody's rows, so nothing may depend on where it ends.
        """
        waiting: dict[int, list[int]] = {}  # unit: places of its rows in the batch
        for place, row in enumerate(batch):
            waiting.setdefault(self._meet(unit_of(row, self._settings.unit)), []).append(place)
        kept: dict[int, tuple[int, list[int]]] = {}
        while waiting := {unit: rows for unit, rows in waiting.items() if rows and self._room(unit)}:
            now = {
                unit: max(self._room(unit), AT_ONCE) for unit in waiting
            }  # many short rows must not cost many passes
            pairs = [(place, unit) for unit, rows in waiting.items() for place in rows[: now[unit]]]
            waiting = {unit: rows[now[unit] :] for unit, rows in waiting.items()}
            sentences = self._token_ids([batch[place] for place, _ in pairs])
            for (place, unit), sentence in zip(pairs, sentences, strict=True):
                if self._admit(unit, len(sentence)):
                    kept[place] = unit, sentence[: self._settings.max_tokens]
        self._write([kept[place] for place in sorted(kept)])

    def _room(self, unit: int) -> int:
        return self._settings.cap - self._given[unit]

    def _meet(self, unit: str) -> int:
        """Every unit enters the sketch, even one whose rows are all too short: the corpus is the same either way."""
        name = unit_hash(self._key, unit)
        if name not in self._given:
            self._given[name] = 0
            self._sketch.add(unit)
        return name

    def _admit(self, unit: int, length: int) -> bool:
        """Whether the sentence stays. Looks at nothing but the unit's own rows."""
        if length < self._settings.min_tokens or not self._room(unit):
            return False
        self._given[unit] += 1
        return True

    def _token_ids(self, rows: list[Row]) -> list[list[int]]:
        """The tokeniser's own exceptions may quote the text, so only their type is passed on."""
        sentences, failure = None, "a list of another length"
        try:
            sentences = self._tokenise([row.text for row in rows])
        except Exception as error:
            failure = type(error).__name__
        if sentences is None or len(sentences) != len(rows):
            numbers = [row.number for row in rows]
            raise DataError(
                f"rows {min(numbers)} to {max(numbers)}: got {failure} from the tokeniser, "
                "need a list of token ids for each text, type the name of another model"
            )
        return sentences

    def _write(self, kept: list[tuple[int, list[int]]]) -> None:
        for unit, sentence in kept:
            self._shards.append(unit % self._settings.shards)
            self._lengths.append(len(sentence))
            self._units.append(unit & (2**64 - 1))
        ids = np.fromiter(chain.from_iterable(sentence for _, sentence in kept), dtype=np.int64)
        if ids.size and not (ids.min() >= 0 and ids.max() < self._settings.vocabulary):
            raise DataError(
                f"got token ids outside the vocabulary of {self._settings.vocabulary}, need ids below it, "
                "type the tokeniser that belongs to the model"
            )
        self._tokens.write(ids.astype(self._settings.token_dtype).tobytes())

    def save(self, folder: Path) -> None:
        """The index, sorted by shard; the sort is stable, so a shard keeps the order of the file."""
        if not self._shards:
            raise DataError(
                f"got no sentence of min_tokens {self._settings.min_tokens} or more, need some, "
                f"type `min_tokens: {max(1, self._settings.min_tokens // 2)}` or name another text column"
            )
        shards = np.frombuffer(self._shards, dtype=np.intc)
        order = np.argsort(shards, kind="stable")
        bounds = np.searchsorted(shards[order], np.arange(self._settings.shards + 1))
        save_array(folder / "bounds.npy", bounds)
        save_array(folder / "units.npy", np.frombuffer(self._units, dtype=np.uint64)[order])
        lengths = np.frombuffer(self._lengths, dtype=np.intc)
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        save_array(folder / "starts.npy", starts[order])
        save_array(folder / "lengths.npy", lengths[order])
