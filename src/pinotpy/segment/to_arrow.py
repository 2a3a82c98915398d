"""A column of a segment back in storage form, as the builder takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType

if TYPE_CHECKING:
    from pinotpy.segment.column import ImmutableColumn


def column_to_arrow(column: ImmutableColumn) -> pa.Array:
    """All rows; null where the input had no value."""
    values = _values(column)
    target = column.data_type.arrow
    if column.single_value:
        array = _typed(values, column.data_type)
        return _with_nulls(array, column) if column.has_nulls else array
    offsets = column.offsets().astype(np.int64)
    validity = pa.array(column.null_mask()) if column.has_nulls else None
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), _typed(values, column.data_type), mask=validity)
    return lists.cast(pa.list_(target))


def _values(column: ImmutableColumn) -> pa.Array:
    if column.dictionary is None:
        raw: Any = column.raw_values()
        return pa.array(raw) if isinstance(raw, np.ndarray) else raw
    return column.dictionary.arrow().take(pa.array(column.ids()))


def _typed(values: pa.Array, data_type: DataType) -> pa.Array:
    return values.cast(data_type.arrow)


def _with_nulls(array: pa.Array, column: ImmutableColumn) -> pa.Array:
    empty = pa.scalar(None, array.type)
    return pc.if_else(pa.array(column.null_mask()), empty, array)
