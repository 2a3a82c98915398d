"""Tests of filter predicates: what a predicate says of the values of a block, into the scratch mask.

The driver runs the frame around each (predicate_frame.py), so a test only scans: all docs of the block where
S_SURVIVORS is -1, else the docs listed in the scratch memory. Arguments of tests are words A6, A7.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint8, uint16, uint32, uint64

from pinotpy.kernels.filter.byte_masks import SCRATCH_MASK, mask_address
from pinotpy.kernels.filter.hash_set import in_hash_set
from pinotpy.kernels.filter.predicate_frame import A_META, A_TEST
from pinotpy.kernels.runtime.abi import (
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    M_CARDINALITY,
    M_DATA,
    M_MV_OFFSETS,
    M_NULLS,
    M_NUM_DOCS,
    M_NUM_VALUES,
    M_STORED,
    M_WIDTH,
    META_WORDS,
    S_BASE,
    S_ENTRIES_FILTER,
    S_LIST,
    S_NUM,
    S_SCRATCH,
    S_SURVIVORS,
    STATE_WORDS,
    T_DOUBLE,
    T_FLOAT,
    T_INT,
    T_LONG,
    block_function,
    inner,
    mask_register,
    words,
)
from pinotpy.kernels.runtime.bit_flags import flags_at, flags_from
from pinotpy.kernels.runtime.views import (
    mv_offsets,
    view_f32,
    view_f64,
    view_i32,
    view_i64,
    view_u8,
    view_u16,
    view_u32,
)

# --- tests: value, two parameters → bool ---------------------------------------------------------------------------


@inner
def _in_range_u8(value: Any, low: Any, span: Any) -> Any:
    return uint8(value - low) < span


@inner
def _in_range_u16(value: Any, low: Any, span: Any) -> Any:
    return uint16(value - low) < span


@inner
def _in_range_u32(value: Any, low: Any, span: Any) -> Any:
    return uint32(value - low) < span


@inner
def _in_lut(value: Any, lut: Any, _unused: Any) -> Any:
    return lut[value] != 0


@inner
def _in_bits(value: Any, table: Any, _unused: Any) -> Any:
    word = uint32(value)
    return (table[word >> uint32(5)] >> (word & uint32(31))) & uint32(1) != uint32(0)


@inner
def _between(value: Any, low: Any, high: Any) -> Any:
    return (value >= low) & (value <= high)


@inner
def _in_int_set(value: Any, table: Any, size_mask: Any) -> Any:
    return in_hash_set(np.int64(value), table, size_mask)


@inner
def _in_float_set(value: Any, table: Any, size_mask: Any) -> Any:
    wide = np.float64(value) + 0.0  # −0.0 + 0.0 = 0.0
    return in_hash_set(np.float64(wide).view(np.int64), table, size_mask)


# --- ways through a block ------------------------------------------------------------------------------------------


def _scan_with(test: Any) -> Any:
    # One specialisation a test. (Passing `test` as an argument would compile as well, but could not be cached.)

    @inner
    def every(values: Any, p0: Any, p1: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i] = test(values[i], p0, p1)

    @inner
    def some(values: Any, p0: Any, p1: Any, out: Any, positions: Any, docs: Any) -> None:
        for j in range(len(docs)):
            out[positions[j]] = test(values[docs[j]], p0, p1)

    @inner
    def any_of_each(values: Any, p0: Any, p1: Any, out: Any, positions: Any, docs: Any, offsets: Any) -> Any:
        read = 0
        for j in range(len(docs)):
            doc = docs[j]
            first, end = np.int64(offsets[doc]), np.int64(offsets[doc + uint32(1)])
            passes = False
            for value in values[first:end]:
                passes |= test(value, p0, p1)
            out[positions[j]] = passes
            read += int(end - first)
        return read

    @inner
    def scan(values: Any, p0: Any, p1: Any, state: Any, meta: Any) -> None:
        n, count = state[S_NUM], state[S_SURVIVORS]
        out = mask_register(state, SCRATCH_MASK)
        if count < 0:
            base = state[S_BASE]
            every(values[base : base + n], p0, p1, out[:n])
            return
        positions, docs = view_u32(state[S_SCRATCH], count), view_u32(state[S_SCRATCH] + BLOCK * 4, count)
        if meta[M_MV_OFFSETS] == 0:
            some(values, p0, p1, out, positions, docs)
            state[S_ENTRIES_FILTER] += count
        else:
            state[S_ENTRIES_FILTER] += any_of_each(values, p0, p1, out, positions, docs, mv_offsets(meta))

    return scan


_scan_range_u8 = _scan_with(_in_range_u8)
_scan_range_u16 = _scan_with(_in_range_u16)
_scan_range_u32 = _scan_with(_in_range_u32)
_scan_lut = _scan_with(_in_lut)
_scan_bits = _scan_with(_in_bits)
_scan_between = _scan_with(_between)
_scan_int_set = _scan_with(_in_int_set)
_scan_float_set = _scan_with(_in_float_set)


# --- predicates
# ----------------------------------------------------------------------------------------------------------


@block_function
def ids_range(state_address: int, args_address: int) -> Any:
    """Dict id in [A6, A7)."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A_META], META_WORDS)
    width, address, count = meta[M_WIDTH], meta[M_DATA], meta[M_NUM_VALUES]
    low, span = args[A_TEST], args[A_TEST + 1] - args[A_TEST]
    if width == 1:
        # A span of 256 does not fit a byte; the planner makes it PREDICATE_ALWAYS.
        _scan_range_u8(view_u8(address, count), uint8(low), uint8(span), state, meta)
    elif width == 2:
        _scan_range_u16(view_u16(address, count), uint16(low), uint16(span), state, meta)
    else:
        _scan_range_u32(view_u32(address, count), uint32(low), uint32(span), state, meta)
    return E_OK


@block_function
def ids_lut(state_address: int, args_address: int) -> Any:
    """Byte of the dict id in the table at A6 is not 0."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A_META], META_WORDS)
    width, address, count = meta[M_WIDTH], meta[M_DATA], meta[M_NUM_VALUES]
    lut = view_u8(args[A_TEST], meta[M_CARDINALITY])
    if width == 1:
        _scan_lut(view_u8(address, count), lut, 0, state, meta)
    elif width == 2:
        _scan_lut(view_u16(address, count), lut, 0, state, meta)
    else:
        _scan_lut(view_u32(address, count), lut, 0, state, meta)
    return E_OK


@block_function
def ids_bits(state_address: int, args_address: int) -> Any:
    """Bit of the dict id in the table of u32 words at A6: of dictionaries whose bytes would not fit the nearest
    cache.
    """
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A_META], META_WORDS)
    width, address, count = meta[M_WIDTH], meta[M_DATA], meta[M_NUM_VALUES]
    table = view_u32(args[A_TEST], (meta[M_CARDINALITY] + 31) >> 5)
    # A wide dictionary has ids of two or four bytes.
    if width == 2:
        _scan_bits(view_u16(address, count), table, 0, state, meta)
    else:
        _scan_bits(view_u32(address, count), table, 0, state, meta)
    return E_OK


def _runs_with(test: Any, convert: Any) -> Any:
    @inner
    def first(values: Any, low: Any, span: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i] = test(values[i], low, span)

    @inner
    def further(values: Any, low: Any, span: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i] |= test(values[i], low, span)

    @inner
    def some(values: Any, runs: Any, out: Any, positions: Any, docs: Any) -> None:
        for j in range(len(docs)):
            value = values[docs[j]]
            passes = False
            for k in range(0, len(runs), 2):
                passes |= test(value, convert(runs[k]), convert(runs[k + 1] - runs[k]))
            out[positions[j]] = passes

    @inner
    def scan(values: Any, runs: Any, state: Any) -> None:
        n, count = state[S_NUM], state[S_SURVIVORS]
        out = mask_register(state, SCRATCH_MASK)
        if count >= 0:
            some(values, runs, out, view_u32(state[S_SCRATCH], count), view_u32(state[S_SCRATCH] + BLOCK * 4, count))
            state[S_ENTRIES_FILTER] += count
            return
        block = values[state[S_BASE] : state[S_BASE] + n]
        first(block, convert(runs[0]), convert(runs[1] - runs[0]), out[:n])
        for k in range(2, len(runs), 2):
            further(block, convert(runs[k]), convert(runs[k + 1] - runs[k]), out[:n])

    return scan


_scan_runs_u8 = _runs_with(_in_range_u8, uint8)
_scan_runs_u16 = _runs_with(_in_range_u16, uint16)
_scan_runs_u32 = _runs_with(_in_range_u32, uint32)


@block_function
def ids_runs(state_address: int, args_address: int) -> Any:
    """Dict id in one of A7 runs [low, end) at A6 (int64 pairs): a few comparisons of whole registers instead of a
    look-up for every id. Of single values.
    """
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A_META], META_WORDS)
    width, address, count = meta[M_WIDTH], meta[M_DATA], meta[M_NUM_VALUES]
    runs = view_i64(args[A_TEST], 2 * args[A_TEST + 1])
    if width == 1:
        _scan_runs_u8(view_u8(address, count), runs, state)
    elif width == 2:
        _scan_runs_u16(view_u16(address, count), runs, state)
    else:
        _scan_runs_u32(view_u32(address, count), runs, state)
    return E_OK


@block_function
def ids_set(state_address: int, args_address: int) -> Any:
    """Dict id in the hash table at A6 (hash_set.py), of A7 + 1 slots: for few ids of a wide dictionary."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A_META], META_WORDS)
    width, address, count = meta[M_WIDTH], meta[M_DATA], meta[M_NUM_VALUES]
    table, size_mask = view_i64(args[A_TEST], 2 * (args[A_TEST + 1] + 1)), uint64(args[A_TEST + 1])
    # A wide dictionary has ids of two or four bytes.
    if width == 2:
        _scan_int_set(view_u16(address, count), table, size_mask, state, meta)
    else:
        _scan_int_set(view_u32(address, count), table, size_mask, state, meta)
    return E_OK


@block_function
def raw_range(state_address: int, args_address: int) -> Any:
    """Raw value of a fixed type in [A6, A7], both ends included: i64 words, or the bits of f64 for FLOAT and DOUBLE."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A_META], META_WORDS)
    address, count, stored = meta[M_DATA], meta[M_NUM_VALUES], meta[M_STORED]
    low, high = args[A_TEST], args[A_TEST + 1]
    bounds = view_f64(args_address + A_TEST * 8, 2)
    if stored == T_INT:
        _scan_between(view_i32(address, count), np.int32(low), np.int32(high), state, meta)
    elif stored == T_LONG:
        _scan_between(view_i64(address, count), low, high, state, meta)
    elif stored == T_FLOAT:
        _scan_between(view_f32(address, count), np.float32(bounds[0]), np.float32(bounds[1]), state, meta)
    elif stored == T_DOUBLE:
        _scan_between(view_f64(address, count), bounds[0], bounds[1], state, meta)
    return E_OK


@block_function
def raw_set(state_address: int, args_address: int) -> Any:
    """Raw value of a fixed type in the hash table at A6 (pairs used, word; words of floats are f64 bits); A7 slots
    − 1.
    """
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A_META], META_WORDS)
    address, count, stored = meta[M_DATA], meta[M_NUM_VALUES], meta[M_STORED]
    table, size_mask = view_i64(args[A_TEST], 2 * (args[A_TEST + 1] + 1)), uint64(args[A_TEST + 1])
    if stored == T_INT:
        _scan_int_set(view_i32(address, count), table, size_mask, state, meta)
    elif stored == T_LONG:
        _scan_int_set(view_i64(address, count), table, size_mask, state, meta)
    elif stored == T_FLOAT:
        _scan_float_set(view_f32(address, count), table, size_mask, state, meta)
    elif stored == T_DOUBLE:
        _scan_float_set(view_f64(address, count), table, size_mask, state, meta)
    return E_OK


@inner
def _docs_between(out: Any, docs: Any, low: int, high: int) -> None:
    for i in range(len(out)):
        out[i] = (docs[i] >= low) & (docs[i] < high)


@inner
def _flags_at(out: Any, flags: Any, docs: Any) -> None:
    for i in range(len(out)):
        out[i] = flags[uint32(docs[i])]


@block_function
def docs_range(state_address: int, args_address: int) -> Any:
    """Doc id in [A6, A7): a predicate on a sorted column where it can't clip the morsel. Reads no values."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, base = state[S_NUM], state[S_BASE]
    out = mask_register(state, SCRATCH_MASK)[:n]
    if state[S_LIST] == 0:
        first, end = max(args[A_TEST] - base, 0), min(args[A_TEST + 1] - base, n)
        out[:] = 0
        if end > first:
            out[first:end] = 1
    else:
        _docs_between(out, view_i32(state[S_LIST], n), args[A_TEST], args[A_TEST + 1])
    return E_OK


@block_function
def doc_flags(state_address: int, args_address: int) -> Any:
    """Byte of the doc in the mask at A6: what a Python stage or an index computed for the whole segment."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, base = state[S_NUM], state[S_BASE]
    out = mask_register(state, SCRATCH_MASK)[:n]
    if state[S_LIST] == 0:
        out[:] = view_u8(args[A_TEST] + base, n)
    else:
        _flags_at(out, view_u8(args[A_TEST], args[A_TEST + 1]), view_i32(state[S_LIST], n))
    return E_OK


@inner
def _bits_of_docs(state: Any, bits: Any) -> None:
    # The docs' bits into the scratch mask.
    n = state[S_NUM]
    if state[S_LIST] == 0:
        flags_from(mask_address(state, SCRATCH_MASK), bits, state[S_BASE], n)
    else:
        flags_at(mask_register(state, SCRATCH_MASK)[:n], bits, view_i32(state[S_LIST], n))


@block_function
def doc_bits(state_address: int, args_address: int) -> Any:
    """Bit of the doc in the set at A6 (posting_bitmaps.py), of A7 docs. Reads no values."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _bits_of_docs(state, view_u8(args[A_TEST], ((args[A_TEST + 1] + 63) >> 6) << 3))
    return E_OK


@block_function
def is_null(state_address: int, args_address: int) -> Any:
    """The column's null bit is set. Reads no values."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A_META], META_WORDS)
    if meta[M_NULLS] == 0:
        mask_register(state, SCRATCH_MASK)[: state[S_NUM]] = 0
    else:
        _bits_of_docs(state, view_u8(meta[M_NULLS], (meta[M_NUM_DOCS] + 7) >> 3))
    return E_OK
