"""What the second method asks through the door: the tutor's histogram, sums of places, gradients, cells, or votes.

In each of the first four a unit contributes one vector of norm at most 1, whatever it wrote: its notes share it
evenly, and a note's labels share the note's part. Adding or removing the unit moves the sum by that vector, so the
sensitivity is 1. Votes are the paper's way: a unit moves one teacher's opinion on every candidate asked about, so each
of them is charged, at sqrt 2.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from hearsay.accounting import plan
from hearsay.accounting.bounds import STEPS, UNIT_BALL, Bound
from hearsay.private.discriminators import Opinions
from hearsay.private.labelled import Labelled, Note
from hearsay.public.space import Space
from hearsay.release.door import Door, Question
from hearsay.release.grid import BoundedSum

Floats = npt.NDArray[np.float64]
ONE_UNIT = Bound("probability", alone=True)  # each unit is a slot of its own: adding one adds its vector
SHARED = Bound("probability")
CHUNK = 4096  # units summed at a time
HALF = 2**-0.5  # |p - y| <= sqrt 2 for probabilities p and a vote y


@dataclass(frozen=True)
class Asker:
    """The door with what names a question besides its own inputs: the run and the encoder."""

    door: Door
    units: Labelled
    run: str
    encoder: str

    def _ask(
        self,
        purpose: str,
        bound: Bound,
        shape: tuple[int, int],
        share: Fraction,
        contributions: Callable[[], BoundedSum],
        *inputs: object,
        noise: Literal["gaussian", "laplace"] = "gaussian",
    ) -> Floats:
        """The noisy sum in units (not grid steps), [questions, width]."""
        scale = plan.scale_for(bound, shape[0], share, noise)
        question = Question(
            name=_name(self.run, self.encoder, purpose, bound, scale, noise, shape, *inputs),
            purpose=purpose,
            bound=bound,
            questions=shape[0],
            width=shape[1],
            scale=scale,
            noise=noise,
            once=True,
        )
        noisy: Floats = self.door.ask(question, contributions).astype(np.float64) / STEPS
        return noisy

    def histogram(self, share: Fraction) -> Floats:
        """[labels + 1] noisy numbers of units by label, `other` last."""
        width = self.units.labels + 1

        def votes() -> BoundedSum:
            return self._summed(ONE_UNIT, width, lambda note: np.ones(1), width)

        name = "tutor: histogram of labels"
        noisy: Floats = self._ask(name, ONE_UNIT, (1, width), share, votes, self.units.labels)[0]
        return noisy

    def means(self, space: Space, share: Fraction) -> Floats:
        """[labels, dimensions] noisy sums of places by label. Notes of unlisted labels contribute nothing."""
        labels, d = self.units.labels, space.directions.shape[1]

        def sums() -> BoundedSum:
            return self._summed(UNIT_BALL, labels * d, lambda note: space.place(note.vector), labels)

        noisy = self._ask("discriminator: sums by label", UNIT_BALL, (1, labels * d), share, sums, labels, *_of(space))
        return noisy.reshape(labels, d)

    def gradient(self, space: Space, weights: Floats, step: int, share: Fraction) -> Floats:
        """[labels, dimensions + 1]: noisy sum of the gradients of the log-loss at these public weights."""
        labels = self.units.labels
        shape = (1, weights.size)

        def sums() -> BoundedSum:
            found = BoundedSum(UNIT_BALL, 1, weights.size)
            for rows in _chunks(self.units.each(), lambda unit: _gradient(unit, space, weights)):
                found.add(rows)
            return found

        name = f"discriminator: gradient {step + 1}"
        return self._ask(name, UNIT_BALL, shape, share, sums, labels, *_of(space), weights).reshape(weights.shape)

    def cells(self, space: Space, centres: Floats, share: Fraction) -> Floats:
        """[labels, cells] noisy numbers of units by label and nearest centre."""
        labels, width = self.units.labels, len(centres)

        def votes() -> BoundedSum:
            return self._summed(ONE_UNIT, labels * width, lambda note: _nearest(space, note, centres), labels)

        name = "discriminator: cells by label"
        noisy = self._ask(name, ONE_UNIT, (1, labels * width), share, votes, labels, *_of(space), centres)
        return noisy.reshape(labels, width)

    def votes(self, opinions: Opinions, share: Fraction, noise: Literal["gaussian", "laplace"]) -> Floats:
        """[queries, 2] noisy sums of the teachers' odds of private and generated. Every query is charged."""
        queries = len(opinions.asked)

        def sums() -> BoundedSum:
            found = BoundedSum(SHARED, queries, 2)
            found.add(opinions.odds())
            return found

        inputs = opinions.public()
        return self._ask("discriminator: votes", SHARED, (queries, 2), share, sums, *inputs, noise=noise)

    def _summed(self, bound: Bound, width: int, vector: Callable[[Note], Floats], blocks: int) -> BoundedSum:
        """Sums, over units, of the notes' vectors in the blocks of their labels; shared evenly twice (see above)."""
        found = BoundedSum(bound, 1, width)
        for rows in _chunks(self.units.each(), lambda unit: _shared(unit, vector, width // blocks, blocks)):
            found.add(rows)
        return found


def noise_of(share: Fraction) -> float:
    """Standard deviation of the noise on one sum of sensitivity 1 that may cost this much: public."""
    return float(plan.scale_for(ONE_UNIT, 1, share)) / STEPS


def _shared(unit: list[Note], vector: Callable[[Note], Floats], size: int, blocks: int) -> Floats:
    found = np.zeros((blocks, size))
    for note in unit:
        value = vector(note) / len(note.labels) / len(unit)
        for label in note.labels:
            if label < blocks:
                found[label] += value
    return found.reshape(-1)


def _gradient(unit: list[Note], space: Space, weights: Floats) -> Floats:
    """Of minus the log-likelihood at these weights, averaged over notes: (odds - vote) x place, norm at most 1."""
    found = np.zeros(weights.shape)
    for note in unit:
        if any(label >= len(weights) for label in note.labels):
            continue
        place = np.append(space.place(note.vector), 1.0) * HALF  # with its constant: norm at most 1
        logits = weights @ np.append(space.place(note.vector), 1.0)
        odds = np.exp(logits - logits.max())
        odds /= odds.sum()
        odds[list(note.labels)] -= 1 / len(note.labels)
        found += np.outer(odds * HALF, place) / len(unit)
    return found.reshape(-1)


def _nearest(space: Space, note: Note, centres: Floats) -> Floats:
    found = np.zeros(len(centres))
    found[int(((centres - space.place(note.vector)) ** 2).sum(1).argmin())] = 1.0
    return found


def _chunks(units: Iterator[list[Note]], row: Callable[[list[Note]], Floats]) -> Iterator[torch.Tensor]:
    """[CHUNK, 1, width] at a time, so that memory does not grow with the corpus; the last filled up with zeros, so that
    no shape tells of it.
    """
    rows: list[Floats] = []
    for unit in units:
        rows.append(row(unit))
        if len(rows) == CHUNK:
            yield torch.from_numpy(np.stack(rows))[:, None]
            rows = []
    if rows:
        rows += [np.zeros_like(rows[0])] * (CHUNK - len(rows))
        yield torch.from_numpy(np.stack(rows))[:, None]


def _of(space: Space) -> tuple[object, ...]:
    return space.centre, space.directions, space.radius


def _name(*inputs: object) -> str:
    """A hash of all that decides an answer's meaning."""
    found = hashlib.sha256()
    for one in inputs:
        found.update(one.tobytes() if isinstance(one, np.ndarray) else repr(one).encode())
        found.update(b"\0")
    return found.hexdigest()
