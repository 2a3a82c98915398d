"""Which columns of a segment its record has ranges of: those that brokers may leave the segment out by."""

from __future__ import annotations

import math

from pinotpy.cluster.column_ranges import COLUMNS_MAX, ColumnRange, SegmentRanges, lower_bound, upper_bound
from pinotpy.segment.metadata import ColumnMetadata, SegmentMetadata


def ranges_of(metadata: SegmentMetadata) -> SegmentRanges:
    """The ranges of the time column, of every partitioned column, and of every sorted column: first those in which
    something ascends, then those of one value, as many as a record takes.

    Without docs no column has a value, and a column whose metadata has neither bound (`columnMinMaxValueGeneratorMode`)
    has no range.
    """
    time_column = None if metadata.time_range is None else metadata.time_range.column
    wanted = [column for column in metadata.columns if _place(column, time_column) is not None]
    ranges = [(column.name, _range(column)) for column in sorted(wanted, key=lambda c: _place(c, time_column) or 0)]
    known = [(name, each) for name, each in ranges if each is not None] if metadata.num_docs else []
    written = dict(known[:COLUMNS_MAX])
    return SegmentRanges(metadata.crc, metadata.num_docs, written, len(known) - len(written))


def _place(column: ColumnMetadata, time_column: str | None) -> int | None:
    """In which order columns are written; None: not at all."""
    if column.name == time_column:
        return 0
    if column.partition is not None:
        return 1
    if column.is_sorted and column.single_value:
        return 3 if column.min_value == column.max_value else 2
    return None


def _range(column: ColumnMetadata) -> ColumnRange | None:
    low, high = column.min_value, column.max_value
    if isinstance(low, bytes):
        low = lower_bound(low)
    if isinstance(high, bytes):
        high = upper_bound(high)
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        return None  # beside NaN nothing is known of the others
    return None if low is None and high is None else ColumnRange(column.data_type, low, high, column.num_nulls)
