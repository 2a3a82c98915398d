"""Literals of predicates into dict ids, for all segments of a query in one call.

`metas` is int64[num_segments, META_WORDS] of one column, every row with a sorted dictionary. Values of fixed types come
twice, as int64 and as float64 words; which one counts is decided by the column's stored type.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint32, uint64

from pinotpy.kernels.runtime.abi import (
    M_CARDINALITY,
    M_DICTIONARY,
    M_DICTIONARY_OFFSETS,
    M_STORED,
    T_FLOAT,
    T_INT,
    T_LONG,
    inner,
)
from pinotpy.kernels.runtime.byte_words import order_bytes, same_bytes
from pinotpy.kernels.runtime.views import view_f32, view_f64, view_i32, view_i64

# Values that are looked up together.
_LANES: Final = 16


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
def _end(values: Any, position: int, value: Any) -> Any:
    # First position from `position` on whose value is > value: for an equality it or the next.
    low, step = position, 1
    while low + step <= len(values) and values[low + step - 1] <= value:
        low += step
        step += step
    high = min(low + step - 1, len(values))
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def fixed_range_end(meta: Any, first: int, high_word: int, high_real: float) -> Any:
    """The id after the last whose value is at most the high end, `first` at least; values before `first` are below."""
    stored, address, count = meta[M_STORED], meta[M_DICTIONARY], meta[M_CARDINALITY]
    if stored == T_INT:
        return _end(view_i32(address, count), first, high_word)
    if stored == T_LONG:
        return _end(view_i64(address, count), first, high_word)
    if stored == T_FLOAT:
        return _end(view_f32(address, count), first, high_real)
    return _end(view_f64(address, count), first, high_real)


@inner
def _next_bound(values: Any, position: int, value: Any) -> Any:
    # First position from `position` on whose value is >= value: steps that double, then bisection, so that near ones
    # cost little.
    if position == len(values) or values[position] >= value:
        return position
    low, step = position, 1
    while low + step < len(values) and values[low + step] < value:
        low += step
        step += step
    high = min(low + step, len(values))
    while high - low > 1:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle
        else:
            high = middle
    return high


@inner
def _bounds_together(dictionary: Any, values: Any, position: Any) -> None:
    # First positions whose values are >= `values`, all lanes one step of bisection after the other: their loads
    # overlap.
    position[:] = 0
    size = len(dictionary)
    while size > 1:
        half = size >> 1
        for lane in range(len(values)):
            place = position[lane]
            position[lane] = place + uint64(half) if dictionary[place + uint64(half - 1)] < values[lane] else place
        size -= half
    for lane in range(len(values)):
        position[lane] += uint64(dictionary[position[lane]] < values[lane])


@inner
def _merge_fixed(dictionary: Any, values: Any, out: Any) -> Any:
    # Ids of the sorted `values` that the sorted dictionary has.
    count = 0
    if len(values) < _LANES:
        position = 0
        for value in values:
            position = _next_bound(dictionary, position, value)
            if position == len(dictionary):
                break
            if dictionary[position] == value:
                out[count] = position
                count += 1
        return count
    first = _bound(dictionary, values[0], False)
    stored = dictionary[first : _bound(dictionary, values[len(values) - 1], True)]
    lanes = np.empty(_LANES, np.uint64)
    for begin in range(0, len(values) if len(stored) > 0 else 0, _LANES):
        wanted = values[begin : begin + _LANES]
        places = lanes[: len(wanted)]
        _bounds_together(stored, wanted, places)
        for lane in range(len(wanted)):
            if places[lane] < uint64(len(stored)) and stored[places[lane]] == wanted[lane]:
                out[count] = first + np.int64(places[lane])
                count += 1
    return count


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
def _is_before(data: int, offsets: Any, position: int, value: int, size: int) -> Any:
    return order_bytes(data + offsets[position], np.int64(offsets[position + 1] - offsets[position]), value, size) < 0


@inner
def _next_var_bound(data: int, offsets: Any, position: int, value: int, size: int) -> Any:
    # As _next_bound, of byte strings.
    count = len(offsets) - 1
    if position == count or not _is_before(data, offsets, position, value, size):
        return position
    low, step = position, 1
    while low + step < count and _is_before(data, offsets, low + step, value, size):
        low += step
        step += step
    high = min(low + step, count)
    while high - low > 1:
        middle = (low + high) >> 1
        if _is_before(data, offsets, middle, value, size):
            low = middle
        else:
            high = middle
    return high


@inner
def var_range_end(meta: Any, first: int, end: int, end_size: int) -> Any:
    """The first id from `first` on whose bytes are not before those at `end`."""
    offsets = view_i32(meta[M_DICTIONARY_OFFSETS], int64(meta[M_CARDINALITY]) + 1)
    return _next_var_bound(meta[M_DICTIONARY], offsets, first, end, end_size)


@inner
def _var_members(meta: Any, data: Any, offsets: Any, out: Any) -> Any:
    count = int(meta[M_CARDINALITY])
    own_offsets, body, members = view_i32(meta[M_DICTIONARY_OFFSETS], count + 1), meta[M_DICTIONARY], data.ctypes.data
    num_found, position = 0, 0
    for i in range(len(offsets) - 1):
        value, size = members + offsets[i], offsets[i + 1] - offsets[i]
        position = _next_var_bound(body, own_offsets, position, value, size)
        if position == count:
            break
        if own_offsets[position + 1] - own_offsets[position] == size and same_bytes(
            body + own_offsets[position], value, size
        ):
            out[num_found] = position
            num_found += 1
    # Used once more: the address of its bytes was.
    return num_found if len(data) >= 0 else 0


@njit(cache=True, nogil=True)
def fixed_members(metas: Any, integers: Any, reals: Any, out: Any, starts: Any) -> None:
    """Ids of those of the sorted distinct `integers` (or `reals`) that each dictionary has: out[starts[s] : starts[s +
    1]], ascending. `out` (uint32) must hold the smaller of cardinality and values for every segment.
    """
    position = 0
    for s in range(len(metas)):
        starts[s] = position
        position += _fixed_members(metas[s], integers, reals, out[position:])
    starts[len(metas)] = position


@njit(cache=True, nogil=True)
def var_members(metas: Any, data: Any, offsets: Any, out: Any, starts: Any) -> None:
    """The same of sorted distinct byte strings (bytes `data`, int64 `offsets`)."""
    position = 0
    for s in range(len(metas)):
        starts[s] = position
        position += _var_members(metas[s], data, offsets, out[position:])
    starts[len(metas)] = position


@njit(cache=True, nogil=True)
def fill_tables(ids: Any, starts: Any, tables: Any, bases: Any) -> None:
    """tables[bases[s] + id] = 1 for the ids of every segment; segments with bases[s] < 0 are left out."""
    for s in range(len(bases)):
        if bases[s] >= 0:
            for i in range(starts[s], starts[s + 1]):
                tables[bases[s] + ids[i]] = 1


@njit(cache=True, nogil=True)
def fill_bits(ids: Any, starts: Any, tables: Any, bases: Any) -> None:
    """Bit `id` of the uint32 words from tables[bases[s]] on is set, for the ids of every segment; bases[s] < 0: left
    out.
    """
    for s in range(len(bases)):
        if bases[s] >= 0:
            for i in range(starts[s], starts[s + 1]):
                tables[bases[s] + (ids[i] >> uint32(5))] |= uint32(1) << (ids[i] & uint32(31))


def warm() -> None:
    """Compile for the argument types that queries use what not every query does."""
    ids, starts, bases = np.zeros(1, np.uint32), np.array([0, 1]), np.zeros(1, np.int64)
    fill_tables(ids, starts, np.zeros(1, np.uint8), bases)
    fill_bits(ids, starts, np.zeros(1, np.uint32), bases)
