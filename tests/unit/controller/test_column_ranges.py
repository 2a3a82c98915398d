"""Proves which columns the record of a segment gets ranges of, from segments that the real builder made."""

from __future__ import annotations

from typing import Any

import pytest
from built_segments import config_of, opened, schema_of

from pinotpy.cluster.column_ranges import BOUND_BYTES_MAX, COLUMNS_MAX, SegmentRanges
from pinotpy.config.schema import Schema
from pinotpy.controller.column_ranges import ranges_of

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "city", "dataType": "STRING"},
            {"name": "same", "dataType": "STRING"},
            {"name": "mixed", "dataType": "STRING"},
            {"name": "tags", "dataType": "INT", "singleValueField": False},
            {"name": "member", "dataType": "LONG"},
        ],
        "metricFieldSpecs": [{"name": "cost", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }
)
ROWS: dict[str, list[Any]] = {
    "city": ["a", "b", "b"],
    "same": ["x", "x", "x"],
    "mixed": ["b", "a", "c"],
    "tags": [[1], [2], [3]],
    "member": [9, 1, 5],
    "cost": [0.5, 1.5, 2.5],
    "day": [18002, 18000, 18001],
}
SEGMENTS = {"replication": "1", "timeColumnName": "day"}
PARTITIONED = {
    "segmentPartitionConfig": {"columnPartitionMap": {"member": {"functionName": "Modulo", "numPartitions": 4}}}
}


def ranges(rows: dict[str, list[Any]], index: dict[str, Any] | None = None, schema: Schema = SCHEMA) -> SegmentRanges:
    segments = SEGMENTS if "day" in schema.field_specs else {"replication": "1"}
    return ranges_of(opened(schema, config_of(index, segmentsConfig=segments), rows).metadata)


def bounds(found: SegmentRanges) -> dict[str, tuple[Any, Any, int]]:
    return {name: (column.low, column.high, column.num_nulls) for name, column in found.columns.items()}


def test_the_time_column_partitioned_and_sorted_columns_are_written_in_this_order() -> None:
    found = ranges(ROWS, PARTITIONED)
    assert list(bounds(found).items()) == [
        ("day", (18000, 18002, 0)),
        ("member", (1, 9, 0)),
        ("city", (b"a", b"b", 0)),
        ("cost", (0.5, 2.5, 0)),
        ("same", (b"x", b"x", 0)),
    ]
    assert (found.num_docs, found.num_left) == (3, 0) and found.crc


def test_stand_ins_of_nulls_lie_within_the_range_and_nulls_are_counted() -> None:
    index = {"nullHandlingEnabled": True}
    assert bounds(ranges(ROWS | {"day": [None, 18000, 18002], "city": ["a", None, None]}, index))["city"] == (
        b"a",
        b"null",
        2,
    )
    low, _, nulls = bounds(ranges(ROWS | {"day": [18001, None, 18002]}, index))["day"]
    assert low <= 18001 and nulls == 1
    # Without a vector of nulls they are values, for every query.
    assert bounds(ranges(ROWS | {"city": ["a", None, None]}))["city"] == (b"a", b"null", 0)


def test_long_texts_are_cut_and_those_that_the_segment_does_not_know_are_open() -> None:
    most, more = "é" * (BOUND_BYTES_MAX // 2 + 1), "z" * 300
    assert bounds(ranges(ROWS | {"city": ["", "a", most]}))["city"] == (
        b"",
        ("é" * (BOUND_BYTES_MAX // 2 - 1)).encode() + b"\xc3\xaa",
        0,
    )
    assert bounds(ranges(ROWS | {"city": ["a", "b", more]}))["city"] == (b"a", None, 0)
    assert "city" not in bounds(ranges(ROWS | {"city": [more, more, more]}))


def test_min_and_max_that_the_table_does_not_want_are_not_written() -> None:
    assert list(bounds(ranges(ROWS, {"columnMinMaxValueGeneratorMode": "TIME"}))) == ["day"]
    assert not ranges(ROWS, {"columnMinMaxValueGeneratorMode": "NONE"}).columns


def test_a_segment_without_docs_says_that_it_has_none() -> None:
    found = ranges({name: [] for name in ROWS}, PARTITIONED)
    assert (found.num_docs, dict(found.columns)) == (0, {})


@pytest.mark.parametrize("constant", [3, COLUMNS_MAX + 5])
def test_what_finds_no_room_is_counted_and_columns_of_one_value_go_first(constant: int) -> None:
    names = [f"c{number:02}" for number in range(constant)]
    schema = schema_of(dict.fromkeys([*names, "ascending"], "INT"))
    found = ranges({name: [7, 7] for name in names} | {"ascending": [1, 2]}, schema=schema)
    assert next(iter(found.columns)) == "ascending"
    assert len(found.columns) == min(constant + 1, COLUMNS_MAX)
    assert found.num_left == max(0, constant + 1 - COLUMNS_MAX)
