"""Many doubles added to the digits of exact sums (functions/state/exact_sums.py), one pass over the values."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit

from pinotpy.arrays import Int64Array

_FRACTION: Final = (1 << 52) - 1
_DIGIT: Final = 0xFFFFFFFF


@njit(cache=True, nogil=True)
def add_doubles(bits: Any, groups: Any, first: int, digits: Any) -> None:
    """Add finite doubles to the sums of their groups.

    Args:
        bits: int64[n], the doubles' bits. groups: int64[n].
        digits: int64[groups, width], of 32 bits each in units of 2^-1076, from digit `first` on; not carried.
    """
    for i in range(len(bits)):
        exponent = (bits[i] >> 52) & 0x7FF
        mantissa = bits[i] & _FRACTION
        if exponent == 0:
            exponent = int64(1)  # subnormal: same unit, no implicit bit
        else:
            mantissa |= int64(1) << 52
        position = exponent + 1
        places = position & 31
        at = (position >> 5) - first
        low, high = (mantissa & _DIGIT) << places, (mantissa >> 32) << places
        middle = (low >> 32) + (high & _DIGIT)
        group = groups[i]
        if bits[i] < 0:
            digits[group, at] -= low & _DIGIT
            digits[group, at + 1] -= middle
            digits[group, at + 2] -= high >> 32
        else:
            digits[group, at] += low & _DIGIT
            digits[group, at + 1] += middle
            digits[group, at + 2] += high >> 32


def warm() -> None:
    """Compile."""
    one: Int64Array = np.zeros(1, np.int64)
    add_doubles(one, one, 0, np.zeros((1, 4), np.int64))
