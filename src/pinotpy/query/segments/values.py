"""Values of a column at given docs as Arrow arrays, for what is done outside the kernels: few rows, or a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.segment.data_source import Column


def values_at(column: Column, docs: Int64Array, *, null_handling: bool) -> pa.Array:
    """Values of `column` at `docs`, shape (len(docs),), in DataType.arrow (a list of it for multi-values).

    With null handling, docs without a value are null; else they read as the column's default.
    """
    nulls = nulls_at(column, docs) if null_handling else None
    if column.single_value:
        values = logical_values(_stored(column, docs), column.data_type)
        return values if nulls is None else pc.if_else(pa.array(nulls), pa.scalar(None, values.type), values)
    offsets = column.offsets()
    first, counts = (
        offsets[docs].astype(np.int64),
        np.diff(offsets)[docs] if len(docs) * 16 > len(offsets) else offsets[docs + 1] - offsets[docs],
    )
    ends = np.zeros(len(docs) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    entries = np.repeat(first - ends[:-1], counts) + np.arange(ends[-1])
    flat = logical_values(_stored(column, entries), column.data_type)
    return pa.ListArray.from_arrays(pa.array(ends), flat, mask=None if nulls is None else pa.array(nulls))


def nulls_at(column: Column, docs: Int64Array) -> NDArray[np.bool_] | None:
    """Null flags at `docs`; None if the column has no nulls."""
    bitmap = column.null_bitmap()
    if bitmap is None:
        return None
    flags: NDArray[np.bool_] = ((bitmap[docs >> 3] >> (docs & 7).astype(np.uint8)) & 1).astype(np.bool_)
    return flags


def arrow_type(data_type: DataType, single_value: bool) -> pa.DataType:
    """Arrow type of a column's values between operators."""
    return data_type.arrow if single_value else pa.list_(data_type.arrow)


def _stored(column: Column, entries: Int64Array) -> pa.Array:
    if column.dictionary is not None:
        return column.dictionary.arrow().take(pa.array(column.ids()[entries]))
    values = column.raw_values()
    return pa.array(values[entries]) if isinstance(values, np.ndarray) else values.take(pa.array(entries))


def logical_values(values: Any, data_type: DataType) -> pa.Array:
    """Stored values in DataType.arrow: BOOLEAN as bool, text as string."""
    if data_type is DataType.BOOLEAN:
        return values.cast(pa.bool_())
    if data_type.stored is not StoredType.VAR:
        return values
    if data_type.arrow == pa.binary():
        return values if values.type == pa.binary() else values.cast(pa.binary())
    text = as_text(values)
    return text if text.type == pa.string() else text.cast(pa.string())


def as_text(values: pa.Array) -> pa.Array:
    """Binary values as text, zero-copy: segments hold checked UTF-8 for STRING and JSON."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return values
    wanted = pa.large_string() if pa.types.is_large_binary(values.type) else pa.string()
    return pa.Array.from_buffers(wanted, len(values), values.buffers(), values.null_count, values.offset)
