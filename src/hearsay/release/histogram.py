"""Noisy histograms and votes: one vector of norm at most 1 per unit (or per teacher).

A unit with five labels splits its vote; it does not cast five. The list of labels is a public setting, everything else
goes to "other", so neither the labels nor their number depend on private text.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from hearsay.accounting.bounds import STEPS, Bound
from hearsay.release.grid import BoundedSum

OTHER = "other"
ONE_UNIT = Bound("probability", alone=True)  # each unit is a slot of its own: adding one adds its vector
CHUNK = 4096


def label_votes(units: Iterable[Sequence[str]], labels: Sequence[str]) -> BoundedSum:
    """One vote per unit, split evenly over its distinct labels; [1, len(labels) + 1] with "other" last."""
    index = {label: i for i, label in enumerate(labels)}
    total = BoundedSum(ONE_UNIT, 1, len(labels) + 1)
    rows: list[Tensor] = []
    for unit in units:
        rows.append(_vote({index.get(label, len(labels)) for label in unit}, len(labels) + 1))
        if len(rows) == CHUNK:
            total.add(torch.stack(rows)[:, None])
            rows = []
    if rows:
        total.add(torch.stack(rows)[:, None])
    return total


def _vote(chosen: set[int], width: int) -> Tensor:
    row = torch.zeros(width, dtype=torch.float64)
    for i in chosen:
        row[i] = 1 / len(chosen)
    return row


def teacher_votes(scores: Tensor) -> Tensor:
    """[teachers, questions, candidates] scores -> one-hot votes, one per teacher and question."""
    return torch.nn.functional.one_hot(scores.argmax(dim=2), scores.shape[2]).double()


def shares(noisy: npt.NDArray[Any]) -> list[float]:
    """Noisy counts to shares: clipped at zero and normalised (post-processing); even shares if nothing is left."""
    counts = [max(0.0, float(value) / STEPS) for value in noisy.reshape(-1)]
    total = sum(counts)
    return [count / total for count in counts] if total else [1 / len(counts)] * len(counts)
