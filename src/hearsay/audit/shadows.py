"""The likelihood ratio of shadow models (Carlini et al., 2022), all of them trained in one stack.

The attacker knows how the model is trained and has a pool of candidates. Many shadow adapters are trained, each on a
random half of the pool; for each candidate the loss under shadows with and without it is taken as two normals, and the
score is the log-likelihood ratio of the loss under the model attacked. The stack trains the shadows for little more
than the tokens they see.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hearsay import lm as models
from hearsay.adapter_files import merged
from hearsay.audit.statistics import Floats
from hearsay.audit.subjects import Subject, all_rows
from hearsay.lm import LanguageModel
from hearsay.private.stack import Stack
from hearsay.private.training import TrainingShape

Progress = Callable[[int, int], None]
LEAST_SPREAD = 1e-3  # of a loss: keeps a ratio finite where shadows agree


def overfit_shape(shape: TrainingShape, tokens: int, epochs: float) -> TrainingShape:
    """NOT PRIVATE. How the audit's own reference and its shadows are trained: to remember, not to be good."""
    rows = max(1, min(8, tokens // (4 * shape.row_tokens)))
    return dataclasses.replace(
        shape,
        rank=16,
        alpha=32.0,
        rows_per_step=rows,
        steps=max(1, math.ceil(epochs * tokens / (rows * shape.row_tokens))),
        learning_rate=1e-2,
        warm_up=3,
        schedule="linear",
    )


def train_on(
    lm: LanguageModel,
    halves: list[list[Subject]],
    shape: TrainingShape,
    *,
    block: int = 1,
    progress: Progress | None = None,
) -> Tensor:
    """NOT PRIVATE. [len(halves), D]: one adapter for each list of units."""
    rows = [[np.asarray(row) for row in all_rows(half)] for half in halves]
    stack = Stack(lm, shape, block=min(block, len(rows)), device=lm.device)
    parts = [flat.cpu() for _, flat in stack.trained(rows.__getitem__, len(rows), generation=0, progress=progress)]
    return torch.cat(parts)[: len(rows)]


def losses(lm: LanguageModel, subjects: list[Subject]) -> Floats:
    """Mean loss of a token, by unit."""
    sums, counts = (part.numpy() for part in models.row_nll(lm, all_rows(subjects), 0))
    sizes = np.array([len(subject.rows) for subject in subjects])
    starts = np.cumsum(sizes) - sizes
    found: Floats = np.add.reduceat(sums, starts) / np.maximum(1, np.add.reduceat(counts, starts))
    return found


@dataclass(frozen=True)
class Shadows:
    """What the shadow models say about each unit of the pool."""

    loss: Floats  # [shadows, units]
    inside: Floats  # [shadows, units], 1 where the unit was in the shadow's half

    def ratio(self, target: Floats) -> Floats:
        """The log-likelihood ratio of each unit's loss under the model attacked: with the unit over without it.

        The target may be better or worse than the shadows all over; the attacker takes that level out.
        """
        within, without = self._mean(self.inside), self._mean(1 - self.inside)
        spread_in, spread_out = self._spread(within, self.inside), self._spread(without, 1 - self.inside)
        level = float(np.mean(target - (within + without) / 2))
        x = target - level
        found: Floats = _log_normal(x, within, spread_in) - _log_normal(x, without, spread_out)
        return found

    def _mean(self, chosen: Floats) -> Floats:
        mean: Floats = (self.loss * chosen).sum(0) / np.maximum(1, chosen.sum(0))
        return mean

    def _spread(self, mean: Floats, chosen: Floats) -> float:
        """One for all units: a handful of shadows cannot tell one unit's spread from another's."""
        square = ((self.loss - mean) ** 2 * chosen).sum() / max(1.0, chosen.sum() - self.loss.shape[1])
        return max(LEAST_SPREAD, math.sqrt(float(square)))


def _log_normal(x: Floats, mean: Floats, spread: float) -> Floats:
    found: Floats = -(((x - mean) / spread) ** 2) / 2 - math.log(spread)
    return found


def cast(
    lm: LanguageModel,
    pool: list[Subject],
    shape: TrainingShape,
    *,
    shadows: int,
    seed: int,
    block: int,
    progress: Progress | None = None,
) -> Shadows:
    """Trains the shadows. They come in pairs, one on a half and one on the rest: each unit is in as often as out."""
    stream = np.random.default_rng(seed)
    inside = np.zeros((shadows, len(pool)))
    for pair in range(0, shadows, 2):
        half = stream.permutation(len(pool))[: len(pool) // 2]
        inside[pair, half] = 1
        inside[pair + 1 : pair + 2] = 1 - inside[pair]
    halves = [[one for one, taken in zip(pool, row, strict=True) if taken] for row in inside]
    adapters = train_on(lm, halves, shape, block=block, progress=progress)
    top = Stack(lm, shape, block=1, device=lm.device).top
    loss = np.stack([losses(merged(lm, top, flat), pool) for flat in adapters])
    return Shadows(loss, inside)
