"""Counting the different rows of several words, by group: COUNT(DISTINCT a, b).

A row is int64[width], its group first. Rows go to partitions that fit the cache (runtime/partitioning.py); those of a
partition are told apart by a small table, which compares all words. Every step can be shared out between threads.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime.abi import inner, words
from pinotpy.kernels.runtime.hashing import first_slot, probe, slots_of
from pinotpy.kernels.runtime.partitioning import hash_row

PART_ROWS: Final = 1 << 13
PART_BITS_MAX: Final = 12


@inner
def _holds_row(slots: Any, slot: Any, known: Any, row: Any) -> Any:
    held, differences = uint64(slots[slot]), int64(0)
    i, width = row
    for j in range(width):
        differences |= known[(held - uint64(1)) * width + j] ^ known[i * width + j]
    return differences == 0


_find_row = probe(_holds_row)


@njit(cache=True, nogil=True)
def count_different(rows: Any, starts: Any, first: int, last: int, sizes: Any) -> None:
    """Add the different rows of parts first … last - 1 to their groups.

    Args:
        rows: int64[n, width], contiguous, by partition. starts: int64[parts + 1]. sizes: int64[groups].
    """
    width, widest = rows.shape[1], 0
    for part in range(first, last):
        widest = max(widest, starts[part + 1] - starts[part])
    table, known = np.empty(slots_of(widest), np.int64), words(rows.ctypes.data, rows.size)
    for part in range(first, last):
        slots = words(table.ctypes.data, slots_of(starts[part + 1] - starts[part]))
        slots[:] = 0
        mask = uint64(len(slots) - 1)
        for i in range(starts[part], starts[part + 1]):
            h = hash_row(known, uint64(i) * uint64(width), uint64(width), 0)
            slot = _find_row(slots, first_slot(h, mask), mask, known, (uint64(i), uint64(width)))
            if table[slot] == 0:
                table[slot] = i + 1
                sizes[rows[i, 0]] += 1


def warm() -> None:
    """Compile for the argument types that queries use."""
    rows: Int64Array = np.zeros((1, 3), np.int64)
    count_different(rows, np.array([0, 1, 1], np.int64), 0, 2, np.zeros(1, np.int64))
