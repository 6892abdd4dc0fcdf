"""How one block of teachers is trained: public settings, and the arithmetic of one step.

Nothing here mixes teachers. Each one's loss is the mean over its own tokens; the sum over teachers is differentiated,
so each row of the gradient [G, D] belongs to one teacher; clipping and Adam then work row by row. There is no loss
scaler and no global norm. A teacher without data has a gradient of exactly zero, and Adam's step from zero moments is
exactly zero.
"""

import hashlib
import json
import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from hearsay.errors import ConfigError
from hearsay.stacked import AdapterShape, StackedTop
from hearsay.vocabulary import Shortlist, loss_slopes, short_slopes

SCHEDULES = ("constant", "linear", "cosine")


@dataclass(frozen=True)
class TrainingShape:
    """Every setting that shapes the teachers and their training. All public: none may be chosen from private text."""

    rank: int = 8
    alpha: float = 16.0
    top_blocks: int = 2
    targets: tuple[str, ...] = ("attention", "mlp")
    seed: int = 0  # of the common initial adapter
    row_tokens: int = 64
    rows_per_step: int = 4
    steps: int = 60
    learning_rate: float = 3e-3
    warm_up: int = 5  # steps
    schedule: str = "linear"
    clip_norm: float = 1.0
    betas: tuple[float, float] = (0.9, 0.99)
    epsilon: float = 1e-8
    precision: str = "model"  # of the teachers' frozen base: as loaded, or bfloat16 (adapters stay float32)

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ConfigError(f"got schedule {self.schedule}, need one of {', '.join(SCHEDULES)}")
        if self.precision not in ("model", "bfloat16"):
            raise ConfigError(f"got precision {self.precision}, need model or bfloat16")
        for name in ("rank", "top_blocks", "row_tokens", "rows_per_step", "steps"):
            if getattr(self, name) < 1:
                raise ConfigError(f"got {name} {getattr(self, name)}, need at least 1")

    @property
    def adapter(self) -> AdapterShape:
        return AdapterShape(self.rank, self.alpha, self.top_blocks, tuple(self.targets), self.seed)

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        if step < self.warm_up:
            return self.learning_rate * (step + 1) / self.warm_up
        left = 1 - (step - self.warm_up) / max(1, self.steps - self.warm_up)
        factor = {"constant": 1.0, "linear": left, "cosine": 0.5 * (1 - math.cos(math.pi * left))}[self.schedule]
        return self.learning_rate * factor

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    def fingerprint(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]


StepRows = tuple[Tensor, Tensor, Tensor]  # tokens, targets, positions of one step, each [G * rows, T]


@dataclass
class BlockState:
    """What one block in training keeps on the device: adapters, both Adam moments [G, D], rows for all steps."""

    flat: Tensor
    first: Tensor
    second: Tensor
    tokens: Tensor  # [steps, G * rows, T], like the next two
    targets: Tensor
    positions: Tensor

    def rows(self, step: int) -> StepRows:
        return self.tokens[step], self.targets[step], self.positions[step]


def gradient(top: StackedTop, state: BlockState, step: int) -> Tensor:
    """[G, D]: each teacher's own gradient of its own mean loss."""
    leaves = [view.detach().requires_grad_() for view in top.layout.views(state.flat)]
    return _slopes(top, state.rows(step), leaves, leaves)


def output_gradient(top: StackedTop, state: BlockState, step: int, listed: Shortlist | None = None) -> Tensor:
    """[G, D_B]: the same for the B's alone, in the order of `Layout.outputs`; the A's stay as they are."""
    views = [view.detach() for view in top.layout.views(state.flat)]
    return _slopes(top, state.rows(step), views, [view.requires_grad_() for view in views[1::2]], listed)


def shared_gradient(
    top: StackedTop, adapter: Tensor, rows: StepRows, units: int, listed: Shortlist | None = None
) -> Tensor:
    """[units, D_B]: the same where all units wear one adapter [1, D], of which no copies are made."""
    views = [view.detach() for view in top.layout.views(adapter)]
    views[1::2] = [view.expand(units, -1, -1).requires_grad_() for view in views[1::2]]
    return _slopes(top, rows, views, views[1::2], listed)


def _slopes(
    top: StackedTop, rows: StepRows, worn: list[Tensor], wanted: list[Tensor], listed: Shortlist | None = None
) -> Tensor:
    tokens, targets, positions = (part.long() for part in rows)
    trunk = top.trunk(tokens, positions)
    top.wear(worn)
    hidden = top.hidden(trunk, positions)
    with torch.no_grad():
        states, truth = hidden.flatten(0, 1), targets.clamp(min=0).flatten()
        head = top.split.head
        slopes = short_slopes(states, head, truth, listed) if listed else loss_slopes(states, head, truth)
        valid = (targets >= 0).view(len(wanted[0]), -1).float()
        weights = valid / valid.sum(1, keepdim=True).clamp(min=1)
        slopes *= weights.view(-1, 1).to(slopes.dtype)
    grads = torch.autograd.grad(hidden, wanted, slopes.view(hidden.shape))
    return torch.cat([grad.flatten(1) for grad in grads], 1)


def advance(state: BlockState, grad: Tensor, step: int, shape: TrainingShape) -> None:
    """Clips each teacher's gradient by its own norm and takes its own Adam step, in place."""
    norms = torch.linalg.vector_norm(grad, dim=1, keepdim=True)
    grad.mul_(shape.clip_norm / norms.clamp(min=shape.clip_norm))
    fast, slow = shape.betas
    state.first.lerp_(grad, 1 - fast)
    state.second.mul_(slow).addcmul_(grad, grad, value=1 - slow)
    spread = state.second.sqrt().div_(math.sqrt(1 - slow ** (step + 1))).add_(shape.epsilon)
    state.flat.addcdiv_(state.first, spread, value=-shape.rate(step) / (1 - fast ** (step + 1)))
