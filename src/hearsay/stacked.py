"""Many LoRA adapters as one batch over one frozen base: the arithmetic, free of any data.

Teacher g's adapter is row g of one float32 matrix [G, D]; its layers are views of that row, so clipping, Adam,
storing and releasing an update are one operation on a matrix each. A linear layer of the top computes

    y = base(x) + (alpha / rank) * (x A_g) B_g          x: [G, rows * T, d]   A: [G, d, r]   B: [G, r, o]

as two batched products. All teachers start from the same public A and from B = 0: an untrained teacher is the base
model. Private training (private/stack.py) and the public student (`Adapted`, a stack of one) share this file; neither
sees the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hearsay.errors import ModelError
from hearsay.split import Split, checked_split, target_names
from hearsay.vocabulary import token_losses


@dataclass(frozen=True)
class AdapterShape:
    """Public settings that fix what an adapter is."""

    rank: int = 8
    alpha: float = 16.0
    top_blocks: int = 2
    targets: tuple[str, ...] = ("attention", "mlp")
    seed: int = 0  # of the common initial A


@dataclass(frozen=True)
class Slot:
    """One adapted linear layer: block b of the top, its name, its sizes and where its numbers start in an adapter's
    row.
    """

    block: int
    name: str
    inputs: int
    outputs: int
    start: int


@dataclass(frozen=True)
class Layout:
    shape: AdapterShape
    slots: tuple[Slot, ...]
    size: int  # D

    @property
    def scale(self) -> float:
        return self.shape.alpha / self.shape.rank

    def views(self, flat: Tensor) -> list[Tensor]:
        """A and B of every slot, in turn, as views of [G, D]."""
        rank, found = self.shape.rank, []
        for slot in self.slots:
            middle, end = slot.start + slot.inputs * rank, slot.start + (slot.inputs + slot.outputs) * rank
            found.append(flat[:, slot.start : middle].view(-1, slot.inputs, rank))
            found.append(flat[:, middle:end].view(-1, rank, slot.outputs))
        return found

    def outputs(self) -> Tensor:
        """Where the B's lie in an adapter's row, in the order of the slots: what rounds of updates train."""
        marked = torch.zeros(1, self.size, dtype=torch.bool)
        for b in self.views(marked)[1::2]:
            b.fill_(True)
        return torch.nonzero(marked[0])[:, 0]

    def initial(self) -> Tensor:
        """[D], the public starting point of every teacher: A uniform as in the usual LoRA start, B zero."""
        flat = torch.zeros(1, self.size)
        source = torch.Generator().manual_seed(self.shape.seed)
        for slot, a in zip(self.slots, self.views(flat)[::2], strict=True):
            bound = slot.inputs**-0.5
            a.copy_(torch.empty(a.shape).uniform_(-bound, bound, generator=source))
        return flat[0]


class Shared(torch.autograd.Function):
    """G units under one and the same adapter, added to what the base says: one plain product forward, and still a
    gradient of B for every unit.

    `b` [G, r, out] is one B seen G times (an expanded view, no copies); rows of one unit lie together.
    """

    @staticmethod
    def forward(ctx: Any, base: Tensor, inner: Tensor, b: Tensor, scale: float) -> Tensor:
        one = b[0].to(inner.dtype) * scale
        ctx.save_for_backward(inner, one)
        ctx.units, ctx.scale = len(b), scale
        return torch.addmm(base, inner, one)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        (inner, one), slope = ctx.saved_tensors, slopes[0]
        each = [part.reshape(ctx.units, -1, part.shape[-1]) for part in (inner, slope)]
        return slope, slope @ one.T, torch.bmm(each[0].transpose(1, 2), each[1]).float() * ctx.scale, None


class StackedLinear(nn.Module):
    """A frozen linear layer plus G adapters, `a` and `b`, set before each pass; without them it is the base layer.

    With one `a` and many `b` all units wear the same adapter (`Shared`).
    """

    def __init__(self, base: nn.Module, scale: float) -> None:
        super().__init__()
        self.base, self.scale = base, scale
        self.a: Tensor | None = None
        self.b: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base(x)
        if self.a is None or self.b is None:
            return y
        if len(self.a) < len(self.b):
            inner = x.reshape(-1, x.shape[-1]) @ self.a[0].to(x.dtype)
            both: Tensor = Shared.apply(y.view(-1, y.shape[-1]), inner, self.b, self.scale)  # type: ignore[no-untyped-call]
            return both.view(y.shape)
        a, b = self.a.to(x.dtype), self.b.to(x.dtype)
        inner = torch.bmm(x.reshape(a.shape[0], -1, a.shape[1]), a)
        each = y.view(a.shape[0], -1, b.shape[2])
        if torch.is_grad_enabled():
            return torch.baddbmm(each, inner, b, alpha=self.scale).view(y.shape)
        each.baddbmm_(inner, b, alpha=self.scale)  # y is nobody else's: a copy would cost as much as the product
        return y


class StackedTop:
    """The top of a split with stacked adapters in it."""

    def __init__(self, model: Any, shape: AdapterShape) -> None:
        if shape.rank < 1:
            raise ModelError(f"got adapter.rank {shape.rank}, need at least 1")
        self.split: Split = checked_split(model, shape.top_blocks)
        # Both take rows and positions (none: plain causal rows). `hidden` wants the rows of one teacher together.
        self.trunk: Callable[..., Tensor] = self.split.trunk
        self.hidden: Callable[..., Tensor] = self.split.top
        self._linears: list[StackedLinear] = []
        slots, start = [], 0
        for index, block in enumerate(self.split.above):
            for name in target_names(self.split, shape.targets):
                inputs, outputs = self._wrap(block, name, shape.alpha / shape.rank)
                slots.append(Slot(index, name, inputs, outputs, start))
                start += (inputs + outputs) * shape.rank
        self.layout = Layout(shape, tuple(slots), start)

    def _wrap(self, block: nn.Module, name: str, scale: float) -> tuple[int, int]:
        parent, _, last = name.rpartition(".")
        owner, base = block.get_submodule(parent), block.get_submodule(name)
        self._linears.append(StackedLinear(base, scale))
        setattr(owner, last, self._linears[-1])
        outputs, inputs = base.weight.shape  # type: ignore[misc]
        return (inputs, outputs) if isinstance(base, nn.Linear) else (outputs, inputs)  # Conv1D stores [in, out]

    def layers(self) -> list["StackedLinear"]:
        """The adapted layers, in the order of the layout's slots."""
        return list(self._linears)

    def wear(self, views: list[Tensor]) -> None:
        """Puts G adapters on; views as from `Layout.views`."""
        for linear, a, b in zip(self._linears, views[::2], views[1::2], strict=True):
            linear.a, linear.b = a, b

    def bare(self) -> None:
        for linear in self._linears:
            linear.a = linear.b = None

    def compile(self) -> None:
        """Fuses each block with torch.compile: pays on a GPU, where shapes repeat thousands of times.

        Blocks one by one rather than a whole part: equal blocks share one program, so compiling takes a third of the
        time. Kernels are chosen by rule, not by timing them, or two runs of the same teachers could round differently.
        """
        import torch._dynamo  # seconds, for those who compile
        import torch._inductor.config as inductor

        torch._dynamo.config.recompile_limit = 64  # trunk and top, training and asking: each shape is a program
        by_rule = {"deterministic": True} if hasattr(inductor, "deterministic") else {}
        for block in [*self.split.below, *self.split.above]:
            block.compile(dynamic=False, options=by_rule)


class Adapted(nn.Module):
    """One trainable adapter over a frozen base: the student, trained by public code with any loss.

    `flat` [1, D] is the only parameter. `hidden` gives the head's input, `logits` all logits at chosen places,
    `losses` the negative log-likelihoods without holding the logits.
    """

    def __init__(self, model: Any, shape: AdapterShape, start: Tensor | None = None) -> None:
        super().__init__()
        self.top = StackedTop(model, shape)
        first = self.top.layout.initial() if start is None else start.detach().cpu().float().reshape(-1)
        self.flat = nn.Parameter(first.clone()[None].to(self.top.split.head.device))

    def hidden(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        """[rows, T, d]; positions as in `Split.trunk`: none for right-padded rows, given for packed ones."""
        trunk = self.top.trunk(tokens, positions)
        self.top.wear(self.top.layout.views(self.flat))
        return self.top.hidden(trunk, positions)

    def logits(self, hidden: Tensor) -> Tensor:
        split = self.top.split
        logits = hidden @ split.head.T
        return logits if split.head_bias is None else logits + split.head_bias

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """[N] for hidden [N, d] and targets [N]."""
        return token_losses(hidden, self.top.split.head, targets)


@dataclass(frozen=True)
class Contexts:
    """Public rows and the places asked about: (row, position) asks for the token after `position`, given all up to it.

    Rows [S, T] are right-padded with any valid token; attention is causal, so padding is never seen from an asked
    place.
    """

    rows: Tensor
    lengths: Tensor
    asked: Tensor  # [Q, 2]

    def __post_init__(self) -> None:
        row, position = self.asked[:, 0], self.asked[:, 1]
        if len(self.lengths) != len(self.rows) or bool((position < 0).any() | (position >= self.lengths[row]).any()):
            raise ModelError(
                "got a question outside its row, need 0 <= position < length of the row, for every question"
            )
