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
from pinotpy.kernels.runtime.abi import inner, words
from pinotpy.kernels.runtime.hashing import absorb, finish, first_slot, probe, slots_of, start

PART_ROWS: Final = 1 << 13
PART_BITS_MAX: Final = 12


@inner
def _hash(rows: Any, i: Any, width: Any) -> Any:
    h = start(rows[i, 0])
    for j in range(1, width):
        h = absorb(h, rows[i, j])
    return finish(h)


@njit(cache=True, nogil=True)
def count_parts(rows: Any, bits: int, sizes: Any) -> None:
    """Add the rows of each of 2^bits parts to `sizes` (int64)."""
    shift, width = uint64(64 - bits), rows.shape[1]
    for i in range(len(rows)):
        sizes[_hash(rows, i, width) >> shift] += 1


@njit(cache=True, nogil=True)
def deal(rows: Any, bits: int, places: Any, out: Any) -> None:
    """Copy each row to the next place of its part; `places` (int64) moves on."""
    shift, width = uint64(64 - bits), rows.shape[1]
    for i in range(len(rows)):
        part = _hash(rows, i, width) >> shift
        at = places[part]
        for j in range(width):
            out[at, j] = rows[i, j]
        places[part] = at + 1


@inner
def _holds_row(slots: Any, at: Any, known: Any, row: Any) -> Any:
    held, differences = uint64(slots[at]), int64(0)
    i, width = row
    for j in range(width):
        differences |= known[(held - uint64(1)) * width + j] ^ known[i * width + j]
    return differences == 0


_find_row = probe(_holds_row)


@njit(cache=True, nogil=True)
def count_different(rows: Any, starts: Any, first: int, last: int, sizes: Any) -> None:
    """Add the different rows of parts first … last - 1 to their groups.

    Args:
        rows: int64[n, width], dealt, contiguous. starts: int64[parts + 1]. sizes: int64[groups].
    """
    width, widest = rows.shape[1], 0
    for part in range(first, last):
        widest = max(widest, starts[part + 1] - starts[part])
    table, known = np.empty(slots_of(widest), np.int64), words(rows.ctypes.data, rows.size)
    for part in range(first, last):
        own = words(table.ctypes.data, slots_of(starts[part + 1] - starts[part]))
        own[:] = 0
        mask = uint64(len(own) - 1)
        for i in range(starts[part], starts[part + 1]):
            at = _find_row(own, first_slot(_hash(rows, i, width), mask), mask, known, (uint64(i), uint64(width)))
            if own[at] == 0:
                own[at] = i + 1
                sizes[rows[i, 0]] += 1


def warm() -> None:
    """Compile for the argument types that queries use."""
    rows: Int64Array = np.zeros((1, 3), np.int64)
    sizes = np.zeros(2, np.int64)
    count_parts(rows, 1, sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    deal(rows, 1, starts[:-1].copy(), np.empty_like(rows))
    count_different(rows, starts, 0, 2, np.zeros(1, np.int64))
