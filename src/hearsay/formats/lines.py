"""jsonl and csv, each optionally .gz, .xz or .bz2, read line by line so that a file may be larger than memory."""

import bz2
import csv
import difflib
import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from hearsay.formats.faults import AGAIN, bad, check_columns

LINE_LIMIT = 1 << 26  # bytes; a longer line is a whole file without line ends, which would fill the memory
FIELD_LIMIT = 1 << 24  # characters; an unclosed quote must not swallow the rest of the file
OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}

Record = tuple[int, tuple[object, ...]]  # row number, values of the named columns


def _lines(path: Path) -> Iterator[bytes]:
    stream = _open(path)
    with stream:
        number = 0
        while line := _line(stream):
            number += 1
            if len(line) > LINE_LIMIT:
                got = f"a line {number} longer than {LINE_LIMIT >> 20} MiB"
                raise bad(path, got, "one record a line", "the path of a file with line ends")
            yield line
    if line is None:
        got = f"a damaged or cut-off file after line {number}"
        raise bad(path, got, "a complete file", "the same command again with an intact copy")


def _open(path: Path) -> BinaryIO:
    opener = OPENERS.get(path.suffix.lower())
    try:
        return cast(BinaryIO, opener(path) if opener else path.open("rb"))
    except OSError as error:
        reason = error.strerror or "an unreadable file"
    raise bad(path, reason, "a file this user may read", f"`chmod u+r {path.name}`")


def _line(stream: BinaryIO) -> bytes | None:
    """The next line, b"" at the end, None when the file is damaged."""
    try:
        return stream.readline(LINE_LIMIT + 1)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return None


def jsonl_records(path: Path, names: Sequence[str]) -> Iterator[Record]:
    checked = False
    for number, line in enumerate(_lines(path), start=1):
        if line.isspace():
            continue
        record = _json_object(line)
        if isinstance(record, str):
            raise bad(path, record, "one JSON object in UTF-8 a line", AGAIN, row=number)
        if not checked:  # later rows may leave a key out: then its value is missing, which the caller judges
            check_columns(path, list(record), names)
            checked = True
        yield number, tuple([record.get(name) for name in names])


def _json_object(line: bytes) -> dict[str, object] | str:
    """The object, or what is wrong with it."""
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return "bytes that are not UTF-8"
    except (ValueError, RecursionError):
        return "broken JSON"
    return record if isinstance(record, dict) else "JSON that is not an object"


def csv_records(path: Path, names: Sequence[str]) -> Iterator[Record]:
    csv.field_size_limit(FIELD_LIMIT)
    # strict: an unclosed quote would otherwise swallow rows, and give one person's text to another, without a word
    reader = csv.reader(_decoded(_lines(path)), strict=True)
    header = _csv_row(reader)
    if isinstance(header, str):
        raise bad(path, f"{header} in the header", "column names in UTF-8", AGAIN)
    if header is None:
        return
    check_columns(path, header if _is_header(header, names) else [], names)
    places = [header.index(name) for name in names]
    number = 0
    while (row := _csv_row(reader)) is not None:
        if not row:
            continue
        number += 1
        if not isinstance(row, str) and len(row) != len(header):
            row = "another number of fields than the header has"
        if isinstance(row, str):
            raise bad(path, row, "a quoted csv row in UTF-8 with the header's fields", AGAIN, row=number)
        yield number, tuple([row[place] for place in places])


def _is_header(fields: list[str], names: Sequence[str]) -> bool:
    """A file without a header starts with a row, and an error that lists its "columns" would quote that row."""
    known = [field.casefold().strip() for field in fields]
    return any(difflib.get_close_matches(name.casefold(), known, n=1, cutoff=0.8) for name in names)


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    encoding = "utf-8-sig"  # spreadsheets put a byte-order mark in front of the first column's name
    for line in lines:
        yield line.decode(encoding)
        encoding = "utf-8"


def _csv_row(reader: Iterator[list[str]]) -> list[str] | str | None:
    """The fields, or what is wrong with them, or None at the end."""
    try:
        return next(reader, None)
    except UnicodeDecodeError:
        return "bytes that are not UTF-8"
    except csv.Error:
        return "broken quoting or an oversized field"
