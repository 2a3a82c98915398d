"""Order of byte strings in offsets + bytes form: search in a sorted dictionary, and the check that one is sorted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def compare_bytes(data: Any, begin: int, end: int, key: Any, key_begin: int, key_end: int) -> int:
    """-1, 0 or 1 as data[begin:end] sorts before, equals or sorts after key[key_begin:key_end], byte by byte,
    unsigned.
    """
    length, key_length = end - begin, key_end - key_begin
    for i in range(min(length, key_length)):
        a, b = data[begin + i], key[key_begin + i]
        if a != b:
            return -1 if a < b else 1
    if length == key_length:
        return 0
    return -1 if length < key_length else 1


@njit(cache=True, nogil=True)
def bytes_lower_bound(offsets: Any, data: Any, key: Any) -> int:
    """First index whose string is >= `key` (uint8 array); number of strings if none. `offsets` has one entry more."""
    low, high = 0, offsets.shape[0] - 1
    while low < high:
        middle = (low + high) >> 1
        if compare_bytes(data, np.int64(offsets[middle]), np.int64(offsets[middle + 1]), key, 0, key.shape[0]) < 0:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def bytes_strictly_ascend(offsets: Any, data: Any) -> bool:
    """Whether each string sorts after the one before it."""
    for i in range(1, offsets.shape[0] - 1):
        begin, middle, end = np.int64(offsets[i - 1]), np.int64(offsets[i]), np.int64(offsets[i + 1])
        if compare_bytes(data, begin, middle, data, middle, end) >= 0:
            return False
    return True
