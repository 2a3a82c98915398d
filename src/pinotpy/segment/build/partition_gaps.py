"""Columns that a table partitions and a segment has no partitions of: which, and why.

A segment without partitions of a column is right, and asked by every query on it. So nothing is refused; whoever builds
or takes the segment says it, for nobody would see it in an answer.
"""

from __future__ import annotations

from typing import Final

from pinotpy.config.indexing import ColumnPartitionConfig
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.segment.metadata import ColumnMetadata, SegmentMetadata
from pinotpy.segment.partition import is_partition_function, partition_of, partition_text

NO_COLUMN: Final = "the segment has no such column"
_SHOWN_MAX: Final = 60


def partitioned_columns(config: TableConfig | None) -> dict[str, ColumnPartitionConfig]:
    """The columns that a table partitions, with function and number of partitions."""
    partitions = config.indexing.segment_partition_config if config is not None else None
    return {} if partitions is None else dict(partitions.column_partition_map)


def partition_gaps(metadata: SegmentMetadata, config: TableConfig | None) -> dict[str, str]:
    """Columns of `config` of which a segment records no partitions, with the reason; {} where nothing is missing."""
    gaps = {}
    for name, wanted in partitioned_columns(config).items():
        column = metadata.column(name)
        if column is None:
            gaps[name] = NO_COLUMN
        elif column.partition is None:
            gaps[name] = why_unpartitioned(column, wanted)
    return gaps


def why_unpartitioned(column: ColumnMetadata, wanted: ColumnPartitionConfig) -> str:
    """Why the function does not give every value of a column its partition."""
    function = str(wanted.function_name)
    if not is_partition_function(function):
        return f"the partition function {function} is not built here"
    if not has_partitions(column.data_type):
        return f"values of type {column.data_type} have no partition"
    # A builder sees all values, who reads metadata the least and the greatest: one of these is often such a value.
    for bound in (column.min_value, column.max_value):
        text = None if bound is None else partition_text(bound, column.data_type)
        if text is None:
            continue
        try:
            partition_of(function, wanted.num_partitions, text)
        except ValueError:
            return f"{function} does not take all of its values, such as '{text[:_SHOWN_MAX]}'"
    return f"{function} does not take all of its values"


def has_partitions(data_type: DataType) -> bool:
    """Whether values of a type can be partitioned by."""
    if data_type.stored.is_fixed:
        return not data_type.stored.is_floating
    return data_type.is_text or data_type is DataType.BYTES
