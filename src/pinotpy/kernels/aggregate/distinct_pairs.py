"""Uniting the (group, value) entries that all units and threads left: each pair once, its counts added up, by group.

An entry is two words: group (or arena row) << ROW_SHIFT | count, and the value's 64 bits or its code. Entries go to
partitions that fit the cache (runtime/partitioning.py), and each is deduplicated in place with a small table of its
own; nothing is sorted, and every step can be shared out between threads.

    translate   arena rows → groups, dict ids → values, in place
    deduplicate a partition in place: its distinct pairs first
    spread      distinct pairs → by group
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import float64, int64, njit, uint32, uint64
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime.abi import (
    M_CARDINALITY,
    M_DICTIONARY,
    M_STORED,
    META_WORDS,
    T_DOUBLE,
    T_FLOAT,
    T_INT,
    T_LONG,
    inner,
    words,
)
from pinotpy.kernels.runtime.hashing import absorb, finish, first_slot, probe, slots_of, start
from pinotpy.kernels.runtime.views import view_f32, view_f64, view_i32, view_i64, view_u8, view_u32

ENTRY_WORDS: Final = 2
ROW_SHIFT: Final = 32
PART_ENTRIES: Final = 1 << 14  # about so many entries a part: with its table 400 KB
PART_BITS_MAX: Final = 11

_COUNT_MASK: Final = np.int64((1 << ROW_SHIFT) - 1)


@inner
def _canonical(value: Any) -> Any:
    return float64(np.nan) if np.isnan(value) else value + 0.0


@inner
def _values_of_ids(entries: Any, doubles: Any, first: int, last: int, meta: Any) -> None:
    cardinality, address, stored = meta[M_CARDINALITY], meta[M_DICTIONARY], meta[M_STORED]
    if stored == T_INT:
        ints = view_i32(address, cardinality)
        for i in range(first, last):
            entries[i, 1] = ints[entries[i, 1]]
    elif stored == T_LONG:
        longs = view_i64(address, cardinality)
        for i in range(first, last):
            entries[i, 1] = longs[entries[i, 1]]
    elif stored == T_FLOAT:
        floats = view_f32(address, cardinality)
        for i in range(first, last):
            doubles[i, 1] = _canonical(float64(floats[entries[i, 1]]))
    elif stored == T_DOUBLE:
        plain = view_f64(address, cardinality)
        for i in range(first, last):
            doubles[i, 1] = _canonical(plain[entries[i, 1]])


@inner
def _codes_of_ids(entries: Any, first: int, last: int, codes: Any) -> None:
    for i in range(first, last):
        entries[i, 1] = codes[entries[i, 1]]


@njit(cache=True, nogil=True)
def translate(entries: Any, groups: Any, morsels: Any, metas: Any, codes: Any) -> None:
    """In place: arena rows become groups; dict ids become the values' 64 bits, or codes.

    Args:
        entries: int64[n, 2], the rows of a unit stand together.
        groups, morsels: of every arena row; metas: address of the column's meta by unit, 0 where entries hold values.
        codes: address of int32 codes by dict id, by unit; empty for columns of a fixed type.
    """
    doubles = entries.view(np.float64)
    first, count = 0, len(entries)
    while first < count:
        morsel = morsels[entries[first, 0] >> ROW_SHIFT]
        last = first
        while last < count and morsels[entries[last, 0] >> ROW_SHIFT] == morsel:
            entries[last, 0] = (groups[entries[last, 0] >> ROW_SHIFT] << ROW_SHIFT) | (entries[last, 0] & _COUNT_MASK)
            last += 1
        meta = words(metas[morsel], META_WORDS)
        if metas[morsel] != 0:
            if len(codes) > 0:
                _codes_of_ids(entries, first, last, view_i32(codes[morsel], meta[M_CARDINALITY]))
            else:
                _values_of_ids(entries, doubles, first, last, meta)
        first = last


@inner
def _holds_pair(slots: Any, slot: Any, known: Any, pair: Any) -> Any:
    # Those of distinct pairs have the group alone in their first word.
    held = uint64(2) * uint64(slots[slot])
    return (known[held - uint64(1)] ^ pair[1]) | (known[held - uint64(2)] ^ pair[0]) == 0


_find_pair = probe(_holds_pair)


@inner
def _deduplicate_part(entries: Any, counts: Any, table: Any) -> Any:
    used, mask = uint64(0), uint64(len(table) - 1)
    slots, known = view_u32(table.ctypes.data, len(table)), words(entries.ctypes.data, 2 * len(entries))
    for i in range(len(entries)):
        tag, value = entries[i, 0], entries[i, 1]
        group = tag >> ROW_SHIFT
        h = finish(absorb(start(group), value))
        slot = _find_pair(slots, first_slot(h, mask), mask, known, (group, value))
        held = uint64(slots[slot])
        if held == uint64(0):
            entries[used, 0], entries[used, 1], counts[used] = group, value, tag & _COUNT_MASK
            used += uint64(1)
            slots[slot] = uint32(used)
        else:
            counts[held - uint64(1)] += tag & _COUNT_MASK
    return int64(used)


@njit(cache=True, nogil=True)
def deduplicate(entries: Any, counts: Any, starts: Any, first: int, last: int, used: Any, sizes: Any) -> None:
    """Unite parts first … last - 1 in place: used[p] distinct pairs stand at starts[p], word 0 the group alone.

    Args:
        entries: int64[n, 2]; counts: int64[n], written beside the distinct pairs.
        starts: int64[parts + 1]; used: int64[parts], written.
        sizes: int64[groups], the distinct pairs of each group are added.
    """
    widest = 0
    for part in range(first, last):
        widest = max(widest, starts[part + 1] - starts[part])
    table = np.empty(slots_of(widest), np.uint32)
    for part in range(first, last):
        slots = table[: slots_of(starts[part + 1] - starts[part])]
        slots[:] = 0
        used[part] = _deduplicate_part(
            entries[starts[part] : starts[part + 1]], counts[starts[part] : starts[part + 1]], slots
        )
        for i in range(starts[part], starts[part] + used[part]):
            sizes[entries[i, 0]] += 1


@njit(cache=True, nogil=True)
def spread(
    entries: Any,
    counts: Any,
    starts: Any,
    first: int,
    last: int,
    used: Any,
    places: Any,
    values: Any,
    values_counts: Any,
) -> None:
    """Copy the distinct pairs of parts first … last - 1 to the next place of their group; `places` (int64) moves on.

    Args:
        values_counts: int64[n], or empty where counts are not wanted.
    """
    counted = len(values_counts) > 0
    for part in range(first, last):
        for i in range(starts[part], starts[part] + used[part]):
            group = entries[i, 0]
            position = uint64(places[group])
            values[position] = entries[i, 1]
            if counted:
                values_counts[position] = counts[i]
            places[group] = int64(position + uint64(1))


def warm() -> None:
    """Compile for the argument types that queries use."""
    entries: Int64Array = np.zeros((1, ENTRY_WORDS), np.int64)
    one: Int64Array = np.zeros(1, np.int64)
    translate(entries, one, one, one, np.empty(0, np.int64))
    sizes, starts = np.zeros(2, np.int64), np.array([0, 1, 1], np.int64)
    deduplicate(entries, one.copy(), starts, 0, 2, sizes, one.copy())
    spread(entries, one, starts, 0, 2, sizes, one.copy(), one.copy(), one.copy())


def bytes_at(address: int, count: int) -> NDArray[np.uint8]:
    """The bytes at an address, copied."""
    out = np.empty(count, np.uint8)
    _copy_bytes(address, out)
    return out


@njit(cache=True, nogil=True)
def _copy_bytes(address: int, out: Any) -> None:
    out[:] = view_u8(address, len(out))


def meta_row(address: int) -> Int64Array:
    """The meta words at an address, copied."""
    out = np.empty(META_WORDS, np.int64)
    _copy_meta(address, out)
    return out


@njit(cache=True, nogil=True)
def _copy_meta(address: int, out: Any) -> None:
    out[:] = words(address, META_WORDS)
