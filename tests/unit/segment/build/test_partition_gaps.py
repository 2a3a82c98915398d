"""Proves that a segment whose values have no partition under the table's scheme is built without partitions, and that
the builder says which column and why. Oracle: the partitions of values written down by hand.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from built_segments import config_of, opened, schema_of

from pinotpy.config.schema import Schema
from pinotpy.segment.build.partition_gaps import partition_gaps

SCHEMA = schema_of(
    {"code": "STRING", "member": "LONG", "share": "DOUBLE", "price": "BIG_DECIMAL", "flag": "BOOLEAN", "tags": "INT"},
    multi=["tags"],
)
ROWS: dict[str, list[Any]] = {
    "code": ["7", "12", "x9"],
    "member": [5, -3, 9],
    "share": [0.5, 1.0, 2.0],
    "price": [b"\x00\x01", b"\x00\x02", b"\x00\x03"],
    "flag": [True, False, True],
    "tags": [[1, 2], [3], [6]],
}


def gaps(function: str, column: str, rows: dict[str, list[Any]] = ROWS, schema: Schema = SCHEMA) -> dict[str, str]:
    partitions = {"columnPartitionMap": {column: {"functionName": function, "numPartitions": 4}}}
    config = config_of({"segmentPartitionConfig": partitions, "noDictionaryColumns": ["member"]})
    metadata = opened(schema, config, rows).metadata
    found = partition_gaps(metadata, config)
    recorded = metadata.column(column)
    assert recorded is not None and (recorded.partition is None) == (column in found)
    return found


@pytest.mark.parametrize(
    ("function", "column"),
    [("Modulo", "member"), ("Modulo", "tags"), ("Modulo", "flag"), ("Murmur", "code"), ("HashCode", "member")],
)
def test_values_that_the_function_takes_leave_no_gap(function: str, column: str) -> None:
    assert gaps(function, column) == {}


@pytest.mark.parametrize(
    ("function", "column", "reason"),
    [
        ("Modulo", "code", "Modulo does not take all of its values, such as 'x9'"),
        ("Murmur", "share", "values of type DOUBLE have no partition"),
        ("Murmur", "price", "values of type BIG_DECIMAL have no partition"),
        ("Murmur3", "code", "the partition function Murmur3 is not built here"),
        ("BoundedColumnValue", "member", "the partition function BoundedColumnValue is not built here"),
    ],
)
def test_what_has_no_partition_is_named_with_its_reason(function: str, column: str, reason: str) -> None:
    assert gaps(function, column) == {column: reason}


def test_a_value_that_is_neither_the_least_nor_the_greatest_leaves_a_gap_too() -> None:
    assert gaps("Modulo", "code", ROWS | {"code": ["1", "2x", "3"]}) == {
        "code": "Modulo does not take all of its values"
    }


def test_rows_without_a_value_count_with_the_value_that_stands_for_them() -> None:
    assert gaps("Modulo", "code", ROWS | {"code": ["1", None, "3"]}) == {
        "code": "Modulo does not take all of its values, such as 'null'"
    }
    assert gaps("Modulo", "member", ROWS | {"member": [1, None, 3]}) == {}


def test_the_builder_says_it_in_its_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pinotpy.segment.build.builder"):
        gaps("Modulo", "member")
        assert not caplog.records
        gaps("Modulo", "code")
    (record,) = caplog.records
    assert record.getMessage() == (
        "segment without partitions segment=s0 column=code reason=Modulo does not take all of its values, such as 'x9'"
    )


def test_a_table_without_partitions_has_no_gaps_and_a_column_that_is_not_there_is_one() -> None:
    metadata = opened(SCHEMA, config_of(), ROWS).metadata
    assert partition_gaps(metadata, None) == partition_gaps(metadata, config_of()) == {}
    later = config_of(
        {"segmentPartitionConfig": {"columnPartitionMap": {"added": {"functionName": "Murmur", "numPartitions": 2}}}}
    )
    assert partition_gaps(metadata, later) == {"added": "the segment has no such column"}
