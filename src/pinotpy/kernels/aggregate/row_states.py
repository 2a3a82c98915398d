"""What aggregations that read rows compute of arrays of a block: exact sums of doubles and of products, and the best
row of each group.

Sums are kept as in exact_sums.py, with a 128-bit integer for every window that occurs: exact, so that any order gives
the same bits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.aggregate.exact_sums import MINUS_INFINITY, NOT_A_NUMBER, PLUS_INFINITY, WINDOW

_FRACTION: Final = np.uint64((1 << 52) - 1)
_IMPLICIT: Final = 1 << 52
_SPLIT: Final = 134217729.0  # 2^27 + 1
_SPECIAL: Final = 0x7FF


@njit(cache=True, nogil=True)
def products(left: Any, right: Any, high: Any, low: Any) -> None:
    """high + low = left * right, exactly where nothing over- or underflows; low is 0 where high is no finite number.

    Args: float64[n] all; the last two are written.
    """
    for i in range(len(left)):
        a, b = left[i], right[i]
        product = a * b
        high[i] = product
        p, q = a * _SPLIT, b * _SPLIT
        a_high, b_high = p - (p - a), q - (q - b)
        a_low, b_low = a - a_high, b - b_high
        rest = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
        low[i] = rest if np.isfinite(rest) and np.isfinite(product) else 0.0


@njit(cache=True, nogil=True)
def window_range(bits: Any) -> Any:
    """(first, last) window of the doubles that are neither zero nor special; (64, -1) of none. bits: uint64[n]."""
    least, greatest = int64(4096), int64(-1)
    for i in range(len(bits)):
        exponent = int64((bits[i] >> np.uint64(52)) & np.uint64(0x7FF))
        if exponent != _SPECIAL and (bits[i] << np.uint64(1)) != np.uint64(0):
            least, greatest = min(least, exponent), max(greatest, exponent)
    return (least // WINDOW, greatest // WINDOW) if greatest >= 0 else (int64(64), int64(-1))


@njit(cache=True, nogil=True)
def sum_windows(rows: Any, bits: Any, first: int, low: Any, high: Any, flags: Any) -> None:
    """Add doubles to the sums of their rows.

    Args:
        rows: int64[n]; bits: uint64[n], the doubles. first: window of column 0.
        low, high: int64[rows, windows], the sums of each window. flags: int64[rows], infinities and NaN.
    """
    for i in range(len(bits)):
        b = bits[i]
        exponent = int64((b >> np.uint64(52)) & np.uint64(0x7FF))
        fraction = int64(b & _FRACTION)
        sign = int64(b) >> 63
        row = rows[i]
        if exponent == _SPECIAL:
            flags[row] |= NOT_A_NUMBER if fraction != 0 else (MINUS_INFINITY if sign != 0 else PLUS_INFINITY)
            continue
        if (b << np.uint64(1)) == np.uint64(0):
            continue
        window = exponent // WINDOW
        if exponent == 0:
            exponent = 1  # subnormal: same unit, no implicit bit
        else:
            fraction |= _IMPLICIT
        places = exponent - (WINDOW * window - 1)
        m = (fraction ^ sign) - sign
        before = uint64(low[row, window - first])
        summed = before + uint64(m << places)
        low[row, window - first] = int64(summed)
        high[row, window - first] += (m >> (64 - places)) + (1 if summed < before else 0)


@njit(cache=True, nogil=True)
def best_rows(rows: Any, codes: Any, is_kept: Any, greatest: bool, last: bool, best: Any, positions: Any) -> None:
    """Where the greatest (or least) code of each row stands; of equal ones the last or the first.

    Args:
        rows, codes: int64[n]; is_kept: bool[n], others do not count. best, positions: int64[rows], written; a position
            is -1 where nothing counts, as it must be at first.
    """
    for i in range(len(rows)):
        if not is_kept[i]:
            continue
        row, code = rows[i], codes[i]
        known = best[row]
        better = code > known if greatest else code < known
        if positions[row] < 0 or better or (last and code == known):
            best[row], positions[row] = code, i


@njit(cache=True, nogil=True)
def scatter_add(total: Any, places: Any, values: Any) -> None:
    """Add values[i] to total[places[i]], where places may repeat: int64 each, wrapping. Every place must be one of
    `total`.
    """
    for i in range(len(places)):
        total[places[i]] += values[i]
