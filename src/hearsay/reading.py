"""Rows out of files: text, who it belongs to, and its labels.

Private and public files are read by the same code, which therefore lives outside both rooms. It streams, keeps
nothing, logs nothing, and its errors never quote a row: they name file, row and column (a row number is the line in
jsonl; in csv and tables it is the data row, the header not counted). A row without text has nothing to teach and is
passed over, uncounted: how many there are is a fact about private people too.

    for row in read_rows([Path("chats.jsonl.gz")], Columns(text="message", user="customer")):
        ...
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from hearsay.errors import DataError
from hearsay.formats.faults import AGAIN, bad
from hearsay.formats.lines import OPENERS, Record, csv_records, jsonl_records
from hearsay.formats.tables import arrow_records, dataset_records, parquet_records

Reader = Callable[[Path, Sequence[str]], Iterator[Record]]

LINES: dict[str, Reader] = {".jsonl": jsonl_records, ".ndjson": jsonl_records, ".csv": csv_records}
TABLES: dict[str, Reader] = {".parquet": parquet_records, ".arrow": arrow_records}
WHOLE = re.compile(r"([+-]?)(\d+)(?:\.0*)?")  # what tools make of a whole number
ROUNDED = re.compile(r"[+-]?\d+(?:\.\d*)?e\+?\d{1,3}", re.IGNORECASE)  # and of a large one
EXACT = 2**53  # from here on a float is no longer one number
INVISIBLE = re.compile(  # what Unicode calls default-ignorable and does not count as control or format
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
FORMATS = ".jsonl or .csv (optionally with .gz, .xz or .bz2), .parquet, or a folder saved by Dataset.save_to_disk"


@dataclass(frozen=True)
class Columns:
    """Which columns hold what; the names are public settings."""

    text: str
    user: str | None = None
    label: str | None = None

    def names(self) -> list[str]:
        return [name for name in (self.text, self.user, self.label) if name is not None]


@dataclass(frozen=True, slots=True)
class Row:
    number: int
    text: str
    user: str | None
    labels: tuple[str, ...]


def read_rows(paths: Sequence[Path], columns: Columns, *, label_separator: str | None = None) -> Iterator[Row]:
    """Every row of every file in order; raises DataError at the first file, row or column that is not as it must be."""
    if not paths:
        raise DataError("got no files, need at least one, type its path under `data:`")
    for path in paths:
        yield from _rows(path, columns, label_separator)


def check_schema(paths: Sequence[Path], columns: Columns) -> None:
    """Opens each file and checks its columns and first record, and no more; returns and prints nothing of either."""
    if not paths:
        raise DataError("got no files, need at least one, type its path under `data:`")
    for path in paths:
        next(_rows(path, columns, None))


def has_columns(paths: Sequence[Path], columns: Columns) -> bool:
    """Whether every file has these columns, as far as its first record tells."""
    try:
        check_schema(paths, columns)
    except DataError:
        return False
    return True


def _rows(path: Path, columns: Columns, separator: str | None) -> Iterator[Row]:
    label_at = 2 if columns.user else 1
    found = False
    for number, values in _reader(path)(path, columns.names()):
        if _blank(values[0]):
            continue
        found = True
        yield Row(
            number,
            _text(values[0], path, number, columns.text),
            _user(values[1], path, number, columns.user) if columns.user else None,
            _labels(values[label_at], separator, path, number, columns.label) if columns.label else (),
        )
    if not found:
        got = "a file without rows of text"
        raise bad(path, got, "at least one row with text", "the path of a file with rows", column=columns.text)


def _reader(path: Path) -> Reader:
    if not path.exists():
        raise bad(path, "no such file", "a file or dataset folder that exists", "the path as `ls` shows it")
    if path.is_dir():
        return dataset_records
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in OPENERS:
        reader = LINES.get("".join(suffixes[-2:-1]))
    else:
        reader = (LINES | TABLES).get("".join(suffixes[-1:]))
    if reader is None:
        ending = "".join(suffixes[-2:]) or "no suffix"
        raise bad(path, f"a file name with {ending}", FORMATS, "the name of such a file")
    return reader


def _blank(value: object) -> bool:
    """Missing, empty or space alone; tools that know no missing text write NaN."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _text(value: object, path: Path, row: int, column: str) -> str:
    if isinstance(value, str) and _encodes(value):
        return value
    got = "half a surrogate pair" if isinstance(value, str) else f"a value of type {type(value).__name__}"
    raise bad(path, got, "text in UTF-8", AGAIN, row=row, column=column)


def _user(value: object, path: Path, row: int, column: str) -> str:
    """One person written in two ways would be two units, so ids that a tool may have written differently are one. No
    side is the safe one: a person who is two units, or one of two who are one, has what replacing a unit costs.
    """
    name = _name(value)
    user = _one_spelling(name) if name else name
    if user:
        return user
    got = "no user" if user == "" else "a rounded number" if name else f"a value of type {type(value).__name__}"
    raise bad(path, got, "a user id (text or a whole number)", AGAIN, row=row, column=column)


def _one_spelling(name: str) -> str | None:
    """Wide and composed letters as plain ones, nothing invisible; 17 for 17.0, +17, 017 and 1.7e1. None: 1e+17 and
    90071992547409930.0, which may have been any number near them.
    """
    plain = name
    if not (name.isascii() and name.isprintable()):  # most ids are, and there are as many as rows
        seen = "".join(c for c in name if unicodedata.category(c) not in ("Cf", "Cc"))
        plain = unicodedata.normalize("NFKC", INVISIBLE.sub("", seen))
    plain = plain.strip()
    if ROUNDED.fullmatch(plain) and ("." in plain or "+" in plain[1:]):  # else an id of digits and a letter: 12e4
        number = Decimal(plain)
        if abs(number) >= EXACT:
            return None
        plain = str(int(number)) if number == int(number) else plain
    if whole := WHOLE.fullmatch(plain):
        digits = whole[2].lstrip("0") or "0"
        if "." in plain and (len(digits) > len(str(EXACT)) or int(digits) >= EXACT):
            return None
        return f"-{digits}" if whole[1] == "-" and digits != "0" else digits
    return plain


def _labels(value: object, separator: str | None, path: Path, row: int, column: str) -> tuple[str, ...]:
    """None or "" is a row without labels, which is allowed; a list, or text with a separator, is several labels."""
    parts: Sequence[object] = [value]
    if isinstance(value, str) and separator:
        parts = value.split(separator)
    elif isinstance(value, list):
        parts = value
    names = [_name(part) for part in parts]
    if None in names:
        raise bad(path, "a value of another type", "text, a whole number or a list", AGAIN, row=row, column=column)
    return tuple(dict.fromkeys(name for name in names if name))


def _name(value: object) -> str | None:
    """A user or label as text, "" when there is none, None when it cannot be one.

    Tools that know no missing integers write 17 as 17.0 and nothing as NaN, so both are understood.
    """
    if isinstance(value, str):
        return value.strip() if _encodes(value) else None
    if value is None or value != value:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    return None


def _encodes(value: str) -> bool:
    """JSON can spell half a surrogate pair, which is not text: it would fail far from here, inside a tokenizer."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
