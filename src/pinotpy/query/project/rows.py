"""Rows of an answer from (morsel, doc) pairs: the values of output columns and sort keys as Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.vector import gather
from pinotpy.pql.ast import Call, Expression, Identifier
from pinotpy.query.expression.rows import segment_rows
from pinotpy.query.model.result_types import columns_by_name, result_type
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.project.decode import decode, key_array

# Fewer segments than this are read one by one: an Arrow take in a dictionary is as fast as the gather.
_GATHER_SEGMENTS_MIN: Final = 4


# Rows are made in pieces of so many, between which a query can be stopped: a piece takes some 10 ms.
_PIECE_ROWS: Final = 1 << 18
_ARRAY_BYTES_MAX: Final = 2**31 - 1


def evaluate_rows(
    plan: ScanPlan, morsels: Int64Array, docs: Int64Array, expressions: Sequence[Expression]
) -> list[pa.Array]:
    """Values of each expression for the rows (morsels[i], docs[i]), in that order.

    Raises: QueryExecutionError for more text than an answer holds; what expressions and the control raise.
    """
    if not len(morsels):
        return [pa.array([], output_field(plan, "", expression).type) for expression in expressions]
    pieces = []
    for first in range(0, len(morsels), _PIECE_ROWS):
        plan.control.check()
        pieces.append(
            _piece(plan, morsels[first : first + _PIECE_ROWS], docs[first : first + _PIECE_ROWS], expressions)
        )
    return pieces[0] if len(pieces) == 1 else [_joined(plan, parts) for parts in zip(*pieces, strict=True)]


def _joined(plan: ScanPlan, parts: Sequence[pa.Array]) -> pa.Array:
    plan.control.check()
    size_bytes = sum(part.nbytes for part in parts)
    if size_bytes > _ARRAY_BYTES_MAX and not pa.types.is_primitive(parts[0].type):
        raise QueryExecutionError(
            f"the values of one column take {size_bytes} bytes, more than an answer holds: ask for fewer rows"
        )
    return pa.concat_arrays(parts)


def _piece(plan: ScanPlan, morsels: Int64Array, docs: Int64Array, expressions: Sequence[Expression]) -> list[pa.Array]:
    segments = plan.morsels[morsels, abi.U_SEGMENT]
    # Without ORDER BY rows come segment after segment already.
    order = None if bool((segments[1:] >= segments[:-1]).all()) else np.argsort(segments, kind="stable")
    starts = np.flatnonzero(np.diff(segments if order is None else segments[order], prepend=-1))
    arrays: dict[Expression, pa.Array] = {}
    if len(starts) >= _GATHER_SEGMENTS_MIN:
        arrays = {
            expression: _gathered(plan, segments, docs, expression)
            for expression in expressions
            if _can_gather(plan, expression)
        }
    others = [expression for expression in dict.fromkeys(expressions) if expression not in arrays]
    if others:
        arrays.update(zip(others, _by_segment(plan, segments, docs, order, starts, others), strict=True))
    return [arrays[expression] for expression in expressions]


def _by_segment(
    plan: ScanPlan,
    segments: Int64Array,
    docs: Int64Array,
    order: Int64Array | None,
    starts: Int64Array,
    expressions: Sequence[Expression],
) -> list[pa.Array]:
    """Segment after segment, so that a dictionary is read once however the rows are mixed. order: of rows by segment;
    None: it is theirs.
    """
    parts: list[list[pa.Array]] = [[] for _ in expressions]
    if order is not None:
        segments, docs = segments[order], docs[order]
    for first, end in zip(starts.tolist(), [*starts[1:].tolist(), len(docs)], strict=True):
        plan.control.check()
        rows = segment_rows(plan.context, plan.segments[int(segments[first])], docs[first:end])
        for part, expression in zip(parts, expressions, strict=True):
            part.append(rows.evaluate(expression))
    joined = [part[0] if len(part) == 1 else pa.concat_arrays(part) for part in parts]
    if order is None:
        return joined
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return [values.take(pa.array(back)) for values in joined]


def _can_gather(plan: ScanPlan, expression: Expression) -> bool:
    """A single-value column whose words kernels can decode: of a fixed type, or with a dictionary everywhere."""
    if not isinstance(expression, Identifier):
        return False
    column = columns_by_name(plan.context)[expression.name]
    return column.single_value and (
        column.data_type.stored.is_fixed or bool((plan.metas.of(column.name)[:, abi.M_CARDINALITY] >= 0).all())
    )


def _gathered(plan: ScanPlan, segments: Int64Array, docs: Int64Array, expression: Expression) -> pa.Array:
    assert isinstance(expression, Identifier)
    metas = plan.metas.of(expression.name)
    positions = np.empty(len(docs), np.int64)
    gather.words_at(metas, segments, docs, positions, positions.view(np.float64))
    dictionaries = np.where(metas[:, abi.M_CARDINALITY] >= 0, plan.metas.addresses(expression.name), 0)
    data_type = columns_by_name(plan.context)[expression.name].data_type
    values, _ = decode(positions, segments, dictionaries, data_type.stored)
    nulls = np.zeros(len(docs), np.bool_)
    if plan.context.null_handling:
        gather.nulls_at(metas, segments, docs, nulls)
    return key_array(values, nulls, data_type)


def output_field(plan: ScanPlan, name: str, expression: Expression) -> pa.Field:
    """Field of a partial result's rows: its Arrow type and pinotpy's type in the metadata."""
    output_type = result_type(expression, plan.context)
    data_type = output_type.data_type
    arrow = pa.string() if data_type is None else data_type.arrow
    label = "UNKNOWN" if data_type is None else str(data_type)
    if not output_type.single_value:
        arrow, label = pa.list_(arrow), f"{label}_ARRAY"
    return pa.field(name, arrow, metadata={b"type": label.encode()})


def rows_table(
    plan: ScanPlan, names: Sequence[str], expressions: Sequence[Expression], values: Sequence[pa.Array]
) -> pa.Table:
    """The table of a partial result."""
    fields = [output_field(plan, name, expression) for name, expression in zip(names, expressions, strict=True)]
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for field, array in zip(fields, values, strict=True)
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def columns_of(expressions: Sequence[Expression]) -> set[Expression]:
    """Distinct expressions that cost reading a column: literals do not."""
    return {expression for expression in expressions if isinstance(expression, (Identifier, Call))}


def is_number(data_type: DataType | None) -> bool:
    """Stored in a fixed type, so that values of all segments compare as words."""
    return data_type is not None and data_type.stored.is_fixed
