"""Proves that records of Avro become the rows that the same records become in a container file, that whatever is no
record of the schema is counted with its cause, and that it does not matter how records are cut into batches.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.decoding import batch_of, decoded, decoder_of, realtime_table, rows_of_file

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import InvalidConfigError, UserError
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.registry import decoder_name
from pinotpy.ingest.readers import avro_format
from pinotpy.ingest.readers.spec import FileFormat

TIME = {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
# Column → its type in the table, its type in the records, and a value by number.
TYPES: dict[str, tuple[dict[str, Any] | str, Any, Any]] = {
    "flag": ("BOOLEAN", "boolean", lambda n: n % 2 == 0),
    "small": ("INT", "int", lambda n: -n),
    "whole": ("LONG", "long", lambda n: n << 40),
    "single": ("FLOAT", "float", lambda n: n / 4),
    "double": ("DOUBLE", "double", lambda n: n / 3),
    "text": ("STRING", ["null", "string"], lambda n: f"tëxt {n}" if n % 3 else None),
    "raw": ("BYTES", "bytes", lambda n: bytes([n % 256, 255])),
    "fixed": ("BYTES", {"type": "fixed", "name": "four", "size": 4}, lambda n: n.to_bytes(4, "big")),
    "suit": ("STRING", {"type": "enum", "name": "suits", "symbols": ["A", "B", "C"]}, lambda n: "ABC"[n % 3]),
    "either": ("STRING", ["null", "long", "string"], lambda n: (None, n, f"s{n}")[n % 3]),
    "price": (
        "BIG_DECIMAL",
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
        lambda n: Decimal(n * 1001).scaleb(-3),
    ),
    "at": (
        "TIMESTAMP",
        {"type": "long", "logicalType": "timestamp-millis"},
        lambda n: dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=n),
    ),
    "many": (
        {"dataType": "INT", "singleValueField": False},
        {"type": "array", "items": ["null", "int"]},
        lambda n: [n, None, 2][: n % 4],
    ),
    "words": (
        {"dataType": "STRING", "singleValueField": False},
        ["null", {"type": "array", "items": "string"}],
        lambda n: ["a", f"b{n}"] if n % 5 else None,
    ),
    "inner": (
        "JSON",
        {"type": "record", "name": "inner", "fields": [{"name": "a", "type": "int"}]},
        lambda n: {"a": n},
    ),
}
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            *(
                {"name": name, **({"dataType": of} if isinstance(of, str) else of)}
                for name, (of, _, _) in TYPES.items()
            ),
            {"name": "counts__KEYS", "dataType": "STRING", "singleValueField": False},
            {"name": "absent", "dataType": "INT"},
        ],
        "dateTimeFieldSpecs": [TIME],
    }
)
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "unread", "type": "string"},
        *({"name": name, "type": of} for name, (_, of, _) in TYPES.items()),
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "ts", "type": "long"},
    ],
}
SMALL = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "INT"},
            {"name": "text", "dataType": "STRING"},
            {"name": "many", "dataType": "INT", "singleValueField": False},
        ],
        "dateTimeFieldSpecs": [TIME],
    }
)
SMALL_AVRO: dict[str, Any] = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "text", "type": ["null", "string"]},
        {"name": "many", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "ts", "type": "long"},
    ],
}


def record_of(number: int) -> dict[str, Any]:
    values = {name: value(number) for name, (_, _, value) in TYPES.items()}
    return {"unread": "x" * (number % 4), **values, "counts": {f"k{number}": 1}, "ts": 10**12 + number}


def encoded(avro: dict[str, Any], record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(avro), record)
    return out.getvalue()


def table_of(avro: Any, decoder: str = "avro", **ingestion: Any) -> TableConfig:
    return realtime_table(decoder, {"schema": json.dumps(avro)}, **ingestion)


def small(number: int, text: str | None = "t") -> bytes:
    return encoded(SMALL_AVRO, {"id": number, "text": text, "many": [number, 2], "ts": 10**12 + number})


def test_rows_are_those_of_a_file_with_the_same_records(tmp_path: Path) -> None:
    table = table_of(AVRO, filterConfig={"filterFunction": "small < -90"})
    records = [record_of(number) for number in range(100)]
    with (tmp_path / "rows.avro").open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(AVRO), records)
    expected, of_file = rows_of_file(tmp_path / "rows.avro", FileFormat.AVRO, SCHEMA, table, {})
    payloads = [encoded(AVRO, record) for record in records]
    for dice in (None, random.Random(1)):
        rows, numbers, counts = decoded(decoder_of(table, SCHEMA), payloads, dice)
        assert rows == expected and numbers == list(range(91))
        assert (counts["records"], counts["indexed"], counts["filtered"], counts["rejected"]) == (100, 91, 9, 0)
        assert counts["nulls"] == dict(of_file.nulls) and counts["nulls"]["absent"] == 91
        assert counts["droppedFromLists"] == dict(of_file.dropped) and counts["droppedFromLists"]["many"] > 0


def test_records_are_unnested() -> None:
    avro = {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "ts", "type": "long"},
            {"name": "items", "type": {"type": "array", "items": {**SMALL_AVRO, "name": "item"}}},
        ],
    }
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": "items.id", "dataType": "INT"}],
            "dateTimeFieldSpecs": [TIME],
        }
    )
    item = {"text": None, "many": [], "ts": 0}
    payloads = [
        encoded(avro, {"ts": 1, "items": [{"id": 1, **item}, {"id": 2, **item}]}),
        None,
        encoded(avro, {"ts": 2, "items": [{"id": 3, **item}]}),
    ]
    table = table_of(avro, complexTypeConfig={"fieldsToUnnest": ["items"]})
    rows, numbers, counts = decoded(decoder_of(table, schema), payloads)
    assert [row["items.id"] for row in rows] == [1, 2, 3] and numbers == [0, 0, 2]
    assert (counts["records"], counts["tombstones"], counts["indexed"], counts["addedByUnnesting"]) == (3, 1, 3, 1)


def number(value: int) -> bytes:
    """As Avro writes it."""
    word = (value << 1) ^ (value >> 63)
    out = b""
    while word > 0x7F:
        out += bytes([word & 0x7F | 0x80])
        word >>= 7
    return out + bytes([word])


CUT = "a value goes on behind the end of the record"
BEGIN = number(1) + number(1) + number(1) + b"t"  # id 1, text 't'
# Payload, and the cause with which it is rejected.
HOSTILE: list[tuple[bytes | None, str]] = [
    (None, ""),
    (b"", CUT),
    (small(1)[:-1], CUT),
    (small(1)[:2], CUT),
    (b"\xff" * 4, CUT),
    (small(1) + b"\x00", "bytes behind the end of the record"),
    (small(1) + small(2), "bytes behind the end of the record"),
    (b"\xff" * 20, "a number of more than 64 bits"),
    (number(1 << 40), "an int of more than 32 bits"),
    (number(1) + number(2), "a branch that its union does not have"),
    (number(1) + number(1) + number(-1), "a negative length"),
    (number(1) + number(1) + number(1 << 50) + b"t", CUT),
    (BEGIN + number(1 << 40), "a list of more items than the record can hold"),
    (BEGIN + number(50_000) + bytes(50_000) + number(0), CUT),
    (number(1) + number(1) + number(1) + b"\xff" + number(0) + number(5), "text that is not UTF-8"),
    (number(1) + number(1) + number(3) + b"\xed\xa0\x80" + number(0) + number(5), "text that is not UTF-8"),
    (b"\x00\x00\x00\x00\x07" + small(1), "bytes behind the end of the record"),  # as with a schema registry
    (b'{"id": 1}', "a branch that its union does not have"),
]


@pytest.mark.parametrize(("payload", "cause"), HOSTILE)
def test_what_is_no_record_is_rejected_with_its_cause(payload: bytes | None, cause: str) -> None:
    ledger = StreamLedger()
    part = decoder_of(table_of(SMALL_AVRO), SMALL).decode(batch_of([payload], first=1_000), ledger)
    assert part.rows.num_rows == 0 and part.rows.schema.names == list(SMALL.field_specs)
    if payload is None:
        assert (ledger.records, ledger.tombstones, ledger.rejected) == (1, 1, 0)
        return
    assert (ledger.records, ledger.tombstones, ledger.rejected) == (1, 0, 1)
    (sample,) = ledger.to_json()["samples"]
    assert sample == {
        "offset": "1000",
        "column": "",
        "cause": f"no Avro record of the schema: {cause}",
        "record": payload[:128].hex(),
    }


def test_a_value_that_its_column_cannot_have_is_rejected_with_the_column() -> None:
    avro = {**SMALL_AVRO, "fields": [{"name": "id", "type": "long"}, *SMALL_AVRO["fields"][1:]]}
    payloads = [encoded(avro, {"id": each, "text": None, "many": [], "ts": 1}) for each in (1, 1 << 40, 2)]
    rows, numbers, counts = decoded(decoder_of(table_of(avro), SMALL), payloads)
    assert [row["id"] for row in rows] == [1, 2] and numbers == [0, 2]
    assert counts["rejected"] == 1 and next(iter(counts["causes"])).startswith("id: ")


@pytest.mark.parametrize("seed", range(4))
def test_good_rows_are_exact_among_hostile_records_however_they_are_cut(seed: int) -> None:
    dice = random.Random(seed)
    mixed = [payload for payload, _ in HOSTILE] + [small(7, "x" * 5_000_000)]
    mixed += [small(each, f"t{each}" if each % 3 else None) for each in range(8, 80)]
    dice.shuffle(mixed)
    bad = {payload for payload, _ in HOSTILE}
    expected = [place for place, payload in enumerate(mixed) if payload not in bad]
    rows, numbers, counts = decoded(decoder_of(table_of(SMALL_AVRO), SMALL), mixed)
    assert numbers == expected
    assert counts["cut"] == {"text": 1}
    texts = {7: "x" * 512, **{each: f"t{each}" if each % 3 else None for each in range(8, 80)}}
    assert {row["id"]: row["text"] for row in rows} == texts
    assert [small(row["id"], row["text"])[:2] for row in rows] == [(mixed[place] or b"")[:2] for place in expected]
    assert (counts["records"], counts["tombstones"]) == (len(mixed), 1)
    assert (counts["indexed"], counts["rejected"]) == (len(expected), len(HOSTILE) - 1)
    assert sum(counts["causes"].values()) == counts["rejected"]
    assert decoded(decoder_of(table_of(SMALL_AVRO), SMALL), mixed, dice) == (rows, numbers, counts)


def test_a_list_without_bytes_counts_alone_as_in_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_format, "_EMPTY_ITEMS_MAX", 1000)
    avro = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "nothing", "type": {"type": "array", "items": "null"}}, {"name": "ts", "type": "long"}],
    }
    large, too_large = (number(count) + number(0) + number(5) for count in (990, 1100))
    few = [number(0) + number(5)] * 3
    payloads = [*few, large, large, too_large, large, *few]
    decoder = decoder_of(table_of(avro), SMALL)
    rows, numbers, counts = decoded(decoder, payloads)
    assert numbers == [0, 1, 2, 3, 4, 6, 7, 8, 9] and {row["ts"] for row in rows} == {5}
    assert counts["causes"] == {"no Avro record of the schema: a list of more items than the record can hold": 1}
    assert decoded(decoder, payloads, random.Random(2)) == (rows, numbers, counts)


@given(st.lists(st.none() | st.binary(max_size=12) | st.builds(small, st.integers(0, 9)), min_size=1, max_size=12))
@settings(max_examples=25, deadline=None)
def test_a_record_says_nothing_of_others(payloads: list[bytes | None]) -> None:
    decoder = decoder_of(table_of(SMALL_AVRO), SMALL)
    rows, numbers, counts = decoded(decoder, payloads)
    alone = [decoded(decoder, [payload]) for payload in payloads]
    assert rows == [row for of_one, _, _ in alone for row in of_one]
    assert numbers == [place for place, (of_one, _, _) in enumerate(alone) for _ in of_one]
    for name in ("records", "tombstones", "indexed", "rejected"):
        assert counts[name] == sum(of_one[name] for _, _, of_one in alone)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "prop.schema is missing, expected: the schema that the records were written with, as JSON text"),
        ({"schema": "{"}, "prop.schema: found '{', allowed: an Avro schema of a record with columns of the table: "),
        ({"schema": '"long"'}, "it is of kind long"),
        ({"schema": '["null", "string"]'}, "it is of kind union"),
        ({"schema": '{"type": "record"}'}, "a record without a list of named fields"),
        ({"schema": "[" * 100_000}, "a schema nested too deeply"),
        (
            {"schema": '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}'},
            "its fields are a, those of the table id, text, many, ts",
        ),
        ({"schema": json.dumps(SMALL_AVRO), "Schema": "x"}, "prop.Schema: found an unknown property, allowed: one of"),
    ],
)
def test_properties_that_mean_nothing_are_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError) as raised:
        decoder_of(realtime_table("avro", properties), SMALL)
    assert message in raised.value.message


def test_it_is_named_by_the_class_of_the_reference() -> None:
    name = "org.apache.pinot.plugin.inputformat.avro.SimpleAvroMessageDecoder"
    assert decoder_name(name) == "avro"
    assert len(decoded(decoder_of(table_of(SMALL_AVRO, name), SMALL), [small(1)])[0]) == 1


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.pinot.plugin.inputformat.avro.KafkaAvroMessageDecoder",
        "org.apache.pinot.plugin.inputformat.avro.confluent.KafkaConfluentSchemaRegistryAvroMessageDecoder",
        "org.apache.pinot.plugin.inputformat.json.confluent.KafkaConfluentSchemaRegistryJsonMessageDecoder",
    ],
)
def test_decoders_of_a_schema_registry_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="needs a schema registry, which is not supported: expected one of avro, csv"):
        decoder_of(table_of(SMALL_AVRO, name), SMALL)
