"""Numbering int64 keys by first appearance, for merges of many groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit, uint64

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime.abi import inner, words
from pinotpy.kernels.runtime.hashing import first_slot, mix, probe, slots_of
from pinotpy.kernels.runtime.views import view_u32


@njit(cache=True, nogil=True)
def _dense(keys: Any, low: int, table: Any, groups: Any, first: Any) -> Any:
    count = 0
    for i in range(len(keys)):
        slot = uint64(keys[i] - low)
        group = table[slot]
        if group < 0:
            group = count
            table[slot] = group
            first[count] = i
            count += 1
        groups[i] = group
    return count


@inner
def _holds_key(numbers: Any, slot: Any, held: Any, key: Any) -> Any:
    return held[slot] == key


_find_key = probe(_holds_key)


@njit(cache=True, nogil=True)
def _hashed(keys: Any, table_keys: Any, table_groups: Any, groups: Any, first: Any) -> Any:
    slots = len(table_keys)
    count, mask = 0, uint64(slots - 1)
    held, numbers = words(table_keys.ctypes.data, slots), view_u32(table_groups.ctypes.data, slots)
    for i in range(len(keys)):
        key = keys[i]
        slot = _find_key(numbers, first_slot(mix(key), mask), mask, held, key)
        number = int64(numbers[slot])
        if number == 0:
            first[count] = i
            count += 1
            number = count
            numbers[slot], held[slot] = number, key
        groups[i] = number - 1
    return count


def number_int64(keys: Int64Array) -> tuple[Int64Array, Int64Array]:
    """(groups, first): the number of every key by first appearance, and where each number appeared first."""
    keys = np.ascontiguousarray(keys)
    groups, first = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    if len(keys) == 0:
        return groups, first
    low, high = int(keys.min()), int(keys.max())
    if high - low < 4 * len(keys):
        table = np.full(high - low + 1, -1, np.int32)
        return groups, first[: _dense(keys, low, table, groups, first)]
    slots = slots_of(len(keys))
    count = _hashed(keys, np.empty(slots, np.int64), np.zeros(slots, np.uint32), groups, first)
    return groups, first[:count]


def warm() -> None:
    """Compile."""
    for spread in (1, 1 << 40):
        number_int64(np.arange(8, dtype=np.int64) * spread)
