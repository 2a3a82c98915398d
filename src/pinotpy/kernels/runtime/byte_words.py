"""Byte strings eight bytes at a time: loads at any address, equality, order, search."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic

from pinotpy.kernels.runtime.abi import inner
from pinotpy.kernels.runtime.hashing import absorb, finish, start, stir


@intrinsic
def load_word(typingctx: Any, address: Any) -> Any:
    """The eight bytes at an address of any alignment as a little-endian word."""
    signature = types.uint64(types.int64)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        return builder.load(builder.inttoptr(arguments[0], word.as_pointer()), align=1)

    return signature, codegen


@intrinsic
def load_byte(typingctx: Any, address: Any) -> Any:
    """The byte at an address, as a word."""
    signature = types.uint64(types.int64)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8)
        return builder.zext(builder.load(builder.inttoptr(arguments[0], byte.as_pointer())), ir.IntType(64))

    return signature, codegen


@intrinsic
def swapped(typingctx: Any, word: Any) -> Any:
    """The word with its bytes in reverse: of what `load_word` gives, a number that is ordered as the bytes are."""

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), codegen


@inner
def tail_word(address: int, length: int) -> Any:
    """The last `length` (0 to 7) bytes of a string, zeros above; never reads beyond them."""
    word = uint64(0)
    if length >= 4:
        for i in range(4):
            word |= load_byte(address + i) << uint64(8 * i)
        rest = uint64(0)
        for i in range(4):
            rest |= load_byte(address + length - 4 + i) << uint64(8 * i)
        return word | (rest << uint64(8 * (length - 4)))
    for i in range(length):
        word |= load_byte(address + i) << uint64(8 * i)
    return word


@inner
def same_bytes(a: int, b: int, length: int) -> Any:
    """Whether `length` bytes at two addresses are equal."""
    if length < 8:
        return tail_word(a, length) == tail_word(b, length)
    position = 0
    while position + 8 <= length:
        if load_word(a + position) != load_word(b + position):
            return False
        position += 8
    return load_word(a + length - 8) == load_word(b + length - 8)


@inner
def order_bytes(a: int, a_length: int, b: int, b_length: int) -> Any:
    """-1, 0 or 1 as the string at `a` sorts before, equals or sorts after the one at `b`, byte by byte, unsigned."""
    length = min(a_length, b_length)
    position = 0
    while position + 8 <= length:
        one, other = load_word(a + position), load_word(b + position)
        if one != other:
            return -1 if swapped(one) < swapped(other) else 1
        position += 8
    if position < length:
        # Eight bytes again, of which the first were equal.
        whole = length >= 8
        one = load_word(a + length - 8) if whole else tail_word(a, length)
        other = load_word(b + length - 8) if whole else tail_word(b, length)
        if one != other:
            return -1 if swapped(one) < swapped(other) else 1
    return 0 if a_length == b_length else (-1 if a_length < b_length else 1)


@intrinsic
def trailing_zeros(typingctx: Any, word: Any) -> Any:
    """Zero bits below the lowest one of a word that is not 0."""
    signature = types.int64(types.uint64)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return signature, codegen


_ONES = np.uint64(0x0101010101010101)
_LOWS = np.uint64(0x7F7F7F7F7F7F7F7F)
_HIGHS = np.uint64(0x8080808080808080)
_FROM_A = np.uint64(0x3F3F3F3F3F3F3F3F)  # 0x80 - 'A'
_FROM_Z = np.uint64(0x2525252525252525)  # 0x7F - 'Z'


@inner
def fold_word(word: Any) -> Any:
    """The word with A to Z as a to z; other bytes as they are."""
    plain = word & _LOWS
    upper = ((plain + _FROM_A) ^ (plain + _FROM_Z)) & ~word & _HIGHS
    return word | (upper >> uint64(2))


@inner
def has_high_bytes(address: int, length: int) -> Any:
    """Whether a string has a byte beyond ASCII."""
    together, position = uint64(0), 0
    while position + 8 <= length:
        together |= load_word(address + position)
        position += 8
    return (together | tail_word(address + position, length - position)) & _HIGHS != 0


@inner
def same_folded(a: int, b: int, length: int, fold: bool) -> Any:
    """Whether `length` bytes are equal; with `fold` those at `a` in lower case (those at `b` are)."""
    if not fold:
        return same_bytes(a, b, length)
    position = 0
    while position + 8 <= length:
        if fold_word(load_word(a + position)) != load_word(b + position):
            return False
        position += 8
    return fold_word(tail_word(a + position, length - position)) == tail_word(b + position, length - position)


@inner
def find_bytes(text: int, length: int, piece: int, size: int, fold: bool) -> Any:
    """First place of a piece in a text, -1 if it is not there. An empty piece is at 0. `fold`: as in `same_folded`."""
    if size == 0:
        return 0
    last = length - size
    first = load_byte(piece)
    pattern = first * _ONES
    position = 0
    while position <= last:
        if position + 8 <= length:
            word = load_word(text + position)
            difference = (fold_word(word) if fold else word) ^ pattern
            # The lowest byte that is marked is certainly equal.
            equal = (difference - _ONES) & ~difference & _HIGHS
            if equal == 0:
                position += 8
                continue
            position += trailing_zeros(equal) >> 3
            if position > last:
                return -1
        elif (fold_word(load_byte(text + position)) if fold else load_byte(text + position)) != first:
            position += 1
            continue
        if same_folded(text + position, piece, size, fold):
            return position
        position += 1
    return -1


@inner
def hash_bytes(address: int, length: int) -> Any:
    """A 64-bit hash of a string (hashing.py)."""
    h = start(length)
    position = 0
    while position + 8 <= length:
        h = absorb(h, load_word(address + position))
        position += 8
    rest = length - position
    if position == 0:
        h = stir(h, tail_word(address, rest))
    elif rest > 0:
        h = stir(h, load_word(address + length - 8) >> uint64(8 * (8 - rest)))
    return finish(h)
