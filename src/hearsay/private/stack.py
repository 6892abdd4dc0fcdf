"""All teachers: trained block by block on their shards, and asked block by block about public contexts.

    stack = Stack(lm, TrainingShape(), block=64, device="cuda")
    store = stack.store(folder, count=2000, generation=0)
    stack.train(shards, 2000, generation=0, store=store)             # shards(m): teacher m's sentences as token arrays
    for block, logits in stack.answers(store, contexts, candidates):  # float32 [teachers, questions, candidates]
        ...

What a teacher becomes depends on its own shard, its own random stream (generation, index) and public settings. Shapes
never depend on what shards hold. What comes out of here is private, and goes to release/ only.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hearsay.errors import ModelError
from hearsay.lm import LanguageModel, end_id, start_id
from hearsay.private.packing import Frame, Rows, pack
from hearsay.private.store import AdapterStore
from hearsay.private.training import BlockState, TrainingShape, advance, gradient
from hearsay.private.waves import Ahead, Behind, in_waves, memory
from hearsay.stacked import Contexts, StackedTop
from hearsay.vocabulary import candidate_logits, log_normalisers

Shards = Callable[[int], Sequence[NDArray[np.integer]]]
Progress = Callable[[int, int], None]
Chunk = tuple[Tensor, Tensor, Tensor]  # the trunk's output for some rows, places asked about, which questions these are

WIDTHS = 8  # contexts are cut to multiples of this many tokens: few shapes, so that few programs are compiled
ANSWER_TOKENS = {"cpu": 2**13, "cuda": 2**18}  # teacher-tokens a launch when asking: a constant of the kind of device


class Stack:
    def __init__(
        self,
        lm: LanguageModel,
        shape: TrainingShape,
        *,
        block: int,
        device: torch.device | str,
        compile: bool = False,
        wave: int = 1,
    ) -> None:
        self.lm, self.shape, self.block, self.device = lm, shape, block, torch.device(device)
        model = lm.model.to(self.device)
        if shape.precision == "bfloat16" and model.dtype != torch.bfloat16:
            model = copy.deepcopy(model).to(torch.bfloat16)  # about twice as fast where the processor multiplies it
        self.top = StackedTop(model, shape.adapter)
        if shape.row_tokens > self.top.split.positions:
            raise ModelError(
                f"got teachers.row_tokens {shape.row_tokens}, need at most {self.top.split.positions}, "
                "the longest row the model can take"
            )
        if compile:
            self.top.compile()
        self.memory = memory(self.top, shape, block)
        self.wave = wave
        # Called before each launch with the size of the wave: where a test raises torch.OutOfMemoryError.
        self.on_launch: Callable[[int], None] = lambda wave: None

    def store(self, folder: Path, *, count: int, generation: int) -> AdapterStore:
        return AdapterStore(folder, self.shape, self.block, count, generation, self.top.split.fingerprint())

    # Training

    def train(
        self,
        shards: Shards,
        count: int,
        *,
        generation: int,
        store: AdapterStore,
        progress: Progress | None = None,
        start: Tensor | None = None,
        blocks: list[int] | None = None,
    ) -> None:
        """Trains what the store lacks, of all blocks or of these.

        `start` [D] is a public adapter to begin from: a student's, in later rounds.
        """
        store.expect(self.store(store.folder, count=count, generation=generation))
        missing = store.missing(blocks)
        ready = self.trained(shards, count, generation=generation, blocks=missing, progress=progress, start=start)
        with Behind(store.put) as keep:
            for block, flat in ready:
                keep(block, flat)

    def trained(
        self,
        shards: Shards,
        count: int,
        *,
        generation: int,
        blocks: list[int] | None = None,
        progress: Progress | None = None,
        start: Tensor | None = None,
    ) -> Iterator[tuple[int, Tensor]]:
        """(block, adapters [G, D]) as they are ready, kept nowhere: what an update of each teacher is computed from.

        `shards` is called from one other thread, so that the next block is packed while this one trains.
        """
        first = self.top.layout.initial() if start is None else start.detach().float().reshape(-1)
        todo = list(range(-(-count // self.block))) if blocks is None else blocks
        done = Steps(progress, len(todo) * self.shape.steps)

        def run(wave: list[int]) -> list[tuple[int, Tensor]]:
            states = [self.state(rows(block), first) for block in wave]
            for step in range(self.shape.steps):
                for state in states:
                    self.on_launch(len(wave))
                    advance(state, gradient(self.top, state, step), step, self.shape)
                done.show((step + 1) * len(wave))
            done.finished(self.shape.steps * len(wave))
            return [(block, state.flat) for block, state in zip(wave, states, strict=True)]

        with Ahead(lambda block: self.packed(shards, count, block, generation), todo) as rows:
            for results in in_waves(todo, self.wave, run, lambda: self.memory.explain(self.block)):
                yield from results

    def packed(self, shards: Shards, count: int, block: int, generation: int) -> list[Rows]:
        """Of a block's teachers; those past the last one have nothing."""
        members = range(block * self.block, (block + 1) * self.block)
        return [self.rows(shards(m) if m < count else [], generation, m) for m in members]

    def state(self, rows: list[Rows], first: Tensor) -> BlockState:
        """A block before its first step, on the device; `first` [D] is where all begin."""
        flat = first.to(self.device).repeat(self.block, 1)
        tokens, targets, positions = (
            self._schedule([getattr(r, name) for r in rows]) for name in ("tokens", "targets", "positions")
        )
        return BlockState(flat, torch.zeros_like(flat), torch.zeros_like(flat), tokens, targets, positions)

    def rows(self, sentences: Sequence[NDArray[np.integer]], generation: int, teacher: int) -> Rows:
        frame = Frame(
            row_tokens=self.shape.row_tokens,
            rows=self.shape.steps * self.shape.rows_per_step,
            start=start_id(self.lm),
            end=end_id(self.lm),
        )
        return pack(sentences, frame, np.random.default_rng([generation, teacher]))

    def _schedule(self, arrays: list[NDArray[np.int32]]) -> Tensor:
        """[G] arrays [steps * rows, T] to one tensor [steps, G * rows, T] on the device."""
        shape = self.shape
        laid = np.stack(arrays).reshape(self.block, shape.steps, shape.rows_per_step, shape.row_tokens)
        host = torch.from_numpy(np.ascontiguousarray(laid.swapaxes(0, 1)).reshape(shape.steps, -1, shape.row_tokens))
        return host.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else host

    # Asking

    def answers(
        self,
        store: AdapterStore,
        contexts: Contexts,
        candidates: Tensor,
        *,
        normalise: bool = False,
        blocks: list[int] | None = None,
    ) -> Iterator[tuple[int, Tensor]]:
        """For each block: float32 [teachers, Q, K], the logits of `candidates` [Q, K] at the asked places.

        With `normalise` they are log-probabilities over the whole vocabulary: exact, at the price of the whole head
        for each teacher and question. The last block's padding is left out. Contexts are public, so the trunk runs
        once for all.
        """
        store.expect(self.store(store.folder, count=store.count, generation=store.generation))
        if contexts.rows.shape[1] > self.top.split.positions:
            raise ModelError(
                f"got contexts of {contexts.rows.shape[1]} tokens, need at most {self.top.split.positions}, "
                "the longest row the model can take"
            )
        if len(candidates) != len(contexts.asked):
            raise ModelError(
                f"got candidates for {len(candidates)} questions, need {len(contexts.asked)}, one row each"
            )
        chunks = self.chunks(contexts)
        todo = list(range(store.blocks)) if blocks is None else blocks

        def run(wave: list[int]) -> list[tuple[int, Tensor]]:
            adapters = [store.get(block, self.device) for block in wave]
            return list(zip(wave, self.ask(adapters, chunks, candidates, normalise), strict=True))

        for results in in_waves(todo, self.wave, run, lambda: self.memory.explain(self.block)):
            for block, logits in results:
                yield block, logits[: store.count - block * self.block]

    def public_answers(
        self, contexts: Contexts, candidates: Tensor, *, normalise: bool = False, start: Tensor | None = None
    ) -> Tensor:
        """[G, Q, K]: what a block of untrained teachers answers, from the base model or from a public adapter `start`.

        Slot g holds, bit for bit, what an empty shard's teacher answers in slot g of any block: what to subtract where
        an empty shard must count as exactly zero. (Slots differ in the last bits: rounding goes by place in a batch.)
        """
        first = self.top.layout.initial() if start is None else start.detach().float().reshape(-1)
        return self.ask([first.to(self.device).repeat(self.block, 1)], self.chunks(contexts), candidates, normalise)[0]

    @torch.no_grad()
    def chunks(self, contexts: Contexts) -> list[Chunk]:
        """The trunk's output for the rows that are asked about, rows of like length together, cut after the last
        question: about the same number of teacher-tokens a launch. Contexts are public, so shapes may follow them.
        """
        asked, place = contexts.asked.cpu(), torch.empty(len(contexts.rows), dtype=torch.long)
        order, widths = _by_length(asked, contexts.rows.shape)
        found, start = [], 0
        while start < len(order):
            width = widths[start]
            size = max(1, ANSWER_TOKENS.get(self.device.type, 2**13) // (self.block * width))
            members = order[start : start + size]
            rows = contexts.rows[members, :width]
            padded = torch.cat([rows, rows[:1].expand(size - len(rows), -1)]).to(self.device)
            place.fill_(-1)[members] = torch.arange(len(members))
            indices = torch.nonzero(place[asked[:, 0]] >= 0)[:, 0]
            places = torch.stack([place[asked[indices, 0]], asked[indices, 1]], 1)
            found.append((self.top.trunk(padded), places.to(self.device), indices.to(self.device)))
            start += size
        return found

    @torch.no_grad()
    def ask(
        self,
        adapters: list[Tensor],
        chunks: list[Chunk],
        candidates: Tensor,
        normalise: bool,
    ) -> Tensor:
        """[blocks, G, Q, K] for blocks of adapters [G, D]."""
        views, candidates = [self.top.layout.views(flat) for flat in adapters], candidates.to(self.device)
        shape = (len(adapters), self.block, *candidates.shape)
        answers = torch.empty(shape, dtype=torch.float32, device=self.device)
        split = self.top.split
        for trunk, places, indices in chunks:
            spread = trunk.expand(self.block, *trunk.shape)
            for at, block in enumerate(views):
                self.on_launch(len(adapters))
                self.top.wear(block)
                hidden = self.top.hidden(spread.flatten(0, 1)).view(spread.shape)[:, places[:, 0], places[:, 1]]
                logits = candidate_logits(hidden, split.head, split.head_bias, candidates[indices])
                if normalise:
                    logits -= log_normalisers(hidden.flatten(0, 1), split.head, split.head_bias).view(self.block, -1, 1)
                answers[at][:, indices] = logits
        return answers


def _by_length(asked: Tensor, shape: torch.Size) -> tuple[Tensor, list[int]]:
    """Rows with a question, longest first, and how many tokens of each are needed: up to its last question."""
    needed = torch.zeros(shape[0], dtype=torch.long).scatter_reduce_(0, asked[:, 0], asked[:, 1] + 1, "amax")
    order = torch.argsort(needed, descending=True, stable=True)[: int((needed > 0).sum())]
    rounded = (needed[order] + WIDTHS - 1) // WIDTHS * WIDTHS
    return order, rounded.clamp(max=shape[1]).tolist()


class Steps:
    """Tells `progress` (steps done, steps in all); a wave that is repeated after an out-of-memory error starts over."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def show(self, within: int) -> None:
        if self.progress is not None:
            self.progress(self.done + within, self.total)

    def finished(self, steps: int) -> None:
        self.done += steps
