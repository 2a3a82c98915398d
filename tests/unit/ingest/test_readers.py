"""Proves that each reader gives the file's values, keeps row numbers, and names file and row where a file is wrong."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import DecodeError, InvalidConfigError, UserError
from pinotpy.ingest import json_text
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.catalog import format_from_text, format_of, reader_for
from pinotpy.ingest.readers.spec import FileFormat, InputFile, ReaderColumn

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
DATA = Path(__file__).resolve().parent / "data"


def read(
    path: Path, columns: list[ReaderColumn], config: dict[str, Any] | None = None, file_format: FileFormat | None = None
) -> tuple[list[dict[str, Any]], list[int], list[tuple[int, str, str]]]:
    """(rows in input form, their numbers, rejected rows)"""
    rejected: list[tuple[int, str, str]] = []
    done: list[tuple[int, int]] = []
    known = file_format or format_of(path)
    assert known is not None
    rows, numbers = [], []

    def reject(row: int, column: str, cause: str, text: str = "", *, allowed: bool = False) -> None:
        rejected.append((row, column, cause))

    for batch in reader_for(known)(InputFile(path), columns, config or {}, reject, lambda *p: done.append(p)):
        rows += batch.batch.to_pylist()
        numbers += batch.row_numbers.tolist()
    assert len(rows) == len(numbers)
    assert all(0 < part <= total for part, total in done)
    return rows, numbers, rejected


def text(*names: str) -> list[ReaderColumn]:
    return [ReaderColumn(name, DataType.STRING) for name in names]


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- CSV --------------------------------------------------------------------------------------------------------------


def test_csv_with_quotes_newlines_blanks_and_missing_values(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", '\ufeffa,b,c\n1,"x,y",\n2,"two\nlines","say ""hi"""\n\n3, z ,\n')
    rows, numbers, rejected = read(path, text("b", "a", "c", "missing"))
    assert rows == [
        {"b": "x,y", "a": "1", "c": None},
        {"b": "two\nlines", "a": "2", "c": 'say "hi"'},
        {"b": " z ", "a": "3", "c": None},
    ]
    assert (numbers, rejected) == ([1, 2, 3], [])


@pytest.mark.parametrize(
    ("config", "content", "expected"),
    [
        ({"fileFormat": "TDF"}, "a\tb\n 1 \tx\n", {"a": "1", "b": "x"}),
        ({"fileFormat": "mysql"}, "a\tb\n\\N\tx\\\ty\n", {"a": None, "b": "x\ty"}),
        ({"fileFormat": "EXCEL", "delimiter": ";"}, "a;b\n1;2,3\n", {"a": "1", "b": "2,3"}),
        ({"delimiter": "\\t"}, "a\tb\n1\t2\n", {"a": "1", "b": "2"}),
        ({"header": "a,b"}, "1,2\n", {"a": "1", "b": "2"}),
        ({"header": "a|b", "delimiter": "|", "skipHeader": "true"}, "x|y\n1|2\n", {"a": "1", "b": "2"}),
        ({"nullStringValue": "NA"}, "a,b\nNA,N\n", {"a": None, "b": "N"}),
        ({"quoteCharacter": "'"}, "a,b\n'1,2',\"x\n", {"a": "1,2", "b": '"x'}),
        ({"escapeCharacter": "\\"}, "a,b\n1\\,2,3\n", {"a": "1,2", "b": "3"}),
        ({"dateColumns": ["a"]}, "a,b\n02-01-1970,x\n", {"a": 31 * 86_400_000, "b": "x"}),
        (
            {"dateColumns": ["a", "b"], "dateFormat": "yyyy-MM-dd HH:mm"},
            "a,b\n1970-01-01 00:01,\n",
            {"a": 60_000, "b": None},
        ),
    ],
)
def test_the_reader_config_of_the_manual(
    tmp_path: Path, config: dict[str, Any], content: str, expected: dict[str, Any]
) -> None:
    assert read(write(tmp_path, "a.csv", content), text("a", "b"), config)[0] == [expected]


def test_multi_values_are_split_and_single_ones_are_not(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a,b\nx;y,x;y\n,\n")
    columns = [ReaderColumn("a", DataType.STRING, single_value=False), ReaderColumn("b", DataType.STRING)]
    assert read(path, columns)[0] == [{"a": ["x", "y"], "b": "x;y"}, {"a": None, "b": None}]
    assert read(path, columns, {"multiValueDelimiter": "|"})[0][0]["a"] == ["x;y"]


def test_rows_with_other_field_counts_are_named_and_the_numbers_go_on(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "a,b\n1,2\n3\n4,5,6\n7,8\n")
    rows, numbers, rejected = read(path, text("a"))
    assert [row["a"] for row in rows] == ["1", "7"]
    assert [cause for _, _, cause in rejected] == ["1 fields, expected 2", "3 fields, expected 2"]
    assert (numbers, [row for row, _, _ in rejected]) == ([1, 4], [2, 3])


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"fileFormat": "ODS"}, "$.fileFormat"),
        ({"delimiter": "||"}, "$.delimiter"),
        ({"dateFormat": "QQ"}, "$.dateFormat"),
        ({"commentMarker": "##"}, "$.commentMarker"),
        ({"escapeCharacter": ","}, "$.escapeCharacter"),
        ({"quoteMode": "SOME"}, "$.quoteMode"),
        ({"delimiter": "\n"}, "$.delimiter"),
        ({"thousands": "."}, "$.thousands"),
        ({"skipHeader": "perhaps"}, "$.skipHeader"),
    ],
)
def test_a_wrong_reader_config_is_refused(tmp_path: Path, config: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        read(write(tmp_path, "a.csv", "a\n1\n"), text("a"), config)
    assert [fault.path for fault in caught.value.faults] == [path]


@pytest.mark.parametrize("columns", [("a", "b"), ("a",), ("b", "a")])
@pytest.mark.parametrize("content", ['a,b\n1,"x\n2,y\n3,z\n', 'a,b\n0,w\n1,"x\n2,y\n3,z', 'a,b\n1,x\n2,"y\n'])
def test_csv_a_quote_that_is_never_closed_loses_no_row_silently(
    tmp_path: Path, content: str, columns: tuple[str, ...]
) -> None:
    with pytest.raises(DecodeError, match="never closed"):
        read(write(tmp_path, "open.csv", content), text(*columns))


def test_csv_an_open_quote_in_another_column_than_the_last_ends_the_file_with_its_row(tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="row 3: a quote that is opened and never closed"):
        read(write(tmp_path, "open.csv", 'a,b\n0,w\n1"x,y\n"2,x\n3,y\n'), text("a", "b"))


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n  \n"])
def test_csv_a_closed_field_with_newlines_may_end_the_file(tmp_path: Path, ending: str) -> None:
    rows, _, _ = read(write(tmp_path, "a.csv", 'a,b\n1,"x\ny\n"' + ending), text("b", "a"))
    assert rows[0] == {"b": "x\ny\n", "a": "1"}


def test_csv_faults_name_file_and_row(tmp_path: Path) -> None:
    assert read(write(tmp_path, "bad.csv", b"a\nok\n\xff\nyes\n"), text("a")) == (
        [{"a": "ok"}, {"a": "yes"}],
        [1, 3],
        [(2, "a", "not UTF-8")],
    )
    with pytest.raises(DecodeError, match="the file is UTF-16, expected UTF-8"):
        read(write(tmp_path, "wide.csv", "a\n1\n".encode("utf-16")), text("a"))
    with pytest.raises(
        DecodeError,
        match="none of the schema's columns, found 'a;b', expected some of a; check the header and the delimiter",
    ):
        read(write(tmp_path, "other.csv", "a;b\n1;2\n"), text("a"))
    with pytest.raises(DecodeError, match="'a' stand more than once"):
        read(write(tmp_path, "twice.csv", "a,a\n1,2\n"), text("a"))
    _, _, rejected = read(write(tmp_path, "date.csv", "a\n01-02-2020\nsoon\n"), text("a"), {"dateColumns": ["a"]})
    assert [(row, column) for row, column, _ in rejected] == [(2, "a")]
    for name, content in (("empty.csv", ""), ("header.csv", "a,b\n"), ("blank.csv", "\n\n")):
        assert read(write(tmp_path, name, content), text("a"))[0] == []


def test_many_blocks_keep_their_row_numbers(tmp_path: Path) -> None:
    lines = [f"{i},{'x' * 100}" if i % 1000 else f"{i}" for i in range(1, 120_001)]
    rows, numbers, rejected = read(write(tmp_path, "a.csv", "a,b\n" + "\n".join(lines)), text("a"))
    assert [int(row["a"]) for row in rows] == numbers
    assert [row for row, _, _ in rejected] == list(range(1000, 120_001, 1000))


class LateFile(io.BytesIO):
    """As from a far store: what is asked for ahead comes while the rows before are worked on."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.rows_are_worked_on = threading.Event()

    def read(self, size: int | None = -1) -> bytes:
        self.rows_are_worked_on.wait(0.05)
        return super().read(size)


def test_rows_that_are_left_out_ahead_are_rejected_when_more_is_asked_for() -> None:
    """Blocks are parsed on another thread while a batch is worked on: two that counted and numbered at once would lose
    some.
    """
    lines = [f"{i},{'x' * 100}" if i % 50 else f"{i}" for i in range(1, 60_001)]
    late = LateFile("\n".join(["a,b", *lines, *["1,2,3"] * 60_000, "120001,2"]).encode())
    rejected: list[int] = []
    rows, numbers = list[int](), list[int]()
    file = InputFile(Path("a.csv"), lambda: late, len(late.getvalue()))
    for batch in reader_for(FileFormat.CSV)(
        file, text("a"), {}, lambda row, *_, **__: rejected.append(row), lambda *_: None
    ):
        before = len(rejected)
        late.rows_are_worked_on.set()
        time.sleep(0.03)
        assert len(rejected) == before
        late.rows_are_worked_on.clear()
        rows += [int(value) for value in batch.batch.column("a").to_pylist()]
        numbers += batch.row_numbers.tolist()
    assert rows == numbers
    assert rejected == [*range(50, 60_001, 50), *range(60_001, 120_001)]


def test_rows_are_rejected_in_the_order_of_blocks_however_far_one_reads_ahead() -> None:
    lines = [f"{i},{'x' * 100}" if i % 50 else f"{i}" for i in range(1, 60_001)]
    lines[29::5_000] = ['"never closed'] * len(lines[29::5_000])
    content = "\n".join(["a,b", *lines]).encode()

    def rejected(wait_s: float) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []

        def reject(row: int, column: str, cause: str, *_: object, **__: object) -> None:
            found.append((row, cause))
            if len(found) % 100 == 1:
                time.sleep(wait_s)  # the next block is ready then

        file = InputFile(Path("a.csv"), lambda: io.BytesIO(content), len(content))
        batches = reader_for(FileFormat.CSV)(file, text("a"), {"skipUnParseableLines": True}, reject, lambda *_: None)
        for batch in batches:
            assert batch.batch.column("a").to_pylist() == [str(number) for number in batch.row_numbers.tolist()]
        return found

    waited = rejected(0.02)
    assert waited == rejected(0.0) and len({cause for _, cause in waited}) == 2
    assert sorted(row for row, _ in waited) == sorted([*range(50, 60_001, 50), *range(30, 60_001, 5_000)])


ABANDONED = """
import io, sys, time
from pathlib import Path

from pinotpy.data_types import DataType
from pinotpy.ingest.readers.catalog import reader_for
from pinotpy.ingest.readers.spec import FileFormat, InputFile, ReaderColumn


class SlowFile(io.BytesIO):
    num_reads = 0

    def read(self, size=-1):
        self.num_reads += 1
        if self.num_reads > 3:
            time.sleep(0.3)
        return super().read(size)


slow = SlowFile(("a,b\\n" + f"1,{'x' * 100}\\n" * 100_000).encode())
file = InputFile(Path("a.csv"), lambda: slow, len(slow.getvalue()))
read = reader_for(FileFormat.CSV)
batches = read(file, [ReaderColumn("a", DataType.STRING)], {}, lambda *_, **__: None, lambda *_: None)
next(batches)
if sys.argv[1] == "closed":
    batches.close()
    assert slow.closed
"""


@pytest.mark.parametrize("how", ["closed", "left"])
def test_a_process_ends_while_a_slow_file_is_read_ahead(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ABANDONED, how], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        '{"a": 1, "b": "x"}\n{"a": 2, "b": null}\n\n{"b": "é"}',
        '{"a": 1, "b": "x"} {"a": 2, "b": null}\n{"b": "é"}',
        '{\n "a": 1,\n "b": "x"\n}\n{\n "a": 2, "b": null\n}{"b": "\\u00e9"}',
        '[{"a": 1, "b": "x"}, {"a": 2, "b": null}, {"b": "é"}]',
        '[\n{"a": 1, "b": "x"},\n{"a": 2, "b": null},\n{"b": "é"}\n]\n',
        '\ufeff{"a": 1, "b": "x"}\n{"a": 2}\n{"b": "é", "c": {"d": []}}\n',
    ],
    ids=["lines", "side by side", "pretty", "array", "array of lines", "bom"],
)
def test_json_in_every_layout(tmp_path: Path, content: str) -> None:
    rows, numbers, rejected = read(
        write(tmp_path, "a.json", content), [ReaderColumn("a", DataType.INT), ReaderColumn("b", DataType.STRING)]
    )
    assert rows == [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": None, "b": "é"}]
    assert (numbers, rejected) == ([1, 2, 3], [])


def test_nested_json_is_text_and_lists_are_multi_values(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.json",
        '{"j": {"b": [1, 2.50]}, "s": {"x": 1}, "m": ["1", 2], "n": 5}\n{"j": "\\"t\\"", "s": "y", "m": null, "n": '
        "null}\n",
    )
    columns = [
        ReaderColumn("j", DataType.JSON),
        ReaderColumn("s", DataType.STRING),
        ReaderColumn("m", DataType.INT, False),
        ReaderColumn("n", DataType.JSON),
    ]
    assert read(path, columns)[0] == [
        {"j": '{"b":[1,2.5]}', "s": '{"x":1}', "m": ["1", "2"], "n": "5"},
        {"j": '"t"', "s": "y", "m": None, "n": None},
    ]


def test_decimals_keep_all_digits(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", '{"d": 12345678901234567890.12345678901234567890}\n')
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "d", "dataType": "BIG_DECIMAL"}]})
    (batch,) = read_rows(InputFile(path), FileFormat.JSON, RowPipeline(schema), RowLedger("a"))
    assert batch.to_pylist() == [{"d": encode_decimal(Decimal("12345678901234567890.12345678901234567890"))}]


def test_lines_that_are_no_objects_are_named_and_the_others_arrive(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", '{"a": 1}\n{"a": \n[1, {"a": 2}]\nnonsense\n{"a": 3} x\n{"a": 4}\n')
    rows, numbers, rejected = read(path, [ReaderColumn("a", DataType.INT)])
    assert ([row["a"] for row in rows], numbers) == ([1, 2, 4], [1, 4, 7])
    assert [row for row, _, _ in rejected] == [2, 3, 5, 6]


@pytest.mark.parametrize(
    "content", ['{"a": 1', '{\n"a": 1\n}\n{\n"a": ', '{\n"a": 1\n} nonsense', "[\n1,\n", "nonsense"]
)
def test_running_text_that_breaks_ends_with_file_and_row(tmp_path: Path, content: str) -> None:
    with pytest.raises(DecodeError, match=r"a\.json' row \d+: no JSON"):
        read(write(tmp_path, "a.json", content), [ReaderColumn("a", DataType.INT)])


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        (' { "b" : 1 , "a" : [ ] } ', '{"b":1,"a":[]}'),
        ("-2.0", "-2"),
        ("1e10", "1E+10"),
        ("100.0", "1E+2"),
        ("0.50", "0.5"),
        ("0.0000001", "1E-7"),
        ("12345678901234567890123", "12345678901234567890123"),
        ('"1.50"', '"1.50"'),
        ('["\\u00e9\\n"]', '["é\\n"]'),
        ("[true,null]", "[true,null]"),
    ],
)
def test_one_form_of_json_text(written: str, normal: str) -> None:
    assert json_text.normalized(written) == normal
    assert json_text.normalized(normal) == normal
    assert json.loads(normal) == json.loads(written)


def test_deep_json_is_refused_not_fatal() -> None:
    for depth in (300, 100_000):
        with pytest.raises(ValueError, match=r"."):
            json_text.normalized("[" * depth + "1.5" + "]" * depth)


# --- Avro -------------------------------------------------------------------------------------------------------------


def write_avro(path: Path, fields: list[dict[str, Any]], rows: list[dict[str, Any]]) -> Path:
    with path.open("wb") as out:
        fastavro.writer(
            out,
            fastavro.parse_schema({"type": "record", "name": "r", "fields": fields}),
            rows,
            codec="deflate",
            sync_interval=1000,
        )
    return path


def test_avro_types(tmp_path: Path) -> None:
    enum = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
    fixed = {"type": "fixed", "name": "f", "size": 2}
    record = {"type": "record", "name": "n", "fields": [{"name": "x", "type": "double"}]}
    fields = [
        {"name": "u", "type": ["null", "long"]},
        {"name": "mixed", "type": ["null", "int", "string"]},
        {"name": "e", "type": enum},
        {"name": "f", "type": fixed},
        {"name": "n", "type": ["null", record]},
        {"name": "kv", "type": {"type": "map", "values": "int"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    ]
    at = datetime(2021, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)
    rows = [
        {
            "u": 1,
            "mixed": 1,
            "e": "B",
            "f": b"ab",
            "n": {"x": 2.0},
            "kv": {"b": 2, "a": 1},
            "day": at.date(),
            "at": at,
            "price": Decimal("1.50"),
        },
        {
            "u": None,
            "mixed": "x",
            "e": "A",
            "f": b"\x00\xff",
            "n": None,
            "kv": {},
            "day": at.date(),
            "at": at,
            "price": Decimal("-2.00"),
        },
    ]
    specs = {
        "u": "LONG", "mixed": "STRING", "e": "STRING", "f": "BYTES", "n": "JSON", "kv": "JSON", "day": "INT",
        "at": "TIMESTAMP", "price": "BIG_DECIMAL",
    }  # fmt: skip
    dimensions: list[dict[str, Any]] = [{"name": name, "dataType": data_type} for name, data_type in specs.items()]
    dimensions += [
        {"name": "kv__KEYS", "dataType": "STRING", "singleValueField": False},
        {"name": "kv__VALUES", "dataType": "LONG", "singleValueField": False},
    ]
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": dimensions})
    path = write_avro(tmp_path / "a.avro", fields, rows)
    (batch,) = read_rows(InputFile(path), FileFormat.AVRO, RowPipeline(schema), RowLedger("a"))
    days, millis = 18628, 1609459200123
    first = {
        "u": 1,
        "mixed": "1",
        "e": "B",
        "f": b"ab",
        "n": '{"x":2}',
        "kv": '{"b":2,"a":1}',
        "day": days,
        "at": millis,
    }
    second = {"u": None, "mixed": "x", "e": "A", "f": b"\x00\xff", "n": None, "kv": "{}", "day": days, "at": millis}
    first |= {"price": encode_decimal(Decimal("1.5")), "kv__KEYS": ["b", "a"], "kv__VALUES": [2, 1]}
    second |= {"price": encode_decimal(Decimal(-2)), "kv__KEYS": None, "kv__VALUES": None}
    assert batch.to_pylist() == [first, second]


def test_a_damaged_avro_file_names_file_and_row(tmp_path: Path) -> None:
    rows = [{"a": i} for i in range(5000)]
    path = write_avro(tmp_path / "a.avro", [{"name": "a", "type": "long"}], rows)
    columns = [ReaderColumn("a", DataType.LONG)]
    assert [row["a"] for row in read(path, columns)[0]] == list(range(5000))
    whole = path.read_bytes()
    # Cut within a block; the end of a block overwritten (its sync marker), which is all that Avro itself can notice.
    sync = whole[-16:]
    third = whole.index(sync, whole.index(sync, whole.index(sync) + 16) + 16)
    for content in (whole[: len(whole) // 2], whole[:third] + bytes(16) + whole[third + 16 :]):
        with pytest.raises(DecodeError, match=r"b\.avro' row \d+: damaged"):
            read(write(tmp_path, "b.avro", content), columns)
    with pytest.raises(DecodeError, match="no Avro file"):
        read(write(tmp_path, "c.avro", b"no avro"), columns)


@pytest.mark.parametrize("name", ["typesTest", "typesTest15"])
def test_golden_avro_files_reach_storage_form_unchanged(name: str) -> None:
    """Against rows that fastavro reads, converted here by hand."""
    schema_file = GOLDEN / f"{name}_schema.json"
    if not schema_file.exists():
        pytest.skip(f"{schema_file.name} is not among the recorded files")
    schema = Schema.from_json(schema_file.read_bytes())
    with (GOLDEN / f"{name}.avro").open("rb") as stream:
        expected = [
            {column: _by_hand(row.get(column), spec.data_type) for column, spec in schema.field_specs.items()}
            for row in fastavro.reader(stream)
        ]
    ledger = RowLedger(name)
    found = [
        row
        for batch in read_rows(InputFile(GOLDEN / f"{name}.avro"), FileFormat.AVRO, RowPipeline(schema), ledger)
        for row in batch.to_pylist()
    ]
    assert len(found) == len(expected) == ledger.num_rows_indexed
    for found_row, expected_row in zip(found, expected, strict=True):
        for column, spec in schema.field_specs.items():
            value = found_row[column]
            if spec.data_type in (DataType.JSON, DataType.MAP) and value is not None:
                assert json.loads(value) == expected_row[column]
                assert " " not in value.replace('": "', "")
            else:
                assert repr(value) == repr(expected_row[column]), column


def _by_hand(value: Any, data_type: DataType) -> Any:
    if value is None or value == []:
        return None
    if isinstance(value, list):
        return [_by_hand(item, data_type) for item in value]
    match data_type:
        case DataType.BIG_DECIMAL:
            return encode_decimal(Decimal(value))
        case DataType.JSON:
            return json.loads(value)
    return value


# --- Parquet, gzip, formats by name -----------------------------------------------------------------------------------


def test_parquet_reads_only_wanted_columns_and_keeps_dictionaries(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, None], "s": ["x", "y", "x"], "l": [[1], None, []], "unused": [b"1", b"2", b"3"]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    columns = [
        ReaderColumn("s", DataType.STRING),
        ReaderColumn("missing", DataType.INT),
        ReaderColumn("a", DataType.INT),
        ReaderColumn("l", DataType.INT, False),
    ]
    rows, numbers, _ = read(tmp_path / "a.parquet", columns)
    assert rows == table.select(["s", "a", "l"]).to_pylist()
    assert numbers == [1, 2, 3]
    batch = next(
        reader_for(FileFormat.PARQUET)(InputFile(tmp_path / "a.parquet"), columns, {}, lambda *_: None, lambda *_: None)
    ).batch
    assert pa.types.is_dictionary(batch.schema.field("s").type)


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(1000))}), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    for broken in (content[:-10], b"", b"PAR1" * 10):
        with pytest.raises(DecodeError, match=r"b\.parquet"):
            read(write(tmp_path, "b.parquet", broken), [ReaderColumn("a", DataType.INT)])


@pytest.mark.parametrize("file_format", ["csv", "json", "avro"])
def test_gzipped_files_and_plain_ones_are_the_same(tmp_path: Path, file_format: str) -> None:
    packed = DATA / f"sample.{file_format}.gz"
    plain = write(tmp_path, f"sample.{file_format}", gzip.decompress(packed.read_bytes()))
    assert read(packed, text("column3", "column13")) == read(plain, text("column3", "column13"))


def test_the_sample_of_the_reference_is_equal_in_csv_json_and_avro() -> None:
    longs, ints = ("column1", "met_impressionCount"), ("column2", "column4", "column5", "time_day")
    texts = (
        "column3",
        "column7",
        "column8",
        "column9",
        "column10",
        "column11",
        "column12",
        "column13",
        "column14",
        "column15",
    )
    dimensions = [
        {"name": n, "dataType": t} for t, names in (("LONG", longs), ("INT", ints), ("STRING", texts)) for n in names
    ]
    pipeline = RowPipeline(Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": dimensions}))
    found = {}
    for known in (FileFormat.CSV, FileFormat.JSON, FileFormat.AVRO):
        batches = list(read_rows(InputFile(DATA / f"sample.{known}.gz"), known, pipeline, RowLedger(known)))
        found[known] = [row for batch in batches for row in batch.to_pylist()]
    assert len(found[FileFormat.AVRO]) == 300
    assert found[FileFormat.JSON] == found[FileFormat.AVRO]
    # An empty field of a CSV is no value: the file cannot tell it from an empty text.
    without_empty = [
        {name: None if value == "" else value for name, value in row.items()} for row in found[FileFormat.AVRO]
    ]
    assert found[FileFormat.CSV] == without_empty


def test_formats_by_name() -> None:
    assert [format_of(Path(name)) for name in ("a.CSV", "a.json.gz", "a.b.avro", "x.jsonl", "a.parquet", "a.txt", "csv",
    "a.gz")] == [
        FileFormat.CSV, FileFormat.JSON, FileFormat.AVRO, FileFormat.JSON, FileFormat.PARQUET, None, None, None,
    ]  # fmt: skip
    assert format_from_text(" Csv ") is FileFormat.CSV
    with pytest.raises(UserError, match="csv, tsv, json, avro, parquet, orc"):
        format_from_text("xls")
    with pytest.raises(UserError, match="cannot be opened"):
        InputFile(Path("/nowhere/a.csv")).open()
