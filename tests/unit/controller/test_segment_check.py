"""Proves that a segment of the wrong table, schema or time is refused with every reason at once. Metadata is made by
hand.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.controller.segment_check import check_segment, missing_columns
from pinotpy.data_types import DataType, FieldType
from pinotpy.errors import UserError
from pinotpy.segment.metadata import ColumnMetadata, SegmentMetadata, TimeRange

SCHEMA = Schema.from_json(
    {
        "schemaName": "parts",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "INT"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "amount", "dataType": "LONG"}],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }
)


def column(name: str, data_type: DataType, *, single_value: bool = True) -> ColumnMetadata:
    return ColumnMetadata(
        name=name,
        data_type=data_type,
        field_type=FieldType.DIMENSION,
        single_value=single_value,
        encoding="RAW",
        width=4,
        num_values=5,
        cardinality=-1,
        is_sorted=False,
        min_value=None,
        max_value=None,
        default_null=0,
        num_nulls=0,
        max_values_per_doc=1,
        longest_bytes=4,
        codec=None,
        chunk_bytes=0,
        partition=None,
        buffers=(),
    )


GOOD = SegmentMetadata(
    segment_name="parts_0",
    table_name="parts",
    num_docs=5,
    creation_time_ms=0,
    time_range=TimeRange("day", 18_000 * 86_400_000, 18_004 * 86_400_000, "18000", "18004"),
    columns=(
        column("id", DataType.INT),
        column("tags", DataType.STRING, single_value=False),
        column("amount", DataType.LONG),
        column("day", DataType.INT),
    ),
    files=(("columns", 100),),
    crc=1,
)


def test_a_fitting_segment_passes_also_without_some_columns_or_rows() -> None:
    check_segment(GOOD, SCHEMA, "parts_OFFLINE", "day")
    check_segment(replace(GOOD, columns=GOOD.columns[:1]), SCHEMA, "parts_OFFLINE", "day")
    check_segment(replace(GOOD, num_docs=0, time_range=None), SCHEMA, "parts_OFFLINE", "day")
    check_segment(replace(GOOD, time_range=None), SCHEMA, "parts_OFFLINE", None)


def test_years_are_not_checked_where_the_table_says_so_and_all_else_is() -> None:
    early = replace(GOOD, time_range=TimeRange("day", 1, 1, "1", "1"))
    check_segment(early, SCHEMA, "parts_OFFLINE", "day", checks_years=False)
    with pytest.raises(UserError, match="found that of column 'id'"):
        check_segment(
            replace(GOOD, time_range=TimeRange("id", 1, 1, "1", "1")),
            SCHEMA,
            "parts_OFFLINE",
            "day",
            checks_years=False,
        )


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (replace(GOOD, table_name="baseballStats"), "built for table 'baseballStats', expected 'parts'"),
        (replace(GOOD, segment_name="a/b"), "'a/b' cannot be a segment name"),
        (replace(GOOD, segment_name="../../evil"), "cannot be a segment name"),
        (replace(GOOD, segment_name=""), "cannot be a segment name"),
        (replace(GOOD, columns=(*GOOD.columns, column("zz", DataType.INT))), "column 'zz' is not in schema 'parts'"),
        (replace(GOOD, columns=(column("id", DataType.LONG),)), "column 'id' is LONG, schema 'parts' says INT"),
        (
            replace(GOOD, columns=(column("tags", DataType.STRING),)),
            "column 'tags' is STRING, schema 'parts' says multi-valued STRING",
        ),
        (
            replace(GOOD, columns=(column("id", DataType.INT, single_value=False),)),
            "column 'id' is multi-valued INT, schema 'parts' says INT",
        ),
        (replace(GOOD, time_range=None), "time column 'day', found none"),
        (replace(GOOD, time_range=TimeRange("id", 0, 0, "0", "0")), "found that of column 'id'"),
        (replace(GOOD, time_range=TimeRange("day", 0, 0, "0", "0")), "1971-01-01 to 2071-01-01"),
        (replace(GOOD, time_range=TimeRange("day", 10**11, 10**14, "0", "0")), "1971-01-01 to 2071-01-01"),
    ],
)
def test_a_segment_that_does_not_fit_is_refused_with_the_reason(bad: SegmentMetadata, reason: str) -> None:
    with pytest.raises(UserError) as refused:
        check_segment(bad, SCHEMA, "parts_OFFLINE", "day")
    assert reason in refused.value.message
    assert refused.value.http_status == 400


def test_all_reasons_come_at_once_and_their_number_is_bounded() -> None:
    many = replace(GOOD, table_name="other", columns=tuple(column(f"x{index}", DataType.INT) for index in range(100)))
    with pytest.raises(UserError) as refused:
        check_segment(many, SCHEMA, "parts_OFFLINE", "day")
    assert "built for table 'other'" in refused.value.message
    assert "column 'x0'" in refused.value.message
    assert "and 81 more" in refused.value.message


def test_columns_that_a_segment_lacks_are_named_but_for_those_that_are_computed() -> None:
    config = TableConfig.from_json(
        {
            "tableName": "parts",
            "tableType": "OFFLINE",
            "segmentsConfig": {},
            "tableIndexConfig": {},
            "ingestionConfig": {"transformConfigs": [{"columnName": "tags", "transformFunction": "split(raw, ';')"}]},
        }
    )
    few = replace(GOOD, columns=GOOD.columns[:1])
    assert missing_columns(GOOD, SCHEMA, config) == ()
    assert missing_columns(few, SCHEMA, config) == ("amount", "day")
