"""The student: warmed up on pseudo sentences, then taught by noisy answers. Sees public and released things only.

seqpate    L_pseudo + lambda * KL(p_agg || p_student) with p_agg clamped at zero and renormalised over the candidates,
           as in the paper; `ce` learns p_agg's likeliest token instead.
hellinger  -2 <sqrt p_student, y> on the raw noisy answer y. It is linear in y, so noise averages out over questions;
           clamping or renormalising y first would turn noise into bias.

Answers are released once and gone over many times. The step to stop at is the one with the best score on the held-out
block of answers: noisy, but unbiased for the same loss, and paid for like every other answer. The best of many noisy
scores is lower than the start's by luck alone, so only steps count whose gain exceeds `caution` of its standard errors.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from hearsay.public.questions import Questions, lay_out
from hearsay.sections import JUDGES
from hearsay.stacked import Adapted

Tokens = list[int]
Progress = Callable[[int, int], None]
CHECKS = 12  # how often the held-out block is looked at


@dataclass(frozen=True)
class Answered:
    """A round's questions with their noisy answers as means over teachers, [Q, K + 1]."""

    questions: Questions
    answers: Tensor


@dataclass(frozen=True)
class Lesson:
    """Public settings of the student's training."""

    steps: int
    batch: int
    learning_rate: float
    seed: int
    loss: str  # hellinger, kl, ce
    weight: float = 1.0
    pseudo_loss: bool = False
    caution: float = 0.0  # standard errors


def warm_up(student: Adapted, sentences: list[Tokens], start: int | None, end: int, lesson: Lesson,
            progress: Progress | None = None) -> None:  # fmt: skip
    """Ordinary language modelling on pseudo sentences."""
    rows, lengths, targets = lay_out(sentences, start, end)

    def loss(batch: Tensor) -> Tensor:
        trunk = student.top.trunk(rows[batch].to(student.flat.device))
        return token_loss(student, student.top.hidden(_worn(student, trunk)), lengths[batch], targets[batch])

    for _ in _steps(student, len(rows), lesson, loss, progress):
        pass


def distil(student: Adapted, answered: Answered, end: int, lesson: Lesson,
           progress: Progress | None = None) -> list[float]:  # fmt: skip
    """Trains `student` in place and leaves it at its best step; returns the held-out gains over the start, by check."""
    data = _Prepared(student, answered, end, lesson)
    before, best = data.held_out_losses(student), student.flat.detach().clone()
    gains, most = [0.0], 0.0
    every = max(1, lesson.steps // CHECKS)
    for step in _steps(student, len(data.trunk), lesson, lambda rows: data.loss(student, rows, lesson), progress):
        if step % every == 0:
            gain, error = gained(before - data.held_out_losses(student))
            gains.append(gain)
            if gain >= most and (not lesson.caution or gain >= lesson.caution * error):
                best, most = student.flat.detach().clone(), gain
    student.flat.data.copy_(best)
    return gains


def gained(less: Tensor) -> tuple[float, float]:
    """Mean and standard error of what held-out questions [q] say of a step against the start, pair by pair: the noise
    of their answers is in both. Of a few nobody knows the error; without any, all steps are alike.
    """
    if len(less) < JUDGES:
        return float(less.sum()) / max(1, len(less)), math.inf
    return float(less.mean()), float(less.std()) / math.sqrt(len(less))


def target(answers: Tensor, valid: Tensor) -> Tensor:
    """The paper's clean-up of a noisy mean: negative values to zero, renormalised over the candidates alone."""
    odds = answers[:, :-1].clamp_min(0) * valid
    mass = odds.sum(1, keepdim=True)
    even = valid / valid.sum(1, keepdim=True)
    return torch.where(mass > 0, odds / mass.clamp_min(1e-12), even)


def log_odds(student: Adapted, hidden: Tensor, candidates: Tensor) -> Tensor:
    """[q, K] log-probabilities of the candidates under the whole vocabulary."""
    logits = student.logits(hidden).float()
    return logits.gather(1, candidates) - torch.logsumexp(logits, dim=1, keepdim=True)


def roots(student: Adapted, hidden: Tensor, candidates: Tensor, valid: Tensor) -> Tensor:
    """[q, K + 1] square roots of the student's probabilities, the rest bucket last."""
    logs = log_odds(student, hidden, candidates).masked_fill(~valid, -torch.inf)
    rest = (1 - logs.exp().sum(1, keepdim=True)).clamp_min(1e-9)
    return torch.cat([(logs / 2).exp(), rest.sqrt()], dim=1)


class _Prepared:
    """One round on the device: the frozen trunk's output once, questions sorted by row, answers split in two."""

    def __init__(self, student: Adapted, answered: Answered, end: int, lesson: Lesson) -> None:
        questions, device = answered.questions, student.flat.device
        self.lengths = questions.lengths
        self.targets = torch.cat([questions.rows[:, 1:], torch.full((len(questions.rows), 1), end)], dim=1)
        with torch.no_grad():
            self.trunk = torch.cat([student.top.trunk(part.to(device)) for part in questions.rows.split(256)])
        self.asked = questions.asked.to(device)
        self.candidates, self.valid = questions.candidates.to(device), questions.valid.to(device)
        self.raw = answered.answers.float().to(device)
        self.answers = self.raw if lesson.loss == "hellinger" else target(self.raw, self.valid.float())
        self.kind, self.held_out = lesson.loss, questions.held_out.to(device)

    def loss(self, student: Adapted, rows: Tensor, lesson: Lesson) -> Tensor:
        """Summed over the questions of these rows, divided by how many a batch holds on average."""
        device = student.flat.device
        place = torch.full((len(self.trunk),), -1, device=device)
        place[rows.to(device)] = torch.arange(len(rows), device=device)
        mine = torch.nonzero((place[self.asked[:, 0]] >= 0) & ~self.held_out)[:, 0]
        hidden = student.top.hidden(_worn(student, self.trunk[rows.to(device)]))
        at = hidden[place[self.asked[mine, 0]], self.asked[mine, 1]]
        usual = max(1.0, lesson.batch * len(self.asked) / len(self.trunk))
        loss = lesson.weight * self.each(student, at, mine).sum() / usual
        if lesson.pseudo_loss:
            loss = loss + token_loss(student, hidden, self.lengths[rows], self.targets[rows])
        return loss

    def each(self, student: Adapted, at: Tensor, mine: Tensor) -> Tensor:
        """[q] losses of the questions `mine` for the student's hidden states `at`."""
        answers = self.answers[mine]
        if self.kind == "hellinger":
            return -2 * (roots(student, at, self.candidates[mine], self.valid[mine]) * answers).sum(1)
        logs = self._logs(student, at, mine)
        if self.kind == "ce":
            return -logs.gather(1, answers.argmax(1, keepdim=True))[:, 0]
        divergence: Tensor = (torch.special.xlogy(answers, answers) - answers * logs).sum(1)
        return divergence

    def _logs(self, student: Adapted, at: Tensor, mine: Tensor) -> Tensor:
        """[q, K] the student's log-probabilities, renormalised over the candidates; 0 where there is none."""
        valid = self.valid[mine]
        logs = log_odds(student, at, self.candidates[mine]).masked_fill(~valid, -torch.inf)
        return (logs - torch.logsumexp(logs, dim=1, keepdim=True)).masked_fill(~valid, 0.0)

    def judged(self, student: Adapted, at: Tensor, mine: Tensor) -> Tensor:
        """[q] held-out scores: linear in the raw answers, hence unbiased, also where the loss itself is not.

        Cleaned answers would praise a student for learning the noise that clamping left in.
        """
        if self.kind == "hellinger":
            return self.each(student, at, mine)
        return -(self.raw[mine, :-1] * self._logs(student, at, mine)).sum(1)

    @torch.no_grad()
    def held_out_losses(self, student: Adapted) -> Tensor:
        found = []
        chosen = torch.nonzero(self.held_out)[:, 0]
        for mine in chosen.split(512) if len(chosen) else ():  # an empty tensor splits into one empty part
            used, inverse = self.asked[mine, 0].unique(return_inverse=True)
            hidden = student.top.hidden(_worn(student, self.trunk[used]))
            found.append(self.judged(student, hidden[inverse, self.asked[mine, 1]], mine))
        return torch.cat(found) if found else torch.zeros(0)


def _steps(student: Adapted, rows: int, lesson: Lesson, loss: Callable[[Tensor], Tensor],
           progress: Progress | None) -> Iterator[int]:  # fmt: skip
    """Adam on the loss of shuffled batches of rows, with linear warm-up and decay; yields how many steps are done."""
    stream = torch.Generator().manual_seed(lesson.seed)
    optimiser = torch.optim.Adam([student.flat], lr=lesson.learning_rate, betas=(0.9, 0.99))
    order = torch.zeros(0, dtype=torch.long)
    for step in range(lesson.steps):
        if len(order) < lesson.batch:
            order = torch.cat([order, torch.randperm(rows, generator=stream)])
        batch, order = order[: lesson.batch], order[lesson.batch :]
        optimiser.param_groups[0]["lr"] = lesson.learning_rate * min((step + 1) / 10, 1 - step / lesson.steps)
        optimiser.zero_grad()
        loss(batch).backward()
        optimiser.step()
        if progress is not None:
            progress(step + 1, lesson.steps)
        yield step + 1


def _worn(student: Adapted, trunk: Tensor) -> Tensor:
    student.top.wear(student.top.layout.views(student.flat))
    return trunk


def token_loss(student: Adapted, hidden: Tensor, lengths: Tensor, targets: Tensor) -> Tensor:
    """Mean negative log-likelihood of the sentences' own tokens, the end token included."""
    inside = torch.arange(hidden.shape[1])[None] < lengths[:, None]
    wanted = targets[:, : hidden.shape[1]][inside].to(hidden.device)
    return student.losses(hidden[inside.to(hidden.device)], wanted).mean()
