"""From noisy answers to a score for every text and label. Post-processing: scoring any number of texts is free.

Means. Noisy sums and noisy counts give noisy label means, good for common labels and poor for rare ones; the
candidates' own label means are exact but of the wrong distribution. The estimate takes from each what it knows: every
label moves by the shift that all labels share (little noise), and by its own remaining difference as far as that
stands out of the noise, direction by direction (empirical Bayes, as James and Stein shrink). With the candidates'
spread within a label this is a linear discriminant, whose scores both name a candidate's label and rank it.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hearsay.disk import drafting
from hearsay.public.space import Floats, Ids

LEAST_SHARE = 1e-3  # of a label: a histogram cell that noise made zero is not proof of absence


@dataclass(frozen=True)
class Scorer:
    """Linear in a text's place: [labels, dimensions] and [labels]. A single row says private or generated."""

    weights: Floats
    bias: Floats

    def scores(self, places: Floats) -> Floats:
        """[n, labels] log-probabilities of the labels; of being private where there is one row."""
        found: Floats = places @ self.weights.T + self.bias
        if len(self.bias) == 1:
            return -np.logaddexp(0.0, -found)
        return log_softmax(found)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with drafting(path) as draft, draft.open("wb") as file:
            np.savez(file, weights=self.weights, bias=self.bias)


def load(path: Path) -> Scorer:
    with np.load(path, allow_pickle=False) as file:
        return Scorer(file["weights"], file["bias"])


def log_softmax(found: Floats) -> Floats:
    shifted = found - found.max(1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return result


def by_label(places: Floats, asked: Ids, labels: int) -> tuple[Floats, Floats]:
    """The candidates' [labels, dimensions] means, and their mean variance within a label, [dimensions].

    A label without candidates gets the mean of all: nothing public is known about it.
    """
    means = np.tile(places.mean(0), (labels, 1))
    inside = places - places.mean(0)
    for label in range(labels):
        if (asked == label).any():
            means[label] = places[asked == label].mean(0)
            inside[asked == label] = places[asked == label] - means[label]
    return means, inside.var(0) + 1e-6


def from_means(sums: Floats, noise: float, shares: Floats, units: int, places: Floats, asked: Ids) -> Scorer:
    """`noise` is the standard deviation on each sum, `units` the declared number, `shares` the tutor's."""
    odds = floored(shares)
    counts = np.maximum(odds * units, 1.0)
    public, variance = by_label(places, asked, len(sums))
    shift = sums.sum(0) / units - odds @ public
    own = sums / counts[:, None] - public - shift
    doubt = (noise / counts[:, None]) ** 2
    weight = (counts**2 / (counts**2).sum())[:, None]
    signal = ((own**2 - doubt) * weight).sum(0)
    signal = np.maximum(0.5 * (signal + signal.mean()), 0.0)  # one direction's estimate leans on all of them
    means = public + shift + own * signal / (signal + doubt)
    return Scorer(means / variance, np.log(odds) - 0.5 * (means**2 / variance).sum(1))


def from_public(places: Floats, asked: Ids, shares: Floats) -> Scorer:
    """The same discriminant from the candidates alone: where gradients start, and what public-only can do."""
    public, variance = by_label(places, asked, len(shares))
    return Scorer(public / variance, np.log(floored(shares)) - 0.5 * (public**2 / variance).sum(1))


def stepped(scorer: Scorer, gradient: Floats, units: int, rate: float) -> Scorer:
    """One step against a noisy sum of gradients; [labels, dimensions + 1], the last for the bias."""
    move = rate * 2 * gradient / units  # the door's vectors are halved to have norm 1
    return Scorer(scorer.weights - move[:, :-1], scorer.bias - move[:, -1])


def floored(shares: Floats) -> Floats:
    least = np.maximum(shares, LEAST_SHARE)
    found: Floats = least / least.sum()
    return found


def from_votes(noisy: Floats, asked: npt.NDArray[np.float32], answer: str) -> Scorer:
    """The paper's student discriminator: logistic on the noisy labels of the few candidates that could be asked about.

    With `margin` each weighs as much as its noisy margin. If noise left one side only, nothing can be learnt and every
    candidate scores the same.
    """
    from sklearn.linear_model import LogisticRegression

    margin = noisy[:, 0] - noisy[:, 1]
    private = margin > 0
    if private.all() or not private.any():
        return Scorer(np.zeros((1, asked.shape[1])), np.zeros(1))
    learner = LogisticRegression(C=1.0, max_iter=500)
    learner.fit(asked, private, sample_weight=np.abs(margin) + 1e-9 if answer == "margin" else None)
    return Scorer(learner.coef_.astype(np.float64), learner.intercept_.astype(np.float64))


def from_cells(noisy: Floats, shares: Floats) -> Floats:
    """[labels, cells] noisy counts to log-odds of a label in a cell, smoothed by the tutor's shares."""
    counts = np.maximum(noisy, 0.0) + floored(shares)[:, None]
    found: Floats = np.log(counts / counts.sum(0))
    return found
