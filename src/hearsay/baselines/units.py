"""Private: every unit as rows of one public length, so that a sample of DP-SGD *is* a unit.

A user's sentences are packed into a row, positions restarting with each, which keeps them apart (split.sentence_mask);
the row's loss is the mean over its tokens, so clipping its gradient clips the user as a whole. A user with more text
than one row holds has several rows and shows one of them, drawn at random, each time. A record is one sentence.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hearsay.lm import LanguageModel, end_id, start_id
from hearsay.private.packing import Frame, Rows, pack
from hearsay.private.shards import Partition
from hearsay.private.units import by_unit

Sentences = list[NDArray[np.integer]]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """[units, T] each, on the device; a target of -1 is not learnt from."""

    tokens: Tensor
    targets: Tensor
    positions: Tensor

    def only(self, chosen: Tensor | slice) -> "Batch":
        return Batch(self.tokens[chosen], self.targets[chosen], self.positions[chosen])


class Units:
    """All units by name, packed once, each by a stream of its own name: another unit's coming or going changes none.

    `len` is private: rates and divisors come from the declared number.
    """

    def __init__(self, units: dict[int, Sentences], lm: LanguageModel, tokens: int) -> None:
        packed = [_packed(unit, lm, tokens, np.random.default_rng(name)) for name, unit in units.items()]
        self._rows = {
            name: np.concatenate([getattr(rows, name) for rows in packed])
            if packed
            else np.zeros((0, tokens), np.int32)
            for name in ("tokens", "targets", "positions")
        }
        self._counts: Ints = np.array([len(rows.tokens) for rows in packed], np.int64)
        self._firsts: Ints = np.cumsum(self._counts) - self._counts

    @classmethod
    def of(cls, partition: Partition, lm: LanguageModel, tokens: int) -> "Units":
        """From all shards; a record's copies are one sentence."""
        most = 1 if partition.settings.unit == "record" else None
        return cls({name: unit[:most] for name, unit in by_unit(partition)}, lm, tokens)

    def __len__(self) -> int:
        return len(self._counts)

    def batch(self, chosen: list[int], stream: np.random.Generator, device: torch.device) -> Batch:
        """One row of each chosen unit."""
        which = self._firsts[chosen] + stream.integers(self._counts[chosen])
        laid = (torch.from_numpy(self._rows[name][which]).to(device).long() for name in self._rows)
        return Batch(*laid)


def _packed(unit: Sentences, lm: LanguageModel, tokens: int, stream: np.random.Generator) -> Rows:
    start = start_id(lm)
    places = sum(len(sentence) + (start is not None) for sentence in unit)
    return pack(unit, Frame(tokens, max(1, -(-places // tokens)), start, end_id(lm)), stream)
