"""Sets of 64-bit words for IN on raw values and on wide dictionaries: open addressing, linear probing, at most half
full.

A table is int64[2 * slots], slots a power of two, in pairs (word, used). Words of floats are the bits of the f64, with
−0.0 as 0.0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime.abi import inner
from pinotpy.kernels.runtime.hashing import find_pair, first_slot, mix
from pinotpy.kernels.runtime.views import view_i64


def hash_set(words: Int64Array) -> Int64Array:
    """The table of these words."""
    slots = 1 << max(2, (2 * len(words) - 1).bit_length())
    table = np.zeros(2 * slots, np.int64)
    _build(words, table)
    return table


def float_words(values: NDArray[np.float64]) -> Int64Array:
    """Floats as the words that tables hold."""
    return np.asarray(values + 0.0, np.float64).view(np.int64)


@njit(cache=True, nogil=True)
def _build(words: Any, table: Any) -> None:
    size_mask = np.uint64(len(table) // 2 - 1)
    slots = view_i64(table.ctypes.data, len(table))
    for word in words:
        slot = uint64(2) * _slot(word, slots, size_mask)
        slots[slot], slots[slot + uint64(1)] = word, 1


@inner
def in_hash_set(word: Any, table: Any, size_mask: Any) -> Any:
    """Whether `word` is in the table; size_mask = slots − 1 as uint64."""
    return table[uint64(2) * _slot(word, table, size_mask) + uint64(1)] != 0


@inner
def _slot(word: Any, table: Any, size_mask: Any) -> Any:
    return find_pair(table, first_slot(mix(word), size_mask), size_mask, table, word)
