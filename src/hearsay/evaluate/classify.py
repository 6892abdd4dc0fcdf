"""What a synthetic corpus is worth: a classifier trained on it, tested on private notes that nobody trained on.

The classifier is logistic regression on the public encoder's vectors, each coordinate brought to variance 1: quick,
and the same for every method. Its one choice, the penalty, was made on public text and simulated notes by how well the
references do (docs/augmentation.md); without the scaling it learnt too little from an encoder's narrow vectors.
Precision, recall and F1 are averaged over labels (macro) and by the labels' frequency in the hold-out (weighted).
Intervals are 95% percentiles over resampled hold-out notes; a study has seeds for the rest.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hearsay.errors import DataError

Vectors = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
RESAMPLED = 500
STRENGTH = 0.01  # inverse of the penalty


@dataclass(frozen=True)
class Figures:
    accuracy: float
    precision_macro: float
    recall_macro: float
    f1_macro: float
    precision_weighted: float
    recall_weighted: float
    f1_weighted: float

    def to_json(self) -> dict[str, float]:
        return {name: round(value, 4) for name, value in asdict(self).items()}


def figures(truth: Ids, said: Ids, labels: int) -> Figures:
    """Labels that the hold-out does not hold are left out of macro averages; they cannot be right or wrong."""
    counts = np.bincount(truth, minlength=labels).astype(float)
    hits = np.bincount(truth[truth == said], minlength=labels).astype(float)
    precision = hits / np.maximum(np.bincount(said, minlength=labels), 1)
    recall = hits / np.maximum(counts, 1)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    there = counts > 0

    def averages(values: npt.NDArray[np.float64]) -> tuple[float, float]:
        return float(values[there].mean()), float(values @ counts / counts.sum())

    both = [averages(values) for values in (precision, recall, f1)]
    return Figures(float(hits.sum() / len(truth)), *(one[0] for one in both), *(one[1] for one in both))


def classifier(vectors: Vectors, labels: Ids) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(np.unique(labels)) < 2:
        raise DataError("the texts to train on have one label; a classifier needs at least two")
    return make_pipeline(StandardScaler(), LogisticRegression(C=STRENGTH, max_iter=500)).fit(vectors, labels)


def measured(truth: Ids, said: Ids, labels: int, seed: int = 0) -> dict[str, Any]:
    """The figures, and for each its interval over resampled hold-out notes."""
    chance = np.random.default_rng(seed)
    found: dict[str, Any] = figures(truth, said, labels).to_json()
    draws = []
    for _ in range(RESAMPLED):
        rows = chance.integers(len(truth), size=len(truth))
        draws.append(list(figures(truth[rows], said[rows], labels).to_json().values()))
    low, high = np.quantile(np.array(draws), [0.025, 0.975], axis=0)
    names = list(found)
    found["interval"] = {
        name: [round(float(a), 4), round(float(b), 4)] for name, a, b in zip(names, low, high, strict=True)
    }
    return found
