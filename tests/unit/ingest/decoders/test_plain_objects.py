"""Proves that records which the kernel reads become the rows, counts and causes that they become when each is parsed by
itself, whatever the bytes, and that plain records are read by the kernel.
"""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.arrays import Int64Array
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.decoders.json_decoder import JsonObjects
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.piped_decoder import PipedDecoder
from pinotpy.ingest.decoders.plain_objects import PlainObjects
from pinotpy.ingest.pipeline import RowPipeline
from pinotpy.ingest.readers.spec import InputBatch
from pinotpy.stream.spec import StreamBatch

TYPES = ("INT", "LONG", "FLOAT", "DOUBLE", "BOOLEAN", "TIMESTAMP", "STRING", "JSON", "BYTES", "BIG_DECIMAL")


def schema(names: tuple[str, ...]) -> Schema:
    fields: list[dict[str, Any]] = [{"name": name.lower(), "dataType": name} for name in names]
    fields += [
        {"name": "many", "dataType": "INT", "singleValueField": False},
        {"name": "short", "dataType": "STRING", "maxLength": 4},
        {"name": "a_key_of_more_than_eight_bytes", "dataType": "LONG"},
    ]
    time = {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
    return Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": fields, "dateTimeFieldSpecs": [time]})


WITH_DECIMALS = schema(TYPES)
WITHOUT_DECIMALS = schema(tuple(name for name in TYPES if name not in ("JSON", "BIG_DECIMAL")))
TABLE = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }
)


class NothingPlain:
    """Implements ObjectReader: leaves all out."""

    def __init__(self, plain: PlainObjects) -> None:
        self._plain = plain

    def read(self, payloads: pa.Array, numbers: Int64Array) -> tuple[InputBatch, Int64Array]:
        return self._plain.read(payloads, numbers[:0])[0], numbers


def decoded(of: Schema, payloads: list[bytes | None], *, by_kernel: bool) -> tuple[list[Any], list[int], Any]:
    pipeline = RowPipeline(of, TABLE, reject_share_max=1.0)
    plain = PlainObjects(pipeline.reader_columns)
    parse = JsonObjects(pipeline.reader_columns, plain if by_kernel else NothingPlain(plain))
    offsets = np.arange(len(payloads), dtype=np.int64)
    batch = StreamBatch(
        pa.array(payloads, pa.binary()), pa.nulls(len(payloads), pa.binary()), offsets, offsets, len(payloads)
    )
    ledger = StreamLedger()
    rows = PipedDecoder(pipeline, parse).decode(batch, ledger)
    texts = [pa.types.is_floating(column.type) for column in rows.rows.columns]
    # NaN and -0.0 are compared by their text.
    shown = [
        tuple(repr(value) if is_float else value for value, is_float in zip(row, texts, strict=True))
        for row in zip(*(column.to_pylist() for column in rows.rows.columns), strict=True)
    ]
    counts = ledger.to_json()
    counts["samples"] = len(counts["samples"])
    counts["causes"] = dict(ledger.causes)
    return shown, rows.records.tolist(), counts


NUMBERS = (
    "0", "-0", "-0.0", "7", "-12", "00", "01", "1.", ".5", "+1", "1.5", "1e3", "1E+2", "1e-7", "1.25e22", "1e23",
    "1e400", "123456789012345", "1234567890123456", "123456789012345678", "1234567890123456789",
    "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "2147483648", "0.1", "0.30000000000000004", "123456.789012345678",
    "1e", "1e+", "--1", "0x1", "NaN", "Infinity", "1.7976931348623157e308", "5e-324", "0.000000000000000000000001",
    "4.35", "1e00002", "1e12345", "999999999999999e22", "100000000000000.5", "-1.5e-3",
)  # fmt: skip
TEXTS = (
    '""', '"a"', '"12"', '"1.5"', '"true"', '"größe"', '"日本語"', '"a\\"b"', '"\\u00e9"', '"\\ud800"', '"tab\t"',
    '"' + "x" * 600 + '"', '"abcdef"', '"2024-01-01 00:00:00"', '"0a1b"', '"open', '"\\x"', '"seven b"', '"eight by"',
    '"{}"', '"\x7f"', '"null"', '"a\\\\"',
)  # fmt: skip
OTHERS = (
    "null", "true", "false", "nul", "True", "[]", "[1, 2]", "{}", '{"a": [1, {"b": "}"}]}', "[[[[]]]]", "[1 2]",
    "{1: 2}",    '["\\ud83d\\ude00"]', "[" * 70 + "]" * 70, '{"a": tru}', '{"k": 1,}', "[1,]", "",
)  # fmt: skip


def document(dice: random.Random, names: list[str]) -> bytes:
    keys = [name for name in names if dice.random() < 0.7]
    if dice.random() < 0.3:
        dice.shuffle(keys)
    if dice.random() < 0.3:
        keys.insert(dice.randrange(len(keys) + 1), dice.choice(["other", "", "tss", "s", *names]))
    blanks = ["", "", "", " ", "\n", " \t\r\n", "\x0b"]
    odd = dice.random() < 0.5

    def blank() -> str:
        return dice.choice(blanks) if odd else ""

    def value(name: str) -> str:
        if dice.random() < 0.12:
            return dice.choice(dice.choice((NUMBERS, TEXTS, OTHERS)))
        match name:
            case "string" | "short":
                return dice.choice(TEXTS[:7])
            case "boolean":
                return dice.choice(("true", "false"))
            case "float" | "double" | "big_decimal":
                return dice.choice((str(dice.randrange(-999, 999) / 8), repr(dice.random()), str(dice.randrange(99))))
            case "many":
                return dice.choice(("null", "[3]"))
            case "bytes":
                return '"0aff"'
            case "json":
                return dice.choice(("null", '{"a":1}'))
        return str(dice.randrange(-(10 ** dice.randrange(1, 12)), 10**9))

    fields = [f'{blank()}"{key}"{blank()}:{blank()}{value(key)}{blank()}' for key in keys]
    text = bytearray(f"{blank()}{{{','.join(fields)}{blank()}}}{blank()}".encode())
    if dice.random() < 0.15:
        text[dice.randrange(len(text))] = dice.choice(b'{}[]",:\\ 0e-\x00\x1f\x80\xc3\xe2\xed\xf0\xf4\xffnt')
    if dice.random() < 0.05:
        del text[dice.randrange(len(text)) :]
    return bytes(text)


@pytest.mark.parametrize("seed", range(6))
def test_records_become_the_same_by_kernel_and_one_by_one(seed: int) -> None:
    dice = random.Random(seed)
    of = WITH_DECIMALS if seed % 2 else WITHOUT_DECIMALS
    names = list(of.field_specs)
    for _ in range(10):
        payloads: list[bytes | None] = [document(dice, names) for _ in range(60)]
        payloads[dice.randrange(60)] = None
        assert decoded(of, payloads, by_kernel=True) == decoded(of, payloads, by_kernel=False)


@pytest.mark.parametrize("text", [*NUMBERS, *TEXTS, *OTHERS])
def test_each_value_becomes_the_same_in_every_column(text: str) -> None:
    # One record a column: they do not see each other.
    for of in (WITH_DECIMALS, WITHOUT_DECIMALS):
        payloads: list[bytes | None] = [f'{{"{name}":{text}}}'.encode() for name in (*of.field_specs, "other")]
        assert decoded(of, payloads, by_kernel=True) == decoded(of, payloads, by_kernel=False)


def test_plain_records_are_read_by_the_kernel() -> None:
    columns = RowPipeline(WITHOUT_DECIMALS, TABLE, reject_share_max=1.0).reader_columns
    plain = [
        {"int": number, "long": -number, "float": 0.5, "double": number / 4, "boolean": number % 2 == 0,
         "timestamp": 10**12 + number, "string": f"größe {number}", "ts": None, "other": {"a": ["\\\"", number]}}
        for number in range(50)
    ]  # fmt: skip
    payloads = [json.dumps(row, ensure_ascii=number % 2 == 0).encode() for number, row in enumerate(plain)]
    rows, left_out = PlainObjects(columns).read(pa.array(payloads, pa.binary()), np.arange(50, dtype=np.int64))
    # json.dumps writes ö as an escape where it may write ASCII only.
    assert left_out.tolist() == list(range(0, 50, 2)) and (rows.row_numbers - 1).tolist() == list(range(1, 50, 2))
    assert rows.batch.column("string").to_pylist() == [f"größe {number}" for number in range(1, 50, 2)]
    assert rows.batch.column("double").to_pylist() == [number / 4 for number in range(1, 50, 2)]
    assert rows.batch.column("ts").null_count == 25


def test_payloads_may_be_a_part_of_an_array() -> None:
    columns = RowPipeline(WITHOUT_DECIMALS, TABLE, reject_share_max=1.0).reader_columns
    payloads = pa.array([f'{{"int":{number}}}'.encode() for number in range(10)], pa.binary()).slice(4, 3)
    rows, left_out = PlainObjects(columns).read(payloads, np.array([0, 2], np.int64))
    assert rows.batch.column("int").to_pylist() == [4, 6] and not len(left_out)
