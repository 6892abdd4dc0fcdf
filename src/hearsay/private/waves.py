"""Blocks of teachers in waves: how many blocks' state is on the device at once, and what happens when that is too many.

A block is the atom: it is launched with the same shapes in any wave, so a smaller wave changes time and memory and no
number. After an out-of-memory error a wave is halved, down to one block. One block is also what a wave has unless told
otherwise: its launches fill the device, and while it works the next block is packed and the last one written.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Generic, TypeVar

import torch
from torch import Tensor

from hearsay.errors import ModelError, lacks_memory
from hearsay.private.training import TrainingShape
from hearsay.stacked import StackedTop
from hearsay.vocabulary import chunk_rows

_GIB = 2**30
T = TypeVar("T")


@dataclass(frozen=True)
class Memory:
    """Estimated bytes, from public settings: the base model, one block's state, and one launch of one block."""

    base: int
    state: int
    launch: int

    def explain(self, block: int) -> str:
        need = (self.base + self.state + self.launch) / _GIB
        return (
            f"got a device too small, or too full of other work, for one block of {block} teachers, need about "
            f"{need:.1f} GiB (model {self.base / _GIB:.1f}, adapters and rows {self.state / _GIB:.1f}, "
            f"one step {self.launch / _GIB:.1f}); "
            "lower compute.block, adapter.rank, adapter.blocks or teachers.rows, or choose a smaller model"
        )


def memory(top: StackedTop, shape: TrainingShape, block: int) -> Memory:
    split, cell = top.split, top.split.head.element_size()
    width, tokens = split.head.shape[1], block * shape.rows_per_step * shape.row_tokens
    base = sum(p.numel() for p in split.inner.parameters()) * cell
    state = 4 * block * (3 * top.layout.size + 3 * shape.steps * shape.rows_per_step * shape.row_tokens)
    kept = 18 * width * shape.top_blocks + 8 * width  # activations a token kept for the backward pass, and the trunk's
    head = chunk_rows(split.head) * split.head.shape[0] * 8
    return Memory(base, state, tokens * kept * cell + 2 * 4 * block * top.layout.size + head)


class Ahead(Generic[T]):
    """Prepares the next block on the host, in one other thread, while the device works on the present one."""

    def __init__(self, prepare: Callable[[int], T], blocks: list[int]) -> None:
        self._prepare, self._after = prepare, dict(pairwise(blocks))
        self._ready: dict[int, Future[T]] = {}

    def __enter__(self) -> "Ahead[T]":
        self._thread = ThreadPoolExecutor(1)
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def __call__(self, block: int) -> T:
        present = self._ready.pop(block, None) or self._thread.submit(self._prepare, block)
        result, after = present.result(), self._after.get(block)
        if after is not None and after not in self._ready:
            self._ready[after] = self._thread.submit(self._prepare, after)
        return result


class Behind:
    """Keeps finished blocks in one other thread, one block at a time, while the device goes on."""

    def __init__(self, keep: Callable[[int, Tensor], None]) -> None:
        self._keep = keep
        self._last: Future[None] | None = None

    def __enter__(self) -> "Behind":
        self._thread = ThreadPoolExecutor(1)
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown(wait=True)  # also after an error: what was finished before it is kept
        self._settle()

    def __call__(self, block: int, flat: Tensor) -> None:
        self._settle()
        self._last = self._thread.submit(self._keep, block, flat)

    def _settle(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.result()


def in_waves(blocks: list[int], size: int, run: Callable[[list[int]], T], too_small: Callable[[], str]) -> Iterator[T]:
    """Runs blocks `size` at a time; after an out-of-memory error repeats the wave with half as many."""
    while blocks:
        wave = blocks[:size]
        result = attempt(partial(run, wave))
        if result is not None:
            yield result
            blocks = blocks[size:]
        elif size > 1 and len(wave) > 1:
            size = len(wave) // 2
        else:
            raise ModelError(too_small())


def attempt(run: Callable[[], T]) -> T | None:
    """What `run` returns; none if the device had too little memory for it."""
    try:
        return run()
    except Exception as error:
        if not lacks_memory(error):
            raise
        # leaving the handler first lets go of the frames that hold the tensors
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None
