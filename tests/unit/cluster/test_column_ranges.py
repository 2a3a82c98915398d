"""Proves that ranges of columns come back from a segment's record as they were written, that texts are cut to bounds,
and that a text which contradicts itself is refused whole, with a sentence that says why."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest

from pinotpy.cluster.column_ranges import (
    BOUND_BYTES_MAX,
    ColumnRange,
    SegmentRanges,
    lower_bound,
    read_ranges,
    upper_bound,
)
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.data_types import DataType
from pinotpy.errors import DecodeError

RANGES = SegmentRanges(
    crc=2713496030,
    num_docs=7,
    columns={
        "day": ColumnRange(DataType.INT, -(2**31), 18004, 1),
        "at": ColumnRange(DataType.TIMESTAMP, 0, 2**63 - 1, 0),
        "cost": ColumnRange(DataType.DOUBLE, float("-inf"), 0.1, 6),
        "city": ColumnRange(DataType.STRING, "Åbo".encode(), b"\xff\xfe", 0),
        "tail": ColumnRange(DataType.STRING, b"", None, 0),
    },
    num_left=3,
)


def test_ranges_travel_in_the_record_of_their_segment() -> None:
    record = SegmentZkMetadata("s", "t_OFFLINE", 2713496030, 7, 1, column_ranges=RANGES.to_text())
    stored = record.to_record()
    assert orjson.loads(stored.simple_fields["segment.column.ranges"])["columns"]["tail"] == {
        "type": "STRING",
        "min": "",
        "nulls": 0,
    }
    again = SegmentZkMetadata.from_record(ZNRecord.from_bytes(stored.to_bytes(), "/s"), "t_OFFLINE")
    assert again == record and "segment.column.ranges" not in again.extra
    assert read_ranges(again.column_ranges) == RANGES
    assert "segment.column.ranges" not in SegmentZkMetadata("s", "t_OFFLINE", 1, 7, 1).to_record().simple_fields


def test_long_texts_are_cut_to_texts_that_bound_them() -> None:
    rng = random.Random(5)
    for _ in range(300):
        length = rng.choice([0, 1, BOUND_BYTES_MAX - 1, BOUND_BYTES_MAX, BOUND_BYTES_MAX + 1, 200])
        value = bytes(rng.choice([0, 97, 254, 255]) for _ in range(length))
        low, high = lower_bound(value), upper_bound(value)
        assert low <= value and len(low) <= BOUND_BYTES_MAX
        assert high is not None and high >= value and len(high) <= BOUND_BYTES_MAX
        if length <= BOUND_BYTES_MAX:
            assert low == high == value
    assert upper_bound(b"\xff" * (BOUND_BYTES_MAX + 1)) is None
    assert upper_bound(b"a" * BOUND_BYTES_MAX + b"b") == b"a" * (BOUND_BYTES_MAX - 1) + b"b"


def changed(path: str, value: Any) -> str:
    document = orjson.loads(RANGES.to_text())
    place, (*names, last) = document, path.split(".")
    for name in names:
        place = place[name]
    place[last] = value
    return orjson.dumps(document).decode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected ranges of columns"),
        ("[]", "expected ranges of columns"),
        ('{"crc": "1", "docs": 2}', "columns"),
        (changed("crc", "x"), "expected ranges of columns"),
        (changed("docs", -1), "docs from 0 on, found -1"),
        (changed("docs", "7"), "docs from 0 on, found '7'"),
        ("null", "expected ranges of columns, found 'null'"),
        (changed("docs", 5), "at most 5 nulls in column 'cost', found 6"),
        (changed("docs", 6), "expected one value in column 'cost', as all 6 are null, found two bounds"),
        (changed("columns.city.min", "ff"), "expected the beginning of a UTF-8 text, found hex ff"),
        (changed("left", 1.5), "1.5 columns left"),
        (changed("columns", []), "expected ranges of columns"),
        (changed("columns.day.type", "WORD"), "'day'"),
        (changed("columns.day.min", 18005), "'day' has its least value above its greatest one"),
        (changed("columns.day.max", 2**31), "expected a INT value, found '2147483648'"),
        (changed("columns.day.max", True), "expected a INT value"),
        (changed("columns.day.max", "18004"), "expected a INT value"),
        (changed("columns.cost.max", "nan"), "expected a DOUBLE value, found 'nan'"),
        (changed("columns.cost.max", 0.1), "expected a DOUBLE value"),
        (changed("columns.city.max", "0g"), "'city'"),
        (changed("columns.city.max", "00"), "'city' has its least value above its greatest one"),
        (changed("columns.city.nulls", None), "nulls from 0 on, found None"),
    ],
)
def test_a_text_that_contradicts_itself_is_refused_whole(text: str, reason: str) -> None:
    with pytest.raises(DecodeError) as refused:
        read_ranges(text)
    assert reason in refused.value.message
