"""Which candidates become the corpus: for each label some that the scores give it, by the tutor's shares, no copies.

The paper takes the best-scored ones. Those are alike: they lie far inside their label, and a classifier trained on
them never sees where labels meet. Taking any of those whose best label it is measured better (docs/augmentation.md).
Candidates are compared with each other only, never with private text: a rule that looked there would leak.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hearsay.errors import DataError
from hearsay.public.space import Floats, Ids

BLOCK = 256


@dataclass(frozen=True)
class Chosen:
    places: Ids  # numbers of the candidates, label by label
    labels: Ids
    scores: Floats
    copies: int  # candidates passed over as near-copies
    short: dict[int, int]  # label -> texts that the pool could not give


def tempered(shares: Floats, power: float) -> Floats:
    """Shares drawn towards even ones: a rare label needs more texts to be learnt than its share."""
    drawn = np.where(shares > 0, np.maximum(shares, 1e-12) ** power, 0.0)
    found: Floats = drawn / drawn.sum()
    return found


def quotas(shares: Floats, texts: int) -> Ids:
    """Whole numbers that add up to `texts`, by largest remainder."""
    exact = shares / shares.sum() * texts
    found: Ids = np.floor(exact).astype(np.int64)
    for label in np.argsort(-(exact - found), kind="stable")[: texts - int(found.sum())]:
        found[label] += 1
    return found


def select(
    scores: Floats,
    asked: Ids,
    vectors: npt.NDArray[np.float32],
    shares: Floats,
    *,
    texts: int,
    relabel: bool,
    near_copy: float,
    seed: int | None = None,
) -> Chosen:
    """`scores` [n, labels]. With `relabel` a candidate's label is its best-scored one, else the one it was asked for.

    Without a seed the best-scored come first, else any.
    """
    labels = scores.argmax(1) if relabel else asked
    rank = scores if seed is None else np.random.default_rng(seed).random(scores.shape)
    kept = _Kept(vectors, near_copy)
    found: list[tuple[int, int]] = []
    short = {}
    for label, quota in enumerate(quotas(shares, texts)):
        taken = kept.take(_ordered(rank, label, labels == label), int(quota))
        # A label that the scores hardly ever name still has the texts that were written for it.
        taken += kept.take(_ordered(scores, label, asked == label), int(quota) - len(taken))
        found += [(place, label) for place in taken]
        if len(taken) < quota:
            short[label] = int(quota) - len(taken)
    if not found:
        raise DataError(
            "no candidate was selected: every label's share or pool is empty; raise generator.texts, or spend more of "
            "the budget"
        )
    places = np.array([place for place, _ in found])
    chosen = np.array([label for _, label in found])
    return Chosen(places, chosen, scores[places, chosen], kept.copies, short)


def _ordered(scores: Floats, label: int, among: npt.NDArray[np.bool_]) -> Ids:
    mine = np.flatnonzero(among)
    return mine[np.argsort(-scores[mine, label], kind="stable")]


class _Kept:
    """Takes candidates in order and passes over those too like one already taken."""

    def __init__(self, vectors: npt.NDArray[np.float32], near_copy: float) -> None:
        self.vectors, self.limit = vectors, near_copy
        self.taken: list[int] = []
        self.seen: set[int] = set()
        self.copies = 0

    def take(self, order: Ids, quota: int) -> list[int]:
        found: list[int] = []
        for at in range(0, len(order), BLOCK):
            if len(found) >= quota:
                break
            block = order[at : at + BLOCK]
            likest = self._likest(self.vectors[block])
            for place, like in zip(block.tolist(), likest, strict=True):
                if len(found) >= quota:
                    break
                if place in self.seen:
                    continue
                self.seen.add(place)
                mine = self.taken[-BLOCK:]  # those of this block are not in `likest` yet
                near = like > self.limit or bool((self.vectors[mine] @ self.vectors[place] > self.limit).any())
                if near:
                    self.copies += 1
                else:
                    self.taken.append(place)
                    found.append(place)
        return found

    def _likest(self, block: npt.NDArray[np.float32]) -> Floats:
        if not self.taken:
            return np.zeros(len(block))
        return (block @ self.vectors[self.taken].T).max(1).astype(np.float64)  # type: ignore[no-any-return]
