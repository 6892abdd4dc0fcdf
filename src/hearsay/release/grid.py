"""Bounded vectors on an integer grid, and their exact sum.

Whatever comes in (too long, negative, not a number) is first made to fit: stopping would tell that someone's text broke
something. Values are rounded towards zero, so rounding can only shrink a norm; then the bound is checked *in integers*,
because float (and still more bfloat16) sums of probabilities can exceed 1. Integer sums do not depend on their order,
hence not on waves, workers or retries. A vector that still breaks its bound stops the release, without a word about it.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hearsay.accounting.bounds import STEPS, Bound
from hearsay.errors import HearsayError

AT_ONCE = {"cpu": 2**20, "cuda": 2**26}  # values whose integers are held at once: a cache, a share of a GPU's memory
HAIR = 1 - 2.0**-21  # half a step: with a whole one, even shares of a vote would fall on the edge between two steps


class BoundBroken(HearsayError):
    """A programming error, never a matter of data: scaling comes before rounding and must have made it fit."""


class BoundedSum:
    """Adds slots' vectors [slots, questions, width]; holds nothing but the integer sum."""

    def __init__(self, bound: Bound, questions: int, width: int, device: torch.device | str = "cpu") -> None:
        self.bound = bound
        self.questions = questions
        self.total = torch.zeros((questions, width), dtype=torch.int64, device=device)

    def add(self, vectors: Tensor) -> None:
        if vectors.shape[1:] != self.total.shape:
            raise BoundBroken(f"vectors of shape {tuple(vectors.shape[1:])} for a sum of {tuple(self.total.shape)}")
        found = torch.zeros_like(self.total)
        for part in alike(vectors):
            found += on_grid(part, self.bound).sum(dim=0)
        self.total += found

    def join(self, other: "BoundedSum") -> None:
        """Adds another part's sum. It must be a sum of the same kind: another bound is another sensitivity."""
        if not isinstance(other, BoundedSum) or other.bound != self.bound or other.total.shape != self.total.shape:
            raise BoundBroken("a partial sum of another kind came back; nothing was released")
        self.total += other.total.to(self.total.device)

    def __reduce__(self) -> tuple[Any, ...]:
        """It travels between processes as its bound and its integers."""
        return _arrived, (self.bound, self.total.cpu().numpy())


def joined(parts: Iterable[BoundedSum]) -> BoundedSum:
    """One sum out of parts, in any order and number."""
    found: BoundedSum | None = None
    for part in parts:
        if found is None:
            questions, width = part.total.shape
            found = BoundedSum(part.bound, questions, width, part.total.device)
        found.join(part)
    if found is None:
        raise BoundBroken("no partial sum came back; nothing was released")
    return found


def _arrived(bound: Bound, total: NDArray[np.int64]) -> BoundedSum:
    found = BoundedSum(bound, *total.shape)
    found.total += torch.from_numpy(np.array(total, np.int64))
    return found


def alike(vectors: Tensor) -> tuple[Tensor, ...]:
    """Parts of one shape, of as many slots as fit: a norm is a reduction whose rounding may go by the shape, and who
    stands in a smaller last part would depend on who else is there.
    """
    slots, each = len(vectors), max(1, vectors[:1].numel())
    most = max(1, AT_ONCE.get(vectors.device.type, 2**20) // each)
    size = max((size for size in range(1, slots + 1) if slots % size == 0 and size <= most), default=1)
    return tuple(vectors.split(size))


def place_matters(vectors: Tensor, bound: Bound) -> bool:
    """Whether slots that hold the same end on different steps, by where they stand; larger than the bound, say."""
    first: Tensor | None = None
    for part in alike(vectors):
        steps = on_grid(part, bound)
        first = steps[:1] if first is None else first
        if not torch.equal(steps, first.expand_as(steps)):
            return True
    return False


def on_grid(vectors: Tensor, bound: Bound) -> Tensor:
    """[slots, questions, width] floats -> integers that obey the bound. Few passes: vectors of updates are long."""
    if vectors.dim() != 3:
        raise BoundBroken(f"contributions of shape {tuple(vectors.shape)}; need [slots, questions, width]")
    if not vectors.numel():
        return torch.zeros(vectors.shape, dtype=torch.int64, device=vectors.device)
    vectors = vectors if vectors.dtype == torch.float64 else vectors.float()
    # A teacher that diverged contributes zero. Stopping instead would tell the world that someone's text broke it.
    finite = torch.isfinite(torch.linalg.vector_norm(vectors.flatten(1), ord=torch.inf, dim=1))
    if bound.kind != "residual":
        vectors = vectors.clamp_min(0)  # likewise: a negative probability is made zero, not an incident
    steps = (vectors * _scale(vectors, bound)).long()  # towards zero
    steps[~finite] = 0
    check(steps, bound)
    return steps


def _scale(vectors: Tensor, bound: Bound) -> Tensor:
    """From floats to grid steps: what is too long is scaled down to its bound, a hair below it to absorb the rounding
    of two float32 products; the rest is multiplied by a power of two, which is exact.
    """
    if bound.kind == "residual":
        norm = torch.linalg.vector_norm(vectors.flatten(1), dim=1, dtype=torch.float64)[:, None, None]
        limit = float(bound.clip) * vectors.shape[1] ** 0.5
    else:
        order = 1 if bound.kind == "probability" else 2
        norm = torch.linalg.vector_norm(vectors, ord=order, dim=2, keepdim=True, dtype=torch.float64)
        limit = 1.0
    scale: Tensor = STEPS * (limit * HAIR / norm.clamp_min(1e-300)).clamp_max(1.0)
    return scale.to(vectors.dtype)


def check(steps: Tensor, bound: Bound) -> None:
    """The bound itself, in integers: the line an auditor looks for."""
    squares = (steps * steps).sum(dim=2)
    if bound.kind == "residual":
        good = squares.sum(dim=1) <= bound.norm_squared(steps.shape[1])
    else:
        good = (squares <= bound.norm_squared(1)).all(dim=1) & (steps >= 0).flatten(1).all(dim=1)
        if bound.kind == "probability":
            good &= (steps.sum(dim=2) <= STEPS).all(dim=1)
    if not bool(good.all()):
        raise BoundBroken("a contribution exceeds its bound; nothing was released")
