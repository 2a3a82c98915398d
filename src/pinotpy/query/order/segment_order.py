"""ORDER BY … LIMIT over segments whose value ranges differ: best ranges first, and the rest is left unread.

A segment whose smallest value of the first sort key is behind the worst row kept so far cannot contribute (largest
value for DESC). Source: behaviour of Pinot's MinMaxValueBasedSelectionOrderByCombineOperator; segments left out count
as processed, not as matched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow.compute as pc

from pinotpy.pql.ast import Identifier
from pinotpy.query.model.context import And, Comparison, Filter, OrderBy, Predicate, QueryContext
from pinotpy.query.model.result_types import columns_by_name
from pinotpy.query.result.combine import merge_partials, sort_columns
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.segments.segment_sets import SegmentSets
from pinotpy.segment.data_source import Segment, Stored

# Segments that are read one by one until there are rows enough; whatever is left then is read together.
SINGLE_SEGMENTS_MAX: Final = 8

Run = Callable[[SegmentSets], PartialResult]
Range = tuple[Stored, Stored]


def in_order_of_values(context: QueryContext, segments: SegmentSets, run: Run) -> PartialResult | None:
    """The rows of a selection with ORDER BY, read segment by segment; None where ranges of values say nothing.

    Args:
        run: answers the query over some of the segments.
    """
    by = context.order_by[0]
    wanted = context.offset + context.limit
    if wanted == 0 or len(segments) < 2 or _leaves_small_result(context.filter, segments, wanted):
        return None
    ranges = key_ranges(context, by, segments)
    if ranges is None:
        return None
    ascending = by.ascending
    order = sorted(range(len(segments)), key=lambda i: ranges[i][0 if ascending else 1], reverse=not ascending)
    partials: list[PartialResult] = []
    rows = 0
    while len(partials) < min(len(order), SINGLE_SEGMENTS_MAX) and rows < wanted:
        partials.append(run(segments.take(np.array([order[len(partials)]]))))
        last_rows = partials[-1].rows
        rows += 0 if last_rows is None else last_rows.num_rows
        if rows * len(order) < wanted * len(partials):
            # all together are not expected to have enough, as where few docs are selected: each plan costs more than
            # their rows
            break
    if rows < wanted:
        return run(segments)
    edge = _edge(context, merge_partials(context, partials), by)
    reading = order[: len(partials)] + [
        i for i in order[len(partials) :] if edge is None or _reaches(ranges[i], edge, ascending)
    ]
    # What was read to find the edge is read again where others join it, so that rows equal in all keys come in doc
    # order.
    whole = partials[0] if len(reading) == 1 else run(segments.take(np.array(sorted(reading))))
    whole.statistics.processed(segments.counted(np.array(sorted(set(order) - set(reading)), np.int64)))
    return whole


def _leaves_small_result(condition: Filter | None, segments: Sequence[Segment], wanted: int) -> bool:
    """Whether an equality is expected to leave fewer rows than are wanted, so that all segments are read anyhow: by the
    number of distinct values in the first segment, as if all were as frequent. Where that is wrong, segments are read
    for nothing.
    """
    parts = condition.children if isinstance(condition, And) else (condition,)
    first = segments[0]
    for part in parts:
        if (
            isinstance(part, Predicate)
            and part.comparison in (Comparison.EQ, Comparison.IN)
            and isinstance(part.lhs, Identifier)
        ):
            cardinality = first.column(part.lhs.name).cardinality
            share = len(part.values) / cardinality if cardinality > 0 else 1.0
            if share * sum(segment.num_docs for segment in segments) < wanted:
                return True
    return False


def key_ranges(context: QueryContext, by: OrderBy, segments: Sequence[Segment]) -> list[Range] | None:
    """First and last value of the sort key in every segment; None if one does not know, or nulls have a place of their
    own.
    """
    if not isinstance(by.expression, Identifier) or len(segments) < 2:
        return None
    name = by.expression.name
    if not columns_by_name(context)[name].single_value:
        return None
    ranges: list[Range] = []
    for segment in segments:
        column = segment.column(name)
        low, high = column.min_value, column.max_value
        if low is None or high is None or (context.null_handling and column.has_nulls):
            return None
        ranges.append((low, high))
    return ranges


def _reaches(values: Range, edge: Stored, ascending: bool) -> bool:
    """Whether a segment may hold a row that sorts before or beside `edge`."""
    return values[0] <= edge if ascending else values[1] >= edge  # type: ignore[operator]  # one column, one type


def _edge(context: QueryContext, merged: PartialResult, by: OrderBy) -> Stored | None:
    """The worst first key among the rows kept so far, in stored form."""
    assert merged.rows is not None
    values = merged.rows.column(sort_columns(context)[0])
    edge = pc.max(values) if by.ascending else pc.min(values)
    value = edge.as_py()
    if isinstance(value, str):
        return value.encode()
    return int(value) if isinstance(value, bool) else value
