"""Filters that are an AND of comparisons, a bit a doc: which docs of a chunk pass, and their ids.

Predicates that ask whether an id lies in a few runs, a raw number in a range, or a doc is null are most filters. Here a
predicate is three instructions for 64 docs: load, compare, combine with the word of the predicates before (comparisons
of arithmetic: bitmap_arithmetic.py). Where the words of some predicates are mostly zero, the next one reads only the
columns' cache lines of words that are not. Selected docs of as many chunks as it takes are put together, so that the
select section begins with a full selection however few docs pass.

Other filters, and morsels that must be looked at a block at a time, run as block functions with byte masks
(predicate_frame.py).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import carray, float32, int32, njit, types, uint64
from numba.extending import intrinsic

from pinotpy.kernels.filter.bitmap_arithmetic import EXPRESSION, is_fused, keep_program
from pinotpy.kernels.filter.predicate_frame import (
    A_KEPT,
    A_META,
    A_MODE,
    A_NEGATED,
    A_NULLS,
    A_OUT,
    A_TEST,
    PREDICATE_ALWAYS,
    PREDICATE_NEVER,
)
from pinotpy.kernels.runtime.abi import (
    BLOCK,
    C_FUSED_TESTS,
    I_FUNCTION,
    INSTRUCTION_WORDS,
    M_DATA,
    M_MV_OFFSETS,
    M_NULLS,
    M_STORED,
    M_WIDTH,
    META_WORDS,
    S_BASE,
    S_DENSE,
    S_ENTRIES_FILTER,
    S_GATHERED,
    S_LIST,
    S_NUM,
    S_SCRATCH,
    S_SELECTED,
    S_SELECTION,
    S_SELECTIONS,
    STATE_WORDS,
    T_DOUBLE,
    T_FLOAT,
    T_INT,
    T_LONG,
    inner,
    pointer,
    words,
)
from pinotpy.kernels.runtime.bits import num_bits, word_at
from pinotpy.kernels.runtime.prefetch import AHEAD_BYTES, LINE_BYTES, prefetch
from pinotpy.kernels.runtime.selection import docs_of_bits, docs_of_few_bits
from pinotpy.kernels.runtime.views import view_f64, view_i64, view_u8, view_u64

# Places in C_FUSED_TESTS: addresses of the block functions whose test is done here instead.
IDS_RANGE: Final = 0
IDS_RUNS: Final = 1
RAW_RANGE: Final = 2
IS_NULL: Final = 3
NUM_FUSED_TESTS: Final = 7  # with those of bitmap_arithmetic.py

# A chunk is 64 words of 64 docs. Where a thread is in it, words of its cursor from the driver's own on:
CHUNK_WORDS: Final = 64
CHUNK_DOCS: Final = CHUNK_WORDS * 64
R_BASE: Final = 0  # first doc of the chunk in hand
R_END: Final = 1  # its end; the words from the one of the driver's position on are still to be given out
R_COUNT: Final = 2  # docs of the chunk that pass
R_BITS: Final = 4
RANGE_WORDS: Final = R_BITS + CHUNK_WORDS
# So many chunks are read at most before the driver looks at the clock.
CHUNKS_MAX: Final = 8
# Below so many docs of a chunk nearly all words have none, no more than a few.
_MOSTLY_NONE: Final = CHUNK_WORDS // 8
_MOSTLY_FEW: Final = CHUNK_WORDS * 5 // 4

_ALL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)


def _comparing(number: ir.Type, lower: str, upper: str | None, parameter: Any) -> Any:
    # Of 64 numbers at an address: bit k is set if number k is in the range. With one comparison: of the distance from
    # the first parameter with the second.
    @intrinsic
    def compare(typingctx: Any, address: Any, low: Any, high: Any) -> Any:
        def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(number, 64)
            loaded = builder.load(builder.inttoptr(arguments[0], vector.as_pointer()), align=1)
            bounds = []
            for word in arguments[1:]:
                narrowed = (
                    builder.trunc(word, number)
                    if isinstance(number, ir.IntType) and number.width < 64 and word.type.width == 64
                    else word
                )
                spread = builder.insert_element(
                    ir.Constant(vector, ir.Undefined), narrowed, ir.Constant(ir.IntType(32), 0)
                )
                bounds.append(
                    builder.shuffle_vector(
                        spread,
                        ir.Constant(vector, ir.Undefined),
                        ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64),
                    )
                )
            if upper is None:
                passes = builder.icmp_unsigned(lower, builder.sub(loaded, bounds[0]), bounds[1])
            elif isinstance(number, ir.IntType):
                passes = builder.and_(
                    builder.icmp_signed(lower, loaded, bounds[0]), builder.icmp_signed(upper, loaded, bounds[1])
                )
            else:
                passes = builder.and_(
                    builder.fcmp_ordered(lower, loaded, bounds[0]), builder.fcmp_ordered(upper, loaded, bounds[1])
                )
            return builder.bitcast(passes, ir.IntType(64))

        return types.uint64(types.int64, parameter, parameter), codegen

    return compare


_compare_u8 = _comparing(ir.IntType(8), "<", None, types.int64)
_compare_u16 = _comparing(ir.IntType(16), "<", None, types.int64)
_compare_u32 = _comparing(ir.IntType(32), "<", None, types.int64)
_compare_i32 = _comparing(ir.IntType(32), ">=", "<=", types.int32)
_compare_i64 = _comparing(ir.IntType(64), ">=", "<=", types.int64)
_compare_f32 = _comparing(ir.FloatType(), ">=", "<=", types.float32)
_compare_f64 = _comparing(ir.DoubleType(), ">=", "<=", types.float64)


def _predicate_with(compare: Any, size: int) -> Any:
    # One specialisation a kind of number.

    @inner
    def every(address: int, low: Any, high: Any, flip: Any, bits: Any) -> None:
        for i in range(len(bits)):
            for line in range(0, 64 * size, LINE_BYTES):
                prefetch(address + i * (64 * size) + line + AHEAD_BYTES)
            bits[i] &= compare(address + i * (64 * size), low, high) ^ flip

    @inner
    def some(address: int, low: Any, high: Any, flip: Any, bits: Any) -> None:
        for i in range(len(bits)):
            if bits[i] != uint64(0):
                bits[i] &= compare(address + i * (64 * size), low, high) ^ flip

    @inner
    def predicate(address: int, low: Any, high: Any, flip: Any, bits: Any, n: int, count: int, buffer: int) -> None:
        # The docs of the last word may be the column's last: they are compared where 64 may be read.
        whole = n >> 6
        if count * 4 < whole * size:
            some(address, low, high, flip, bits[:whole])
        else:
            every(address, low, high, flip, bits[:whole])
        if n & 63:
            _copy(view_u8(buffer, (n & 63) * size), view_u8(address + whole * (64 * size), (n & 63) * size))
            bits[whole] &= compare(buffer, low, high) ^ flip

    return predicate


@inner
def _copy(out: Any, values: Any) -> None:
    for i in range(len(out)):
        out[i] = values[i]


_test_u8 = _predicate_with(_compare_u8, 1)
_test_u16 = _predicate_with(_compare_u16, 2)
_test_u32 = _predicate_with(_compare_u32, 4)
_test_i32 = _predicate_with(_compare_i32, 4)
_test_i64 = _predicate_with(_compare_i64, 8)
_test_f32 = _predicate_with(_compare_f32, 4)
_test_f64 = _predicate_with(_compare_f64, 8)


@inner
def _ids_between(
    meta: Any, base: int, low: int, span: int, flip: Any, bits: Any, n: int, count: int, buffer: int
) -> None:
    width = meta[M_WIDTH]
    address = meta[M_DATA] + base * width
    if width == 1:
        _test_u8(address, low, span, flip, bits, n, count, buffer)
    elif width == 2:
        _test_u16(address, low, span, flip, bits, n, count, buffer)
    else:
        _test_u32(address, low, span, flip, bits, n, count, buffer)


@inner
def _values_between(
    meta: Any, base: int, args: Any, args_address: int, flip: Any, bits: Any, n: int, count: int, buffer: int
) -> None:
    stored, address, low, high = meta[M_STORED], meta[M_DATA], args[A_TEST], args[A_TEST + 1]
    reals = view_f64(args_address + A_TEST * 8, 2)
    if stored == T_INT:
        _test_i32(address + base * 4, int32(low), int32(high), flip, bits, n, count, buffer)
    elif stored == T_LONG:
        _test_i64(address + base * 8, low, high, flip, bits, n, count, buffer)
    elif stored == T_FLOAT:
        _test_f32(address + base * 4, float32(reals[0]), float32(reals[1]), flip, bits, n, count, buffer)
    elif stored == T_DOUBLE:
        _test_f64(address + base * 8, reals[0], reals[1], flip, bits, n, count, buffer)


@inner
def _null_word(nulls: int, doc: int, count: int) -> Any:
    # Null bits of docs doc .. doc + count - 1; nothing beyond the byte of the last is read.
    first, shift = nulls + (doc >> 3), uint64(doc & 7)
    if count == 64:
        word = word_at(first) >> shift
        if shift != uint64(0):
            word |= uint64(view_u8(first, 9)[8]) << (uint64(64) - shift)
        return word
    num_bytes = ((doc & 7) + count + 7) >> 3
    word, bitmap = uint64(0), view_u8(first, num_bytes)
    for i in range(num_bytes):
        place = i * 8 - int(shift)
        byte = uint64(bitmap[i])
        if place < 0:
            word |= byte >> uint64(-place)
        elif place < 64:
            word |= byte << uint64(place)
    return word


@inner
def _keep_nulls(meta: Any, base: int, flip: Any, bits: Any, n: int) -> None:
    # bits &= null ^ flip
    for i in range((n + 63) >> 6):
        bits[i] &= _null_word(meta[M_NULLS], base + i * 64, min(64, n - i * 64)) ^ flip


@inner
def _count(bits: Any) -> Any:
    total = uint64(0)
    for i in range(len(bits)):
        total += num_bits(bits[i])
    return int(total)


@inner
def _none(bits: Any) -> None:
    for i in range(len(bits)):
        bits[i] = uint64(0)


@inner
def _test_chunk(state: Any, tests: Any, filters: int, num_filter: int, base: int, n: int, bits: Any) -> Any:
    """Bits of docs base .. base + n - 1 that pass; gives how many."""
    for i in range(len(bits)):
        bits[i] = _ALL
    if n & 63:
        bits[n >> 6] = (uint64(1) << uint64(n & 63)) - uint64(1)
    count, buffer = n, state[S_SCRATCH]
    for predicate in range(num_filter):
        if count == 0:
            break
        args_address = filters + predicate * (INSTRUCTION_WORDS * 8)
        args = words(args_address, INSTRUCTION_WORDS)
        meta, function = words(args[A_META], META_WORDS), args[I_FUNCTION]
        flip = _ALL if args[A_NEGATED] != 0 else uint64(0)
        if args[A_MODE] == PREDICATE_NEVER:
            _none(bits)
        elif args[A_MODE] != PREDICATE_ALWAYS:
            if function == tests[IS_NULL]:
                if meta[M_NULLS] != 0:
                    _keep_nulls(meta, base, flip, bits, n)
                elif args[A_NEGATED] == 0:
                    _none(bits)
            else:
                state[S_ENTRIES_FILTER] += count
                if function == tests[IDS_RANGE]:
                    _ids_between(
                        meta, base, args[A_TEST], args[A_TEST + 1] - args[A_TEST], flip, bits, n, count, buffer
                    )
                elif function == tests[EXPRESSION]:
                    keep_program(state, args, base, flip, bits, n, count)
                elif function == tests[IDS_RUNS]:
                    _ids_in_runs(state, meta, base, view_i64(args[A_TEST], 2 * args[A_TEST + 1]), flip, bits, n, count)
                else:
                    _values_between(meta, base, args, args_address, flip, bits, n, count, buffer)
        if args[A_NULLS] != 0 and meta[M_NULLS] != 0:
            _keep_nulls(meta, base, _ALL, bits, n)
        count = _count(bits)
    return count


@inner
def _without(out: Any, bits: Any, others: Any) -> None:
    # out = bits & ~others
    for i in range(len(out)):
        out[i] = bits[i] & ~others[i]


@inner
def _ids_in_runs(state: Any, meta: Any, base: int, runs: Any, flip: Any, bits: Any, n: int, count: int) -> None:
    # What lies outside of every run is what is left when each run is taken away: no run is asked about words that have
    # none left.
    buffer, result = state[S_SCRATCH], view_u64(state[S_SCRATCH] + 512, len(bits))
    for i in range(len(result)):
        result[i] = bits[i]
    for k in range(0, len(runs), 2):
        _ids_between(meta, base, runs[k], runs[k + 1] - runs[k], _ALL, result, n, count, buffer)
    if flip != uint64(0):
        for i in range(len(result)):
            bits[i] = result[i]
    else:
        _without(bits, bits, result)


@njit(cache=True, nogil=True)
def are_ranges(control: Any, filters: int, num_filter: int) -> Any:
    """Whether the filter instructions at address `filters` can be run here: predicates under AND, each of a test that
    is done here.
    """
    for predicate in range(num_filter):
        args = words(filters + predicate * (INSTRUCTION_WORDS * 8), INSTRUCTION_WORDS)
        function, known = args[I_FUNCTION], False
        for i in range(NUM_FUSED_TESTS):
            known |= (
                function != 0
                and function == control[C_FUSED_TESTS + i]
                and (i != EXPRESSION or is_fused(control, args))
            )
        if (
            not known
            or args[A_OUT] != 0
            or args[A_KEPT] != (-1 if predicate == 0 else 0)
            or words(args[A_META], META_WORDS)[M_MV_OFFSETS] != 0
        ):
            return False
    return num_filter > 0


@njit(cache=True, nogil=True)
def scan_ranges(
    state_address: int, control: Any, cursor: Any, filters: int, num_filter: int, position: int, high: int
) -> Any:
    """Put docs from `position` on that pass behind the S_GATHERED ones of the selection, until it is full, CHUNKS_MAX
    chunks are read or `high` is reached; gives the next position, how many were added, and whether the select section
    should run before the next call.

    Args:
        cursor: int64[RANGE_WORDS], of this thread; R_END is 0 before the first call for a morsel.
    """
    state = words(state_address, STATE_WORDS)
    tests = control[C_FUSED_TESTS : C_FUSED_TESTS + NUM_FUSED_TESTS]
    bits = cursor[R_BITS : R_BITS + CHUNK_WORDS].view(types.uint64)
    selected, gathered = state[S_GATHERED], state[S_GATHERED]
    out = state[S_SELECTIONS]
    state[S_SELECTION], state[S_DENSE], state[S_LIST] = out, 0, 0
    chunks, waits = 0, False
    while position < high:
        if cursor[R_END] <= position:
            if chunks == CHUNKS_MAX:
                break
            chunks += 1
            n = min(CHUNK_DOCS, high - position)
            cursor[R_BASE], cursor[R_END] = position, position + n
            cursor[R_COUNT] = _test_chunk(state, tests, filters, num_filter, position, n, bits[: (n + 63) >> 6])
            if cursor[R_COUNT] == 0:
                position += n
                continue
        base, end = cursor[R_BASE], cursor[R_END]
        if cursor[R_COUNT] == end - base:
            # Every doc passes: as many as a block holds, by themselves, so that they are read in a row.
            if selected > 0:
                waits = True
                break
            n = min(BLOCK, end - position)
            _fill_range(carray(pointer(out, types.int32), n), position)
            state[S_BASE], state[S_NUM], state[S_DENSE] = position, n, 1
            position += n
            selected = n
            break
        word, last = (position - base) >> 6, (end - base + 63) >> 6
        count = cursor[R_COUNT]
        if count < _MOSTLY_NONE:
            while word < last and selected <= BLOCK - 64:
                if bits[word] != uint64(0):
                    selected += docs_of_few_bits(bits[word], base + word * 64, out + selected * 4)
                word += 1
        elif count < _MOSTLY_FEW:
            while word < last and selected <= BLOCK - 64:
                selected += docs_of_few_bits(bits[word], base + word * 64, out + selected * 4)
                word += 1
        else:
            while word < last and selected <= BLOCK - 64:
                selected += docs_of_bits(bits[word], base + word * 64, out + selected * 4)
                word += 1
        position = min(base + word * 64, end)
        if selected > BLOCK - 64:
            break
    state[S_SELECTED] = selected
    if state[S_DENSE] == 0:
        state[S_NUM], state[S_BASE] = selected, 0
    return position, selected - gathered, waits or state[S_DENSE] == 1 or selected > BLOCK - 64


@inner
def _fill_range(out: Any, first: int) -> None:
    for i in range(len(out)):
        out[i] = int32(first + i)
