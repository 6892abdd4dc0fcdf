"""Sentences into rows of a fixed length, for every step of a block of teachers, ahead of training.

A row holds several whole sentences; positions restart at 0 with each, which is all the model needs to keep them apart
(see `split.sentence_mask`). Each teacher's rows come from its own sentences and its own random stream, and the number
of rows is public: a small shard is gone through again in a new order, a large one is not fully seen, an empty one
gives weightless rows. So the arrays have the same shape whatever the shards hold.

A sentence t1 .. tn takes the inputs (start) t1 .. tn and the targets t1 .. tn (end). With a start token, as GPT-2
has, every token is trained, the first one too; without one (Qwen) the first token is only ever a context.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hearsay.errors import DataError

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Frame:
    """Public: how rows look."""

    row_tokens: int
    rows: int  # in all, over all steps
    start: int | None  # token before each sentence
    end: int  # token after each sentence


@dataclass(frozen=True)
class Rows:
    """Rows [rows, T] of one teacher. Where the target is -1 there is nothing to learn; such places see only
    themselves.
    """

    tokens: Ints
    targets: Ints
    positions: Ints


def pack(sentences: Sequence[NDArray[np.integer]], frame: Frame, stream: np.random.Generator) -> Rows:
    inputs, targets, lengths = _pairs(sentences, frame)
    kept = np.flatnonzero(lengths)
    if not len(kept):
        shape = (frame.rows, frame.row_tokens)
        return Rows(np.full(shape, frame.end, np.int32), np.full(shape, -1, np.int32), np.zeros(shape, np.int32))
    starts = np.cumsum(lengths) - lengths
    rows: list[list[int]] = []
    while len(rows) < frame.rows:
        order = _draw(kept, lengths, frame, frame.rows - len(rows), stream)
        filled = _fill(order, lengths, frame.row_tokens)
        rows += [filled[i] for i in stream.permutation(len(filled))]
    return _lay(rows[: frame.rows], inputs, targets, starts, lengths, frame)


def _pairs(sentences: Sequence[NDArray[np.integer]], frame: Frame) -> tuple[Ints, Ints, NDArray[np.int64]]:
    """All sentences' inputs and targets, concatenated, and how many places each takes."""
    sizes = np.array([len(sentence) for sentence in sentences], np.int64)
    extra = 0 if frame.start is None else 1
    if len(sizes) and sizes.max() + extra > frame.row_tokens:
        raise DataError(  # says no length: how long a private sentence is, is private
            f"got a sentence that does not fit a row of {frame.row_tokens} tokens; need shorter ones: "
            "lower data.max_tokens or raise teachers.row_tokens"
        )
    lengths = np.where(sizes > 0, sizes + extra, 0)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    tokens = np.concatenate([np.asarray(s, np.int32) for s in sentences]) if total else np.zeros(0, np.int32)
    lasts = ends[lengths > 0] - 1
    if frame.start is None:
        targets = np.append(tokens[1:], frame.end).astype(np.int32) if total else tokens
        targets[lasts] = frame.end
        return tokens, targets, lengths
    firsts = (ends - lengths)[lengths > 0]
    return _between(tokens, firsts, frame.start, total), _between(tokens, lasts, frame.end, total), lengths


def _between(tokens: Ints, places: NDArray[np.int64], mark: int, total: int) -> Ints:
    """The tokens in order, with `mark` at the given places among them."""
    laid, free = np.full(total, mark, np.int32), np.ones(total, bool)
    free[places] = False
    laid[free] = tokens
    return laid


def _draw(
    kept: NDArray[np.int64], lengths: NDArray[np.int64], frame: Frame, rows: int, stream: np.random.Generator
) -> NDArray[np.int64]:
    """One pass over the shard in a fresh order, cut where more could not be used: a huge shard costs no more than a
    full one.
    """
    order = stream.permutation(kept)
    needed = int(np.searchsorted(np.cumsum(lengths[order]), rows * frame.row_tokens)) + 1
    return order[:needed]


def _fill(order: NDArray[np.int64], lengths: NDArray[np.int64], row_tokens: int) -> list[list[int]]:
    """Longest first, then the longest that still fits: about 97% of the places of short sentences' rows are used."""
    pools: dict[int, list[int]] = {}
    for index, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        pools.setdefault(length, []).append(index)
    sizes, rows = sorted(pools), []
    while sizes:
        row, left = [], row_tokens
        while (at := bisect_right(sizes, left) - 1) >= 0:
            size = sizes[at]
            row.append(pools[size].pop())
            left -= size
            if not pools[size]:
                del sizes[at]
        rows.append(row)
    return rows


def _lay(
    rows: list[list[int]],
    inputs: Ints,
    targets: Ints,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    frame: Frame,
) -> Rows:
    """Copies the chosen sentences into their places, all at once."""
    chosen = np.fromiter(chain.from_iterable(rows), np.int64)
    row_of = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    sizes = lengths[chosen]
    before = np.cumsum(sizes) - sizes  # places used before each sentence, over all rows
    first_of_row = np.searchsorted(row_of, np.arange(len(rows)))
    offset = before - before[first_of_row][row_of]
    within = np.arange(int(sizes.sum())) - np.repeat(before, sizes)
    place = np.repeat(row_of * frame.row_tokens + offset, sizes) + within
    source = np.repeat(starts[chosen], sizes) + within
    laid = [np.full(frame.rows * frame.row_tokens, value, np.int32) for value in (frame.end, -1, 0)]
    for array, values in zip(laid, (inputs[source], targets[source], within), strict=True):
        array[place] = values
    tokens, wanted, positions = (array.reshape(frame.rows, frame.row_tokens) for array in laid)
    return Rows(tokens, wanted, positions)
