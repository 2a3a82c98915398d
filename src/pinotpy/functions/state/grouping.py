"""Numbering rows by value: equal rows get the same number, numbers go by first appearance.

Small inputs go through Arrow's hash tables; from KERNEL_ROWS rows on, 64-bit keys go through compiled ones, which are
loaded only then: a broker that merges small answers stays small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array

KERNEL_ROWS: Final = 1 << 16
_NULL_CODE_LIMIT: Final = 1 << 62


def number_rows(columns: Sequence[pa.Array]) -> tuple[Int64Array, Int64Array]:
    """Number rows by the values of all columns (null equals null; doubles with −0.0 = 0.0 and NaN = NaN).

    Returns:
        (groups, first): the number of every row, and the row in which each number appeared first.
    """
    assert columns, "no columns to number rows by"
    keys, size = _codes(columns[0])
    for column in columns[1:]:
        more, more_size = _codes(column)
        if size * more_size >= _NULL_CODE_LIMIT:
            keys, firsts = number_keys(keys)
            size = len(firsts)
        if size * more_size >= _NULL_CODE_LIMIT:
            more, firsts = number_keys(more)
            more_size = len(firsts)
        keys = keys * more_size + more
        size *= more_size
    return number_keys(keys)


def _codes(column: pa.Array) -> tuple[Int64Array, int]:
    """Integers ≥ 0 that are equal where the values are, and their bound (2^63 when they are the values' own bits)."""
    if len(column) == 0:
        return np.empty(0, np.int64), 1
    nulls = column.null_count
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        filled = pc.fill_null(column, 0) if nulls else column
        values = filled.to_numpy(zero_copy_only=False)
        bits = float_bits(values) if pa.types.is_floating(column.type) else values.astype(np.int64, copy=False)
        low, high = int(bits.min()), int(bits.max())
        if high - low + 2 < 4 * len(column) + 1024:
            codes, bound = bits - low, high - low + 1
        elif not nulls:
            return bits, 1 << 63
        else:
            codes, firsts = number_keys(bits)
            bound = len(firsts)
    else:
        filled = pc.fill_null(column, b"" if pa.types.is_binary(column.type) else "") if nulls else column
        encoded = filled.dictionary_encode()
        codes, bound = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)
    if nulls:
        codes = np.where(column.is_null().to_numpy(zero_copy_only=False), bound, codes)
        bound += 1
    return codes, bound


def float_bits(values: NDArray[np.floating]) -> Int64Array:
    """The bits of doubles, with one zero and one NaN."""
    wide = values.astype(np.float64) + 0.0
    wide[np.isnan(wide)] = np.nan
    return wide.view(np.int64)


def number_keys(keys: Int64Array) -> tuple[Int64Array, Int64Array]:
    """`number_rows` of one int64 key column without nulls."""
    if len(keys) >= KERNEL_ROWS:
        from pinotpy.kernels.group.number_keys import number_int64

        return number_int64(keys)
    encoded = pa.array(keys).dictionary_encode()
    groups = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    first = np.empty(len(encoded.dictionary), np.int64)
    # Backwards, so that the earliest row is the one that stays.
    first[groups[::-1]] = np.arange(len(keys) - 1, -1, -1)
    return groups, first


def distinct_pairs(rows: Int64Array, values: pa.Array) -> Int64Array:
    """Indexes of the first of each distinct (row, value) pair, ascending."""
    if len(rows) == 0:
        return np.empty(0, np.int64)
    return number_rows([pa.array(rows), values])[1]
