"""Every format gives the same rows; every bad file gets an error with its place and without its content."""

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hearsay.errors import DataError
from hearsay.reading import Columns, Row, check_schema, read_rows

SECRET = "Zanzibar"
RECORDS = [
    {"text": "Grüße, my flight is late", "user": "anna", "label": "delay"},
    {"text": 'quoted "word", comma\nand a line end', "user": "bob", "label": "bags"},
    {"text": "日本語 third row", "user": "anna", "label": "delay"},
]
ALL = Columns(text="text", user="user", label="label")
EXPECTED = [Row(i, r["text"], r["user"], (r["label"],)) for i, r in enumerate(RECORDS, start=1)]
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}


def jsonl(records: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def csv_bytes(records: list[dict[str, object]]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(records[0]))
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue().encode()


def save_to_disk(table: pa.Table, folder: Path, files: int = 1) -> Path:
    """What Dataset.save_to_disk leaves: Arrow streams, a list of them, and a description."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05d}-of-{files:05d}.arrow" for i in range(files)]
    step = -(-len(table) // files)
    for i, name in enumerate(names):
        piece = table.slice(i * step, step)
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(piece, max_chunksize=2)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "0", "_format_columns": None}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {}}))
    return folder


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def failure(path: Path, columns: Columns = ALL, **options: str) -> str:
    with pytest.raises(DataError) as caught:
        list(read_rows([path], columns, **options))
    message = str(caught.value).replace(str(path.parent), "")  # the folder is named after the test's parameters
    assert SECRET not in message and SECRET not in repr(caught.value.__context__)
    assert caught.value.__context__ is None and caught.value.__cause__ is None, "a chained exception quotes the row"
    assert path.name in message and ": got " in message and ", need " in message and ", type " in message
    return message


@pytest.mark.parametrize("packed", PACK)
@pytest.mark.parametrize(("suffix", "encode"), [(".jsonl", jsonl), (".csv", csv_bytes)])
def test_lines(tmp_path: Path, suffix: str, encode: Callable[..., bytes], packed: str) -> None:
    path = put(tmp_path / f"chats{suffix}{packed}", PACK[packed](encode(RECORDS)))
    assert list(read_rows([path], ALL)) == EXPECTED
    check_schema([path], ALL)


@pytest.mark.parametrize("row_group", [1, 2, 100])
def test_parquet(tmp_path: Path, row_group: int) -> None:
    pq.write_table(pa.Table.from_pylist(RECORDS), tmp_path / "chats.parquet", row_group_size=row_group)
    assert list(read_rows([tmp_path / "chats.parquet"], ALL)) == EXPECTED
    check_schema([tmp_path / "chats.parquet"], ALL)


@pytest.mark.parametrize("files", [1, 2])
def test_dataset_folder(tmp_path: Path, files: int) -> None:
    folder = save_to_disk(pa.Table.from_pylist(RECORDS), tmp_path / "saved", files)
    assert list(read_rows([folder], ALL)) == EXPECTED
    check_schema([folder], ALL)


def test_dataset_dict_needs_one_split(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(RECORDS)
    save_to_disk(table, tmp_path / "one" / "train")
    (tmp_path / "one" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    assert list(read_rows([tmp_path / "one"], ALL)) == EXPECTED
    save_to_disk(table, tmp_path / "one" / "test")
    (tmp_path / "one" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert "train, test" in failure(tmp_path / "one")
    assert list(read_rows([tmp_path / "one" / "train"], ALL)) == EXPECTED


def test_arrow_file_format_and_types(tmp_path: Path) -> None:
    text = pa.array(["first text", "second text"], pa.large_string())
    table = pa.table({"text": text, "user": pa.array(["a", "b"]).dictionary_encode(), "label": pa.array([[1, 2], []])})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    rows = list(read_rows([tmp_path / "x.arrow"], ALL))
    assert rows == [Row(1, "first text", "a", ("1", "2")), Row(2, "second text", "b", ())]


def test_several_files_byte_order_mark_and_blank_lines(tmp_path: Path) -> None:
    first = put(tmp_path / "a.csv", b"\xef\xbb\xbf" + csv_bytes(RECORDS) + b"\r\n")
    second = put(tmp_path / "b.jsonl", b"\xef\xbb\xbf" + jsonl(RECORDS) + b"\n  \n")
    assert list(read_rows([first, second], ALL)) == EXPECTED + EXPECTED


def test_only_the_named_columns_are_asked_for(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", csv_bytes(RECORDS))
    assert [row.user for row in read_rows([path], Columns("text"))] == [None] * 3
    assert [row.labels for row in read_rows([path], Columns("text", label="label"))] == [
        ("delay",),
        ("bags",),
        ("delay",),
    ]


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (17, "17"),
        (17.0, "17"),
        ("17.0", "17"),
        ("-17.00", "-17"),
        ("17.05", "17.05"),
        ("v1.0", "v1.0"),
        (0, "0"),
        (" anna ", "anna"),
        ("Jose\u0301", "Jos\u00e9"),
        (2**80, str(2**80)),
        ("017", "17"),
        ("+17", "17"),
        ("17.", "17"),
        ("1.7e1", "17"),
        ("1.7E+01", "17"),
        ("-0.0", "0"),
        (-0.0, "0"),
        ("\uff21na", "Ana"),
        ("\u200bana\ufeff", "ana"),
        ("ana\x00", "ana"),
        ("ana\ufe0f", "ana"),
        ("a\u034fna\u3164", "ana"),
        ("a\u2065na\ufff0", "ana"),
        ("9" * 5000, "9" * 5000),
        ("3e99", "3e99"),
        ("1.5e0", "1.5e0"),
        ("12e4f", "12e4f"),
        ("e5", "e5"),
        ("12e4", "12e4"),
        ("1.2e5", "120000"),
        ("e\u200b\u0301", "\u00e9"),
        ("9007199254740991.0", "9007199254740991"),
        ("9007199254740993", "9007199254740993"),
    ],
)
def test_user_ids_become_text(tmp_path: Path, user: object, expected: str) -> None:
    path = put(tmp_path / "a.jsonl", jsonl([{"text": "some words", "user": user}]))
    assert [row.user for row in read_rows([path], Columns("text", "user"))] == [expected]


@pytest.mark.parametrize(
    "rounded", ["1e+17", "1.2345678901234568E17", "9007199254740992.0", "-90071992547409930.00", "9" * 5000 + ".0"]
)
def test_an_id_that_a_tool_has_rounded_is_refused(tmp_path: Path, rounded: str) -> None:
    """It may have been any number near it, and would be somebody else than the same person's exact id."""
    path = put(tmp_path / "a.csv", f"user,text\n{rounded},some words\n".encode())
    with pytest.raises(DataError, match="whole number"):
        list(read_rows([path], Columns("text", "user")))


@pytest.mark.parametrize(("kind", "exact"), [(pa.float32(), 2.0**24), (pa.float16(), 2.0**11)])
def test_an_id_in_a_narrow_column_is_refused_where_it_is_not_exact(
    tmp_path: Path, kind: pa.DataType, exact: float
) -> None:
    def read(user: float) -> list[str | None]:
        path = tmp_path / "a.parquet"
        users = pa.array([np.dtype(kind.to_pandas_dtype()).type(user)], kind)
        pq.write_table(pa.table({"user": users, "text": pa.array(["some words"])}), path)
        return [row.user for row in read_rows([path], Columns("text", "user"))]

    assert read(exact - 1) == [f"{exact - 1:.0f}"]
    with pytest.raises(DataError, match="whole number"):
        read(exact + 2)


def test_labels_split_at_the_separator_only(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", jsonl([{"text": "w", "label": "a; b;;a"}, {"text": "w", "label": None}]))
    columns = Columns("text", label="label")
    assert [row.labels for row in read_rows([path], columns)] == [("a; b;;a",), ()]
    assert [row.labels for row in read_rows([path], columns, label_separator=";")] == [("a", "b"), ()]


GOOD = {"text": "a good row", "user": "anna", "label": "x"}
BAD_VALUES = [
    ("text", 7, "type int"),
    ("text", [SECRET], "type list"),
    ("text", SECRET + "\ud800", "surrogate"),
    ("user", "", "no user"),
    ("user", None, "no user"),
    ("user", "  ", "no user"),
    ("user", float("nan"), "no user"),
    ("user", True, "type bool"),
    ("user", 1.5, "type float"),
    ("user", {SECRET: 1}, "type dict"),
    ("user", SECRET + "\ud800", "type str"),
    ("label", {SECRET: SECRET}, "another type"),
    ("label", [[SECRET]], "another type"),
]


@pytest.mark.parametrize(("column", "value", "expected"), BAD_VALUES)
def test_bad_values_in_jsonl(tmp_path: Path, column: str, value: object, expected: str) -> None:
    broken = {**GOOD, "text": f"{SECRET} words", column: value}
    path = put(tmp_path / "a.jsonl", "".join(json.dumps(r) + "\n" for r in [GOOD, broken, GOOD]).encode())
    message = failure(path)
    assert expected in message and "row 2" in message and f"column '{column}'" in message
    check_schema([path], ALL)  # looks at the first record only


def every_format(folder: Path, records: list[dict[str, Any]]) -> list[Path]:
    """The same records as jsonl, csv (where nothing is an empty field), parquet and a dataset folder."""
    table = pa.Table.from_pylist(records)
    pq.write_table(table, folder / "a.parquet")
    fields = [{name: "" if value is None else value for name, value in record.items()} for record in records]
    return [
        put(folder / "a.jsonl", jsonl(records)),
        put(folder / "a.csv", csv_bytes(fields)),
        folder / "a.parquet",
        save_to_disk(table, folder / "saved"),
    ]


def test_a_row_without_user_is_refused_in_every_format(tmp_path: Path) -> None:
    for path in every_format(tmp_path, [GOOD, {**GOOD, "label": SECRET, "user": None}]):
        message = failure(path)
        assert "no user" in message and "row 2" in message and "column 'user'" in message


@pytest.mark.parametrize("nothing", ["", None, " \n\t"])
def test_rows_without_text_are_passed_over(tmp_path: Path, nothing: str | None) -> None:
    blank = {**GOOD, "text": nothing, "user": None}  # whose nothing it is does not matter
    last = {**GOOD, "text": "the last one"}
    for path in every_format(tmp_path, [blank, GOOD, blank, last, blank]):
        assert [row.text for row in read_rows([path], ALL)] == [GOOD["text"], last["text"]]
        check_schema([path], ALL)


def test_missing_text_of_a_tool_without_missing_text(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", b'{"text": NaN, "user": "a", "label": "x"}\n' + jsonl([GOOD]))
    assert [row.text for row in read_rows([path], ALL)] == [GOOD["text"]]


def test_a_column_without_any_text_is_refused(tmp_path: Path) -> None:
    for path in every_format(tmp_path, [{**GOOD, "text": "  "}] * 2):
        assert "without rows of text" in failure(path)


def test_missing_key_in_a_later_row(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", jsonl([GOOD, {"text": SECRET}]))
    assert "row 2" in failure(path)


def test_broken_utf8(tmp_path: Path) -> None:
    latin = SECRET.encode() + b" caf\xe9"
    assert "row 3" in failure(put(tmp_path / "a.jsonl", jsonl([GOOD, GOOD]) + b'{"text": "' + latin + b'"}\n'))
    assert "row 2" in failure(put(tmp_path / "a.csv", csv_bytes([GOOD]) + latin + b",a,b\r\n"))
    assert "header" in failure(put(tmp_path / "b.csv", latin + b",user,label\r\nx,y,z\r\n"))
    raw = pa.array([b"good", latin], pa.binary())
    broken = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    table = pa.table({"text": broken, "user": ["a", "b"], "label": ["x", "y"]})
    pq.write_table(table, tmp_path / "a.parquet")
    for path in (tmp_path / "a.parquet", save_to_disk(table, tmp_path / "saved")):
        message = failure(path)
        assert "row 2" in message and "column 'text'" in message and "UTF-8" in message


def test_a_value_that_python_cannot_hold_is_not_quoted(tmp_path: Path) -> None:
    far = pa.array([0, 2**53], pa.timestamp("s"))
    folder = save_to_disk(pa.table({"text": ["a", "b"], "user": far, "label": ["x", "y"]}), tmp_path / "saved")
    with pytest.raises((ValueError, OverflowError)):
        far.to_pylist()
    assert "column 'user'" in failure(folder)


@pytest.mark.parametrize("line", [f'{{"text": "{SECRET}', f'["{SECRET}"]', f'"{SECRET}"', "[" * 100_000])
def test_broken_json(tmp_path: Path, line: str) -> None:
    assert "row 2" in failure(put(tmp_path / "a.jsonl", jsonl([GOOD]) + line.encode() + b"\n"))


@pytest.mark.parametrize(
    "tail", [f"{SECRET},b\r\n", f"{SECRET},b,c,d\r\n", f'"{SECRET}" x,b,c\r\n', f'"{SECRET},b,c\r\nmore,b,c\r\n']
)
def test_broken_csv_rows(tmp_path: Path, tail: str) -> None:
    assert "row 2" in failure(put(tmp_path / "a.csv", csv_bytes([GOOD]) + tail.encode()))


def test_missing_column_names_those_present(tmp_path: Path) -> None:
    records = [{"message": SECRET, "user": "a", "label": "x"}]
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    folder = save_to_disk(pa.Table.from_pylist(records), tmp_path / "saved")
    lines = [put(tmp_path / "a.jsonl", jsonl(records)), put(tmp_path / "a.csv", csv_bytes(records))]
    for path in [*lines, tmp_path / "a.parquet"]:
        message = failure(path)
        assert "column 'text'" in message and "'message', 'user', 'label'" in message
        with pytest.raises(DataError, match="column 'text'"):
            check_schema([path], ALL)
    with pytest.raises(DataError, match=r"saved.*column 'text'.*'message', 'user', 'label'"):
        list(read_rows([folder], ALL))


def test_csv_without_header_does_not_quote_its_first_row(tmp_path: Path) -> None:
    assert "anna" not in failure(put(tmp_path / "a.csv", f"{SECRET} is late,anna,delay\r\n".encode() * 2))


def test_csv_header_with_a_column_twice(tmp_path: Path) -> None:
    assert "more than once" in failure(put(tmp_path / "a.csv", b"text,text,user,label\r\na,b,c,d\r\n"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.jsonl.gz", "b.csv"])
def test_empty_files(tmp_path: Path, name: str) -> None:
    content = b"text,user,label\r\n" if name == "b.csv" else b""
    path = put(tmp_path / name, gzip.compress(b"\n\n") if name.endswith("gz") else content)
    assert "without rows" in failure(path)
    with pytest.raises(DataError, match="without rows"):
        check_schema([path], ALL)


def test_empty_tables(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(RECORDS).slice(0, 0)
    pq.write_table(table, tmp_path / "a.parquet")
    for path in (tmp_path / "a.parquet", save_to_disk(table, tmp_path / "saved")):
        assert "without rows" in failure(path)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.json", "a.parquet.gz", "a.gz", "a.tar.gz"])
def test_unknown_suffix(tmp_path: Path, name: str) -> None:
    assert ".jsonl" in failure(put(tmp_path / name, SECRET.encode()))


def test_missing_files_and_folders(tmp_path: Path) -> None:
    assert "no such file" in failure(tmp_path / "nowhere.jsonl")
    (tmp_path / "plain").mkdir()
    assert "state.json" in failure(tmp_path / "plain")
    with pytest.raises(DataError, match="no files"):
        list(read_rows([], ALL))


@pytest.mark.parametrize("packed", [".gz", ".xz", ".bz2"])
def test_damaged_archives(tmp_path: Path, packed: str) -> None:
    whole = PACK[packed](jsonl(RECORDS * 50))
    assert "damaged" in failure(put(tmp_path / f"a.jsonl{packed}", whole[: len(whole) // 2]))
    assert "damaged" in failure(put(tmp_path / f"b.jsonl{packed}", SECRET.encode()))


def test_damaged_tables(tmp_path: Path) -> None:
    assert "parquet" in failure(put(tmp_path / "a.parquet", SECRET.encode()))
    folder = save_to_disk(pa.Table.from_pylist(RECORDS), tmp_path / "saved")
    put(folder / "data-00000-of-00001.arrow", SECRET.encode() * 10)
    assert "damaged" in failure(folder)
    (folder / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(DataError, match="no such file"):
        list(read_rows([folder], ALL))
    put(folder / "state.json", b"{")
    with pytest.raises(DataError, match="broken JSON"):
        list(read_rows([folder], ALL))


def test_rows_are_streamed(tmp_path: Path) -> None:
    """A broken last row does not keep the first from arriving: nothing reads ahead over the whole file."""
    path = put(tmp_path / "a.jsonl", jsonl([GOOD] * 10) + b"broken\n")
    assert next(read_rows([path], ALL)).number == 1
