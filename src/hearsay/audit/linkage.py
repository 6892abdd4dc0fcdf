"""Linkage: can released records be tied to people of whom an attacker knows something else?

The attacker holds an auxiliary table: for each person a few texts known to be theirs. Each released record is compared
with every person by the words that they share, the rarer the better (cosine of vectors of squared idf weights).

Two measures. *Closeness* works for any release: are people whose text was used closer to some released record than
people whose text was not? That is a membership test, so a promise bounds it. *Re-identification* needs records that
have an owner: how often the closest person is the owner. Records of a student have none; the original with its secrets
blotted out has, and is the example of how that fails (Narayanan and Shmatikov, 2008).
"""

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix

from hearsay.audit.statistics import Floats
from hearsay.audit.subjects import Subject

BLOT = "[…]"


@dataclass(frozen=True)
class Table:
    """Texts as unit vectors over the words of a common vocabulary."""

    words: dict[str, int]
    weights: Floats

    @classmethod
    def of(cls, texts: list[str]) -> "Table":
        counts = Counter(word for text in texts for word in set(words_of(text)))
        kept = sorted(word for word, count in counts.items() if count > 1)  # what occurs once links nothing
        rarity = np.log((1 + len(texts)) / np.array([1 + counts[word] for word in kept], dtype=np.float64))
        return cls({word: i for i, word in enumerate(kept)}, rarity**2)

    def vectors(self, texts: list[str]) -> csr_matrix:
        rows, columns, values = [], [], []
        for row, text in enumerate(texts):
            found = {self.words[word] for word in words_of(text) if word in self.words}
            norm = float(np.sqrt(sum(self.weights[c] ** 2 for c in found))) or 1.0
            rows += [row] * len(found)
            columns += list(found)
            values += [self.weights[c] / norm for c in found]
        return csr_matrix((values, (rows, columns)), shape=(len(texts), max(1, len(self.words))))


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def closeness(people: list[str], released: list[str]) -> Floats:
    """For each person, how close the closest released record is."""
    table = Table.of([*people, *released])
    similar = table.vectors(people) @ table.vectors(released).T
    return np.asarray(similar.max(axis=1).todense(), dtype=np.float64).reshape(-1)


def identified(people: list[str], released: list[str]) -> int:
    """How many records point to their owner: record i belongs to person i, and is tied to the closest person."""
    table = Table.of([*people, *released])
    similar = np.asarray((table.vectors(released) @ table.vectors(people).T).todense())
    rows = np.arange(len(released))
    own = similar[rows, rows]
    similar[rows, rows] = -1
    return int((own > similar.max(axis=1)).sum())


def anonymised(texts: list[str], secrets: list[str]) -> list[str]:
    """What is often taken for anonymous: secrets, numbers and addresses blotted out, every other word kept."""
    words = {word for secret in secrets for word in secret.split()}
    blotted = []
    for text in texts:
        kept = re.sub(r"\S+@\S+|\w*\d\w*", BLOT, text)
        blotted.append(re.sub(r"\w+", lambda found: BLOT if found.group() in words else found.group(), kept))
    return blotted


def two_parts(subjects: list[Subject]) -> tuple[list[str], list[str]]:
    """Of units with at least two rows: what an attacker knows (odd rows), and what is released (even rows)."""
    several = [subject for subject in subjects if len(subject.texts) > 1]
    return [" ".join(s.texts[1::2]) for s in several], [" ".join(s.texts[::2]) for s in several]
