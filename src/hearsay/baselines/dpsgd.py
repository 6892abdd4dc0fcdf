"""DP-SGD by Opacus on whole units: flat clipping (every unit's gradient is held) or ghost (only its norm is).

    trained = train(learner, units, steps, progress=...)     # [D], one private model
    total = clipped_sum(learner, batch, clip=0.1)            # before any noise: what tests compare

Opacus's parts are put together here, not by its engine: the engine takes the sampling rate and the divisor from the
number of rows it finds, which is private; here both follow from declared numbers, and the coins of the sample are ours.
An empty batch takes its step of noise like any other. A unit whose gradient is not finite counts as nothing: its share
times a clip of 0 would be NaN, and the whole release with it.

The noise is Opacus's: ordinary floats from a PRNG (seeded from the system's entropy). Good for research, not proven:
it is charged whole to the ledger before the first step and stamped as research noise.
"""

import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hearsay.accounting.events import SubsampledGaussian
from hearsay.baselines.learner import Learner
from hearsay.baselines.units import Batch, Units
from hearsay.errors import ModelError
from hearsay.release.updates import coins

Progress = Callable[[int, int], None]
COPIES = 3  # of a unit's gradient that Opacus holds at its worst moment
CPU_ROOM = 2**31  # bytes for them


@dataclass(frozen=True)
class Steps:
    """Public: all that shapes a run of DP-SGD. `batch` is the expected number of units, the divisor of every step."""

    event: SubsampledGaussian
    batch: int
    clip: float
    learning_rate: float
    optimiser: Literal["adam", "momentum"] = "adam"
    decay: Literal["constant", "linear"] = "linear"
    average: float = 0.0
    ghost: bool = False
    physical: int = 64

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return self.learning_rate * (1 - step / self.event.steps if self.decay == "linear" else 1)


@dataclass(frozen=True)
class Trained:
    flat: Tensor
    history: list[tuple[float, float, int]]  # Opacus's accountant: (noise multiplier, rate, steps)


def train(learner: Learner, units: Units, steps: Steps, progress: Progress | None = None) -> Trained:
    from opacus.accountants import PRVAccountant

    accountant, rate = PRVAccountant(), float(steps.event.rate)
    stream = np.random.default_rng(secrets.randbits(128))
    mean, device = _TailMean(steps), learner.weights[0].device
    with _opacus(learner, steps) as (module, optimiser):
        optimiser.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=rate))
        for step in range(steps.event.steps):
            drawn = _sample(steps.event.rate, len(units))
            optimiser.param_groups[0]["lr"] = steps.rate(step)
            for at in range(0, len(drawn), steps.physical):
                _add(module, optimiser, units.batch(drawn[at : at + steps.physical], stream, device))
            _close(optimiser)
            mean.add(step, learner)
            if progress is not None:
                progress(step + 1, steps.event.steps)
    return Trained(mean.value(learner), accountant.history)


def clipped_sum(learner: Learner, batch: Batch, clip: float, *, ghost: bool = False, physical: int = 64) -> Tensor:
    """[D]: the sum over units of their clipped gradients, before any noise. Private; for comparing implementations."""
    every_unit = SubsampledGaussian(Fraction(1), Fraction(1))
    steps = Steps(every_unit, len(batch.tokens), clip, learning_rate=0.0, ghost=ghost, physical=physical)
    with _opacus(learner, steps) as (module, optimiser):
        for at in range(0, len(batch.tokens), physical):
            _add(module, optimiser, batch.only(slice(at, at + physical)))
        return learner.flat([weight.summed_grad for weight in optimiser.params])


def _add(module: Any, optimiser: Any, batch: Batch) -> None:
    """Adds these units' clipped gradients to the step's sum; memory holds one part of a batch at a time."""
    if isinstance(optimiser, _ghost_optimiser()):
        _ghost_backward(module, optimiser, batch)
    else:
        module(batch.tokens, batch.targets, batch.positions).mean().backward()
        _drop_unbounded(optimiser.params)
    optimiser.signal_skip_step(True)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)


def _drop_unbounded(weights: list[Any]) -> None:
    norms = torch.stack([weight.grad_sample.flatten(1).norm(dim=1) for weight in weights]).norm(dim=0)
    for weight in weights:
        weight.grad_sample[~norms.isfinite()] = 0


def _ghost_backward(module: Any, optimiser: Any, batch: Batch) -> None:
    """Two passes, as Opacus makes them: norms, then the sum of losses, each times its clip.

    A weight of 0 does not keep an infinite loss out of the second pass, so such a unit is left out of both.
    """
    losses = module(batch.tokens, batch.targets, batch.positions)
    losses.mean().backward(retain_graph=True)
    optimiser.zero_grad()  # to zeros: the sum, should nobody be left
    finite = module.get_norm_sample().isfinite()
    if finite.all():
        module.disable_hooks()
        (module.get_clipping_coef() * losses).sum().backward()
        module.enable_hooks()
    elif finite.any():
        _ghost_backward(module, optimiser, batch.only(finite))


def _close(optimiser: Any) -> None:
    """Noise, division by the expected batch, the optimiser's move: for an empty batch as for any other."""
    for weight in optimiser.params:
        weight.grad_sample = weight.new_zeros((0, *weight.shape))  # nobody more: what flat clipping looks at
        weight.grad = torch.zeros_like(weight)  # ... and what ghost clipping looks at
    optimiser.signal_skip_step(False)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)


@contextmanager
def _opacus(learner: Learner, steps: Steps) -> Iterator[tuple[Any, Any]]:
    """The learner wrapped for per-unit gradients, and the optimiser that clips and adds noise."""
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer

    weights = learner.weights
    inner = (
        torch.optim.Adam(weights, lr=steps.learning_rate, betas=(0.9, 0.99))
        if steps.optimiser == "adam"
        else torch.optim.SGD(weights, lr=steps.learning_rate, momentum=0.9)
    )
    module = (
        GradSampleModuleFastGradientClipping(learner, max_grad_norm=steps.clip)
        if steps.ghost
        else GradSampleModule(learner)
    )
    optimiser = (_ghost_optimiser() if steps.ghost else DPOptimizer)(
        inner,
        noise_multiplier=float(steps.event.noise_multiplier),
        max_grad_norm=steps.clip,
        expected_batch_size=steps.batch,
        generator=_entropy(weights[0].device),
    )
    try:
        with warnings.catch_warnings():  # the lowest adapted layer has an input without a gradient: as it should be
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            yield module, optimiser
    finally:
        module.cleanup()


def _ghost_optimiser() -> type[Any]:
    from opacus.optimizers import DPOptimizerFastGradientClipping

    found: type[Any] = DPOptimizerFastGradientClipping
    return found


def _sample(rate: Fraction, count: int) -> list[int]:
    """Who takes part in a step: a Poisson sample."""
    found: list[int] = (np.arange(count) if rate == 1 else np.flatnonzero(coins(rate, count))).tolist()
    return found


def _entropy(device: torch.device | str) -> torch.Generator:
    """torch's own default seed is a constant: noise from it could be subtracted by anyone."""
    return torch.Generator(device).manual_seed(secrets.randbits(63))


class _TailMean:
    """The mean of the weights over the last steps: post-processing, which takes some of the noise out."""

    def __init__(self, steps: Steps) -> None:
        self._first = steps.event.steps - int(steps.average * steps.event.steps)
        self._sum: Tensor | None = None
        self._count = 0

    def add(self, step: int, learner: Learner) -> None:
        if step >= self._first:
            now = learner.flat(learner.weights)  # type: ignore[arg-type]
            self._sum = now if self._sum is None else self._sum + now
            self._count += 1

    def value(self, learner: Learner) -> Tensor:
        return learner.flat(learner.weights) if self._sum is None else self._sum / self._count  # type: ignore[arg-type]


def fitting(learner: Learner, ghost: bool) -> int:
    """How many units at once: flat clipping holds a gradient of every weight for each."""
    device, size = learner.weights[0].device, sum(weight.numel() for weight in learner.weights)
    room = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else CPU_ROOM
    most = 512 if device.type == "cuda" else 32
    fits = most if ghost else min(most, room // (COPIES * 4 * size))
    if not fits:
        raise ModelError(
            f"got {size:,} weights to train, whose gradient for a single unit does not fit into memory; need fewer: "
            "set baseline.trainable: adapter"
        )
    return fits
