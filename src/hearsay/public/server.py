"""What turns noisy sums of updates into the student: an optimiser and an average. Post-processing, hence free.

Everything here is a function of the released sums in their order, so a resumed run replays them and stands where an
uninterrupted one would.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hearsay.public.denoise import cleaned, cleaned_rows
from hearsay.stacked import Layout

FAST, SLOW, TINY = 0.9, 0.99, 1e-12
WARM_UP = 4  # rounds until the full learning rate


@dataclass(frozen=True)
class ServerSettings:
    rounds: int
    learning_rate: float
    optimiser: Literal["adam", "momentum"] = "adam"
    average: float = 0.25  # the last part of the rounds, whose mean the student is
    denoise: str = "none"
    noise: float = 0.0  # standard deviation of an update's every entry


class Server:
    """Starts at a public adapter [D] and moves its B's; `student` is the present one, `result` the mean over the last
    rounds.
    """

    def __init__(self, start: Tensor, layout: Layout, settings: ServerSettings) -> None:
        self.settings, self.layout, self.rounds = settings, layout, 0
        self.start = start.detach().cpu().float().reshape(-1).clone()
        self.moving = layout.outputs()
        self.student = self.start.clone()
        places = len(self.moving)
        self._first, self._second, self._travelled = torch.zeros(places), torch.zeros(places), torch.zeros(places)
        self._sum, self._summed = torch.zeros(places, dtype=torch.float64), 0
        # How much of each round's noise is in the first moment, the way travelled and the sum, in standard deviations.
        self._in_first, self._in_way, self._in_sum = (np.zeros(settings.rounds) for _ in range(3))

    def step(self, update: Tensor) -> None:
        """`update` [places]: the noisy mean of the units' clipped updates, a direction to go."""
        update, settings = update.float().reshape(-1), self.settings
        self.rounds += 1
        self._first.lerp_(update, 1 - FAST)
        self._second.mul_(SLOW).addcmul_(update, update, value=1 - SLOW)
        move = self._first / (1 - FAST**self.rounds)
        if settings.optimiser == "adam":
            move = move / (self._second / (1 - SLOW**self.rounds)).sqrt().add_(TINY)
        else:
            move = move / settings.noise
        self._travelled += self._rate() * move
        self._in_first *= FAST
        self._in_first[self.rounds - 1] += 1 - FAST
        self._in_way += self._rate() * self._in_first / (1 - FAST**self.rounds)
        self.student = self._at(self._travelled, self._in_way)
        if self.rounds > settings.rounds - self._tail:
            self._sum += self._travelled
            self._in_sum += self._in_way
            self._summed += 1

    @property
    def result(self) -> Tensor:
        if not self._summed:
            return self.student
        return self._at((self._sum / self._summed).float(), self._in_sum / self._summed)

    def _at(self, travelled: Tensor, in_way: NDArray[np.float64]) -> Tensor:
        found = self.start.clone()
        if self.settings.denoise == "none":
            found[self.moving] += travelled
            return found
        noise = float(np.linalg.norm(in_way))
        way = torch.zeros_like(found)[None]
        way[0, self.moving] = travelled
        how = {"matrices": cleaned, "rows": cleaned_rows}[self.settings.denoise]
        for b in self.layout.views(way)[1::2]:
            b[0] = how(b[0], noise)
        return found + way[0]

    @property
    def _tail(self) -> int:
        return max(1, math.ceil(self.settings.average * self.settings.rounds))

    def _rate(self) -> float:
        """A short warm-up, then a half cosine down to a tenth: noise is averaged out where steps are small."""
        done = self.rounds / self.settings.rounds
        falling = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done))
        return self.settings.learning_rate * min(1.0, self.rounds / WARM_UP) * falling
