"""Literals of predicates into dict ids, for all segments of a query in one call.

`metas` is int64[num_segments, META_WORDS] of one column, every row with a sorted dictionary. Values of fixed types come
twice, as int64 and as float64 words; which one counts is decided by the column's stored type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uint32

from pinotpy.kernels.abi import (
    M_CARDINALITY,
    M_DICTIONARY,
    M_DICTIONARY_OFFSETS,
    M_STORED,
    T_FLOAT,
    T_INT,
    T_LONG,
    inner,
)
from pinotpy.kernels.ordered_bytes import compare_bytes
from pinotpy.kernels.views import view_f32, view_f64, view_i32, view_i64, view_u8


@inner
def _bound(values: Any, value: Any, after: bool) -> Any:
    # First position whose value is >= value, or > value if `after`.
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) >> 1
        found = values[middle]
        if found < value or (after and found == value):
            low = middle + 1
        else:
            high = middle
    return low


@inner
def fixed_bound(meta: Any, integer: int, real: float, after: bool) -> Any:
    stored, address, count = meta[M_STORED], meta[M_DICTIONARY], meta[M_CARDINALITY]
    if stored == T_INT:
        return _bound(view_i32(address, count), integer, after)
    if stored == T_LONG:
        return _bound(view_i64(address, count), integer, after)
    if stored == T_FLOAT:
        return _bound(view_f32(address, count), real, after)
    return _bound(view_f64(address, count), real, after)


@inner
def var_bound(meta: Any, value: Any) -> Any:
    # First id whose bytes are >= value.
    low, high = 0, int(meta[M_CARDINALITY])
    offsets = view_i32(meta[M_DICTIONARY_OFFSETS], high + 1)
    data = view_u8(meta[M_DICTIONARY], offsets[high])
    while low < high:
        middle = (low + high) >> 1
        if compare_bytes(data, offsets[middle], offsets[middle + 1], value, 0, len(value)) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _merge_fixed(dictionary: Any, values: Any, out: Any) -> Any:
    # Ids of the sorted `values` that the sorted dictionary has; by bisection where they are few, else by one merge.
    found, at = 0, 0
    few = len(values) * 8 < len(dictionary)
    for value in values:
        if few:
            at += _bound(dictionary[at:], value, False)
        else:
            while at < len(dictionary) and dictionary[at] < value:
                at += 1
        if at == len(dictionary):
            break
        if dictionary[at] == value:
            out[found] = at
            found += 1
    return found


@inner
def _fixed_members(meta: Any, integers: Any, reals: Any, out: Any) -> Any:
    stored, address, count = meta[M_STORED], meta[M_DICTIONARY], meta[M_CARDINALITY]
    if stored == T_INT:
        return _merge_fixed(view_i32(address, count), integers, out)
    if stored == T_LONG:
        return _merge_fixed(view_i64(address, count), integers, out)
    if stored == T_FLOAT:
        return _merge_fixed(view_f32(address, count), reals, out)
    return _merge_fixed(view_f64(address, count), reals, out)


@inner
def _var_members(meta: Any, data: Any, offsets: Any, out: Any) -> Any:
    count = int(meta[M_CARDINALITY])
    own_offsets = view_i32(meta[M_DICTIONARY_OFFSETS], count + 1)
    own = view_u8(meta[M_DICTIONARY], own_offsets[count])
    num_values = len(offsets) - 1
    found, low = 0, 0
    few = num_values * 8 < count
    for i in range(num_values):
        first, end = offsets[i], offsets[i + 1]
        if few:
            high = count
            while low < high:
                middle = (low + high) >> 1
                if compare_bytes(own, own_offsets[middle], own_offsets[middle + 1], data, first, end) < 0:
                    low = middle + 1
                else:
                    high = middle
        else:
            while low < count and compare_bytes(own, own_offsets[low], own_offsets[low + 1], data, first, end) < 0:
                low += 1
        if low == count:
            break
        if compare_bytes(own, own_offsets[low], own_offsets[low + 1], data, first, end) == 0:
            out[found] = low
            found += 1
    return found


@njit(cache=True, nogil=True)
def fixed_members(metas: Any, integers: Any, reals: Any, out: Any, starts: Any) -> None:
    """Ids of those of the sorted distinct `integers` (or `reals`) that each dictionary has: out[starts[s] : starts[s + 1]],
    ascending. `out` (uint32) must hold the smaller of cardinality and values for every segment."""
    at = 0
    for s in range(len(metas)):
        starts[s] = at
        at += _fixed_members(metas[s], integers, reals, out[at:])
    starts[len(metas)] = at


@njit(cache=True, nogil=True)
def var_members(metas: Any, data: Any, offsets: Any, out: Any, starts: Any) -> None:
    """The same of sorted distinct byte strings (bytes `data`, int64 `offsets`)."""
    at = 0
    for s in range(len(metas)):
        starts[s] = at
        at += _var_members(metas[s], data, offsets, out[at:])
    starts[len(metas)] = at


@njit(cache=True, nogil=True)
def fill_tables(ids: Any, starts: Any, tables: Any, bases: Any) -> None:
    """tables[bases[s] + id] = 1 for the ids of every segment; segments with bases[s] < 0 are left out."""
    for s in range(len(bases)):
        if bases[s] >= 0:
            for i in range(starts[s], starts[s + 1]):
                tables[bases[s] + ids[i]] = 1


@njit(cache=True, nogil=True)
def fill_bits(ids: Any, starts: Any, tables: Any, bases: Any) -> None:
    """Bit `id` of the uint32 words from tables[bases[s]] on is set, for the ids of every segment; bases[s] < 0: left out."""
    for s in range(len(bases)):
        if bases[s] >= 0:
            for i in range(starts[s], starts[s + 1]):
                tables[bases[s] + (ids[i] >> uint32(5))] |= uint32(1) << (ids[i] & uint32(31))


def warm() -> None:
    """Compile for the argument types that queries use what not every query does."""
    ids, starts, bases = np.zeros(1, np.uint32), np.array([0, 1]), np.zeros(1, np.int64)
    fill_tables(ids, starts, np.zeros(1, np.uint8), bases)
    fill_bits(ids, starts, np.zeros(1, np.uint32), bases)
