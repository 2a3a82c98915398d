"""Counting the different rows of several words, by group: COUNT(DISTINCT a, b).

A row is int64[width], its group first. Rows are dealt by hash to parts that fit the cache; the rows of a part are told
apart by a small table, which compares all words. Every step can be shared out between threads.

    count_parts, deal   rows → parts
    count_different     the different rows of some parts, by group
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime.abi import inner

PART_ROWS: Final = 1 << 13
PART_BITS_MAX: Final = 12

_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_WORD_MULTIPLIER: Final = np.uint64(0xD6E8FEB86659FD93)


@inner
def _hash(rows: Any, i: Any, width: Any) -> Any:
    mixed = uint64(0)
    for j in range(width):
        mixed = (mixed ^ uint64(rows[i, j])) * _WORD_MULTIPLIER
        mixed ^= mixed >> uint64(32)
    mixed *= _MULTIPLIER
    return mixed ^ (mixed >> uint64(29))


@inner
def _part(rows: Any, i: Any, width: Any, shift: Any) -> Any:
    return (_hash(rows, i, width) * _MULTIPLIER) >> shift


@njit(cache=True, nogil=True)
def count_parts(rows: Any, bits: int, sizes: Any) -> None:
    """Add the rows of each of 2^bits parts to `sizes` (int64)."""
    shift, width = uint64(64 - bits), rows.shape[1]
    for i in range(len(rows)):
        sizes[_part(rows, i, width, shift)] += 1


@njit(cache=True, nogil=True)
def deal(rows: Any, bits: int, places: Any, out: Any) -> None:
    """Copy each row to the next place of its part; `places` (int64) moves on."""
    shift, width = uint64(64 - bits), rows.shape[1]
    for i in range(len(rows)):
        part = _part(rows, i, width, shift)
        at = places[part]
        for j in range(width):
            out[at, j] = rows[i, j]
        places[part] = at + 1


@inner
def _is_equal(rows: Any, a: Any, b: Any, width: Any) -> Any:
    differences = int64(0)
    for j in range(width):
        differences |= rows[a, j] ^ rows[b, j]
    return differences == 0


@njit(cache=True, nogil=True)
def count_different(rows: Any, starts: Any, first: int, last: int, sizes: Any) -> None:
    """Add the different rows of parts first … last - 1 to their groups.

    Args:
        rows: int64[n, width], dealt. starts: int64[parts + 1]. sizes: int64[groups].
    """
    width, widest = rows.shape[1], 0
    for part in range(first, last):
        widest = max(widest, starts[part + 1] - starts[part])
    slots = 16
    while slots < 2 * widest:
        slots *= 2
    table = np.empty(slots, np.int64)
    for part in range(first, last):
        need = 16
        while need < 2 * (starts[part + 1] - starts[part]):
            need *= 2
        table[:need] = -1
        mask = uint64(need - 1)
        for i in range(starts[part], starts[part + 1]):
            at = _hash(rows, i, width) & mask
            while table[at] >= 0 and not _is_equal(rows, table[at], int64(i), width):
                at = (at + uint64(1)) & mask
            if table[at] < 0:
                table[at] = i
                sizes[rows[i, 0]] += 1


def warm() -> None:
    """Compile for the argument types that queries use."""
    rows: Int64Array = np.zeros((1, 3), np.int64)
    sizes = np.zeros(2, np.int64)
    count_parts(rows, 1, sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    deal(rows, 1, starts[:-1].copy(), np.empty_like(rows))
    count_different(rows, starts, 0, 2, np.zeros(1, np.int64))
