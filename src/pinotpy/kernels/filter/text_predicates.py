"""Tests of filter predicates over raw VAR values: byte strings compared in place, in the order of bytes (searched:
text_search.py).

As in predicates.py the driver runs the frame (predicate_frame.py). Every string costs a jump in memory, so survivors
are always looked at one by one.
"""

from __future__ import annotations

from typing import Any

from pinotpy.kernels.filter.byte_masks import SCRATCH_MASK
from pinotpy.kernels.filter.predicate_frame import A_META, A_TEST
from pinotpy.kernels.runtime.abi import (
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
from pinotpy.kernels.runtime.byte_words import order_bytes
from pinotpy.kernels.runtime.views import mv_offsets, view_i64, view_u32

# The tests see a string as (address, length). Their parameters: p0 and p1 addresses, p2 and p3 numbers.


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
            passes = False
            for entry in range(first, end):
                passes = passes or test(data + starts[entry], starts[entry + 1] - starts[entry], p0, p1, p2, p3)
            out[positions[j]] = passes
            state[S_ENTRIES_FILTER] += end - first

    return scan


_scan_range = _scan_with(_in_range)
_scan_members = _scan_with(_in_sorted)


@block_function
def var_range(state_address: int, args_address: int) -> Any:
    """Raw bytes in [low, high): A6 address and A8 length of low, A7 address and A9 length of high (-1: no upper
    bound).
    """
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _scan_range(args, state, words(args[A_META], META_WORDS))
    return E_OK


@block_function
def var_members(state_address: int, args_address: int) -> Any:
    """Raw bytes among sorted distinct strings: A6 address of their bytes, A7 of their int64 offsets, A8 how many."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _scan_members(args, state, words(args[A_META], META_WORDS))
    return E_OK
