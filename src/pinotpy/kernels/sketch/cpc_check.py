"""Serialized CPC sketches, walked through bit by bit to see that nothing in them leads outside: the C++ library that
reads them writes to the rows that they name without looking.

A sketch of k rows and 64 columns is two streams of bits, in words of 32, the lowest bit first:

    the window    a byte for each of k rows, in a prefix code: 8 columns of the row from the window's offset on
    the pairs     ascending (row, column): where the row is other than the window and its defaults say. Columns above
                  the last of the same row in a prefix code, rows above the last by Golomb: the upper bits unary (zeros,
                  then 1), the lower ones as they are

A prefix code is a table of 4,096: of the next 12 bits, length << 8 | value.
"""

from __future__ import annotations

from typing import Any, Final

from numba import int64, njit, uint64

from pinotpy.kernels.runtime.abi import inner
from pinotpy.kernels.runtime.bits import num_bits

WHOLE, TORN, OUTSIDE, UNEQUAL, CROWDED = range(5)
_PEEK_BITS: Final = 12
_UNARY_PEEK_BITS: Final = 8
_COLUMNS: Final = 64
_WINDOW_COLUMNS: Final = 8
# A hash table of pairs with random rows is searched 1 or 2 steps for each; rows chosen to collide cost the square of
# their number.
_STEPS_MAX: Final = 64


@inner
def _window_ones(window: Any, num_rows: int, code: Any) -> Any:
    # Bits set in the window, -1 where the words end before it does.
    buffer, held, position, ones = uint64(0), int64(0), int64(0), int64(0)
    for _ in range(num_rows):
        if held < _PEEK_BITS:
            if position == len(window):
                return int64(-1)
            buffer |= uint64(window[position]) << uint64(held)
            held, position = held + 32, position + 1
        entry = int64(code[int64(buffer & uint64(0xFFF))])
        buffer >>= uint64(entry >> 8)
        held -= entry >> 8
        ones += int64(num_bits(uint64(entry & 0xFF)))
    return ones


@njit(cache=True, nogil=True)
def fault(
    lg_k: int,
    num_coupons: int,
    offset: int,
    first_column: int,
    num_pairs: int,
    pairs: Any,
    window: Any,
    codes: Any,
    columns: Any,
) -> int:
    """What is wrong with a sketch, WHOLE if nothing.

    Args:
        lg_k: log2 of the rows, 4 to 26.
        num_coupons: how many bits of the matrix are set, as the head says.
        offset: the first column of the window, 0 to 56; all columns before it are set but where pairs say otherwise.
        first_column: all columns before it are set in all rows, as the head says.
        num_pairs: how many pairs there are.
        pairs: their words, uint32.
        window: its words, uint32; empty: there is no window, and pairs have any of 64 columns.
        codes: uint16[2, 4096], the prefix codes of columns and of the window.
        columns: uint8[56], the column right of the window (turned round at 64) that each column of a pair stands for.

    Returns:
        TORN: a stream ends before it is read. OUTSIDE: a pair is no bit of the matrix. UNEQUAL: other bits are set than
            the head says.
        CROWDED: rows so near to each other that no hash has chosen them.

    Source: the compressed form of Apache DataSketches' CPC sketches.
    """
    num_rows = int64(1) << lg_k
    coupons = int64(0)
    if len(window) > 0:
        coupons = _window_ones(window, num_rows, codes[1])
        if coupons < 0:
            return TORN
        coupons += num_rows * offset
    base_bits = int64(0)
    while num_pairs > 0 and num_rows // num_pairs >> (base_bits + 1) > 0:
        base_bits += 1
    # The library's hash table: a power of two of slots, at most 3/4 full, the slot of a pair by its upper bits.
    table_bits = int64(2)
    while 4 * num_pairs > 3 * (int64(1) << table_bits):
        table_bits += 1
    shift = max(lg_k + 6 - table_bits, 0)
    next_slot, steps = int64(0), int64(0)
    buffer, held, position = uint64(0), int64(0), int64(0)
    row, next_column = int64(0), int64(0)
    for _ in range(num_pairs):
        if held < _PEEK_BITS:
            if position == len(pairs):
                return TORN
            buffer |= uint64(pairs[position]) << uint64(held)
            held, position = held + 32, position + 1
        entry = int64(codes[0, int64(buffer & uint64(0xFFF))])
        buffer >>= uint64(entry >> 8)
        held -= entry >> 8
        further = int64(0)
        while True:
            if held < _UNARY_PEEK_BITS:
                if position == len(pairs):
                    return TORN
                buffer |= uint64(pairs[position]) << uint64(held)
                held, position = held + 32, position + 1
            zeros = int64(0)
            while zeros < _UNARY_PEEK_BITS and not (buffer >> uint64(zeros)) & uint64(1):
                zeros += 1
            further += zeros
            taken = min(zeros + 1, _UNARY_PEEK_BITS)
            buffer >>= uint64(taken)
            held -= taken
            if zeros < _UNARY_PEEK_BITS:
                break
        if held < base_bits:
            if position == len(pairs):
                return TORN
            buffer |= uint64(pairs[position]) << uint64(held)
            held, position = held + 32, position + 1
        further = further << base_bits | int64(buffer & ((uint64(1) << uint64(base_bits)) - uint64(1)))
        buffer >>= uint64(base_bits)
        held -= base_bits
        row += further
        column = (entry & 0xFF) + (int64(0) if further else next_column)
        next_column = column + 1
        if row >= num_rows or column >= (_COLUMNS - _WINDOW_COLUMNS if len(window) > 0 else _COLUMNS):
            return OUTSIDE
        if len(window) > 0:
            column = (int64(columns[column]) + offset + _WINDOW_COLUMNS) & (_COLUMNS - 1)
        if column < offset:
            coupons -= 1
            if column < first_column:
                return UNEQUAL
        else:
            coupons += 1
        slot = (row << 6 | column) >> shift
        next_slot = max(next_slot, slot)
        steps += next_slot - slot
        next_slot += 1
    if coupons != num_coupons:
        return UNEQUAL
    return CROWDED if steps > _STEPS_MAX * num_pairs else WHOLE
