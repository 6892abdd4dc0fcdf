"""The door: the only place where something computed from private text leaves.

    ask ──► answered before? ──yes──► the stored answer, free, for ever
             │ no
             ▼
    sum the bounded contributions (grid.py) ─► add noise (noise.py) ─► store it inside private/draws
             ▼
    ledger: check and charge, with the answer's hash, in one transaction ─► move the file to release/answers ─► return

Killed anywhere, the rule holds: nothing is outside private/ without a committed charge; a committed answer is never
drawn again (its file is moved on the next call); an uncommitted draw is deleted unread.
"""

import fcntl
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np

from hearsay.accounting.bounds import STEPS, UNIT_BALL, Bound
from hearsay.accounting.events import Gaussian, Laplace, SubsampledGaussian
from hearsay.accounting.ledger import Charge, Ledger
from hearsay.disk import drafting, sync
from hearsay.errors import BadInput, ConfigError, HearsayError, LedgerError
from hearsay.release.grid import BoundedSum
from hearsay.release.noise import Ints, discrete_laplace, rounded_normal
from hearsay.run import forget_time


@dataclass(frozen=True)
class Question:
    """A request in public terms only. Its identity covers everything that decides the answer's meaning."""

    name: str  # a hash of the public inputs, the plan and the teachers' generation
    purpose: str
    bound: Bound
    questions: int
    width: int
    scale: Fraction  # of the noise on the SUM, in grid steps: standard deviation, or Laplace scale
    noise: Literal["gaussian", "laplace"] = "gaussian"
    rate: Fraction = Fraction(1)  # below 1: only a Poisson sample of the units is summed, drawn by `contributions`
    once: bool = False  # a run has one question of this purpose, whatever its name

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", self.name):
            raise ConfigError(f"a question is called {self.name[:40]!r}; need letters and digits (it names a file)")
        if self.questions < 1 or self.width < 1:
            raise ConfigError(f"{self.questions} questions of width {self.width}; need at least one of each")
        if self.rate != 1 and (self.bound != UNIT_BALL or self.noise != "gaussian" or self.questions != 1):
            raise ConfigError("a Poisson sample is released as one Gaussian sum of vectors of norm 1, one per unit")

    @property
    def event(self) -> Gaussian | Laplace | SubsampledGaussian:
        coordinates = self.questions * self.width
        if self.rate != 1:
            return SubsampledGaussian(self.rate, self.scale / STEPS, 1, coordinates)
        if self.noise == "laplace":
            # A discrete Laplace is the difference of two draws: both count towards the sampler's error.
            return Laplace(self.bound.sensitivity_l1(), self.scale, 2 * coordinates, self.questions)
        variance = self.scale**2
        return Gaussian(self.bound.sensitivity_squared(self.questions), variance, coordinates, self.questions)

    def draw(self, total: Ints) -> Ints:
        """The noisy answer. Called once per question, ever, except where a draw was deleted unread."""
        sample = discrete_laplace if self.noise == "laplace" else rounded_normal
        return total + sample(self.scale, total.size).reshape(total.shape)


class Door:
    def __init__(self, ledger: Ledger, run: str, folder: Path) -> None:
        self.ledger, self.run, self.folder = ledger, run, folder
        self.draws = folder / "private" / "draws"
        self.answers = folder / "release" / "answers"
        with in_words(folder):
            (folder / "private").mkdir(mode=0o700, parents=True, exist_ok=True)
            (folder / "private").chmod(0o700)
            self.draws.mkdir(mode=0o700, exist_ok=True)
            self.answers.mkdir(parents=True, exist_ok=True)

    def ask(self, question: Question, contributions: Callable[[], BoundedSum]) -> Ints:
        """The noisy integer sum [questions, width]; `contributions` runs only if the question is new."""
        with self.alone():
            charge = self.ledger.find(self.run, question.name)
            if charge is None:
                self._refuse_another(question)
                self._draw(question, contributions)
                charge = self._commit(question)
            if charge.event != question.event:
                raise LedgerError(f"question {question.name[:12]} was charged as another release; it cannot be reused")
            return self._hand_over(charge)

    def _refuse_another(self, question: Question) -> None:
        """A round's name covers what it is asked about, to the last bit. On another machine that can be other bits than
        those that were paid for; to pay for them too would leave too little for the last rounds.
        """
        if not question.once:
            return
        paid = [charge.row for charge in self.ledger.charges(self.run) if charge.purpose == question.purpose]
        if paid:
            raise BadInput(
                f"{question.purpose} was paid for (row {paid[0]}) as another question: this machine, its packages or "
                f"threads compute other numbers than those that began the run. Nothing more was charged. Continue "
                f"where {self.folder / 'environment.json'} says that it began, or begin a new run, which pays anew"
            )

    def _draw(self, question: Question, contributions: Callable[[], BoundedSum]) -> None:
        path = self._draft(question.name)
        path.unlink(missing_ok=True)  # a draw that was never charged: deleted unread
        reached("before sum")
        total = contributions()
        if total.bound != question.bound or total.total.shape != (question.questions, question.width):
            raise LedgerError("the sum that came back is not the one whose sensitivity would be charged")
        answer = question.draw(total.total.cpu().numpy())
        reached("before store")
        _write(path, answer)
        reached("stored")

    def _commit(self, question: Question) -> Charge:
        path = self._draft(question.name)
        try:
            charge = self.ledger.charge(
                self.run, question.name, question.event,
                answer=file_hash(path), purpose=question.purpose, folder=self.folder,
            )  # fmt: skip
        except HearsayError:
            # Only what is certainly unpaid is deleted: an error after the commit must not lose a paid answer.
            if self.ledger.find(self.run, question.name) is None:
                path.unlink(missing_ok=True)
            raise
        reached("committed")
        return charge

    def _hand_over(self, charge: Charge) -> Ints:
        """From here on the answer is public: it was paid for."""
        inside, outside = self._draft(charge.question), self.answers / f"{charge.question}.npy"
        if not outside.exists():
            if not inside.exists():
                raise LedgerError(f"answer {charge.question[:12]} was paid for (row {charge.row}) but its file is gone")
            if file_hash(inside) != charge.answer:
                raise LedgerError(f"the stored draw of {charge.question[:12]} is not the one that was charged")
            with in_words(self.folder):
                forget_time(inside)
                inside.replace(outside)
                sync(self.answers)
            reached("moved")
        content = outside.read_bytes()  # once: what is checked is what is returned
        if hashlib.sha256(content).hexdigest() != charge.answer:
            raise LedgerError(f"{outside.name} was changed after it was charged (row {charge.row})")
        answer: Ints = np.load(io.BytesIO(content), allow_pickle=False)
        return answer

    def sweep(self) -> None:
        """Deletes uncommitted draws unread and hands over committed ones: what a restarted run does first."""
        with self.alone():
            for path in list(self.draws.iterdir()):
                charge = self.ledger.find(self.run, path.stem)
                if charge is None or path.suffix != ".npy":
                    path.unlink()
                else:
                    self._hand_over(charge)

    def _draft(self, name: str) -> Path:
        return self.draws / f"{name}.npy"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One asker per run directory at a time, so that two processes never draw for the same question."""
        with in_words(self.folder):
            handle = os.open(self.folder / "private" / ".door.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def reached(step: str) -> None:
    """Does nothing: the seam at which tests kill the process."""


def check_answers(ledger: Ledger, run: str, folder: Path) -> list[str]:
    """For `ledger verify RUN`: every released file has its committed charge, unchanged."""
    charged = {charge.question: charge for charge in ledger.charges(run)}
    problems = []
    for path in sorted((folder / "release" / "answers").glob("*")):
        charge = charged.get(path.stem)
        if charge is None:
            problems.append(f"release/answers/{path.name} has no committed charge")
        elif file_hash(path) != charge.answer:
            problems.append(f"release/answers/{path.name} is not the answer charged in row {charge.row}")
    return problems


def _write(path: Path, answer: Ints) -> None:
    content = io.BytesIO()
    np.save(content, answer, allow_pickle=False)
    try:
        with drafting(path) as draft:
            draft.write_bytes(content.getbuffer())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise BadInput(f"cannot store an answer in {path.parent}: {error.strerror}; nothing was charged") from error


@contextmanager
def in_words(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"cannot write the run directory {folder}: {error.strerror}; what is paid for is kept"
        ) from error


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
