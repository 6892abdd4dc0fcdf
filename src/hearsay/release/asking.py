"""One round of questions to all teachers, through the door: how each recipe's answer is bounded, noised and read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from hearsay.accounting import plan
from hearsay.accounting.bounds import STEPS, Bound
from hearsay.private.stack import Stack
from hearsay.private.store import AdapterStore
from hearsay.public.questions import Questions
from hearsay.release import aggregate
from hearsay.release.door import Door, Question
from hearsay.sections import Ask

CLIP_SHARE = Fraction(4, 100)  # of a round's budget, for the private quantile of the residuals' norms
CLIP_COVERS = 0.8  # of the teachers' norms


@dataclass(frozen=True)
class Ensemble:
    """One generation of trained teachers. Private: what it answers goes into a bounded sum and nowhere else."""

    stack: Stack
    store: AdapterStore
    run: str
    progress: Callable[[int, int], None]

    def blocks(self, questions: Questions) -> aggregate.Blocks:
        def each() -> Iterator[tuple[int, Tensor]]:
            tokens = aggregate.asked_tokens(questions)
            for block, logits in self.stack.answers(self.store, questions.contexts, tokens):
                self.progress(block + 1, self.store.blocks)
                yield block, logits

        return each

    def plan(self) -> tuple[object, ...]:
        """What decides the meaning of an answer besides the question: run, generation, model, settings, number.

        The student that teachers start from is implied: within a run, a generation has one.
        """
        store = self.store
        return self.run, store.generation, store.base, self.stack.shape.fingerprint(), store.count


def ask(
    door: Door, teachers: Ensemble, questions: Questions, settings: Ask, share: Fraction, student: Tensor
) -> Tensor:
    """Noisy means over the public number of teachers, [Q, K + 1], for at most `share` of mu^2."""
    blocks = teachers.blocks(questions)
    if settings.recipe == "seqpate":
        shape: aggregate.Shape = "vote" if settings.aggregate == "vote" else "probability"
        return _release(door, teachers, questions, Bound("probability"), share, settings.noise, shape, blocks, None)
    if settings.clip is None:
        return _release(door, teachers, questions, Bound("root"), share, "gaussian", "root", blocks, None)
    tokens = aggregate.asked_tokens(questions)
    before = teachers.stack.public_answers(questions.contexts, tokens, start=student)
    clip, share = _clip(door, teachers, questions, settings.clip, share, before)
    bound = Bound("residual", clip=clip)
    moved = _release(door, teachers, questions, bound, share, "gaussian", "root", blocks, before)
    # Post-processing: a teacher with few sentences goes only part of the way that all of them agree on.
    return aggregate.vectors(before[:1], questions, "root")[0].cpu().double() + settings.stride * moved


def _release(
    door: Door,
    teachers: Ensemble,
    questions: Questions,
    bound: Bound,
    share: Fraction,
    noise: str,
    shape: aggregate.Shape,
    blocks: aggregate.Blocks,
    before: Tensor | None,
) -> Tensor:
    scale = plan.scale_for(bound, len(questions), share, noise)
    question = Question(
        name=questions.name(*teachers.plan(), shape, bound, scale, noise),
        purpose=f"answers, round {teachers.store.generation + 1}",
        bound=bound,
        questions=len(questions),
        width=questions.width,
        scale=scale,
        noise="laplace" if noise == "laplace" else "gaussian",
    )
    noisy = door.ask(question, lambda: aggregate.total(blocks, questions, shape, bound, before))
    return torch.from_numpy(noisy.astype(np.float64)) / STEPS / teachers.store.count


def _clip(
    door: Door, teachers: Ensemble, questions: Questions, wanted: float | str, share: Fraction, before: Tensor
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
    )
    noisy = door.ask(question, lambda: aggregate.norm_votes(teachers.blocks(questions), questions, before))
    clip = aggregate.clip_from_votes(torch.from_numpy(noisy), CLIP_COVERS)
    return Fraction(clip).limit_denominator(10**6), share - cost
