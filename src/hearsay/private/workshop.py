"""Where teachers are trained and asked: a stack of adapters over the base model, and the shards.

A `WorkshopPlan` says in public settings and folder names how to set one up. The run's own process has a workshop; each
worker elsewhere builds its own from the plan, with the same files. Whether it computes the same, to the last bit, is
tried: `signature` is a hash of what public tokens give on this device, with this library, this model and this code.
Units and blocks go to workers by who is free, so workers that round differently would let one unit's absence move
others across grid steps; a signature that differs is therefore refused, not tolerated.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

import hearsay
from hearsay import lm as models
from hearsay.private.engine import Items, Progress
from hearsay.private.shards import Partition, PartitionSettings, opened
from hearsay.private.stack import Stack
from hearsay.private.store import AdapterStore
from hearsay.private.training import BlockState, TrainingShape, advance, gradient
from hearsay.stacked import Contexts


class Workshop:
    def __init__(self, stack: Stack, partition: Partition) -> None:
        self.stack, self.partition = stack, partition
        self._untrained: tuple[str, Tensor] | None = None

    def untrained(self, contexts: Contexts, tokens: Tensor, start: Tensor) -> Tensor:
        """What a block of teachers answers before it has seen a shard (public); the last one is kept."""
        name = digest(contexts.rows, contexts.asked, tokens, start)
        if self._untrained is None or self._untrained[0] != name:
            self._untrained = name, self.stack.public_answers(contexts, tokens, start=start)
        return self._untrained[1]

    def plan(self, *, compile: bool) -> "WorkshopPlan":
        """How a worker elsewhere sets up the same."""
        stack, threads = self.stack, torch.get_num_threads()
        model, dtype = stack.lm.source, stack.lm.model.dtype
        kind, shards = stack.device.type, self.partition
        return WorkshopPlan(
            model, dtype, kind, stack.shape, stack.block, compile, threads, shards.folder, shards.settings
        )

    @cached_property
    def signature(self) -> str:
        """Code, model and rounding: one step of a block on public tokens, and what it then answers."""
        stack, stream = self.stack, torch.Generator().manual_seed(0)
        rows, length = stack.block * stack.shape.rows_per_step, stack.shape.row_tokens
        words = stack.top.split.head.shape[0]
        state = _public_state(stack, torch.randint(1, words, (1, rows, length), generator=stream))
        advance(state, gradient(stack.top, state, 0), 0, stack.shape)
        asked = torch.tensor([[0, length - 1], [1, length // 2]])
        contexts = Contexts(state.tokens[0, :2].cpu(), torch.full((2,), length), asked)
        tokens = torch.randint(1, words, (2, 8), generator=stream)
        answers = stack.public_answers(contexts, tokens, start=state.flat[0])
        return digest(source(), stack.top.split.fingerprint(), state.flat, answers)


def _public_state(stack: Stack, tokens: Tensor) -> BlockState:
    flat = stack.top.layout.initial().to(stack.device).repeat(stack.block, 1)
    tokens = tokens.to(stack.device)
    positions = torch.arange(tokens.shape[2], device=stack.device).expand_as(tokens)
    return BlockState(flat, torch.zeros_like(flat), torch.zeros_like(flat), tokens, tokens.roll(-1, 2), positions)


@dataclass(frozen=True)
class WorkshopPlan:
    model: str
    dtype: torch.dtype
    device: str  # its kind: which of a machine's devices a worker gets is not ours to say
    shape: TrainingShape
    block: int
    compile: bool
    threads: int
    shards: Path
    settings: PartitionSettings

    def build(self) -> Workshop:
        lm = models.load(self.model, device=self.device, dtype=self.dtype)
        stack = Stack(lm, self.shape, block=self.block, device=self.device, compile=self.compile)
        return Workshop(stack, opened(self.shards, self.settings))


@dataclass(frozen=True)
class Teaching:
    """A task: trains those of its blocks that the store lacks. The adapters stay in the store, inside private/."""

    store: AdapterStore
    start: Tensor  # [D], the public student that teachers begin from

    def __call__(self, shop: Workshop, blocks: Items, progress: Progress, /) -> None:
        shop.stack.train(
            shop.partition.shard,
            self.store.count,
            generation=self.store.generation,
            store=self.store,
            progress=progress,
            start=self.start,
            blocks=blocks.tolist(),
        )


def digest(*parts: str | Tensor) -> str:
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            values = part.detach().cpu().contiguous()
            found.update(f"{values.dtype} {tuple(values.shape)} ".encode())
            found.update(values.numpy().tobytes())
        else:
            found.update(part.encode())
        found.update(b"\0")
    return found.hexdigest()


def source() -> str:
    """A hash of this package's own code: another version may bound or round otherwise."""
    root, found = Path(hearsay.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()
