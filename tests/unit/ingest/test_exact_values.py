"""Proves that numbers and times of files arrive as they stand there: no nearest neighbour, no wrap, no digits of
another type, no lost member.
"""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import io
import random
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.read_back import read_back

from pinotpy.errors import DecodeError
from pinotpy.ingest.readers.spec import FileFormat


def of_parquet(array: pa.Array, kind: str, **more: Any) -> tuple[list[Any], list[int]]:
    """(values, rejected rows)"""
    out = io.BytesIO()
    pq.write_table(pa.table({"v": array}), out, **more)
    rows, rejected = read_back(out.getvalue(), {"v": kind}, FileFormat.PARQUET)
    return [row["v"] for row in rows], sorted(rejected)


def test_decimals_become_the_nearest_doubles() -> None:
    noise = random.Random(2)
    for precision, scale in ((5, 2), (18, 8), (30, 12), (38, 37), (60, 30)):
        limit = 10 ** noise.randint(1, precision)
        values = [
            Decimal(noise.randrange(-limit, limit)).scaleb(-scale, None)
            if precision <= 28
            else Decimal((0, (1, 2, 3), -scale))
            for _ in range(200)
        ]
        kind = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
        assert of_parquet(pa.array([Decimal(7).scaleb(-scale), *values, None], kind), "DOUBLE")[0] == [
            float(Decimal(7).scaleb(-scale)),
            *map(float, values),
            None,
        ]


def test_decimals_are_plain_text() -> None:
    values = [Decimal("0E-8"), Decimal("0.00000001"), Decimal("-12.50000000"), None]
    assert of_parquet(pa.array(values, pa.decimal128(20, 8)), "STRING")[0] == [
        "0.00000000",
        "0.00000001",
        "-12.50000000",
        None,
    ]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32()])
def test_short_floats_are_written_with_their_own_digits(kind: pa.DataType) -> None:
    array = pa.array([0.1, None, 1.5, -0.0], pa.float64()).cast(kind)
    assert of_parquet(array, "STRING")[0] == ["0.1", None, "1.5", "-0.0"]
    assert of_parquet(array, "JSON")[0] == ["0.1", None, "1.5", "0"]
    assert of_parquet(pa.ListArray.from_arrays([0, 2, 3], array.slice(0, 3)), "JSON")[0] == ["[0.1,null]", "[1.5]"]
    assert of_parquet(pa.array([0.1], pa.float32()), "DOUBLE")[0] == [0.10000000149011612]


@pytest.mark.parametrize("year", [1, 1600, 1900, 2021, 2300, 9999])
def test_times_of_96_bits_do_not_wrap(year: int) -> None:
    array = pa.array([0, 1_500_000_000_123_456_789], pa.timestamp("ns"))
    out = io.BytesIO()
    pq.write_table(
        pa.table({"v": array}), out, use_deprecated_int96_timestamps=True, compression="none", use_dictionary=False
    )
    day = (dt.date(year, 2, 3) - dt.date(1970, 1, 1)).days
    content = out.getvalue().replace(struct.pack("<qi", 0, 2_440_588), struct.pack("<qi", 0, 2_440_588 + day))
    assert read_back(content, {"v": "TIMESTAMP"}, FileFormat.PARQUET)[0] == [
        {"v": day * 86_400_000},
        {"v": 1_500_000_000_123},
    ]
    assert read_back(content, {"v": "STRING"}, FileFormat.PARQUET)[0] == [
        {"v": f"{year:04d}-02-03T00:00:00"},
        {"v": "2017-07-14T02:40:00.123456"},
    ]


@pytest.mark.parametrize("kind", ["INT", "LONG", "DOUBLE", "BIG_DECIMAL"])
def test_numbers_of_other_languages_than_csv_are_bad(kind: str) -> None:
    texts = ["1", "1_000", "0x10", "0xFFFFFFFF", "\u0663", " +5 ", "-0", "1\u00a0", "--1", "1e"]
    rows, rejected = read_back("\n".join(["v", *texts]).encode(), {"v": kind}, FileFormat.CSV)
    assert [row["v"] for row in rows] == [1, 5, 0, 1]
    assert sorted(rejected) == [2, 3, 4, 5, 9, 10]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([2**64 - 1, 0, None], pa.uint64()), [True, False, None]),
        (pa.array([np.float16(1.5), np.float16(0.0), None], pa.float16()), [True, False, None]),
        (pa.array([Decimal("0.50"), Decimal(0), None], pa.decimal128(5, 2)), [True, False, None]),
        (pa.array([[2], [0], None], pa.list_(pa.int8(), 1)), [True, False, None]),
    ],
)
def test_numbers_of_any_type_are_truth_values(array: pa.Array, expected: list[Any]) -> None:
    assert of_parquet(array, "BOOLEAN") == (expected, [])


@pytest.mark.parametrize(("unit", "text"), [("s", "PT-1S"), ("ms", "-PT1.500S"), ("us", "-PT1.500000S")])
def test_durations_are_numbers_or_iso_texts_and_nulls_stay(unit: str, text: str) -> None:
    count = {"s": -1, "ms": -1500, "us": -1_500_000}[unit]
    array = pa.array([count, None], pa.duration(unit))
    assert of_parquet(array, "DOUBLE") == ([float(count), None], [])
    assert of_parquet(array, "STRING") == ([text.replace("PT-", "-PT"), None], [])


def test_a_null_beside_bad_values_is_no_bad_value() -> None:
    assert of_parquet(pa.array([b"x", None]), "INT") == ([None], [1])


# --- compressed files -------------------------------------------------------------------------------------------------


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, zstd])
def test_what_stands_behind_a_damaged_member_is_not_lost_silently(pack: Any) -> None:
    first, second = pack(b"v\n1\n"), pack(b"2\n" * 2000)
    assert len(read_back(first + second, {"v": "INT"}, FileFormat.CSV)[0]) == 2001
    for damaged in (
        first + b"garbage" + second,
        first + b"X" + second[1:],
        first + second[:-3],
        first[:-3],
        first + second[:5],
    ):
        with pytest.raises(DecodeError, match="damaged compressed file"):
            read_back(damaged, {"v": "INT"}, FileFormat.CSV)


def test_frames_to_be_skipped_before_zstandard() -> None:
    assert read_back(b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstd(b"v\n1\n"), {"v": "INT"}, FileFormat.CSV)[0] == [{"v": 1}]
