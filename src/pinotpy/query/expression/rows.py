"""Docs and dictionaries of segments as rows that expressions are evaluated on (interpreter.py)."""

from __future__ import annotations

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.query.expression.interpreter import Rows, value_rows
from pinotpy.query.model.context import QueryContext
from pinotpy.query.segments.values import logical_values, nulls_at, values_at
from pinotpy.segment.data_source import Column, Segment


def segment_rows(context: QueryContext, segment: Segment, docs: Int64Array) -> Rows:
    """The docs of a segment as rows."""

    def read(name: str) -> pa.Array:
        return values_at(segment.column(name), docs, null_handling=context.null_handling)

    return Rows(context, len(docs), read, lambda name: nulls_at(segment.column(name), docs))


def dictionary_rows(context: QueryContext, column: Column, first: int, end: int) -> Rows:
    """The values [first, end) of a column's dictionary as rows, none of them null: expressions over this column alone
    are computed once a distinct value.
    """
    assert column.dictionary is not None, f"column '{column.name}' is raw"
    return value_rows(context, logical_values(column.dictionary.arrow()[first:end], column.data_type))
