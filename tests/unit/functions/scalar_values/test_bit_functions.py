"""Proves the functions of bits against Python's whole numbers, cut to 64 bits."""

from __future__ import annotations

from itertools import product
from typing import Any

from pinotpy.data_types import DataType

NUMBERS = [0, 1, -1, 6, -8, 2**31 - 1, -(2**31), 2**40 + 5, 2**63 - 1, -(2**63)]
PAIRS = list(product(NUMBERS, range(64)))
COLUMNS = ((DataType.LONG, [number for number, _ in PAIRS]), (DataType.INT, [count for _, count in PAIRS]))


def _signed(bits: int) -> int:
    bits %= 2**64
    return bits - 2**64 if bits >= 2**63 else bits


def test_shifts_and_single_bits(call: Any) -> None:
    assert call("bitShiftLeft", *COLUMNS) == [_signed(number << count) for number, count in PAIRS]
    assert call("bitShiftRight", *COLUMNS) == [number >> count for number, count in PAIRS]
    for name in ("bitShiftRightUnsigned", "bitShiftRightLogical"):
        assert call(name, *COLUMNS) == [_signed((number % 2**64) >> count) for number, count in PAIRS]
    for name in ("bitExtract", "extractBit"):
        assert call(name, *COLUMNS) == [(number >> count) & 1 for number, count in PAIRS]


def test_masks(call: Any) -> None:
    bits = [-1, *range(64), 64, 2**40]
    assert call("bitMask", (DataType.LONG, bits)) == [_signed(1 << bit) if 0 <= bit < 64 else 0 for bit in bits]


def test_shifts_beyond_the_last_bit_begin_anew(call: Any) -> None:
    assert call("bitShiftLeft", (DataType.INT, [3]), 65) == call("bitShiftLeft", (DataType.INT, [3]), 1) == [6]
    assert call("bitShiftRight", (DataType.LONG, [-8]), -62) == [-2]
    assert call("bitShiftLeft", (DataType.INT, [1]), 40) == [2**40]  # an INT has the bits of a LONG
