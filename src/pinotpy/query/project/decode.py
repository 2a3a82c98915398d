"""Key words and values that kernels left, as Arrow columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.errors import QueryExecutionError
from pinotpy.kernels.group import merge_rows

_STORED_ARROW = {
    StoredType.INT: pa.int32(),
    StoredType.LONG: pa.int64(),
    StoredType.FLOAT: pa.float32(),
    StoredType.DOUBLE: pa.float64(),
    StoredType.VAR: pa.binary(),
}


def decode(
    words: Int64Array, morsels: Int64Array, metas: Int64Array, stored: StoredType
) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Values (Arrow, stored form) of key words, and which of them are null.

    Args:
        words: dict ids where metas[morsel] is an address, else the values' 64 bits; ids past the dictionary are null.
    """
    nulls = np.zeros(len(words), np.bool_)
    words = np.ascontiguousarray(words)
    if stored is StoredType.VAR:
        offsets = np.empty(len(words) + 1, np.int64)
        merge_rows.decode_var_lengths(words, morsels, metas, offsets, nulls)
        if offsets[-1] >= 2**31:
            raise QueryExecutionError(
                f"the values of the groups take {offsets[-1]} bytes, more than an answer holds: group by shorter "
                "values or fewer"
            )
        body = np.empty(max(int(offsets[-1]), 1), np.uint8)
        merge_rows.decode_var_bytes(words, morsels, metas, offsets, body)
        return pa.Array.from_buffers(
            pa.binary(), len(words), [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(body)]
        ), nulls
    if metas.all() or not len(words):
        values = np.empty(len(words), np.int64)
        merge_rows.decode_fixed(words, morsels, metas, values, nulls)
    elif not metas.any():
        values = words
    else:
        values = words.copy()
        by_id = np.flatnonzero(metas[morsels])
        decoded, null_ids = np.empty(len(by_id), np.int64), np.zeros(len(by_id), np.bool_)
        merge_rows.decode_fixed(words[by_id], morsels[by_id], metas, decoded, null_ids)
        values[by_id], nulls[by_id] = decoded, null_ids
    plain = values.view(np.float64) if stored.is_floating else values
    with np.errstate(over="ignore"):
        return pa.array(plain.astype(stored.numpy, copy=False), _STORED_ARROW[stored]), nulls


def key_array(values: pa.Array, nulls: NDArray[np.bool_], data_type: DataType) -> pa.Array:
    """A key column of a partial result: the type's Arrow form, null where `nulls`."""
    if nulls.any():
        keep = pa.array(~nulls)
        values = pc.if_else(keep, values, pa.scalar(None, values.type))
    return values if values.type == data_type.arrow else values.cast(data_type.arrow)
