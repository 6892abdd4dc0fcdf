"""Membership inference: was this unit's text used? Scores that need only the model, or the model and a public one.

    loss           the text is likely (Yeom et al., 2018)
    calibrated     likelier than the public base model finds it (Watson et al., 2022)
    zlib           likely for what compression makes of it (Carlini et al., 2021)
    min-k++        its least likely tokens are likely for their places (Zhang et al., 2024)
    neighbourhood  likelier than texts that differ in a few tokens (Mattern et al., 2023)

Higher means member, everywhere. A user's score is the mean over the user's rows; at record level one row of each unit
counts, so that scores stay independent. The shadow models' likelihood ratio is in shadows.py.
"""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hearsay import lm as models
from hearsay.audit.statistics import Floats
from hearsay.audit.subjects import Subject
from hearsay.lm import LanguageModel

Tokens = list[int]
Progress = Callable[[int, int], None]
SHARE = 0.2  # of a text's tokens, the least likely ones, that min-k++ looks at
REPLACED = 0.15  # of a text's tokens, in a neighbour
BATCH = {"cpu": 64, "cuda": 256}  # rows a pass


@dataclass(frozen=True)
class RowScores:
    """One number a row for each score, in the orientation of the public implementations: higher means member."""

    loss: Floats  # mean log-likelihood of a token
    min_k_plus: Floats


@torch.no_grad()
def row_scores(lm: LanguageModel, rows: list[Tokens], progress: Progress | None = None) -> RowScores:
    """Everything that one pass over the rows gives. All tokens count, from the first that has a context."""
    found = np.zeros((2, len(rows)))
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]), reverse=True)
    size = BATCH.get(lm.device.type, 64)
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        for index, (logs, surprise) in zip(batch, _tokens(lm, [rows[i] for i in batch]), strict=True):
            found[:, index] = float(logs.mean()), lowest(surprise)
        if progress is not None:
            progress(100 * (start + len(batch)) // len(order), 100)  # a share: how many rows there are is private
    return RowScores(*found)


def lowest(values: Tensor) -> float:
    """Mean of the lowest share; a text too short for a whole token of it counts its lowest one."""
    k = max(1, int(len(values) * SHARE))
    return float(values.sort().values[:k].mean())


def _tokens(lm: LanguageModel, rows: list[Tokens]) -> list[tuple[Tensor, Tensor]]:
    """For each row: log-probabilities of its tokens, and how many standard deviations each lies above the mean
    log-probability at its place.
    """
    laid, lead = _laid(lm, rows)
    inputs, targets = laid[:, :-1], laid[:, 1:]
    logits = lm.model(input_ids=inputs, attention_mask=torch.ones_like(inputs), use_cache=False).logits
    found = []
    for row, scores, wanted in zip(rows, logits, targets, strict=True):
        length = len(row) + lead - 1
        logs = torch.log_softmax(scores[:length].float(), -1)
        odds = logs.exp()
        mean = (odds * logs).sum(-1)
        spread = ((odds * logs.square()).sum(-1) - mean.square()).clamp_min(1e-12).sqrt()
        chosen = logs.gather(1, wanted[:length, None])[:, 0]
        found.append((chosen.double().cpu(), ((chosen - mean) / spread).double().cpu()))
    return found


def from_rows(target: RowScores, public: RowScores, texts: list[str]) -> dict[str, Floats]:
    """Scores of rows by attack; `public` are the same rows' under the public base model."""
    packed = np.array([len(zlib.compress(text.encode())) for text in texts], dtype=np.float64)
    return {
        "loss": target.loss,
        "calibrated": target.loss - public.loss,
        "zlib": target.loss / packed,
        "min-k++": target.min_k_plus,
    }


def neighbourhood(
    lm: LanguageModel, public: LanguageModel, rows: list[Tokens], *, neighbours: int, seed: int
) -> Floats:
    """How much likelier each row is than its neighbours are on average."""
    near = make_neighbours(public, rows, neighbours, seed)
    sums, counts = models.row_nll(lm, [*rows, *near], 0)
    loss = (sums / counts.clamp(min=1)).numpy()
    around = loss[len(rows) :].reshape(len(rows), neighbours).mean(1)
    difference: Floats = around - loss[: len(rows)]
    return difference


@torch.no_grad()
def make_neighbours(public: LanguageModel, rows: list[Tokens], neighbours: int, seed: int) -> list[Tokens]:
    """Rows in which a few tokens are drawn anew from the public model, given what stands before them.

    The published attack asks a masked model; a causal one needs no second model and no second tokenizer.
    """
    stream, found = torch.Generator().manual_seed(seed), []
    size = BATCH.get(public.device.type, 64)
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        laid, lead = _laid(public, batch)
        hidden = public.model.base_model(input_ids=laid, attention_mask=torch.ones_like(laid), use_cache=False)[0]
        for row, states in zip(batch, hidden, strict=True):
            found += _near(public, row, states, lead, neighbours, stream)
    return found


def _near(
    public: LanguageModel, row: Tokens, states: Tensor, lead: int, neighbours: int, stream: torch.Generator
) -> list[Tokens]:
    first = int(lead == 0)  # without a start token nothing stands before the first one
    count = max(1, math.ceil(REPLACED * len(row)))
    places = (
        torch.stack([torch.randperm(len(row) - first, generator=stream)[:count] for _ in range(neighbours)]) + first
    )
    logits = public.model.get_output_embeddings()(states[(places + lead - 1).flatten().to(states.device)])
    odds = torch.softmax(logits.float().cpu(), -1)
    odds[torch.arange(len(odds)), torch.tensor(row)[places.flatten()]] = 0  # another token than the one that is there
    drawn = torch.multinomial(odds, 1, generator=stream).view(neighbours, count)
    changed = torch.tensor(row).repeat(neighbours, 1).scatter(1, places, drawn)
    return changed.tolist()  # type: ignore[no-any-return]


def _laid(lm: LanguageModel, rows: list[Tokens]) -> tuple[Tensor, int]:
    """Rows behind the start token, where there is one, filled up on the right; and how many tokens lead."""
    start = models.start_id(lm)
    lead = [] if start is None else [start]
    width = max(len(row) for row in rows) + len(lead)
    laid = [lead + row + [models.end_id(lm)] * (width - len(row) - len(lead)) for row in rows]
    return torch.tensor(laid, device=lm.device), len(lead)


def by_user(subjects: list[Subject], scores: Floats) -> Floats:
    """Mean over each unit's rows, in the order of `all_rows`."""
    counts = [len(subject.rows) for subject in subjects]
    ends = np.cumsum(counts)
    return np.array([scores[end - count : end].mean() for end, count in zip(ends, counts, strict=True)])


def by_record(subjects: list[Subject], scores: Floats) -> Floats:
    """The first row of each unit."""
    counts = [len(subject.rows) for subject in subjects]
    firsts = np.cumsum(counts) - counts
    chosen: Floats = scores[firsts]
    return chosen
