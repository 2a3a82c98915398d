"""Which groups can be among the first k by one aggregation, read from the words of their rows.

Values are computed to within APPROXIMATION of themselves, so what comes out holds all groups that can be among the
first k by the exact, rounded values (and those that tie with the last of them), perhaps with a few more.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import float64, njit, uint64

from pinotpy.kernels.runtime.views import double_of_bits

# How a row gives the value; the numbers of functions.state.plans.RankKind.
COUNT: Final = 0  # the seen word
LONG: Final = 1  # one word
WIDE: Final = 2  # two words, a 128-bit integer
LONG_QUOTIENT: Final = 3  # over the seen word
WIDE_QUOTIENT: Final = 4
GREATEST_LONG: Final = 5  # order keys of extremes.py
GREATEST_DOUBLE: Final = 6
LEAST_LONG: Final = 7
LEAST_DOUBLE: Final = 8

# A quotient of sums that were rounded once each is within 2^-50 of the exact one; this leaves room.
APPROXIMATION: Final = 2.0**-44
_SIGN = np.uint64(1 << 63)
_TWO_64: Final = 2.0**64
_CHUNK: Final = 1024


@njit(nogil=True)
def _values(table: Any, first: Any, width: Any, kind: int, word: Any, seen_word: Any, sign: float, out: Any) -> None:
    # Of len(out) rows from table[first] on. One loop a kind: with the choice inside, a row costs ten times as much.
    if kind == COUNT:
        for i in range(len(out)):
            out[i] = sign * float64(table[first + uint64(i) * width + seen_word])
    elif kind in (LONG, LONG_QUOTIENT):
        for i in range(len(out)):
            out[i] = sign * float64(table[first + uint64(i) * width + word])
    elif kind in (WIDE, WIDE_QUOTIENT):
        for i in range(len(out)):
            position = first + uint64(i) * width + word
            out[i] = sign * (float64(table[position + uint64(1)]) * _TWO_64 + float64(uint64(table[position])))
    else:
        turned = uint64(0xFFFFFFFFFFFFFFFF) if kind in (LEAST_LONG, LEAST_DOUBLE) else uint64(0)
        for i in range(len(out)):
            key = uint64(table[first + uint64(i) * width + word]) ^ turned
            if kind in (LEAST_LONG, GREATEST_LONG):
                out[i] = sign * float64(np.int64(key ^ _SIGN))
            else:
                out[i] = sign * double_of_bits(np.int64(key ^ _SIGN if key >= _SIGN else ~key))
    if kind in (LONG_QUOTIENT, WIDE_QUOTIENT):
        for i in range(len(out)):
            out[i] /= float64(max(table[first + uint64(i) * width + seen_word], 1))


@njit(nogil=True, inline="always")
def _sink(heap: Any, value: float) -> None:
    # Replace the least of a heap (least first) by `value`.
    position, count = 0, len(heap)
    while True:
        child = 2 * position + 1
        if child >= count:
            break
        if child + 1 < count and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[position] = heap[child]
        position = child
    heap[position] = value


@njit(cache=True, nogil=True)
def candidates(table: Any, width: int, kind: int, word: int, seen_word: int, ascending: bool, heap: Any) -> Any:
    """Numbers of the rows that can be among the first len(heap), ascending; [-1] where that cannot be told: where a row
    has no value (its seen word is 0) or NaN.

    Args:
        table: int64[rows * width], flat; rows whose word 0 is 0 are no groups.
        kind, word, seen_word: how a row gives its value. ascending: the least are first.
        heap: float64[k], scratch.
    """
    heap[:] = -np.inf
    sign = -1.0 if ascending else 1.0
    value_word, seen, step = uint64(word), uint64(seen_word), uint64(width)
    rows, unclear = len(table) // width, 0
    values = np.empty(_CHUNK)
    for first in range(0, rows, _CHUNK):
        count = min(_CHUNK, rows - first)
        base = uint64(first) * step
        _values(table, base, step, kind, value_word, seen, sign, values[:count])
        for i in range(count):
            position = base + uint64(i) * step
            if table[position] != 0:
                unclear += (table[position + seen] == 0) + (values[i] != values[i])
                if values[i] > heap[0]:
                    _sink(heap, values[i])
    if unclear > 0:
        return np.full(1, -1, np.int64)
    least = heap[0] - abs(heap[0]) * APPROXIMATION if heap[0] > -np.inf else heap[0]
    out = np.empty(4 * len(heap) + 64, np.int64)
    found = 0
    for first in range(0, rows, _CHUNK):
        count = min(_CHUNK, rows - first)
        base = uint64(first) * step
        _values(table, base, step, kind, value_word, seen, sign, values[:count])
        for i in range(count):
            if values[i] >= least and table[base + uint64(i) * step] != 0:
                if found == len(out):
                    longer = np.empty(2 * len(out), np.int64)
                    longer[:found] = out
                    out = longer
                out[found] = first + i
                found += 1
    return out[:found]


def warm() -> None:
    """Compile for the argument types that queries use."""
    candidates(np.ones(4, np.int64), 2, LONG, 1, 0, False, np.empty(1, np.float64))
