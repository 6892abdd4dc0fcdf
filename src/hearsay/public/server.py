"""What turns noisy sums of updates into the student: an optimiser and an average. Post-processing, hence free.

Everything here is a function of the released sums in their order, so a resumed run replays them and stands where an
uninterrupted one would.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

FAST, SLOW, TINY = 0.9, 0.99, 1e-12
WARM_UP = 4  # rounds until the full learning rate


@dataclass(frozen=True)
class ServerSettings:
    rounds: int
    learning_rate: float
    optimiser: Literal["adam", "momentum"] = "adam"
    average: float = 0.25  # the last part of the rounds, whose mean the student is


class Server:
    """Starts at a public adapter [D] and moves the places `moving` of it; `student` is the present one, `result` the
    mean over the last rounds.
    """

    def __init__(self, start: Tensor, moving: Tensor, settings: ServerSettings, weights: Tensor | None = None) -> None:
        """`weights` [places]: what the updates' coordinates were weighed by; the way back weighs them again."""
        self.settings, self.rounds, self.moving, self.weights = settings, 0, moving, weights
        self.student = start.detach().cpu().float().reshape(-1).clone()
        self._first, self._second = torch.zeros(len(moving)), torch.zeros(len(moving))
        self._sum, self._summed = torch.zeros_like(self.student, dtype=torch.float64), 0

    def step(self, update: Tensor) -> None:
        """`update` [places]: the noisy mean of the units' clipped updates, a direction to go."""
        update, settings = update.float().reshape(-1), self.settings
        self.rounds += 1
        self._first.lerp_(update, 1 - FAST)
        self._second.mul_(SLOW).addcmul_(update, update, value=1 - SLOW)
        move = self._first / (1 - FAST**self.rounds)
        if settings.optimiser == "adam":
            move = move / (self._second / (1 - SLOW**self.rounds)).sqrt().add_(TINY)
        self.student[self.moving] += self._rate() * (move if self.weights is None else move * self.weights)
        if self.rounds > settings.rounds - self._tail:
            self._sum += self.student
            self._summed += 1

    @property
    def result(self) -> Tensor:
        return (self._sum / self._summed).float() if self._summed else self.student

    @property
    def _tail(self) -> int:
        return max(1, math.ceil(self.settings.average * self.settings.rounds))

    def _rate(self) -> float:
        """A short warm-up, then a half cosine down to a tenth: noise is averaged out where steps are small."""
        done = self.rounds / self.settings.rounds
        falling = 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done))
        return self.settings.learning_rate * min(1.0, self.rounds / WARM_UP) * falling
