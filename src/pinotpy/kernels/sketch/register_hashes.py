"""64-bit hashes of numbers on their way into registers: HyperLogLog++ as the highest rank of each (hyperloglog.py),
UltraLogLog and CPC as the set of ranks of each, a word of bits. functions/sketches/hash64.py and murmur.py say which
hashes; theirs are the numpy twins.

The table of sets has 8 bytes a register: A2 of begin_sketch is log2 of the number of registers + 3, and D_LOG2M too.
An entry is register << 6 | rank. All arguments but the last are those of registers.add_hashed_longs.

    add_plus_longs         HyperLogLog++ of i64 values: the hash of their decimal text
    add_ultra_longs        UltraLogLog of i64 values, A4 how many bytes of them are hashed, 4 or 8
    add_ultra_doubles      UltraLogLog of f64 values, A4 1: hashed as FLOAT
    add_coupons_of_longs   CPC of i64 values
    add_coupons_of_doubles CPC of f64 values
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint32, uint64

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate.result_context import D_CARDINALITY, D_LOG2M, D_TABLE
from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    S_SCRATCH,
    S_SELECTED,
    STATE_WORDS,
    block_function,
    inner,
    register_f64,
    register_i64,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_CAPACITY
from pinotpy.kernels.runtime.views import view_u32, view_u64
from pinotpy.kernels.sketch.hyperloglog import append_entries, bring, set_at

SET_LOG2: Final = 3  # bytes of a set
RANK_BITS: Final = 6
_PLUS_RANK_BITS: Final = 5
_PLUS_RANK_MAX: Final = 31
_ZEROS: Final = 0x3030303030303030


@inner
def _bit_length(word: Any) -> Any:
    high = word >> uint64(32)
    half = high if high != uint64(0) else word
    # A double's exponent is the place of the highest bit.
    place = (np.float64(half).view(np.uint64) >> uint64(52)) - uint64(1022)
    return uint64(0) if word == uint64(0) else (place + uint64(32) if high != uint64(0) else place)


@inner
def _product_high(one: Any, two: Any) -> Any:
    low = uint64(0xFFFFFFFF)
    a, b, c, d = one >> uint64(32), one & low, two >> uint64(32), two & low
    cross, other = a * d, b * c
    middle = ((b * d) >> uint64(32)) + (cross & low) + (other & low)
    return a * c + (cross >> uint64(32)) + (other >> uint64(32)) + (middle >> uint64(32))


# --- MurmurHash64A of decimal texts ----------------------------------------------------------------------------------


@inner
def _digits(number: Any) -> Any:
    """Eight digits as bytes 0 … 9, the first of them lowest; number < 10^8."""
    fours = number // uint64(10_000) | ((number % uint64(10_000)) << uint64(32))
    hundreds = ((fours * uint64(5243)) >> uint64(19)) & uint64(0x0000007F0000007F)
    twos = hundreds | ((fours - hundreds * uint64(100)) << uint64(16))
    tens = ((twos * uint64(103)) >> uint64(10)) & uint64(0x000F000F000F000F)
    return tens | ((twos - tens * uint64(10)) << uint64(8))


@inner
def _murmured(hashed: Any, word: Any) -> Any:
    factor = uint64(0xC6A4A7935BD1E995)
    mixed = word * factor
    mixed = (mixed ^ (mixed >> uint64(47))) * factor
    return (hashed ^ mixed) * factor


@inner
def _murmur_text(value: Any) -> Any:
    """The hash of the text of an i64."""
    factor = uint64(0xC6A4A7935BD1E995)
    negative = value < 0
    size = uint64(0) - uint64(value) if negative else uint64(value)
    million = uint64(100_000_000)
    third, rest = _digits(size % million), size // million
    second, first = _digits(rest % million), _digits(rest // million)
    leading = first if first != uint64(0) else (second if second != uint64(0) else third)
    before = uint64(0) if first != uint64(0) else (uint64(8) if second != uint64(0) else uint64(16))
    lowest = leading & (uint64(0) - leading)
    before += uint64(7) if leading == uint64(0) else (_bit_length(lowest) - uint64(1)) >> uint64(3)
    a, b, c = first | uint64(_ZEROS), second | uint64(_ZEROS), third | uint64(_ZEROS)
    # The zeros that lead go, whole words of them first.
    if before >= uint64(16):
        a, b, c = c, uint64(0), uint64(0)
    elif before >= uint64(8):
        a, b, c = b, c, uint64(0)
    shift = (before & uint64(7)) << uint64(3)
    if shift != uint64(0):
        a = (a >> shift) | (b << (uint64(64) - shift))
        b = (b >> shift) | (c << (uint64(64) - shift))
        c = c >> shift
    length = uint64(24) - before
    if negative:
        c = (c << uint64(8)) | (b >> uint64(56))
        b = (b << uint64(8)) | (a >> uint64(56))
        a = (a << uint64(8)) | uint64(0x2D)
        length += uint64(1)
    hashed = uint64(0xE17A1465) ^ (length * factor)
    tail = a
    if length >= uint64(8):
        hashed, tail = _murmured(hashed, a), b
        if length >= uint64(16):
            hashed, tail = _murmured(hashed, b), c
    tail_bits = (length & uint64(7)) << uint64(3)
    if tail_bits != uint64(0):
        hashed = (hashed ^ (tail & ((uint64(1) << tail_bits) - uint64(1)))) * factor
    hashed = (hashed ^ (hashed >> uint64(47))) * factor
    return hashed ^ (hashed >> uint64(47))


@inner
def _murmur_texts(out: Any, values: Any) -> None:
    for i in range(len(out)):
        out[i] = _murmur_text(values[i])


@inner
def _plus_entries(out: Any, hashes: Any, log2m: Any) -> None:
    p = uint64(log2m)
    for i in range(len(out)):
        rank = uint64(65) - _bit_length((hashes[i] << p) | (uint64(1) << (p - uint64(1))))
        out[i] = uint32((hashes[i] >> (uint64(64) - p)) << uint64(_PLUS_RANK_BITS)) | uint32(
            min(rank, uint64(_PLUS_RANK_MAX))
        )


@block_function
def add_plus_longs(state_address: int, args_address: int) -> Any:
    """Bring i64 values into the registers of HyperLogLog++."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    entries, hashes = (
        view_u32(state[S_SCRATCH], state[S_SELECTED]),
        view_u64(state[S_SCRATCH] + BLOCK * 8, state[S_SELECTED]),
    )
    # In two loops, of which the second is one of vectors: half the time of one.
    _murmur_texts(hashes, register_i64(state, args[A0 + 1])[: state[S_SELECTED]])
    _plus_entries(entries, hashes, set_at(state, args[A0 + 2])[D_LOG2M])
    return bring(state, args, entries)


# --- sets of ranks ---------------------------------------------------------------------------------------------------


@inner
def _deduplicate(sets: Any, log2m: Any, groups: Any, single: bool, entries: Any, skip: Any, flagged: bool) -> None:
    for i in range(len(entries)):
        if flagged and skip[i] != 0:
            continue
        group = uint64(0) if single else uint64(groups[i])
        sets[(group << uint64(log2m)) + uint64(entries[i] >> uint32(RANK_BITS))] |= np.int64(1) << np.int64(
            entries[i] & uint32(63)
        )


@inner
def _bring_sets(state: Any, args: Any, entries: Any) -> Any:
    value_set, n = set_at(state, args[A0 + 2]), state[S_SELECTED]
    single, flagged = args[A0] < 0, args[A0 + 3] >= 0
    groups = register_u32(state, 0 if single else args[A0])[:n]
    skip = register_u8(state, args[A0 + 3] if flagged else 0)[:n]
    if value_set[D_CARDINALITY] > 0:
        sets = words(value_set[D_TABLE + V_ADDRESS], value_set[D_TABLE + V_CAPACITY])
        _deduplicate(sets, value_set[D_LOG2M] - SET_LOG2, groups, single, entries, skip, flagged)
        return E_OK
    return append_entries(state, value_set, groups, single, entries, skip, flagged)


@inner
def _wyhash(first: Any, second: Any, length: Any) -> Any:
    """Of two words as the bytes give them, see hash64._wyhash_end."""
    one = first ^ uint64(0xE7037ED1A0B428DB)
    two = second ^ uint64(0x1FF5C2923A788D2C)
    last = (one * two) ^ uint64(0xA0761D6478BD642F) ^ length
    high = _product_high(one, two) ^ uint64(0xE7037ED1A0B428DB)
    return (last * high) ^ _product_high(last, high)


@inner
def _ultra_entry(word: Any, wide: bool, p: Any) -> Any:
    if wide:
        hashed = _wyhash((word << uint64(32)) | (word >> uint64(32)), word, uint64(8))
    else:
        half = word & uint64(0xFFFFFFFF)
        hashed = _wyhash((half << uint64(32)) | half, (half << uint64(32)) | half, uint64(4))
    rank = uint64(63) - _bit_length((hashed << p) | ((uint64(1) << p) - uint64(1))) + p
    return uint32((hashed >> (uint64(64) - p)) << uint64(RANK_BITS)) | uint32(rank)


@inner
def _ultra_of_longs(out: Any, values: Any, wide: bool, p: Any) -> None:
    for i in range(len(out)):
        out[i] = _ultra_entry(uint64(values[i]), wide, p)


@inner
def _ultra_of_doubles(out: Any, values: Any, wide: bool, p: Any) -> None:
    for i in range(len(out)):
        value = np.float64(np.nan) if values[i] != values[i] else values[i] + 0.0
        word = np.float64(value).view(np.uint64) if wide else uint64(np.float32(value).view(np.uint32))
        out[i] = _ultra_entry(word, wide, p)


@block_function
def add_ultra_longs(state_address: int, args_address: int) -> Any:
    """Bring i64 values into the sets of UltraLogLog."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    entries, p = view_u32(state[S_SCRATCH], state[S_SELECTED]), uint64(set_at(state, args[A0 + 2])[D_LOG2M] - SET_LOG2)
    _ultra_of_longs(entries, register_i64(state, args[A0 + 1])[: state[S_SELECTED]], args[A0 + 4] == 8, p)
    return _bring_sets(state, args, entries)


@block_function
def add_ultra_doubles(state_address: int, args_address: int) -> Any:
    """Bring f64 values into the sets of UltraLogLog."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    entries, p = view_u32(state[S_SCRATCH], state[S_SELECTED]), uint64(set_at(state, args[A0 + 2])[D_LOG2M] - SET_LOG2)
    _ultra_of_doubles(entries, register_f64(state, args[A0 + 1])[: state[S_SELECTED]], args[A0 + 4] == 0, p)
    return _bring_sets(state, args, entries)


@inner
def _avalanched(word: Any) -> Any:
    word = (word ^ (word >> uint64(33))) * uint64(0xFF51AFD7ED558CCD)
    word = (word ^ (word >> uint64(33))) * uint64(0xC4CEB9FE1A85EC53)
    return word ^ (word >> uint64(33))


@inner
def _coupon(word: Any, mask: Any) -> Any:
    """row << 6 | column of the MurmurHash3_x64_128 (seed 9001) of the 8 bytes of a word, see murmur.murmur3_words."""
    mixed = word * uint64(0x87C37B91114253D5)
    mixed = ((mixed << uint64(31)) | (mixed >> uint64(33))) * uint64(0x4CF5AD432745937F)
    first, second = uint64(9001) ^ mixed ^ uint64(8), uint64(9001 ^ 8)
    first += second
    second += first
    first, second = _avalanched(first), _avalanched(second)
    first += second
    second += first
    column = min(uint64(64) - _bit_length(second), uint64(63))
    return uint32((first & mask) << uint64(RANK_BITS)) | uint32(column)


@inner
def _coupons_of_longs(out: Any, values: Any, mask: Any) -> None:
    for i in range(len(out)):
        out[i] = _coupon(uint64(values[i]), mask)


@inner
def _coupons_of_doubles(out: Any, values: Any, mask: Any) -> None:
    for i in range(len(out)):
        value = np.float64(np.nan) if values[i] != values[i] else values[i] + 0.0
        out[i] = _coupon(np.float64(value).view(np.uint64), mask)


@block_function
def add_coupons_of_longs(state_address: int, args_address: int) -> Any:
    """Bring i64 values into the rows of CPC sketches."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    entries, lg_k = (
        view_u32(state[S_SCRATCH], state[S_SELECTED]),
        uint64(set_at(state, args[A0 + 2])[D_LOG2M] - SET_LOG2),
    )
    _coupons_of_longs(entries, register_i64(state, args[A0 + 1])[: state[S_SELECTED]], (uint64(1) << lg_k) - uint64(1))
    return _bring_sets(state, args, entries)


@block_function
def add_coupons_of_doubles(state_address: int, args_address: int) -> Any:
    """Bring f64 values into the rows of CPC sketches."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    entries, lg_k = (
        view_u32(state[S_SCRATCH], state[S_SELECTED]),
        uint64(set_at(state, args[A0 + 2])[D_LOG2M] - SET_LOG2),
    )
    _coupons_of_doubles(
        entries, register_f64(state, args[A0 + 1])[: state[S_SELECTED]], (uint64(1) << lg_k) - uint64(1)
    )
    return _bring_sets(state, args, entries)


@njit(cache=True, nogil=True)
def merge_sets(rows: Any, groups: Any, out: Any) -> None:
    """out[groups[r]] |= the sets of rows of [r, sets …].

    Args:
        rows: int64[n, 1 + sets]; groups: of every arena row; out: int64[groups, sets].
    """
    for i in range(len(rows)):
        target, source = out[groups[rows[i, 0]]], rows[i, 1:]
        for k in range(len(target)):
            target[k] |= source[k]


def warm() -> None:
    """Compile for the argument types that queries use."""
    one: Int64Array = np.zeros(1, np.int64)
    merge_sets(np.zeros((1, 9), np.int64), one, np.zeros((1, 8), np.int64))
