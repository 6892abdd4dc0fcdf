"""What the student is compared with. The private ones are NOT PRIVATE: they stay in internal/ and in memory.

private    one adapter of the student's shape, trained on the private sentences themselves
ensemble   the mean of the teachers' distributions without any noise: what no amount of budget can exceed
"""

import dataclasses
import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hearsay.lm import LanguageModel, end_id, start_id
from hearsay.private.shards import Partition
from hearsay.private.stack import Progress, Stack
from hearsay.private.store import AdapterStore
from hearsay.private.training import TrainingShape
from hearsay.public.questions import lay_out
from hearsay.stacked import Contexts

Tokens = list[int]


def train_private(
    lm: LanguageModel,
    partition: Partition,
    shape: TrainingShape,
    *,
    steps: int,
    rows: int,
    learning_rate: float,
    most: int | None = None,
    progress: Progress | None = None,
    start: Tensor | None = None,
) -> Tensor:
    """NOT PRIVATE. One adapter [D] on all sentences (or the first `most`), as if there were nobody to protect."""
    everything: list[NDArray[np.integer]] = []
    for m in range(partition.settings.shards):
        everything += partition.shard(m)
        if most is not None and len(everything) >= most:
            break
    wide = dataclasses.replace(shape, rows_per_step=rows, steps=steps, learning_rate=learning_rate, schedule="cosine")
    stack = Stack(lm, wide, block=1, device=lm.device)
    shard = everything[:most]
    _, adapter = next(iter(stack.trained(lambda _: shard, 1, generation=0, progress=progress, start=start)))
    return adapter[0]


@torch.no_grad()
def ensemble_perplexity(stack: Stack, store: AdapterStore, rows: list[Tokens], prefix: int) -> float:
    """NOT PRIVATE. Perplexity, after the prefix, of the mean of all teachers' distributions."""
    start = start_id(stack.lm)
    laid, lengths, targets = lay_out(rows, start, end_id(stack.lm))
    first = prefix + (start is not None) - 1
    inside = torch.arange(laid.shape[1])[None] < (lengths - 1)[:, None]  # the end of a sentence is not counted
    inside[:, :first] = False
    asked = inside.nonzero()
    wanted = targets[asked[:, 0], asked[:, 1]][:, None]
    total: Tensor | None = None
    for _, logs in stack.answers(store, Contexts(laid, lengths, asked), wanted, normalise=True):
        odds = logs.double().exp().nan_to_num(nan=0.0).sum(0)  # a teacher that diverged counts as the door counts it
        total = odds if total is None else total + odds
    if total is None:
        raise ValueError("no teachers")
    return math.exp(-float((total / store.count).log().mean()))
