"""The value at a rank of every group, exactly, without sorting: entries (distinct_pairs.py) go to their groups, and
each group is cut in two around a pivot until the rank is found (quickselect, values weighted by their counts).

Values compare as *order words*: integers as they are, doubles by their bits with the magnitude of negative ones turned,
NaN above all.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate.distinct_pairs import ROW_SHIFT
from pinotpy.kernels.runtime.abi import inner

_COUNT_MASK: Final = np.int64((1 << ROW_SHIFT) - 1)
_MAGNITUDE: Final = np.int64(0x7FFFFFFFFFFFFFFF)
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def count_groups(entries: Any, sizes: Any, totals: Any) -> None:
    """Add the entries of each group to `sizes`, and their counts to `totals` (int64[groups])."""
    for i in range(len(entries)):
        tag = entries[i, 0]
        group = uint64(tag >> ROW_SHIFT)
        sizes[group] += 1
        totals[group] += tag & _COUNT_MASK


@njit(cache=True, nogil=True)
def spread_words(entries: Any, doubles: bool, places: Any, keys: Any, counts: Any) -> None:
    """Copy order words and counts of entries to the next place of their group; `places` (int64[groups]) moves on."""
    for i in range(len(entries)):
        tag, word = entries[i, 0], entries[i, 1]
        group = uint64(tag >> ROW_SHIFT)
        position = uint64(places[group])
        keys[position] = word ^ _MAGNITUDE if doubles and word < 0 else word
        counts[position] = tag & _COUNT_MASK
        places[group] = int64(position + uint64(1))


@inner
def _middle(a: Any, b: Any, c: Any) -> Any:
    return max(min(a, b), min(max(a, b), c))


@inner
def _pivot(keys: Any, low: Any, size: Any, seed: Any) -> Any:
    # The middle of nine, at places that no data can foresee.
    first, second, third = int64(0), int64(0), int64(0)
    for _ in range(3):
        seed = seed * _STEP + uint64(1)
        a = keys[low + (seed >> uint64(32)) % size]
        seed = seed * _STEP + uint64(1)
        b = keys[low + (seed >> uint64(32)) % size]
        seed = seed * _STEP + uint64(1)
        c = keys[low + (seed >> uint64(32)) % size]
        first, second, third = second, third, _middle(a, b, c)
    return _middle(first, second, third)


@inner
def _cut(keys: Any, counts: Any, low: Any, high: Any, bound: Any) -> Any:
    # Keys below `bound` come first; gives where the others begin, and the counts before.
    position, weight = low, int64(0)
    for i in range(low, high):
        key, count = keys[i], counts[i]
        keys[i], counts[i] = keys[position], counts[position]
        keys[position], counts[position] = key, count
        below = uint64(key < bound)
        position += below
        weight += count if key < bound else int64(0)
    return position, weight


@inner
def _select(keys: Any, counts: Any, low: Any, high: Any, rank: Any) -> Any:
    seed = uint64(high - low) + _STEP
    while True:
        if high - low == uint64(1):
            return keys[low]
        pivot = _pivot(keys, low, high - low, seed)
        seed = seed * _STEP + uint64(high)
        position, weight = _cut(keys, counts, low, high, pivot)
        if rank < weight:
            high = position
            continue
        rank -= weight
        low = position
        if pivot == _MAGNITUDE:
            return pivot  # nothing is above
        position, weight = _cut(keys, counts, low, high, pivot + 1)
        if rank < weight:
            return pivot
        rank -= weight
        low = position


@njit(cache=True, nogil=True)
def select_ranks(keys: Any, counts: Any, offsets: Any, ranks: Any, first: int, last: int, out: Any) -> None:
    """out[g] = the order word at rank ranks[g] (from 0, below the sum of the counts) of groups first … last - 1.

    Args:
        keys, counts: int64[n], those of group g at offsets[g] … offsets[g + 1]; their order changes. Empty groups are
            left out.
    """
    for group in range(first, last):
        if offsets[group + 1] > offsets[group]:
            out[group] = _select(keys, counts, uint64(offsets[group]), uint64(offsets[group + 1]), ranks[group])


def values_of_words(words: Int64Array, *, doubles: bool) -> Int64Array:
    """The 64 bits of the values of order words."""
    return np.where(words < 0, words ^ _MAGNITUDE, words) if doubles else words


def warm() -> None:
    """Compile for the argument types that queries use."""
    entries, one = np.array([[1, 7]], np.int64), np.zeros(1, np.int64)
    count_groups(entries, one.copy(), one.copy())
    keys, counts = one.copy(), one.copy()
    spread_words(entries, True, one.copy(), keys, counts)
    select_ranks(keys, counts, np.array([0, 1]), one, 0, 1, one.copy())
