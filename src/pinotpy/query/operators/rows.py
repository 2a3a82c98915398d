"""Rows of an answer from (unit, doc) pairs: the values of output columns and sort keys as Arrow arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.kernels import abi
from pinotpy.pql.ast import Expression, Identifier
from pinotpy.query.expression import Rows
from pinotpy.query.plan import ScanPlan
from pinotpy.query.result_types import columns_by_name, result_type

Ints = NDArray[np.int64]


def evaluate_rows(plan: ScanPlan, units: Ints, docs: Ints, expressions: Sequence[Expression]) -> list[pa.Array]:
    """Values of each expression for the rows (units[i], docs[i]), in that order.

    Works segment by segment, so that a dictionary is read once however the rows are mixed.
    """
    if not len(units):
        return [pa.array([], output_field(plan, "", expression).type) for expression in expressions]
    segments = plan.units[units, abi.U_SEGMENT]
    order = np.argsort(segments, kind="stable")
    ordered = segments[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    parts: list[list[pa.Array]] = [[] for _ in expressions]
    for first, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
        plan.control.check()
        rows = Rows(plan.context, plan.segments[int(ordered[first])], docs[order[first:end]])
        for part, expression in zip(parts, expressions, strict=True):
            part.append(rows.evaluate(expression))
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    in_place = bool((back == np.arange(len(back))).all())
    joined = [part[0] if len(part) == 1 else pa.concat_arrays(part) for part in parts]
    return joined if in_place else [values.take(pa.array(back)) for values in joined]


def output_field(plan: ScanPlan, name: str, expression: Expression) -> pa.Field:
    """Field of a partial result's rows: its Arrow type and pinotpy's type in the metadata."""
    found = result_type(expression, columns_by_name(plan.context))
    data_type = found.data_type
    arrow = pa.string() if data_type is None else data_type.arrow
    label = "UNKNOWN" if data_type is None else str(data_type)
    if not found.single_value:
        arrow, label = pa.list_(arrow), f"{label}_ARRAY"
    return pa.field(name, arrow, metadata={b"type": label.encode()})


def rows_table(plan: ScanPlan, names: Sequence[str], expressions: Sequence[Expression], values: Sequence[pa.Array]) -> pa.Table:
    """The table of a partial result."""
    fields = [output_field(plan, name, expression) for name, expression in zip(names, expressions, strict=True)]
    arrays = [array if array.type == field.type else array.cast(field.type) for field, array in zip(fields, values, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))


def columns_of(expressions: Sequence[Expression]) -> set[Expression]:
    """Distinct expressions that cost reading a column: literals do not."""
    return {expression for expression in expressions if isinstance(expression, Identifier) or getattr(expression, "args", ())}


def is_number(data_type: DataType | None) -> bool:
    """Stored in a fixed type, so that values of all segments compare as words."""
    return data_type is not None and data_type.stored.is_fixed
