"""Proves that a value of an Avro union arrives as it would alone, whatever its neighbours are, and that types that
contain themselves keep their numbers.
"""

from __future__ import annotations

import datetime as dt
import io
import math
import random
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from tests.support.read_back import read_back

from pinotpy.errors import DecodeError
from pinotpy.ingest.readers.spec import FileFormat

AT = dt.datetime(2021, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
BRANCHES: dict[str, tuple[Any, list[Any]]] = {
    "boolean": ("boolean", [True, False]),
    "int": ("int", [0, 1, -7, 18_628]),
    "double": ("double", [0.0, 2.5, 3.0, 1e300]),
    "string": ("string", ["", "x", "12", "2.5", "true", "0f", "2021-02-03 04:05:06", '{"a": 1}']),
    "bytes": ("bytes", [b"", b"\x01\xff"]),
    "date": ({"type": "int", "logicalType": "date"}, [dt.date(2021, 2, 3)]),
    "at": ({"type": "long", "logicalType": "timestamp-millis"}, [AT]),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
        [Decimal("1.50"), Decimal("-3.00")],
    ),
    "list": ({"type": "array", "items": ["null", "long", "string"]}, [[], [1], ["1", None, 2], ["b", 3]]),
    "map": ({"type": "map", "values": "long"}, [{"a": 1}, {}]),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "ab"]}, ["A"]),
}
# Those that a writer tells apart by the Python value.
UNIONS = [
    ["boolean", "int", "double"], ["int", "string"], ["boolean", "string", "list"], ["double", "bytes", "map"],
    ["date", "string", "at"],
    ["decimal", "int", "string"], ["list", "int", "null"], ["map", "list", "boolean", "double"], ["null", "at", "int"],
    ["date", "bytes"],
]  # fmt: skip
KINDS = [
    "INT",
    "LONG",
    "FLOAT",
    "DOUBLE",
    "BIG_DECIMAL",
    "BOOLEAN",
    "TIMESTAMP",
    "STRING",
    "JSON",
    "BYTES",
    "INT[]",
    "STRING[]",
    "DOUBLE[]",
]


def written(union: Any, values: list[Any]) -> bytes:
    out = io.BytesIO()
    fields = [{"name": "id", "type": "long"}, {"name": "u", "type": union}]
    # Texts with their branch: beside dates fastavro would take them for dates.
    rows = [
        {"id": number, "u": ("string", value) if isinstance(value, str) and isinstance(union, list) else value}
        for number, value in enumerate(values, 1)
    ]
    fastavro.writer(
        out, fastavro.parse_schema({"type": "record", "name": "top", "fields": fields}), rows, sync_interval=200
    )
    return out.getvalue()


@pytest.mark.parametrize("names", UNIONS, ids="-".join)
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_of_a_union_arrives_as_it_would_alone(names: list[str], kind: str) -> None:
    noise = random.Random("".join([kind, *names]))
    union = ["null" if name == "null" else BRANCHES[name][0] for name in names]
    pool = [value for name in names if name != "null" for value in BRANCHES[name][1]] + (
        [None] if "null" in names else []
    )
    values = noise.sample(pool, len(pool)) * 2
    rows, rejected = read_back(written(union, values), {"id": "LONG", "u": kind}, FileFormat.AVRO)
    found = {row["id"]: row["u"] for row in rows} | dict.fromkeys(rejected, "bad")
    alone = {}
    for number, value in enumerate(values[: len(pool)], 1):
        rows, rejected = read_back(written(union, [value]), {"id": "LONG", "u": kind}, FileFormat.AVRO)
        alone[number] = alone[number + len(pool)] = "bad" if rejected else rows[0]["u"]
    assert found == alone


TREE = {
    "type": "record",
    "name": "node",
    "fields": [
        {"name": "v", "type": "double"},
        {"name": "f", "type": "float"},
        {"name": "n", "type": ["null", "node"]},
    ],
}


def test_nan_in_a_type_that_contains_itself_is_a_bad_row() -> None:
    good = {"v": 0.1, "f": 0.1, "n": {"v": 2.0, "f": 2.0, "n": None}}
    rows, rejected = read_back(
        written(TREE, [good, {"v": math.nan, "f": 0.0, "n": None}, good]), {"u": "JSON"}, FileFormat.AVRO
    )
    assert rows == [{"u": '{"v":0.1,"f":0.1,"n":{"v":2,"f":2,"n":null}}'}] * 2
    assert rejected[2][0] == "u"


def test_decimals_of_types_that_contain_themselves_keep_their_digits() -> None:
    number = Decimal("12345678901234567890123456789012345678901234567.89")
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}
    node: dict[str, Any] = {
        "type": "record",
        "name": "node",
        "fields": [{"name": "v", "type": decimal}, {"name": "n", "type": ["null", "node"]}],
    }
    assert read_back(written(node, [{"v": number, "n": None}]), {"u": "JSON"}, FileFormat.AVRO)[0] == [
        {"u": f'{{"v":{number},"n":null}}'}
    ]
    # No writer makes longer ones, so the schema is written without the word and gets it afterwards.
    plain = {
        **node,
        "fields": [
            {"name": "v", "type": {"type": "bytes", "logicalType": "decimaL", "precision": 60}},
            node["fields"][1],
        ],
    }
    content = written(plain, [{"v": b"\x01" * 40, "n": None}]).replace(b"decimaL", b"decimal")
    with pytest.raises(DecodeError, match="a decimal of 40 bytes"):
        read_back(content, {"u": "JSON"}, FileFormat.AVRO)
