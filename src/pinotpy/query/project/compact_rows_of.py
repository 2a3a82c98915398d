"""Few selected rows from (morsel, doc) pairs without Arrow: a kernel reads a column of all rows where it lies, whatever
the segment.

For a handful of rows Arrow's arrays, casts and tables cost ten times what reading the values does (rows.py). What is
not provided for here goes that way: many rows, expressions, multi-values, raw texts, and columns that must be decoded
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.vector import gather
from pinotpy.pql.ast import Expression, Identifier
from pinotpy.query.model.result_types import columns_by_name
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.result.compact_rows import COMPACT_ROWS_MAX, CompactColumn, CompactRows, Kind
from pinotpy.query.segments.segment_set import ColumnRows

_BYTES_MAX: Final = 2**31 - 1
# Of so many Arrow makes a table as fast; few rows have 1,024 on the wire at most.
_COLUMNS_MAX: Final = 256
_KINDS: Final = {
    DataType.INT: Kind.INT, DataType.LONG: Kind.LONG, DataType.TIMESTAMP: Kind.LONG, DataType.FLOAT: Kind.FLOAT,
    DataType.DOUBLE: Kind.DOUBLE,
    DataType.BOOLEAN: Kind.BOOLEAN, DataType.STRING: Kind.TEXT, DataType.JSON: Kind.TEXT, DataType.MAP: Kind.TEXT,
    DataType.BYTES: Kind.BINARY, DataType.BIG_DECIMAL: Kind.BINARY,
}  # fmt: skip
_DTYPES: Final = {Kind.INT: np.int32, Kind.FLOAT: np.float32, Kind.BOOLEAN: np.uint8}


def selected_rows(
    plan: ScanPlan, names: Sequence[str], expressions: Sequence[Expression], morsels: Int64Array, docs: Int64Array
) -> CompactRows | None:
    """The rows (morsels[i], docs[i]) in that order, a column of values for each expression; None where rows.py has to
    make them.
    """
    if not 0 < len(docs) <= COMPACT_ROWS_MAX or len(expressions) > _COLUMNS_MAX:
        return None
    known = columns_by_name(plan.context)
    whole, rows_of_whole = plan.segments.whole, plan.segments.rows_of_whole
    columns: list[tuple[Kind, ColumnRows]] = []
    for expression in expressions:
        if (
            not isinstance(expression, Identifier)
            or not known[expression.name].single_value
            or not whole.has_column(expression.name)
        ):
            return None
        kind, rows = _KINDS[known[expression.name].data_type], whole.column(expression.name)
        if not rows.in_place or (rows.has_raw and kind in (Kind.TEXT, Kind.BINARY)):
            return None
        columns.append((kind, rows))
    segments = plan.morsels[morsels, abi.U_SEGMENT]
    if rows_of_whole is not None:
        segments = rows_of_whole[segments]
    by_name: dict[str, CompactColumn] = {}
    for name, (kind, rows) in zip(names, columns, strict=True):
        column = _column(kind, rows.metas, segments, docs, null_handling=plan.context.null_handling)
        if column is None:
            return None
        by_name[name] = column
    return CompactRows(by_name, len(docs))


def _column(
    kind: Kind, metas: Int64Array, segments: Int64Array, docs: Int64Array, *, null_handling: bool
) -> CompactColumn | None:
    valid = None
    if null_handling:
        nulls = np.zeros(len(docs), np.bool_)
        gather.nulls_at(metas, segments, docs, nulls)
        valid = ~nulls if nulls.any() else None
    words = np.empty(len(docs), np.int64)
    if kind in (Kind.TEXT, Kind.BINARY):
        offsets = np.empty(len(docs) + 1, np.int32)
        size = gather.ends_at(metas, segments, docs, words, offsets)
        if size > _BYTES_MAX:
            return None
        body = np.empty(size, np.uint8)
        gather.bytes_at(words, offsets, body)
        return CompactColumn(kind, body.tobytes(), valid, offsets)
    doubles = words.view(np.float64)
    gather.values_at(metas, segments, docs, words, doubles)
    values = doubles if kind in (Kind.FLOAT, Kind.DOUBLE) else words
    dtype = _DTYPES.get(kind)
    return CompactColumn(kind, values if dtype is None else values.astype(dtype), valid)
