"""Numbering int64 keys by first appearance, for merges of many groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit, uint64

from pinotpy.arrays import Int64Array

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def _dense(keys: Any, low: int, table: Any, groups: Any, first: Any) -> Any:
    count = 0
    for i in range(len(keys)):
        at = uint64(keys[i] - low)
        group = table[at]
        if group < 0:
            group = count
            table[at] = group
            first[count] = i
            count += 1
        groups[i] = group
    return count


@njit(cache=True, nogil=True)
def _hashed(keys: Any, shift: Any, mask: Any, table_keys: Any, table_groups: Any, groups: Any, first: Any) -> Any:
    count = 0
    for i in range(len(keys)):
        key = keys[i]
        at = (uint64(key) * _MULTIPLIER) >> shift
        while True:
            group = table_groups[at]
            if group < 0:
                group = count
                table_groups[at], table_keys[at] = group, key
                first[count] = i
                count += 1
                break
            if table_keys[at] == key:
                break
            at = (at + uint64(1)) & mask
        groups[i] = int64(group)
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
    bits = max(int(2 * len(keys) - 1).bit_length(), 4)
    table_keys, table_groups = np.empty(1 << bits, np.int64), np.full(1 << bits, -1, np.int32)
    count = _hashed(keys, np.uint64(64 - bits), np.uint64((1 << bits) - 1), table_keys, table_groups, groups, first)
    return groups, first[:count]


def warm() -> None:
    """Compile."""
    for spread in (1, 1 << 40):
        number_int64(np.arange(8, dtype=np.int64) * spread)
