"""The few directions in which labels differ, found on the candidates alone, and every text's place among them.

Noise grows with the number of directions, so a release spends its budget on those that tell labels apart: the leading
directions of Fisher's discriminant analysis of the candidates and the labels they were asked for, then those of
largest variance. Within a label places vary about equally in each direction, so that distances can be compared.
A place has length at most 1: that is the bound of a unit's contribution.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hearsay.disk import drafting

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
RIDGE = 0.1  # of the mean variance: few candidates must not make a direction look certain
RADIUS = 0.5  # quantile of the candidates' distances that becomes length 1


@dataclass(frozen=True)
class Space:
    centre: Floats  # [width]
    directions: Floats  # [width, dimensions]
    radius: float

    def places(self, vectors: npt.NDArray[np.float32]) -> Floats:
        """[n, dimensions] of public texts, in one product."""
        return self._clipped((vectors.astype(np.float64) - self.centre) @ self.directions)

    def place(self, vector: npt.NDArray[np.float32]) -> Floats:
        """[dimensions] of one private text, computed alone (see Encoder.alone)."""
        found: Floats = self._clipped(((vector.astype(np.float64) - self.centre) @ self.directions)[None])[0]
        return found

    def _clipped(self, found: Floats) -> Floats:
        lengths: Floats = np.linalg.norm(found, axis=1, keepdims=True) / self.radius
        clipped: Floats = found / self.radius / np.maximum(1.0, lengths)
        return clipped

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with drafting(path) as draft, draft.open("wb") as file:
            np.savez(file, centre=self.centre, directions=self.directions, radius=self.radius)


def load(path: Path) -> Space:
    with np.load(path, allow_pickle=False) as file:
        return Space(file["centre"], file["directions"], float(file["radius"]))


def fit(vectors: npt.NDArray[np.float32], asked: Ids, dimensions: int) -> Space:
    """`asked` holds the id of the label that each candidate was written for."""
    wide = vectors.astype(np.float64)
    centre = wide.mean(0)
    wide = wide - centre
    labels = np.unique(asked)
    means = np.stack([wide[asked == label].mean(0) for label in labels])
    sizes = np.array([(asked == label).sum() for label in labels]) / len(asked)
    inside = wide - means[np.searchsorted(labels, asked)]
    whiten = _inverse_root(inside.T @ inside / len(wide))
    between = whiten @ (means.T * sizes) @ means @ whiten
    first = _leading(between, min(len(labels) - 1, dimensions))
    total = whiten @ (wide.T @ wide) @ whiten / len(wide)
    outside = np.eye(len(total)) - first @ first.T
    rest = _leading(outside @ total @ outside, max(0, min(dimensions, len(total)) - first.shape[1]))
    directions = whiten @ np.concatenate([first, rest], axis=1)
    radius = float(np.quantile(np.linalg.norm(wide @ directions, axis=1), RADIUS))
    return Space(centre, directions, max(radius, 1e-9))


def cells(places: Floats, count: int, seed: int) -> tuple[Floats, Ids]:
    """Centres of the candidates' clusters, and the cluster of each candidate."""
    from sklearn.cluster import KMeans

    found = KMeans(min(count, len(places)), n_init=1, random_state=seed).fit(places)
    return found.cluster_centers_.astype(np.float64), found.labels_.astype(np.int64)


def save_cells(path: Path, centres: Floats, cells: Ids) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with drafting(path) as draft, draft.open("wb") as file:
        np.savez(file, centres=centres, cells=cells)


def load_cells(path: Path) -> tuple[Floats, Ids]:
    with np.load(path, allow_pickle=False) as file:
        return file["centres"], file["cells"]


def _inverse_root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    values = values.clip(0) + RIDGE * values.mean() + 1e-12
    found: Floats = (vectors / np.sqrt(values)) @ vectors.T
    return found


def _leading(symmetric: Floats, count: int) -> Floats:
    values, vectors = np.linalg.eigh(symmetric)
    found: Floats = vectors[:, np.argsort(-values)[:count]]
    return found
