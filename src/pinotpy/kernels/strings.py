"""Tests of filter legs over raw VAR values: byte strings compared in place, in the order of bytes.

As in filters.py the driver runs the frame (legs.py). Every string costs a jump in memory, so survivors are always looked
at one by one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from pinotpy.kernels.abi import (
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    M_DATA,
    M_MV_OFFSETS,
    M_NUM_VALUES,
    M_RAW_OFFSETS,
    META_WORDS,
    S_BASE,
    S_ENTRIES_FILTER,
    S_NUM,
    S_SCRATCH,
    S_SURVIVORS,
    STATE_WORDS,
    block_function,
    inner,
    mask_register,
    words,
)
from pinotpy.kernels.byte_words import find_bytes, has_high_bytes, hash_bytes, order_bytes, same_bytes, same_folded
from pinotpy.kernels.legs import A_META, A_TEST
from pinotpy.kernels.masks import SCRATCH_MASK
from pinotpy.kernels.views import mv_offsets, view_i64, view_u8, view_u32

ANCHOR_START: Final = 1
ANCHOR_END: Final = 2
FOLD_CASE: Final = 4  # the pieces are ASCII in lower case, and match letters of either case
FOLD_LETTERS: Final = 8  # … and among them are k or s, which have a third form beyond ASCII


# The tests see a string as (address, length). Their parameters: p0 and p1 addresses, p2 and p3 numbers.


@inner
def _equals(text: int, length: int, wanted: int, _p1: int, wanted_length: int, _p3: int) -> Any:
    return length == wanted_length and same_bytes(text, wanted, length)


@inner
def _in_range(text: int, length: int, low: int, high: int, low_length: int, high_length: int) -> Any:
    # [low, high): an upper bound that belongs to the range arrives as its successor, with a zero byte behind it.
    if order_bytes(text, length, low, low_length) < 0:
        return False
    return high_length < 0 or order_bytes(text, length, high, high_length) < 0


@inner
def _in_sorted(text: int, length: int, members: int, offsets_address: int, count: int, _p3: int) -> Any:
    offsets = view_i64(offsets_address, count + 1)
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        order = order_bytes(members + offsets[middle], offsets[middle + 1] - offsets[middle], text, length)
        if order == 0:
            return True
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return False


@inner
def _has_pieces(text: int, length: int, pieces: int, offsets: Any, count: int, anchors: int) -> Any:
    # Pieces in their order, each at its first place behind the one before; the last one at the end if it is anchored there.
    first, last, fold = 0, count, anchors & FOLD_CASE != 0
    if anchors & ANCHOR_START:
        size = offsets[1] - offsets[0]
        if length < size or not same_folded(text, pieces + offsets[0], size, fold):
            return False
        text, length, first = text + size, length - size, 1
    if anchors & ANCHOR_END:
        last -= 1
        size = offsets[last + 1] - offsets[last]
        if length < size or not same_folded(text + length - size, pieces + offsets[last], size, fold):
            return False
        length -= size
    for piece in range(first, last):
        size = offsets[piece + 1] - offsets[piece]
        at = find_bytes(text, length, pieces + offsets[piece], size, fold)
        if at < 0:
            return False
        text, length = text + at + size, length - at - size
    return True


@inner
def _plain_letters(text: int, length: int, out: Any) -> Any:
    # The two letters beyond ASCII that are another case of one in it: U+017F of s, U+212A of k. Gives the new length.
    data, n, i = view_u8(text, length), 0, 0
    while i < length:
        if data[i] == 0xC5 and i + 1 < length and data[i + 1] == 0xBF:
            out[n], i = 0x73, i + 2
        elif data[i] == 0xE2 and i + 2 < length and data[i + 1] == 0x84 and data[i + 2] == 0xAA:
            out[n], i = 0x6B, i + 3
        else:
            out[n], i = data[i], i + 1
        n += 1
    return n


@inner
def _like(text: int, length: int, pieces: int, offsets_address: int, count: int, anchors: int) -> Any:
    offsets = view_i64(offsets_address, count + 1)
    if anchors & FOLD_LETTERS and has_high_bytes(text, length):
        plain = np.empty(length, np.uint8)
        return _has_pieces(plain.ctypes.data, _plain_letters(text, length, plain), pieces, offsets, count, anchors)
    return _has_pieces(text, length, pieces, offsets, count, anchors)


def _scan_with(test: Any) -> Any:
    @inner
    def scan(args: Any, state: Any, meta: Any) -> None:
        p0, p1, p2, p3 = args[A_TEST], args[A_TEST + 1], args[A_TEST + 2], args[A_TEST + 3]
        n, count = state[S_NUM], state[S_SURVIVORS]
        out = mask_register(state, SCRATCH_MASK)
        starts, data = view_i64(meta[M_RAW_OFFSETS], meta[M_NUM_VALUES] + 1), meta[M_DATA]
        if count < 0:
            base = state[S_BASE]
            for i in range(n):
                out[i] = test(data + starts[base + i], starts[base + i + 1] - starts[base + i], p0, p1, p2, p3)
            return
        positions, docs = view_u32(state[S_SCRATCH], count), view_u32(state[S_SCRATCH] + BLOCK * 4, count)
        if meta[M_MV_OFFSETS] == 0:
            for j in range(count):
                doc = docs[j]
                out[positions[j]] = test(data + starts[doc], starts[doc + 1] - starts[doc], p0, p1, p2, p3)
            state[S_ENTRIES_FILTER] += count
            return
        offsets = mv_offsets(meta)
        for j in range(count):
            first, end = int(offsets[docs[j]]), int(offsets[docs[j] + 1])
            found = False
            for entry in range(first, end):
                found = found or test(data + starts[entry], starts[entry + 1] - starts[entry], p0, p1, p2, p3)
            out[positions[j]] = found
            state[S_ENTRIES_FILTER] += end - first

    return scan


_scan_equals = _scan_with(_equals)
_scan_range = _scan_with(_in_range)
_scan_members = _scan_with(_in_sorted)
_scan_like = _scan_with(_like)


@block_function
def var_equals(state_address: int, args_address: int) -> Any:
    """Raw bytes are those at address A6, of length A8."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _scan_equals(args, state, words(args[A_META], META_WORDS))
    return E_OK


@block_function
def var_range(state_address: int, args_address: int) -> Any:
    """Raw bytes in [low, high): A6 address and A8 length of low, A7 address and A9 length of high (-1: no upper bound)."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _scan_range(args, state, words(args[A_META], META_WORDS))
    return E_OK


@block_function
def var_members(state_address: int, args_address: int) -> Any:
    """Raw bytes among sorted distinct strings: A6 address of their bytes, A7 of their int64 offsets, A8 how many."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _scan_members(args, state, words(args[A_META], META_WORDS))
    return E_OK


@block_function
def var_like(state_address: int, args_address: int) -> Any:
    """Raw bytes have pieces one behind another: A6 address of their bytes, A7 of their int64 offsets, A8 how many, A9 ANCHOR_*."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _scan_like(args, state, words(args[A_META], META_WORDS))
    return E_OK


@njit(cache=True, nogil=True)
def flag_like(data: int, starts_address: int, pieces: int, offsets: int, count: int, anchors: int, out: Any) -> int:
    """Flags of the texts at [starts[i], starts[i + 1]) that have the pieces; gives how many.

    Args:
        data, starts_address, pieces, offsets: addresses; starts are int64[n + 1]. out: uint8[n].
    """
    starts = view_i64(starts_address, len(out) + 1)
    total = 0
    for i in range(len(out)):
        found = _like(data + starts[i], starts[i + 1] - starts[i], pieces, offsets, count, anchors)
        out[i] = found
        total += int(found)
    return total


@njit(cache=True, nogil=True)
def compare_texts(data: int, starts: Any, left: Any, right: Any, out: Any) -> None:
    """Order (-1, 0, 1) and equality (0, 1) of pairs of texts into int64 out[n, 2]; left and right their numbers."""
    for i in range(len(left)):
        a, b = starts[left[i]], starts[right[i]]
        a_length, b_length = starts[left[i] + 1] - a, starts[right[i] + 1] - b
        out[i, 0] = order_bytes(data + a, a_length, data + b, b_length)
        out[i, 1] = a_length == b_length and same_bytes(data + a, data + b, a_length)


@njit(cache=True, nogil=True)
def hash_texts(data: int, starts: Any, out: Any) -> None:
    """64-bit hashes of the texts at [starts[i], starts[i + 1]) into uint64 `out`."""
    for i in range(len(out)):
        out[i] = hash_bytes(data + starts[i], starts[i + 1] - starts[i])


def warm() -> None:
    """Compile, or load from the cache, what queries call from Python."""
    zeros = np.zeros(2, np.int64)
    flag_like(zeros.ctypes.data, zeros.ctypes.data, zeros.ctypes.data, zeros.ctypes.data, 0, 0, np.zeros(1, np.uint8))
