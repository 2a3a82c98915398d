"""Proves that Avro files of any schema are read as fastavro reads them, and that hostile ones end with a cause, soon
and small.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import lzma
import math
import struct
import zlib
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import DecodeError
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers import avro_container, avro_format
from pinotpy.ingest.readers.avro_schema import parse_schema
from pinotpy.ingest.readers.catalog import reader_for
from pinotpy.ingest.readers.spec import FileFormat, InputFile, ReaderColumn


def written(
    fields: list[dict[str, Any]], rows: list[dict[str, Any]], codec: str = "null", sync_interval: int = 500
) -> bytes:
    out = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "top", "fields": fields})
    fastavro.writer(out, schema, rows, codec=codec, sync_interval=sync_interval)
    return out.getvalue()


def read(content: bytes, *columns: ReaderColumn) -> list[dict[str, Any]]:
    file = InputFile(Path("a.avro"), lambda: io.BytesIO(content), len(content))
    batches = reader_for(FileFormat.AVRO)(file, columns, {}, lambda *_, **__: None, lambda *_: None)
    return [row for batch in batches for row in batch.batch.to_pylist()]


def ingested(content: bytes, specs: dict[str, Any]) -> list[dict[str, Any]]:
    dimensions = [
        {"name": name, "dataType": kind} if isinstance(kind, str) else {"name": name, **kind}
        for name, kind in specs.items()
    ]
    pipeline = RowPipeline(Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": dimensions}))
    file = InputFile(Path("a.avro"), lambda: io.BytesIO(content), len(content))
    return [row for batch in read_rows(file, FileFormat.AVRO, pipeline, RowLedger("a")) for row in batch.to_pylist()]


# --- random schemas against fastavro ----------------------------------------------------------------------------------

NAMES = count()
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "string": TEXT,
    "bytes": st.binary(max_size=6),
}


@st.composite
def types_and_values(draw: st.DrawFn, depth: int = 0) -> tuple[Any, st.SearchStrategy[Any]]:
    """(type, its values)"""
    kinds = [*PRIMITIVES, "enum", "fixed"] + (["array", "map", "record", "optional", "union"] if depth < 3 else [])
    kind = draw(st.sampled_from(kinds))
    name = f"n{next(NAMES)}"
    match kind:
        case "enum":
            return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
        case "fixed":
            return {"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3)
        case "array":
            items, values = draw(types_and_values(depth + 1))
            return {"type": "array", "items": items}, st.lists(values, max_size=3)
        case "map":
            items, values = draw(types_and_values(depth + 1))
            return {"type": "map", "values": items}, st.dictionaries(TEXT, values, max_size=3)
        case "record":
            below = draw(st.lists(types_and_values(depth + 1), max_size=3))
            fields = [{"name": f"f{number}", "type": of} for number, (of, _) in enumerate(below)]
            return {"type": "record", "name": name, "fields": fields}, st.fixed_dictionaries(
                {f"f{n}": values for n, (_, values) in enumerate(below)}
            )
        case "optional":
            of, values = draw(types_and_values(3))
            return (["null", of], st.none() | values) if of != "null" else ("null", st.none())
        case "union":
            # Branches that fastavro's writer tells apart by the Python value.
            return draw(st.permutations(["null", "long", "string"])), st.none() | PRIMITIVES["long"] | TEXT
    return kind, PRIMITIVES[kind]


def as_json(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {key: as_json(item) for key, item in value.items()}
        case list():
            return [as_json(item) for item in value]
        case float():
            return AsWritten(value) if value else 0
    return value


class AsWritten(float):
    """A double, or a float of 32 bits by its shortest digits."""

    __hash__ = float.__hash__

    def __eq__(self, found: object) -> bool:
        return found == pytest.approx(float(self), rel=1e-15) or (
            np.float32(self) == float(self) and found == float(str(np.float32(self)))
        )


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_values_of_random_schemas_are_those_that_fastavro_reads(data: st.DataObject) -> None:
    below = data.draw(st.lists(types_and_values(), min_size=1, max_size=4))
    rows = data.draw(
        st.lists(
            st.fixed_dictionaries({f"c{n}": values for n, (_, values) in enumerate(below)}), min_size=1, max_size=6
        )
    )
    wanted = data.draw(st.sets(st.sampled_from(range(len(below))), min_size=1))
    # Within a record, so that a text is a JSON text and not taken for one.
    fields = [
        {"name": f"c{n}", "type": {"type": "record", "name": f"w{n}", "fields": [{"name": "v", "type": of}]}}
        for n, (of, _) in enumerate(below)
    ]
    wrapped = [{name: {"v": value} for name, value in row.items()} for row in rows]
    content = written(
        fields,
        wrapped,
        codec=data.draw(st.sampled_from(["null", "deflate", "bzip2", "xz"])),
        sync_interval=data.draw(st.sampled_from([1, 50])),
    )
    expected = [{f"c{n}": as_json(row[f"c{n}"]) for n in wanted} for row in fastavro.reader(io.BytesIO(content))]
    found = read(content, *(ReaderColumn(f"c{n}", DataType.JSON) for n in wanted))
    assert [{name: json.loads(text) for name, text in row.items()} for row in found] == expected


def test_a_wide_file_of_many_blocks_keeps_its_order() -> None:
    fields = [{"name": f"c{n}", "type": ["null", "long"]} for n in range(300)]
    rows = [{f"c{n}": None if (row + n) % 7 == 0 else row * n for n in range(300)} for row in range(1500)]
    columns = [ReaderColumn(f"c{n}", DataType.LONG) for n in (299, 3, 150)]
    assert read(written(fields, rows, "deflate"), *columns) == [
        {column.name: row[column.name] for column in columns} for row in rows
    ]


def test_lists_that_outgrow_the_room_are_read_again_with_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_format, "BATCH_ROWS", 1024)
    rows = [{"l": list(range(row % 50)), "s": "x" * (row % 30)} for row in range(3000)]
    content = written(
        [{"name": "l", "type": {"type": "array", "items": "long"}}, {"name": "s", "type": "string"}],
        rows,
        sync_interval=100_000,
    )
    assert read(content, ReaderColumn("l", DataType.LONG, False), ReaderColumn("s", DataType.STRING)) == rows


# --- logical types ----------------------------------------------------------------------------------------------------

AT = dt.datetime(2021, 2, 3, 4, 5, 6, 789_123, tzinfo=dt.UTC)
MICROS = int(AT.timestamp()) * 1_000_000 + 789_123
LOGICAL: list[tuple[Any, Any, str, Any]] = [
    ({"type": "int", "logicalType": "date"}, AT.date(), "INT", 18661),
    ({"type": "int", "logicalType": "date"}, AT.date(), "STRING", "2021-02-03"),
    ({"type": "int", "logicalType": "date"}, AT.date(), "TIMESTAMP", 18661 * 86_400_000),
    ({"type": "int", "logicalType": "time-millis"}, dt.time(1, 2, 3, 4000), "INT", 3_723_004),
    ({"type": "int", "logicalType": "time-millis"}, dt.time(1, 2, 3, 4000), "STRING", "01:02:03.004000"),
    ({"type": "long", "logicalType": "time-micros"}, dt.time(1, 2, 3, 4), "LONG", 3_723_000_004),
    ({"type": "long", "logicalType": "timestamp-millis"}, AT, "TIMESTAMP", MICROS // 1000),
    ({"type": "long", "logicalType": "timestamp-millis"}, AT, "LONG", MICROS // 1000),
    ({"type": "long", "logicalType": "timestamp-micros"}, AT, "TIMESTAMP", MICROS // 1000),
    ({"type": "long", "logicalType": "timestamp-micros"}, AT, "STRING", "2021-02-03T04:05:06.789123+00:00"),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, AT.replace(tzinfo=None), "TIMESTAMP", MICROS // 1000),
    (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        AT.replace(tzinfo=None),
        "STRING",
        "2021-02-03T04:05:06.789123",
    ),
    (
        {"type": "string", "logicalType": "uuid"},
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "STRING",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
        Decimal("-12345.678"),
        "BIG_DECIMAL",
        encode_decimal(Decimal("-12345.678")),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
        Decimal("-12345.678"),
        "DOUBLE",
        -12345.678,
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 0},
        Decimal(10) ** 59,
        "BIG_DECIMAL",
        encode_decimal(Decimal(10) ** 59),
    ),
    ({"type": "fixed", "name": "d", "size": 7, "logicalType": "decimal", "precision": 16}, Decimal(-1), "LONG", -1),
    (
        {"type": "fixed", "name": "d", "size": 20, "logicalType": "decimal", "precision": 4, "scale": 2},
        Decimal("-0.05"),
        "STRING",
        "-0.05",
    ),
    (
        {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"},
        bytes(range(16)),
        "STRING",
        "00010203-0405-0607-0809-0a0b0c0d0e0f",
    ),
    (
        {"type": "fixed", "name": "p", "size": 12, "logicalType": "duration"},
        struct.pack("<III", 14, 3, 4005),
        "STRING",
        "P14M3DT4.005S",
    ),
    ({"type": "fixed", "name": "p", "size": 12}, bytes(12), "BYTES", bytes(12)),
    ({"type": "long", "logicalType": "of-tomorrow"}, 5, "LONG", 5),
    ({"type": "bytes", "logicalType": "decimal", "precision": 0}, b"\x05", "BYTES", b"\x05"),
]


@pytest.mark.parametrize(("of", "value", "data_type", "expected"), LOGICAL)
@pytest.mark.parametrize("optional", [False, True])
def test_logical_types(of: Any, value: Any, data_type: str, expected: Any, optional: bool) -> None:
    # fastavro writes uuids and durations of fixed, and unknown logical types, only as what is below them.
    plain = (
        {**of, "logicalType": "none"}
        if of.get("logicalType") in ("duration",) or (of["type"] == "fixed" and of.get("logicalType") == "uuid")
        else of
    )
    content = written(
        [{"name": "v", "type": ["null", plain] if optional else plain}],
        [{"v": value}, {"v": None}] if optional else [{"v": value}],
    )
    if plain is not of:
        content = with_schema(
            content,
            json.dumps(
                {"type": "record", "name": "top", "fields": [{"name": "v", "type": ["null", of] if optional else of}]}
            ),
        )
    found = ingested(content, {"v": data_type})
    assert found == [{"v": expected}, {"v": None}][: 1 + optional]


def test_nanoseconds() -> None:
    content = written([{"name": "v", "type": "long"}], [{"v": MICROS * 1000 + 7}])
    for name, text in (
        ("timestamp-nanos", "2021-02-03T04:05:06.789123+00:00"),
        ("local-timestamp-nanos", "2021-02-03T04:05:06.789123"),
    ):
        nanos = with_schema(
            content,
            json.dumps(
                {
                    "type": "record",
                    "name": "top",
                    "fields": [{"name": "v", "type": {"type": "long", "logicalType": name}}],
                }
            ),
        )
        assert ingested(nanos, {"v": "TIMESTAMP"}) == [{"v": MICROS // 1000}]
        assert ingested(nanos, {"v": "STRING"}) == [{"v": text}]


def test_times_that_no_calendar_has_are_bad_rows() -> None:
    for logical, kind, value in (
        ("timestamp-millis", "long", 2**62),
        ("time-millis", "int", -5),
        ("date", "int", 2**31 - 1),
    ):
        content = written([{"name": "v", "type": kind}], [{"v": value}])
        strange = with_schema(
            content,
            json.dumps(
                {
                    "type": "record",
                    "name": "top",
                    "fields": [{"name": "v", "type": {"type": kind, "logicalType": logical}}],
                }
            ),
        )
        with pytest.raises(DecodeError, match="no time that ISO 8601 can write"):
            ingested(strange, {"v": "STRING"})


# --- unions, names, recursion -----------------------------------------------------------------------------------------


def test_unions_of_several_types_are_cast_each_by_itself() -> None:
    fields = [
        {
            "name": "v",
            "type": [
                "null",
                "int",
                "double",
                "string",
                {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long"}]},
            ],
        }
    ]
    rows = [{"v": 7}, {"v": "8"}, {"v": None}, {"v": 2.5}, {"v": {"x": 1}}]
    content = written(fields, rows)
    assert [row["v"] for row in ingested(content, {"v": "STRING"})] == ["7", "8", None, "2.5", '{"x":1}']
    assert [row["v"] for row in ingested(written(fields, rows[:4]), {"v": "DOUBLE"})] == [7.0, 8.0, None, 2.5]
    numbers = [
        {"name": "v", "type": ["int", "long", "float"]},
        {"name": "w", "type": {"type": "array", "items": ["int", "string"]}},
    ]
    content = written(numbers, [{"v": 1, "w": [1, "2"]}, {"v": 0.5, "w": []}])
    assert ingested(content, {"v": "DOUBLE", "w": {"dataType": "INT", "singleValueField": False}}) == [
        {"v": 1.0, "w": [1, 2]},
        {"v": 0.5, "w": None},
    ]


def test_named_types_and_namespaces() -> None:
    inner = {
        "type": "record",
        "name": "in",
        "namespace": "x.y",
        "fields": [{"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["P", "Q"]}}],
    }
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": "x.y.in"}, {"name": "c", "type": ["null", "x.y.E"]}]
    rows = [{"a": {"e": "P"}, "b": {"e": "Q"}, "c": "Q"}, {"a": {"e": "Q"}, "b": {"e": "Q"}, "c": None}]
    assert read(written(fields, rows), ReaderColumn("b", DataType.JSON), ReaderColumn("c", DataType.STRING)) == [
        {"b": '{"e":"Q"}', "c": "Q"},
        {"b": '{"e":"Q"}', "c": None},
    ]


def test_types_that_contain_themselves_are_json_and_stepped_over() -> None:
    tree = {
        "type": "record",
        "name": "tree",
        "fields": [{"name": "v", "type": "int"}, {"name": "below", "type": {"type": "array", "items": "tree"}}],
    }
    value = {"v": 1, "below": [{"v": 2, "below": []}, {"v": 3, "below": [{"v": 4, "below": []}]}]}
    content = written([{"name": "t", "type": tree}, {"name": "n", "type": "long"}], [{"t": value, "n": 5}])
    assert read(content, ReaderColumn("n", DataType.LONG)) == [{"n": 5}]
    (row,) = read(content, ReaderColumn("t", DataType.JSON))
    assert json.loads(row["t"]) == value
    (row,) = read(content, ReaderColumn("t", DataType.STRING, nested=True))
    assert row["t"]["below"][1]["below"][0]["v"] == 4


def test_map_columns_of_old_schemas() -> None:
    content = written(
        [{"name": "m", "type": ["null", {"type": "map", "values": ["null", "int"]}]}],
        [{"m": {"b": 1, "a": None}}, {"m": None}],
    )
    found = ingested(
        content,
        {
            "m__KEYS": {"dataType": "STRING", "singleValueField": False},
            "m__VALUES": {"dataType": "INT", "singleValueField": False},
        },
    )
    assert found == [{"m__KEYS": ["b", "a"], "m__VALUES": [1]}, {"m__KEYS": None, "m__VALUES": None}]


# --- damage and bombs -------------------------------------------------------------------------------------------------


def number(value: int) -> bytes:
    word = (value << 1) ^ (value >> 63)
    out = bytearray()
    while word >= 0x80:
        out.append(word & 0x7F | 0x80)
        word >>= 7
    return bytes([*out, word])


def big_decimal(text: str) -> bytes:
    """As Avro's Java library writes it: the unscaled number as bytes, the scale as int."""
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    content = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    return number(len(content)) + content + number(-exponent)


def big_decimals(contents: list[bytes | None], wrap: Any = lambda of: ["null", of]) -> bytes:
    """A file of them, whatever is in the bytes: the logical type is written into a schema of plain bytes."""
    plain = written([{"name": "v", "type": wrap({"type": "bytes"})}], [{"v": content} for content in contents])
    fields = [{"name": "v", "type": wrap({"type": "bytes", "logicalType": "big-decimal"})}]
    return with_schema(plain, json.dumps({"type": "record", "name": "top", "fields": fields}))


def test_big_decimals_have_each_their_own_scale() -> None:
    texts = ["-12345.678", "1.50", "12E+2", "0", f"0.{'7' * 60}", "-0.001"]
    content = big_decimals([*map(big_decimal, texts), None])
    plain = [format(Decimal(text), "f") for text in texts]
    assert [row["v"] for row in ingested(content, {"v": "STRING"})] == [*plain, None]
    assert [row["v"] for row in ingested(content, {"v": "BIG_DECIMAL"})] == [
        *(encode_decimal(Decimal(text)) for text in plain),
        None,
    ]
    assert [row["v"] for row in ingested(content, {"v": "DOUBLE"})] == [*map(float, texts), None]
    assert ingested(big_decimals([big_decimal("12E+2")]), {"v": "LONG"}) == [{"v": 1200}]
    # Digits are hex, too: a column of bytes has the file's.
    assert ingested(content, {"v": "BYTES"})[:2] == [{"v": big_decimal("-12345.678")}, {"v": big_decimal("1.50")}]
    listed = big_decimals([[big_decimal("1.5"), big_decimal("22")]], lambda of: {"type": "array", "items": of})  # type: ignore[list-item]
    assert ingested(listed, {"v": {"dataType": "STRING", "singleValueField": False}}) == [{"v": ["1.5", "22"]}]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x02",
        b"\x04\x01",
        b"\x02\x05\x00\x00",
        b"\x01\x05\x00",
        b"\x80" * 12,
        number(129) + bytes(129) + number(0),
        b"\x02\x05" + number(2**31 - 1),
    ],
)
def test_bytes_that_are_no_big_decimal_end_the_file_with_a_cause(content: bytes) -> None:
    with pytest.raises(DecodeError, match="a big-decimal"):
        ingested(big_decimals([content]), {"v": "STRING"})


def container(schema: Any, *blocks: tuple[int, bytes], codec: str = "null") -> bytes:
    def sized(content: bytes) -> bytes:
        return number(len(content)) + content

    text = schema if isinstance(schema, str) else json.dumps(schema)
    entries = {b"avro.schema": text.encode(), b"avro.codec": codec.encode()}
    header = (
        b"Obj\x01"
        + number(2)
        + b"".join(sized(key) + sized(value) for key, value in entries.items())
        + number(0)
        + b"S" * 16
    )
    return header + b"".join(number(count) + sized(content) + b"S" * 16 for count, content in blocks)


def with_schema(content: bytes, schema: str) -> bytes:
    """The same blocks below another schema."""
    with io.BytesIO(content) as stream:
        header = avro_container.read_header(stream)
        return container(schema, *avro_container.read_blocks(stream, header))


def record(of: Any) -> dict[str, Any]:
    return {"type": "record", "name": "top", "fields": [{"name": "v", "type": of}]}


def zeros(size_bytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"".join([packer.compress(bytes(1 << 20)) for _ in range(size_bytes >> 20)] + [packer.flush()])


CHAIN = {"type": "record", "name": "chain", "fields": [{"name": "next", "type": ["null", "chain"]}]}
ENDLESS = {"type": "record", "name": "endless", "fields": [{"name": "next", "type": "endless"}]}
DOUBLING = {"type": "record", "name": "d0", "fields": []}
for _level in range(1, 40):
    DOUBLING = {
        "type": "record",
        "name": f"d{_level}",
        "fields": [{"name": "a", "type": DOUBLING}, {"name": "b", "type": f"d{_level - 1}"}],
    }


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "does not begin"),
        (b"Obj\x01" + number(1) + number(1 << 40), "expected at most"),
        (b"Obj\x01" + b"\xff" * 20, "more than 64 bits"),
        (container("[" * 5000 + "]" * 5000, (1, b"")), "schema"),
        (container("{", (1, b"")), "schema is not valid"),
        (container({"type": "record", "name": "t"}, (1, b"")), "without a list of named fields"),
        (container(record("nosuch"), (1, b"")), "does not define"),
        (container(record([]), (1, b"")), "union without branches"),
        (container('"long"', (1, b"\x02")), "of kind long"),
        (container(record("long"), (1, b"\x02"), codec="lzo"), "codec 'lzo', expected one of null, deflate, snappy"),
        (container(DOUBLING, (1, b"")), "more than"),
        (container(record("long"), (1, b"\x80")), "behind the end of its block"),
        (container(record("long"), (1, b"\x80" * 10 + b"\x01")), "more than 64 bits"),
        (container(record("long"), (1, b"\x02\x02")), "bytes behind the last record"),
        (container(record("long"), (2, b"\x02")), "behind the end"),
        (container(record("int"), (1, number(2**31))), "more than 32 bits"),
        (container(record("boolean"), (1, b"\x02")), "neither 0 nor 1"),
        (container(record("string"), (1, number(-1))), "negative length"),
        (container(record("string"), (1, number(2**62))), "behind the end"),
        (container(record("string"), (1, number(2) + b"\xff\xfe")), "not UTF-8"),
        (container(record(["null", "int"]), (1, number(2))), "a branch that its union does not have"),
        (
            container(record({"type": "enum", "name": "e", "symbols": ["A"]}), (1, number(1))),
            "a symbol that its enum does not have",
        ),
        (
            container(record({"type": "array", "items": "null"}), (1, number(2**40) + number(0))),
            "more items than its block can hold",
        ),
        (
            container(record({"type": "array", "items": "null"}), (1, number(-(2**63)) + number(0) + number(0))),
            "more items",
        ),
        (container(record({"type": "map", "values": "null"}), (1, number(2**62))), "more items"),
        (container(record("null"), (2**50, b"")), "records in 0 bytes"),
        (container(record("null"), (-5, b"")), "-5 records"),
        (container(CHAIN, (1, number(1) * 100_000 + number(0))), "nested deeper"),
        (container(ENDLESS, (1, b"")), "nested deeper"),
        (container(record("long"), (1, zeros(300 << 20)), codec="deflate"), "unpacks to more than"),
        (container(record("long"), (1, zeros(1 << 20)[:-20]), codec="deflate"), "cut deflate"),
        (container(record("long"), (1, b"nonsense"), codec="deflate"), "damaged deflate"),
        (container(record("long"), (1, b"\xff\xff\xff\xff\x0f" + bytes(20)), codec="snappy"), "unpacks to more than"),
        (container(record("long"), (1, b"\x01\x00\x02" + b"\x00" * 4), codec="snappy"), "checksum"),
        (
            container(
                record("long"), (1, pa.compress(bytes(300 << 20), codec="zstd", asbytes=True)), codec="zstandard"
            ),
            "unpacks to more than",
        ),
        (
            container(record("long"), (1, pa.compress(b"\x02", codec="zstd", asbytes=True)[:-3]), codec="zstandard"),
            "damaged zstandard",
        ),
        (container(record("long"), (1, lzma.compress(b"\x02")[:-3]), codec="xz"), "cut compression"),
        (
            container(
                record({"type": "bytes", "logicalType": "decimal", "precision": 4}), (1, number(40) + b"\x7f" * 40)
            ),
            "a decimal of 40 bytes",
        ),
        (written([{"name": "v", "type": "long"}], [{"v": 5}] * 1000)[:-5], "ends within a block"),
    ],
    ids=lambda value: value if isinstance(value, str) else "file",  # its bytes are others in each process
)
def test_hostile_files_end_with_a_cause(content: bytes, cause: str) -> None:
    with pytest.raises(DecodeError, match=cause):
        read(
            content,
            ReaderColumn("v", DataType.LONG),
            ReaderColumn("b", DataType.JSON),
            ReaderColumn("next", DataType.JSON),
        )


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_damage_is_an_error_with_a_cause_or_other_values(data: st.DataObject) -> None:
    fields = [
        {"name": "v", "type": ["null", "long", "string"]},
        {"name": "l", "type": {"type": "array", "items": {"type": "map", "values": "bytes"}}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5}},
    ]
    whole = bytearray(written(fields, [{"v": n, "l": [{"k": b"x" * n}], "d": Decimal(n)} for n in range(20)]))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    content = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        read(
            content,
            ReaderColumn("v", DataType.STRING),
            ReaderColumn("l", DataType.JSON),
            ReaderColumn("d", DataType.BIG_DECIMAL),
        )
    except DecodeError as error:
        assert "a.avro" in str(error)


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_snappy_and_zstandard_blocks(codec: str) -> None:
    body = b"".join(number(value) for value in range(1000))
    packed = pa.compress(body, codec="snappy" if codec == "snappy" else "zstd", asbytes=True)
    if codec == "snappy":
        packed += zlib.crc32(body).to_bytes(4, "big")
    content = container(record("long"), (1000, packed), codec=codec)
    assert [row["v"] for row in read(content, ReaderColumn("v", DataType.LONG))] == list(range(1000))


def test_doubles_that_json_cannot_hold_are_bad_rows() -> None:
    content = written(
        [{"name": "v", "type": record("double") | {"name": "in"}}], [{"v": {"v": 1.5}}, {"v": {"v": math.nan}}]
    )
    with pytest.raises(DecodeError, match="row 2 column 'v'"):
        ingested(content, {"v": "JSON"})


def test_schemas_are_parsed_with_their_names() -> None:
    found = parse_schema(json.dumps(record({"type": "map", "values": "long"})))
    assert (found.kind, found.name, found.field_names, found.children[0].children[0].kind) == (
        "record",
        "top",
        ("v",),
        "long",
    )
