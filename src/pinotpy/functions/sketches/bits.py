"""Bits of 64-bit words, and sets of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array


def bit_lengths(words: NDArray[np.uint64]) -> Int64Array:
    """Place of the highest bit from 1, 0 for 0."""
    high = (words >> np.uint64(32)).astype(np.float64)
    low = (words & np.uint64(0xFFFFFFFF)).astype(np.float64)
    lengths: Int64Array = np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1]).astype(np.int64)
    return lengths


def sorted_set(words: Int64Array) -> Int64Array:
    """The different words, ascending. np.unique goes through a hash table, many times slower."""
    words = np.sort(words)
    fresh = np.ones(len(words), np.bool_)
    np.not_equal(words[1:], words[:-1], out=fresh[1:])
    return words[fresh]
