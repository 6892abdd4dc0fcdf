"""Votes before the noise, and shares after it."""

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from hearsay.accounting.bounds import STEPS


def teacher_votes(scores: Tensor) -> Tensor:
    """[teachers, questions, candidates] scores -> one-hot votes, one per teacher and question."""
    return torch.nn.functional.one_hot(scores.argmax(dim=2), scores.shape[2]).double()


def shares(noisy: npt.NDArray[Any]) -> list[float]:
    """Noisy counts to shares: clipped at zero and normalised (post-processing); even shares if nothing is left."""
    counts = [max(0.0, float(value) / STEPS) for value in noisy.reshape(-1)]
    total = sum(counts)
    return [count / total for count in counts] if total else [1 / len(counts)] * len(counts)
