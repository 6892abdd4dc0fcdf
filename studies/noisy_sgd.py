"""DP-SGD and ghost clipping by Opacus, on a linear model over encoder vectors: the baselines of the second method.

Its noise comes from ordinary floats and a seeded generator, so what it trains is a reference for the owner's eyes and
is never released. What it would cost is in the event that comes back with it.
"""

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from opacus import PrivacyEngine
from torch import Tensor, nn

from hearsay.accounting.events import SubsampledGaussian

Vectors = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Recipe:
    epsilon: float
    delta: float
    ghost: bool = False  # clips without storing each unit's gradient, with Adam, as published; else plain SGD
    epochs: int = 30
    batch: int = 256
    clip: float = 1.0
    rate: float = 2.0
    adam_rate: float = 0.02


@dataclass(frozen=True)
class Trained:
    weights: npt.NDArray[np.float64]  # [classes, width + 1]
    event: SubsampledGaussian

    def scores(self, vectors: Vectors) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = vectors @ self.weights[:, :-1].T + self.weights[:, -1]
        return found


def train(vectors: Vectors, ids: Ids, classes: int, recipe: Recipe, seed: int) -> Trained:
    """A linear classifier under (epsilon, delta) for one row, by Poisson batches."""
    torch.manual_seed(seed)
    model: Any = nn.Linear(vectors.shape[1], classes)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimiser: Any = (
        torch.optim.Adam(model.parameters(), lr=recipe.adam_rate)
        if recipe.ghost
        else torch.optim.SGD(model.parameters(), lr=recipe.rate)
    )
    data = torch.utils.data.TensorDataset(torch.from_numpy(vectors), torch.from_numpy(ids))
    loader: Any = torch.utils.data.DataLoader(data, batch_size=min(recipe.batch, len(data)))
    loss: Any = nn.CrossEntropyLoss()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the plain generator: told above
        engine = PrivacyEngine(accountant="prv")
        made = engine.make_private_with_epsilon(
            module=model,
            optimizer=optimiser,
            data_loader=loader,
            criterion=loss,
            target_epsilon=recipe.epsilon,
            target_delta=recipe.delta,
            epochs=recipe.epochs,
            max_grad_norm=recipe.clip,
            grad_sample_mode="ghost" if recipe.ghost else "hooks",
        )
        model, optimiser, loss, loader = made if recipe.ghost else (made[0], made[1], loss, made[2])
        steps = _loop(model, optimiser, loss, loader, recipe.epochs)
    multiplier = Fraction(float(optimiser.noise_multiplier)).limit_denominator(10**6)
    rate = Fraction(1, len(loader))
    weight, bias = (parameter.detach().double().numpy() for parameter in model.parameters())
    return Trained(np.concatenate([weight, bias[:, None]], axis=1), SubsampledGaussian(rate, multiplier, steps))


def _loop(model: Any, optimiser: Any, loss: Any, loader: Any, epochs: int) -> int:
    steps = 0
    for _ in range(epochs):
        for inputs, wanted in loader:
            optimiser.zero_grad()
            if len(inputs):
                found: Tensor = loss(model(inputs), wanted)
                found.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            steps += 1
    return steps
