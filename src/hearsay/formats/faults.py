"""What can be wrong with a file, said without quoting it.

A message names file, row and column. It is raised outside any `except` block, because the exceptions it replaces
(UnicodeDecodeError, JSONDecodeError) hold the offending bytes, and a chained exception travels into logs with them.
"""

from collections.abc import Sequence
from pathlib import Path

from hearsay.errors import DataError

AGAIN = "the same command again once the row is corrected or removed"


def bad(path: Path, got: str, need: str, do: str, *, row: int | None = None, column: str | None = None) -> DataError:
    place = [str(path)] + ([f"row {row}"] if row else []) + ([f"column {column!r}"] if column else [])
    return DataError(f"{', '.join(place)}: got {got}, need {need}, type {do}")


def check_columns(path: Path, present: Sequence[str], names: Sequence[str]) -> None:
    for name in names:
        if (found := list(present).count(name)) == 1:
            continue
        got = "this column more than once" if found else f"only the columns {', '.join(map(repr, present[:30]))}"
        got = got if present else "a first line without this or a similar name"
        need = "exactly one column of this name (in csv: between commas)"
        raise bad(path, got, need, "the right column name under `data:`", column=name)
