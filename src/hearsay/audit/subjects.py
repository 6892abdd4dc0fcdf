"""Who is attacked: units whose text was used, and units whose text was not, cut to what a teacher would have seen.

Reads private rows and held-out ones. What is found goes to internal/ only.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hearsay import lm as models
from hearsay.errors import BadInput
from hearsay.lm import LanguageModel
from hearsay.private.corpus import UnitKind, unit_of
from hearsay.reading import Columns, Row, read_rows

Tokens = list[int]
FEWEST = 10  # units a side: the interval of an AUC is no interval with one or two, and would cry wolf


@dataclass(frozen=True)
class Cut:
    """How rows of a unit are chosen: as the partition does it."""

    kind: UnitKind
    cap: int
    min_tokens: int
    max_tokens: int


@dataclass(frozen=True)
class Subject:
    """One unit. Its name is the owner's own id of it, and never leaves the process."""

    name: str
    rows: tuple[Tokens, ...]
    texts: tuple[str, ...]  # the same rows as text

    def some(self, rows: int) -> "Subject":
        """The same unit with a few of its rows, evenly spaced, to bound the work."""
        chosen = [i * len(self.rows) // rows for i in range(rows)] if len(self.rows) > rows else range(len(self.rows))
        return Subject(self.name, tuple(self.rows[i] for i in chosen), tuple(self.texts[i] for i in chosen))


def read_subjects(
    paths: list[Path],
    columns: Columns,
    lm: LanguageModel,
    cut: Cut,
    *,
    most: int,
    seed: int,
    besides: list[Path] | None = None,
) -> list[Subject]:
    """At most `most` units, drawn with a public seed among those with a row that is long enough.

    Units of `besides` are left out: who is a member cannot be a non-member as well.
    """
    taken = _names(besides, columns, cut) if besides else set()
    names = sorted(_names(paths, columns, cut) - taken)
    if not names:
        raise BadInput(
            f"{paths[0]}: every {cut.kind} of it is a member as well, so nobody is left to compare members with; "
            "need others, whose text was not used"
        )
    random.Random(seed).shuffle(names)
    wanted = set(names[: most + most // 10 + 8])  # a few more: some have no row that is long enough
    texts: dict[str, list[str]] = {}
    for row in read_rows(paths, columns):
        _keep(row, cut, wanted, texts)
    found = [_subject(name, texts[name], lm, cut) for name in names[: len(wanted)]]
    kept = [one for one in found if one is not None][:most]
    if len(kept) < FEWEST:
        raise BadInput(
            f"{paths[0]}: fewer than {FEWEST} {cut.kind}s with a text of {cut.min_tokens} tokens or more, and so few "
            "prove nothing; name a larger file, better one of 1,700"
        )
    return kept


def _names(paths: list[Path], columns: Columns, cut: Cut) -> set[str]:
    return {unit_of(row, cut.kind) for row in read_rows(paths, columns)}


def _keep(row: Row, cut: Cut, wanted: set[str], texts: dict[str, list[str]]) -> None:
    name = unit_of(row, cut.kind)
    if name in wanted and not (cut.kind == "record" and name in texts):  # copies of a record are one record
        texts.setdefault(name, []).append(row.text)


def _subject(name: str, texts: list[str], lm: LanguageModel, cut: Cut) -> Subject | None:
    rows = [row for row in models.encode(lm, texts, cut.max_tokens) if len(row) >= cut.min_tokens][: cut.cap]
    return Subject(name, tuple(rows), tuple(models.decode(lm, rows))) if rows else None


def all_rows(subjects: Iterable[Subject]) -> list[Tokens]:
    return [row for subject in subjects for row in subject.rows]


def all_texts(subjects: Iterable[Subject]) -> list[str]:
    return [text for subject in subjects for text in subject.texts]
