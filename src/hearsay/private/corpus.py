"""Who a row belongs to, and keyed names for them.

The *unit* is whom the guarantee protects: adding or removing one unit, with all its rows, is what may hardly be seen.

- `user`: everything one user wrote.
- `record`: one distinct text, in all its exact copies. A copy of a record elsewhere in the file is the same unit, so it
  can never sit in a second shard; protecting every copy at once is stronger than protecting one row, and it makes the
  unit independent of where in the file it stands.

Units are named by a keyed BLAKE2b hash (a PRF, so no HMAC construction is needed): without the key nobody can test
whether a person is in a shard, a sketch or a file. The purposes are kept apart by BLAKE2b's personalisation.
"""

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from typing import Literal

from hearsay.errors import ConfigError, DataError
from hearsay.reading import Row

UnitKind = Literal["user", "record"]

DIGEST = 16  # bytes; two of n units collide with probability below n^2 / 2^129
SKETCH_SIZE = 2**14
BATCH_ROWS = 1024
BATCH_CHARACTERS = 1 << 21  # long documents come in smaller batches, so that memory does not grow with their length


def unit_of(row: Row, kind: UnitKind) -> str:
    if kind == "record":
        return row.text
    if row.user is None:
        raise DataError("got rows without a user, need one for `unit: user`, type `user: COLUMN` under `data:`")
    return row.user


def check_key(key: bytes) -> None:
    if not 16 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
        raise ConfigError(f"got a key of {len(key)} bytes, need 16 to 64, type `secrets.token_bytes(32)`")


def key_id(key: bytes) -> str:
    """Tells keys apart without telling the key."""
    return hashlib.blake2b(b"", key=key, digest_size=8, person=b"hearsay-key-id").hexdigest()


def unit_hash(key: bytes, unit: str) -> int:
    """The unit's 128-bit name. Its shard is this modulo M, so units that share a name share a shard as well."""
    digest = hashlib.blake2b(unit.encode(), key=key, digest_size=DIGEST, person=b"hearsay-shard")
    return int.from_bytes(digest.digest())


def strangers(rows: Iterable[Row], public: Iterable[str], key: bytes, where: str) -> Iterator[Row]:
    """The rows, if none of their texts is among the public ones, which go out. Space between words does not count.

    Says that it is so, never which text or how many.
    """
    known = {_text_hash(key, text) for text in public}
    for row in rows:
        if known and _text_hash(key, row.text) in known:
            raise DataError(
                f"some text of {where} stands in data.private too; what is public must come from others: remove every "
                f"text of data.private from {where}"
            )
        yield row


def _text_hash(key: bytes, text: str) -> int:
    folded = " ".join(text.split())
    digest = hashlib.blake2b(folded.encode(), key=key, digest_size=DIGEST, person=b"hearsay-text")
    return int.from_bytes(digest.digest())


class BottomSketch:
    """The smallest keyed hashes of the distinct units seen, all up to SKETCH_SIZE, in memory that does not grow.

    Two corpora that share most of their units share most of their sketch, in whatever order and under whatever name
    they come, so the ledger can tell that rows were merely appended. It stays on this machine.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._largest_first: list[int] = []  # negated: heapq keeps the smallest in front
        self._members: set[int] = set()

    def add(self, unit: str) -> None:
        digest = hashlib.blake2b(unit.encode(), key=self._key, digest_size=DIGEST, person=b"hearsay-sketch")
        name = int.from_bytes(digest.digest())
        if name in self._members:
            return
        if len(self._members) < SKETCH_SIZE:
            heapq.heappush(self._largest_first, -name)
        elif name < -self._largest_first[0]:
            self._members.remove(-heapq.heapreplace(self._largest_first, -name))
        else:
            return
        self._members.add(name)

    def value(self) -> tuple[bytes, ...]:
        return tuple(name.to_bytes(DIGEST) for name in sorted(self._members))


def batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    characters = 0
    for row in rows:
        batch.append(row)
        characters += len(row.text)
        if len(batch) >= BATCH_ROWS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
