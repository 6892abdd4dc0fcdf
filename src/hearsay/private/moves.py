"""How each unit would move the current student: one update per unit, block by block, kept nowhere.

With one local step an update is the unit's own negative gradient (DP-SGD); with several it is what its own Adam steps
from the student changed (DP-FedAvg). Only the adapters' outer halves B move; the inner halves A are public and fixed
(public/basis.py). Nothing of a unit survives the call: no optimiser state, no adapter.

Which units share a launch depends on who is there, so a unit's numbers must not depend on its neighbours or on its
place, down to the last bit: else removing one person would nudge the others' updates across a grid step, and the
bound would cover one unit while many moved. `place_matters` tries it, on public tokens, on this very device and
shape; where it does matter, units are launched one at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hearsay.lm import LanguageModel, end_id, start_id
from hearsay.private.packing import Frame, Rows, pack
from hearsay.private.stack import Stack
from hearsay.private.training import BlockState, TrainingShape, advance, output_gradient, shared_gradient
from hearsay.private.units import KINDS, Block, Units
from hearsay.private.waves import attempt
from hearsay.stacked import StackedTop
from hearsay.vocabulary import Shortlist

PROBES = 3


def frame_of(lm: LanguageModel, shape: TrainingShape) -> Frame:
    """A unit's rows for one round: all of its local steps."""
    return Frame(shape.row_tokens, shape.steps * shape.rows_per_step, start_id(lm), end_id(lm))


@dataclass
class Moves:
    """`shape.steps` local steps, `block` units a launch."""

    top: StackedTop
    shape: TrainingShape
    device: torch.device
    block: int

    def __call__(
        self,
        units: Units,
        student: Tensor,
        page: int,
        chosen: NDArray[np.bool_] | None = None,
        listed: Shortlist | None = None,
    ) -> Iterator[Tensor]:
        """float32 [block, D_B], exactly zero for padding and for a unit without a sentence long enough."""
        first = student.to(self.device, torch.float32).reshape(1, -1)
        there = listed and listed.to(self.device)
        for rows in units.blocks(self.block, page, chosen):
            yield self.of(rows, first, there)

    def of(self, rows: Block, first: Tensor, listed: Shortlist | None = None) -> Tensor:
        tokens, targets, positions = (self._schedule(torch.from_numpy(np.ascontiguousarray(part))) for part in rows)
        if self.shape.steps == 1:
            return shared_gradient(self.top, first, (tokens[0], targets[0], positions[0]), self.block, listed).neg_()
        flat = first.repeat(self.block, 1)
        state = BlockState(flat, torch.zeros_like(flat), torch.zeros_like(flat), tokens, targets, positions)
        outputs = self.top.layout.outputs().to(self.device)
        for step in range(self.shape.steps):
            whole = torch.zeros_like(state.flat)
            whole[:, outputs] = output_gradient(self.top, state, step, listed)
            advance(state, whole, step, self.shape)
        return (state.flat - first)[:, outputs]

    def _schedule(self, rows: Tensor) -> Tensor:
        """[block, steps * rows, T] to [steps, block * rows, T] on the device."""
        shape = self.shape
        steps = rows.view(self.block, shape.steps, shape.rows_per_step, shape.row_tokens).transpose(0, 1)
        return steps.reshape(shape.steps, -1, shape.row_tokens).to(self.device, non_blocking=True)


def moves(
    stack: Stack,
    shape: TrainingShape,
    block: int,
    listed: Shortlist | None = None,
    later: Callable[[Tensor], bool] = lambda _: False,
) -> Moves:
    """On the stack's own adapters; one unit a launch where the device's arithmetic depends on a unit's place.

    The trial has the shape of every launch to come: where the device has too little memory for it, half as many units
    are launched, and half again. `listed` is any round's shortlist, for its shape; `later` tries what becomes of the
    updates, given the same one [block, D_B] at all places.
    """
    while block > 1:
        made = Moves(stack.top, shape, stack.device, block)
        frame, tokens = frame_of(stack.lm, shape), stack.top.split.head.shape[0]
        matters = attempt(partial(place_matters, made, frame, tokens, listed, later))
        if matters is False:
            return made
        block = 1 if matters else block // 2
    return Moves(stack.top, shape, stack.device, 1)


def place_matters(
    made: Moves,
    frame: Frame,
    vocabulary: int,
    listed: Shortlist | None = None,
    later: Callable[[Tensor], bool] = lambda _: False,
) -> bool:
    """Whether one public unit's update differs in any bit between places in a block or with other neighbours: at all
    places beside itself, and at some of them beside others.
    """
    stream = np.random.default_rng(0)
    first = made.top.layout.initial()[None].to(made.device)
    first = first + 0.01 * torch.randn(first.shape, generator=torch.Generator().manual_seed(0)).to(made.device)

    def person(sentences: int) -> Rows:
        lengths = stream.integers(1, frame.row_tokens, sentences)
        lengths[::2] = frame.row_tokens - 1  # rows filled to their end, the last place of a launch too
        return pack([stream.integers(1, vocabulary, length) for length in lengths], frame, stream)

    def found(rows: list[Rows]) -> Tensor:
        block: Block = tuple(np.stack([getattr(r, k) for r in rows]) for k in KINDS)  # type: ignore[assignment]
        return made.of(block, first, listed and listed.to(made.device))

    probe = person(12)
    everywhere = found([probe] * made.block)
    if not torch.equal(everywhere, everywhere[:1].expand_as(everywhere)) or later(everywhere):
        return True
    for place in np.linspace(0, made.block - 1, PROBES).astype(int):
        rows = [probe if slot == place else person(int(stream.integers(0, 30))) for slot in range(made.block)]
        if not torch.equal(found(rows)[place], everywhere[0]):
            return True
    return False
