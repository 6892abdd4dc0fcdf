"""Parquet files, Arrow files and Hugging Face dataset folders, read by small record batches.

The folders are read with pyarrow directly: they are Arrow streams listed in a small JSON file, and needing the
`datasets` package to open them would be a large dependency for a few lines.
"""

import json
import math
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from hearsay.formats.faults import AGAIN, bad, check_columns

SLICE = 1024  # rows turned into Python objects at a time
NARROW = {"halffloat": 2**11, "float": 2**24}  # Arrow's names; doubles are judged where ids are read
BROKEN = object()  # stands for a value that cannot be read, and for a batch that cannot be read

Record = tuple[int, tuple[object, ...]]  # row number, values of the named columns


def parquet_records(path: Path, names: Sequence[str]) -> Iterator[Record]:
    yield from _table(path, names, _parquet_batches(path, names))


def arrow_records(path: Path, names: Sequence[str]) -> Iterator[Record]:
    yield from _table(path, names, _arrow_batches(path, names))


def dataset_records(folder: Path, names: Sequence[str]) -> Iterator[Record]:
    """A folder written by `Dataset.save_to_disk`: Arrow streams listed in state.json."""
    files = _dataset_files(folder)
    yield from _table(folder, names, chain.from_iterable(_arrow_batches(file, names) for file in files))


def _dataset_files(folder: Path) -> list[Path]:
    need, do = "a folder saved by Dataset.save_to_disk", "the path of such a folder"
    if (folder / "dataset_dict.json").exists():
        splits = [str(split) for split in _json_file(folder / "dataset_dict.json").get("splits", [])]
        if len(splits) != 1:
            raise bad(folder, f"the splits {', '.join(splits)}", "one split", f"{folder}/SPLIT")
        folder = folder / splits[0]
    if not (folder / "state.json").exists():
        raise bad(folder, "a folder without state.json", need, do)
    state = _json_file(folder / "state.json")
    if state.get("_indices_data_files"):
        raise bad(
            folder, "a dataset with an index mapping", "a flat one", "`dataset.flatten_indices()` and save it again"
        )
    try:
        files = [folder / Path(entry["filename"]).name for entry in state["_data_files"]]
    except (KeyError, TypeError):
        files = []
    for file in files:
        if not file.exists():
            raise bad(file, "no such file", "every file that state.json lists", do)
    if not files:
        raise bad(folder, "a state.json that lists no data files", need, do)
    return files


def _json_file(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise bad(path, "broken JSON", "the file that Dataset.save_to_disk wrote", "the path of an intact folder")
    return content


def _parquet_batches(path: Path, names: Sequence[str]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # a buffered reader without threads holds one page a column instead of a whole row group
        table = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pa.lib.ArrowException, OSError):
        table = None
    if table is None:
        raise bad(path, "a file that is not parquet or is damaged", "a parquet file", "the path of an intact one")
    with table:
        check_columns(path, table.schema_arrow.names, names)
        yield from table.iter_batches(batch_size=SLICE, columns=list(dict.fromkeys(names)), use_threads=False)


def _arrow_batches(path: Path, names: Sequence[str]) -> Iterator[Any]:
    import pyarrow as pa

    with pa.OSFile(str(path), "rb") as source:  # not a memory map: the pages would stay in memory
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        check_columns(path, reader.schema.names, names)
        yield from (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader


def _table(path: Path, names: Sequence[str], batches: Iterator[Any]) -> Iterator[Record]:
    number = 0
    while (batch := _next_batch(batches)) is not None:
        if batch is BROKEN:
            raise bad(path, f"a damaged file after row {number}", "a complete file", "the path of an intact copy")
        for start in range(0, batch.num_rows, SLICE):
            piece = batch.slice(start, SLICE)
            for values in zip(*[_values(piece.column(name)) for name in names], strict=True):
                number += 1
                if any(value is BROKEN for value in values):
                    name = names[values.index(BROKEN)]
                    raise bad(path, "a value that is not text in UTF-8", "such text", AGAIN, row=number, column=name)
                yield number, values


def _next_batch(batches: Iterator[Any]) -> Any:
    import pyarrow as pa

    try:
        return next(batches, None)
    except (pa.lib.ArrowException, OSError):
        return BROKEN


def _values(column: Any) -> list[object]:
    """Of half and single precision, no value stands for a whole number that it cannot hold exactly."""
    try:
        found: list[object] = list(column.to_pylist())
        exact = NARROW.get(str(column.type))
        return [math.inf if isinstance(x, float) and abs(x) >= exact else x for x in found] if exact else found
    except (ValueError, OverflowError):  # not UTF-8, or a time that Python cannot hold: pyarrow's message quotes it
        return [_value(item) for item in column]


def _value(item: Any) -> object:
    try:
        return item.as_py()
    except (ValueError, OverflowError):
        return BROKEN
