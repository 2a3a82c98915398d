"""Proves that values of every Arrow type arrive from Parquet and ORC, in every column type, as Python has them: random
tables, pages, row groups.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from tests.support.read_back import read_back

from pinotpy.config.ingestion import MissingColumns
from pinotpy.errors import DecodeError
from pinotpy.ingest.readers import orc_format, parquet_format
from pinotpy.ingest.readers.spec import FileFormat

BAD = "bad"
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001
DAY = dt.date(1970, 1, 1)


def whole(bits: int) -> list[int]:
    return [0, 1, -1, 7, (1 << bits - 1) - 1, -(1 << bits - 1)]


TIMES = [EPOCH + dt.timedelta(milliseconds=count) for count in (1_612_325_106_789, 0, -999, 32_472_144_000_000)]
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), whole(8)),
    "int16": (pa.int16(), whole(16)),
    "int32": (pa.int32(), whole(32)),
    "int64": (pa.int64(), whole(64)),
    "uint8": (pa.uint8(), [0, 1, 255]),
    "uint32": (pa.uint32(), [0, 1, 2**32 - 1]),
    "uint64": (pa.uint64(), [0, 1, 2**64 - 1]),
    "float": (pa.float32(), [0.0, 1.0, -2.5, 0.5, math.inf]),
    "double": (pa.float64(), [0.0, 1.0, -2.5, 0.1, 1e300, -math.inf]),
    "decimal": (pa.decimal128(20, 4), [Decimal("0.7000"), Decimal("3.0000"), Decimal("-1234567890123456.7891")]),
    "wide": (pa.decimal256(60, 0), [Decimal(10**50 + 1), Decimal(0), Decimal(-5)]),
    "string": (pa.string(), ["", "x", " 12", "-7", "2.5", "true", "0aFF", "é\U0001f600", "1e3", '{"a": 1.0}']),
    "large": (pa.large_string(), ["abc", "1"]),
    "binary": (pa.binary(), [b"", b"\x00\xff"]),
    "fixed": (pa.binary(3), [b"abc"]),
    "date": (pa.date32(), [value.date() for value in TIMES]),
    "ms": (pa.timestamp("ms"), TIMES),
    "us": (pa.timestamp("us"), TIMES),
    "ns": (pa.timestamp("ns"), TIMES[:3]),
    "zoned": (pa.timestamp("us", "UTC"), [value.replace(tzinfo=dt.UTC) for value in TIMES]),
    "struct": (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        [{"a": 1, "b": ["x", None]}, {"a": None, "b": None}],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], []]),
}
NOT_IN_ORC = {"uint8", "uint32", "uint64", "wide", "fixed"}
KINDS = [
    "INT",
    "LONG",
    "DOUBLE",
    "BIG_DECIMAL",
    "BOOLEAN",
    "TIMESTAMP",
    "STRING",
    "JSON",
    "BYTES",
    "INT[]",
    "LONG[]",
    "DOUBLE[]",
    "STRING[]",
]


def number_of(value: Any, of: str, kind: str) -> Any:
    """What stands for a value where a number is wanted: dates are days for INT and LONG, times milliseconds."""
    if of == "date" and kind in ("INT", "LONG"):
        return (value - DAY).days
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(milliseconds=1)
    if isinstance(value, dt.date):
        return (value - DAY).days * 86_400_000
    return value


def expected_of(value: Any, of: str, kind: str) -> Any:
    if value is None:
        return None
    if kind in ("STRING", "JSON"):
        return text_of(value, of, kind)
    if kind == "BYTES":
        if isinstance(value, bytes):
            return value
        try:
            return bytes.fromhex(value) if isinstance(value, str) and " " not in value else BAD
        except ValueError:
            return BAD
    number = number_of(value, of, kind)
    if isinstance(number, bytes | dict | list):
        return BAD
    try:
        return of_number(number.strip() if isinstance(number, str) else number, kind)
    except (ValueError, ArithmeticError):
        return BAD


def of_number(number: Any, kind: str) -> Any:
    match kind:
        case "DOUBLE":
            return float(number)
        case "BIG_DECIMAL":
            return (
                BAD
                if isinstance(number, bool) or (isinstance(number, float) and math.isinf(number))
                else Decimal(str(number))
            )
        case "BOOLEAN":
            return (
                number != 0
                if not isinstance(number, str)
                else {"1": True, "0": False, "true": True, "false": False}.get(number.lower(), BAD)
            )
        case "TIMESTAMP":
            kind = "LONG"
    if number != int(number) and not isinstance(number, str):
        return BAD
    bits = 31 if kind == "INT" else 63
    return int(number) if -(1 << bits) <= int(number) < 1 << bits else BAD


def text_of(value: Any, of: str, kind: str) -> Any:
    if of in ("struct", "map"):
        return ("json", dict(value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return BAD if kind == "JSON" and math.isinf(value) else ("double", value)
    if isinstance(value, Decimal):
        return ("decimal", value)
    if isinstance(value, str):
        if kind == "STRING":
            return value
        try:
            return ("json", json.loads(value))
        except ValueError:
            return BAD
    text = value.hex() if isinstance(value, bytes) else value.isoformat() if isinstance(value, dt.date) else str(value)
    return text if kind == "STRING" or isinstance(value, int) else f'"{text}"'


def is_same(found: Any, expected: Any) -> bool:
    match expected:
        case ("json", value):
            return bool(json.loads(found) == value)
        case ("double", value):
            return bool(float(found) == value)
        case ("decimal", value):
            return bool(Decimal(found) == value)
    return bool(found == expected)


def packed(table: pa.Table, file_format: FileFormat, noise: random.Random) -> bytes:
    out = io.BytesIO()
    if file_format is FileFormat.ORC:
        orc.write_table(
            table,
            out,
            stripe_size=noise.choice([100, 1 << 20]),
            compression=noise.choice(["UNCOMPRESSED", "ZLIB", "ZSTD"]),
        )
        return out.getvalue()
    settings: dict[str, Any] = {
        "compression": noise.choice(["none", "snappy", "gzip", "zstd", "brotli"]),
        "use_dictionary": noise.random() < 0.5,
        "data_page_size": noise.choice([100, 1 << 20]), "data_page_version": noise.choice(["1.0", "2.0"]),
        "store_schema": noise.random() < 0.7,
    }  # fmt: skip
    with pq.ParquetWriter(out, table.schema, **settings) as writer:
        start = 0
        while start < len(table):
            count = noise.choice([0, 1, 3, 50])
            writer.write_table(table.slice(start, count))  # empty row groups among them
            start += count
    return out.getvalue()


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC])
@pytest.mark.parametrize("seed", range(60))
def test_random_tables_arrive(seed: int, file_format: FileFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = random.Random(f"{seed}{file_format}")
    for module in (parquet_format, orc_format):
        monkeypatch.setattr(module, "BATCH_ROWS", noise.choice([1, 7, 1 << 16]))
    count = noise.randint(1, 40)
    arrays: dict[str, pa.Array] = {"id": pa.array(range(1, count + 1))}
    sources: dict[str, str] = {}
    kinds: dict[str, str] = {}
    while len(kinds) < 4:
        name, of, kind = f"c{len(kinds)}", noise.choice(sorted(POOLS)), noise.choice(KINDS)
        arrow, pool = POOLS[of]
        if file_format is FileFormat.ORC and pa.types.is_timestamp(arrow):
            pool = pool[:3]  # Arrow reads no others
        if (file_format is FileFormat.ORC and of in NOT_IN_ORC) or all(
            expected_of(value, of, kind.removesuffix("[]")) == BAD for value in pool
        ):
            continue
        pool = [
            value for value in pool if noise.random() < 0.1 or expected_of(value, of, kind.removesuffix("[]")) != BAD
        ] or pool
        if kind.endswith("[]"):
            values = [
                None if noise.random() < 0.2 else [noise.choice([*pool, None]) for _ in range(noise.randint(0, 3))]
                for _ in range(count)
            ]
            arrays[name] = pa.array(values, pa.list_(arrow))
        else:
            arrays[name] = pa.array([noise.choice([*pool, None]) for _ in range(count)], arrow)
        sources[name], kinds[name] = of, kind
    table = pa.table(arrays)
    rows, rejected = read_back(packed(table, file_format, noise), {"id": "LONG", **kinds}, file_format)
    values_of = {name: table[name].to_pylist() for name in kinds}
    wanted: list[dict[str, Any]] = []
    for row in range(count):
        wanted.append({"id": row + 1})
        for name, kind in kinds.items():
            value = values_of[name][row]
            if not kind.endswith("[]"):
                wanted[-1][name] = expected_of(value, sources[name], kind)
                continue
            items = [
                found for item in value or () if (found := expected_of(item, sources[name], kind[:-2])) is not None
            ]
            wanted[-1][name] = BAD if BAD in items else items or None
    good = [row for row in wanted if BAD not in row.values()]
    assert sorted(rejected) == [row["id"] for row in wanted if row not in good]
    assert [row["id"] for row in rows] == [row["id"] for row in good]
    wrong = []
    for found, expected in zip(rows, good, strict=True):
        for name, kind in kinds.items():
            one, other = found[name], expected[name]
            same = (
                len(one) == len(other) and all(map(is_same, one, other))
                if isinstance(one, list) and isinstance(other, list)
                else is_same(one, other)
            )
            wrong += [] if same else [(sources[name], kind, one, other)]
    assert wrong == []


def test_times_that_orc_files_may_have_and_arrow_cannot_read_are_named() -> None:
    table = pa.table({"v": pa.array([EPOCH + dt.timedelta(days=1000 * 365)], pa.timestamp("us"))})
    with pytest.raises(DecodeError, match="outside of the years 1678 to 2261, which cannot be read from ORC"):
        read_back(packed(table, FileFormat.ORC, random.Random(1)), {"v": "TIMESTAMP"}, FileFormat.ORC)


@pytest.mark.parametrize("null_handling", [False, True])
def test_what_has_no_value_is_null_or_the_default(null_handling: bool) -> None:
    table = pa.table({"i": pa.array([None, 5]), "s": pa.array([None, "x"]), "m": pa.array([[None], [1, None]])})
    rows, _ = read_back(
        packed(table, FileFormat.PARQUET, random.Random(1)),
            {"i": "INT", "s": "STRING", "m": "LONG[]", "lacking": "BOOLEAN"}, FileFormat.PARQUET,
        null_handling=null_handling, missing_columns=MissingColumns.DEFAULT,
    )  # fmt: skip
    none = {"i": None, "s": None, "m": None, "lacking": None}
    expected = none if null_handling else {"i": -(2**31), "s": "null", "m": [-(2**63)], "lacking": False}
    assert rows == [expected, {"i": 5, "s": "x", "m": [1], "lacking": expected["lacking"]}]
