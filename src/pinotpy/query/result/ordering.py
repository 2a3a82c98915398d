"""Sorting rows by several keys, keeping only the first few: vectorised, deterministic.

Order of values: numbers by value with NaN above all and −0.0 = 0.0; text and bytes by bytes; false before true. Nulls
come last when ascending and first when descending unless said otherwise (sql-live §5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array

# A selection of the k best by the first key alone pays off from here on.
PARTITION_ROWS_MIN = 4096
# So few texts are ranked in Python faster than Arrow's functions are called: 15 in 5 µs instead of 25.
COMPACT_ROWS_MAX: Final = 64
_NAN: Final = 0x7FF8000000000000


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key: values of all rows, direction, and where nulls go (None: last if ascending, first if descending)."""

    values: pa.Array
    ascending: bool = True
    nulls_last: bool | None = None


def order_indices(keys: Sequence[SortKey], num_rows: int, limit: int | None = None) -> Int64Array:
    """Row numbers in order, the first `limit` of them; rows that are equal in all keys keep their order."""
    if not keys:
        return np.arange(num_rows if limit is None else min(limit, num_rows))
    if limit == 0:
        return np.empty(0, np.int64)
    rows = None if limit is None else _possible(keys, num_rows, limit)
    if rows is not None:
        taken = pa.array(rows)
        keys = [SortKey(key.values.take(taken), key.ascending, key.nulls_last) for key in keys]
    order = np.lexsort([_codes(key) for key in keys][::-1])
    if rows is not None:
        order = rows[order]
    return order if limit is None else order[:limit]


def _possible(keys: Sequence[SortKey], num_rows: int, limit: int) -> Int64Array | None:
    """Rows, ascending, among which the first `limit` in order are; None: all. A later key is looked at only in rows
    that are equal to the limit-th in all keys before: a hundred thousand groups may have one row each.
    """
    surely: list[Int64Array] = []
    equal: Int64Array | None = None
    num_left, wanted = num_rows, limit
    for key in keys:
        if num_left < PARTITION_ROWS_MIN or num_left <= wanted:
            break
        codes = _codes(
            key if equal is None else SortKey(key.values.take(pa.array(equal)), key.ascending, key.nulls_last)
        )
        last = np.partition(codes, wanted - 1)[wanted - 1]
        before, ties = np.flatnonzero(codes < last), np.flatnonzero(codes == last)
        surely.append(before if equal is None else equal[before])
        equal = ties if equal is None else equal[ties]
        num_left, wanted = len(equal), wanted - len(before)
    if equal is None:
        return None
    rows = np.concatenate([*surely, equal])
    rows.sort()
    return rows


def _codes(key: SortKey) -> NDArray[Any]:
    """int64 or uint64 codes whose ascending order is the order of the key."""
    values = key.values.combine_chunks() if isinstance(key.values, pa.ChunkedArray) else key.values
    codes, lowest, highest = _ascending_codes(values)
    if not key.ascending:
        codes = -codes
        lowest, highest = -highest, -lowest
    if values.null_count:
        nulls_last = key.ascending if key.nulls_last is None else key.nulls_last
        codes = codes.copy()
        codes[values.is_null().to_numpy(zero_copy_only=False)] = highest + 1 if nulls_last else lowest - 1
    return codes


def _ascending_codes(values: pa.Array) -> tuple[Int64Array, int, int]:
    """Codes with their bounds; small enough that a bound ± 1 and a negation fit."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return _filled(values, False).to_numpy(zero_copy_only=False).astype(np.int64), 0, 1
    if pa.types.is_integer(kind) and kind != pa.int64():
        numbers = _filled(values, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers, -(2**31), 2**31 - 1
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
    if pa.types.is_floating(kind):
        # −0.0 + 0.0 = 0.0
        return (
            _ordered_doubles(_filled(values, 0.0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0),
            -_NAN,
            _NAN,
        )
    if pa.types.is_integer(kind):
        return _ordered_longs(_filled(values, 0).to_numpy(zero_copy_only=False))
    if len(values) <= COMPACT_ROWS_MAX:
        return _ranks_of_few(values.to_pylist())
    encoded = values.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    rank_of = np.zeros(max(len(order), 1), np.int64)
    rank_of[order] = np.arange(len(order))
    return rank_of[pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)], 0, len(order)


def _filled(values: pa.Array, instead: object) -> pa.Array:
    return pc.fill_null(values, instead) if values.null_count else values


def _ranks_of_few(values: list[Any]) -> tuple[Int64Array, int, int]:
    """Ranks of text or bytes (text in the order of its code points, which is that of its UTF-8)."""
    distinct = sorted({value for value in values if value is not None})
    rank_of = {value: rank for rank, value in enumerate(distinct)}
    return np.array([rank_of.get(value, 0) for value in values], np.int64), 0, len(distinct)


def _ordered_doubles(values: NDArray[np.float64]) -> Int64Array:
    """Integers in the order of the doubles: sign and magnitude to two's complement; NaN above infinity. All lie within
    ±_NAN, so that bounds and negations fit."""
    bits = np.where(np.isnan(values), np.int64(_NAN), values.view(np.int64))
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _ordered_longs(values: Int64Array) -> tuple[Int64Array, int, int]:
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if low > -(2**62) and high < 2**62:
        return values, low, high
    ranks = np.unique(values, return_inverse=True)[1].astype(np.int64)  # a negation or a bound would not fit
    return ranks, 0, len(values)
