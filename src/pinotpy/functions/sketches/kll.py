"""KLL sketches of doubles in the form of Apache DataSketches, made from whole multisets: ranks are cut evenly, nothing
is random.

A sketch has levels; an item of level h stands for 2^h values. A multiset of at most K values lies in level 0. Of more,
the values at the middles of 2^h ranks each are in level h, the least with at most K of them, and what is left over in
the levels below: no rank is off by more than 2^h ≤ size / K × 2.

    u8 words of the preamble (5, 2 if empty or of one item) | u8 version 1 (one item: 2) | u8 family 15 | u8 flags
    | u16 K | u8 m 8 | u8 0 | u64 size | u16 K | u8 levels | u8 0 | u32 where each level begins …
    | f64 least, greatest | f64 items, level by level
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.functions.sketches.multiset import Multisets

K_DEFAULT: Final = 200
K_MIN, K_MAX = 8, 65_535
_EMPTY, _SORTED, _SINGLE, _DOUBLES = 1, 2, 4, 8
_LEVEL_ITEMS_MIN: Final = 8


def serialized(multisets: Multisets, k: int) -> list[bytes]:
    """A sketch of every multiset; NaN, which has no rank, is left out."""
    sketches = []
    for group in range(multisets.num_groups):
        begin, end = multisets.offsets[group], multisets.offsets[group + 1]
        values, counts = multisets.values[begin:end].astype(np.float64), multisets.counts[begin:end]
        numbers = ~np.isnan(values)
        sketches.append(_sketch(values[numbers], counts[numbers], k))
    return sketches


def _sketch(values: NDArray[np.float64], counts: Int64Array, k: int) -> bytes:
    """The sketch of one multiset: ascending values and how often each was seen."""
    size = int(counts.sum())
    if size == 0:
        return struct.pack("<BBBBHBB", 2, 1, 15, _EMPTY | _DOUBLES, k, _LEVEL_ITEMS_MIN, 0)
    if size == 1:
        return struct.pack("<BBBBHBBd", 2, 2, 15, _SINGLE | _DOUBLES, k, _LEVEL_ITEMS_MIN, 0, values[0])
    top = max(-(-size // k) - 1, 0).bit_length()
    # One item for each bit of the size below the top, the middle of the ranks that it stands for.
    weights = [1 << level for level in range(top) if size >> level & 1]
    per_top = size >> top
    spread = np.array([*weights, *([1 << top] * per_top)], np.int64)
    ends = np.cumsum(spread)
    ranks = ends - spread + spread // 2
    items = values[np.searchsorted(np.cumsum(counts), ranks, side="right")]
    levels = [int(size >> level & 1) for level in range(top)] + [per_top]
    capacity = sum(_capacity(k, len(levels), level) for level in range(len(levels)))
    starts = capacity - sum(levels) + np.concatenate([[0], np.cumsum(levels)])[:-1]
    head = struct.pack("<BBBBHBBQHBB", 5, 1, 15, _SORTED | _DOUBLES, k, _LEVEL_ITEMS_MIN, 0, size, k, len(levels), 0)
    return (
        head
        + starts.astype("<u4").tobytes()
        + np.array([values[0], values[-1]], "<f8").tobytes()
        + items.astype("<f8").tobytes()
    )


def _capacity(k: int, num_levels: int, level: int) -> int:
    """How many items a level holds: K × (2/3)^depth rounded, at least 8."""
    depth = num_levels - 1 - level
    rounded: int = (((k << (depth + 1)) // 3**depth) + 1) >> 1
    return max(_LEVEL_ITEMS_MIN, rounded)
