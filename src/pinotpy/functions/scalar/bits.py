"""Functions of single bits and of shifts: BITSHIFTLEFT, BITEXTRACT, BITMASK.

Numbers are LONG as in BITAND: 64 bits, the sign's among them, whatever the column's type. Shifts beyond 63 begin anew,
as Java's do.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.scalar.math import of_longs
from pinotpy.functions.scalar.spec import Example

_BITS: Final = 64


def _shift_left(numbers: Int64Array, count: Int64Array) -> Int64Array:
    return np.left_shift(numbers, count % _BITS)


def _shift_right(numbers: Int64Array, count: Int64Array) -> Int64Array:
    return np.right_shift(numbers, count % _BITS)


def _shift_right_unsigned(numbers: Int64Array, count: Int64Array) -> Int64Array:
    return np.right_shift(numbers.view(np.uint64), (count % _BITS).view(np.uint64)).view(np.int64)


def _extract(numbers: Int64Array, bit: Int64Array) -> NDArray[Any]:
    return (_shift_right(numbers, bit) & 1).astype(np.int32)


def _mask(bit: Int64Array) -> Int64Array:
    return np.where((bit >= 0) & (bit < _BITS), np.left_shift(np.int64(1), bit % _BITS), 0)


FUNCTIONS = (
    of_longs(
        "bitshiftleft",
        "x, count",
        "The bits moved to the left, with zeros after them.",
        _shift_left,
        Example("bitShiftLeft(3, 2)", 12),
    ),
    of_longs(
        "bitshiftright",
        "x, count",
        "The bits moved to the right, with copies of the sign before them.",
        _shift_right,
        Example("bitShiftRight(-8, 2)", -2),
    ),
    of_longs(
        "bitshiftrightunsigned",
        "x, count",
        "The bits moved to the right, with zeros before them.",
        _shift_right_unsigned,
        Example("bitShiftRightUnsigned(-8, 60)", 15),
        aliases=("bitshiftrightlogical",),
    ),
    of_longs(
        "bitextract",
        "x, bit",
        "The bit at a position, 0 the lowest.",
        _extract,
        Example("bitExtract(6, 1)", 1),
        gives=DataType.INT,
        aliases=("extractbit",),
    ),
    of_longs(
        "bitmask",
        "bit",
        "The number of which only this bit is set; 0 for a bit beyond 63.",
        _mask,
        Example("bitMask(3)", 8),
    ),
)
