"""One round of questions to all teachers, through the door: how each recipe's answer is bounded, noised and read.

Blocks of teachers may answer in this process or in others (private/engine.py). Logits never travel: a block's answers
are bounded and summed where they are computed, and only integer sums are added up here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from hearsay.accounting import plan
from hearsay.accounting.bounds import STEPS, Bound
from hearsay.private.engine import Engine, Items, Progress, silent
from hearsay.private.stack import Stack
from hearsay.private.store import AdapterStore
from hearsay.private.workshop import Teaching, Workshop
from hearsay.public.questions import Questions
from hearsay.release import aggregate
from hearsay.release.door import Door, Question
from hearsay.release.grid import BoundedSum, joined
from hearsay.sections import Ask

CLIP_SHARE = Fraction(4, 100)  # of a round's budget, for the private quantile of the residuals' norms
CLIP_COVERS = 0.8  # of the teachers' norms


@dataclass(frozen=True)
class Ensemble:
    """One generation of trained teachers. Private: what it answers goes into a bounded sum and nowhere else."""

    engine: Engine[Workshop]
    stack: Stack
    teaching: Teaching
    run: str
    progress: Progress

    @property
    def store(self) -> AdapterStore:
        return self.teaching.store

    def total(self, questions: Questions, asked: "Sum") -> BoundedSum:
        """The whole ensemble's sum, out of as many parts as there are."""
        task, blocks = BlockAnswers(self.teaching, questions, asked), np.arange(self.store.blocks)
        return joined(self.engine.map(task, blocks, self.progress))

    def plan(self) -> tuple[object, ...]:
        """What decides the meaning of an answer besides the question: run, generation, model, settings, number.

        The student that teachers start from is implied: within a run, a generation has one.
        """
        store = self.store
        return self.run, store.generation, store.base, self.stack.shape.fingerprint(), store.count


@dataclass(frozen=True)
class Sum:
    """Which sum is made of the answers: public settings."""

    bound: Bound
    shape: aggregate.Shape = "root"
    norms: bool = False  # votes for the residuals' norms instead: what a clip is found from

    @property
    def relative(self) -> bool:
        """Whether it is made of differences from what the same slot would have answered before training."""
        return self.norms or self.bound.kind == "residual"


@dataclass(frozen=True)
class BlockAnswers:
    """A task: its blocks' answers as one bounded sum, made where the teachers are.

    A block whose file is not there is trained again, on the spot. Training follows from the shard, the student and
    public settings, so it is the same teacher; a file system that shows another machine's files late, or lost one with
    its machine, costs time and not the run.
    """

    teaching: Teaching
    questions: Questions
    asked: Sum

    def __call__(self, shop: Workshop, blocks: Items, progress: Progress, /) -> BoundedSum:
        questions, asked = self.questions, self.asked
        self._train_missing(shop, blocks)
        tokens, logits = aggregate.asked_tokens(questions), self._logits(shop, blocks, progress)
        before = shop.untrained(questions.contexts, tokens, self.teaching.start) if asked.relative else None
        if asked.norms and before is not None:
            return aggregate.norm_votes(logits, questions, before)
        return aggregate.total(logits, questions, asked.shape, asked.bound, before)

    def _train_missing(self, shop: Workshop, blocks: Items) -> None:
        gone = [block for block in blocks.tolist() if not self.teaching.store.path(block).exists()]
        if gone:
            self.teaching(shop, np.array(gone), silent)

    def _logits(self, shop: Workshop, blocks: Items, progress: Progress) -> aggregate.Blocks:
        def each() -> Iterator[tuple[int, Tensor]]:
            tokens, store = aggregate.asked_tokens(self.questions), self.teaching.store
            answers = shop.stack.answers(store, self.questions.contexts, tokens, blocks=blocks.tolist())
            for done, (block, logits) in enumerate(answers):
                progress(done + 1, len(blocks))
                yield block, logits

        return each


def ask(door: Door, teachers: Ensemble, questions: Questions, settings: Ask, share: Fraction) -> Tensor:
    """Noisy means over the public number of teachers, [Q, K + 1], for at most `share` of mu^2."""
    if settings.recipe == "seqpate":
        shape: aggregate.Shape = "vote" if settings.aggregate == "vote" else "probability"
        return _release(door, teachers, questions, Sum(Bound("probability"), shape), share, settings.noise)
    if settings.clip is None:
        return _release(door, teachers, questions, Sum(Bound("root")), share)
    clip, share = _clip(door, teachers, questions, settings.clip, share)
    moved = _release(door, teachers, questions, Sum(Bound("residual", clip=clip)), share)
    # Post-processing: a teacher with few sentences goes only part of the way that all of them agree on.
    return _before(teachers, questions) + settings.stride * moved


def _before(teachers: Ensemble, questions: Questions) -> Tensor:
    """The student's own roots: public."""
    tokens = aggregate.asked_tokens(questions)
    untrained = teachers.stack.public_answers(questions.contexts, tokens, start=teachers.teaching.start)
    return aggregate.vectors(untrained[:1], questions, "root")[0].cpu().double()


def _release(
    door: Door, teachers: Ensemble, questions: Questions, asked: Sum, share: Fraction, noise: str = "gaussian"
) -> Tensor:
    bound = asked.bound
    scale = plan.scale_for(bound, len(questions), share, noise)
    question = Question(
        name=questions.name(*teachers.plan(), asked.shape, bound, scale, noise),
        purpose=f"answers, round {teachers.store.generation + 1}",
        bound=bound,
        questions=len(questions),
        width=questions.width,
        scale=scale,
        noise="laplace" if noise == "laplace" else "gaussian",
        once=True,
    )
    noisy = door.ask(question, lambda: teachers.total(questions, asked))
    return torch.from_numpy(noisy.astype(np.float64)) / STEPS / teachers.store.count


def _clip(
    door: Door, teachers: Ensemble, questions: Questions, wanted: float | str, share: Fraction
) -> tuple[Fraction, Fraction]:
    """The clip and what is left of the round's budget: a fixed public number, or a private quantile, paid for."""
    if not isinstance(wanted, str):
        return Fraction(wanted).limit_denominator(10**6), share
    bound, cost = Bound("probability"), share * CLIP_SHARE
    scale = plan.scale_for(bound, 1, cost)
    question = Question(
        name=questions.name(*teachers.plan(), "clip", bound, scale),
        purpose=f"clip, round {teachers.store.generation + 1}",
        bound=bound,
        questions=1,
        width=len(aggregate.CLIP_EDGES) + 1,
        scale=scale,
        once=True,
    )
    noisy = door.ask(question, lambda: teachers.total(questions, Sum(bound, norms=True)))
    clip = aggregate.clip_from_votes(torch.from_numpy(noisy), CLIP_COVERS)
    return Fraction(clip).limit_denominator(10**6), share - cost
