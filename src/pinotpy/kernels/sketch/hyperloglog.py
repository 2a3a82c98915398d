"""HyperLogLog registers: each the highest rank of its values' hashes (functions/sketches/hyperloglog.py says which
hash).

Where a unit's registers of all groups are few, they lie as bytes by (group, register), and the groups' registers go to
D_REGISTERS when the unit ends, as rows of [arena row, registers …]; without groups they are kept from unit to unit
instead. Else every value is appended to D_ARENA as an entry of aggregate/distinct_pairs.py, with register << RANK_BITS
| rank in the place of the value.

    begin_sketch     A0 word of the set in the context, A1 groups (0: appended), A2 log2m                      begin
    add_hashed_ids      A0 groups or -1, A1 ids, A2 set, A3 flags of rows that do not count or -1, A4 address of  select
                        uint32 hashes by dict id, A5 how many
    add_hashed_longs    the same with i64 values
    add_hashed_doubles  the same with f64 values, A4 1: hashed as FLOAT
    add_hashed_texts    the same with the texts of a raw column, hashed where they lie: A1 is not read,
                        A4 address of its meta
    end_sketch       A0 set                                                                                    end
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint32, uint64

from pinotpy.arrays import Int64Array
from pinotpy.kernels.aggregate.distinct_pairs import ENTRY_WORDS, ROW_SHIFT
from pinotpy.kernels.aggregate.result_context import (
    D_ARENA,
    D_CARDINALITY,
    D_FIRST,
    D_LOG2M,
    D_REGISTERS,
    D_TABLE,
    G_CONTROL,
    G_KEY_WORDS,
    G_NUM_GROUPS,
    G_ROW_WORDS,
    G_TABLE,
    SET_WORDS,
    context_of,
    vector_at,
)
from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    M_CARDINALITY,
    M_DATA,
    M_DICTIONARY,
    M_NUM_VALUES,
    M_RAW_OFFSETS,
    M_STORED,
    META_WORDS,
    S_SCRATCH,
    S_SELECTED,
    S_SELECTION,
    S_USER,
    STATE_WORDS,
    T_FLOAT,
    T_INT,
    T_LONG,
    block_function,
    inner,
    register_f64,
    register_i64,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_CAPACITY, V_USED, reserve, reserve_zeroed
from pinotpy.kernels.runtime.views import view_f32, view_f64, view_i32, view_i64, view_u8, view_u32
from pinotpy.kernels.sketch.murmur import hash_doubles, hash_floats, hash_longs, hash_texts_of_docs

RANK_BITS: Final = 5


@njit(nogil=True, inline="always")
def set_at(state: Any, word: int) -> Any:
    return words(state[S_USER] + word * 8, SET_WORDS)


@inner
def _row_words(log2m: int) -> Any:
    return max(1, (1 << log2m) >> 3)


# --- entries ---------------------------------------------------------------------------------------------------------


@inner
def _gather(out: Any, hashes: Any, ids: Any) -> None:
    for i in range(len(out)):
        out[i] = hashes[ids[i]]


@inner
def _entries(out: Any, hashes: Any, log2m: Any) -> None:
    # The bit below the register's keeps the rank within 33 - log2m; the reference's guard is one more than that bit.
    shift, guard = uint32(32 - log2m), uint32((1 << (log2m - 1)) + 1)
    for i in range(len(out)):
        guarded = uint32((hashes[i] << uint32(log2m)) | guard)
        # A double's exponent is the place of the highest bit.
        exponent = uint32(np.float64(guarded).view(np.uint64) >> uint64(52)) - uint32(1023)
        out[i] = uint32((hashes[i] >> shift) << uint32(RANK_BITS)) | uint32(uint32(32) - exponent)


# --- registers -------------------------------------------------------------------------------------------------------


@inner
def _raise_single(registers: Any, entries: Any) -> None:
    for i in range(len(entries)):
        position = uint64(entries[i] >> uint32(RANK_BITS))
        registers[position] = max(registers[position], np.uint8(entries[i] & uint32((1 << RANK_BITS) - 1)))


@inner
def _raise(registers: Any, log2m: Any, groups: Any, single: bool, entries: Any, skip: Any, flagged: bool) -> None:
    if single and not flagged:
        _raise_single(registers, entries)
        return
    for i in range(len(entries)):
        if flagged and skip[i] != 0:
            continue
        group = uint64(0) if single else uint64(groups[i])
        position = (group << uint64(log2m)) + uint64(entries[i] >> uint32(RANK_BITS))
        rank = np.uint8(entries[i] & uint32((1 << RANK_BITS) - 1))
        registers[position] = max(registers[position], rank)


@inner
def _append(out: Any, groups: Any, single: bool, entries: Any, skip: Any, flagged: bool) -> Any:
    position = uint64(0)
    for i in range(len(entries)):
        group = np.int64(0) if single else np.int64(groups[i])
        out[position], out[position + uint64(1)] = (group << ROW_SHIFT) | 1, np.int64(entries[i])
        position += uint64(ENTRY_WORDS) * (uint64(1) - uint64(skip[i])) if flagged else uint64(ENTRY_WORDS)
    return np.int64(position)


@inner
def bring(state: Any, args: Any, entries: Any) -> Any:
    """Bring entries (register << RANK_BITS | rank) into the registers, or append them."""
    value_set, n = set_at(state, args[A0 + 2]), state[S_SELECTED]
    single, flagged = args[A0] < 0, args[A0 + 3] >= 0
    groups = register_u32(state, 0 if single else args[A0])[:n]
    skip = register_u8(state, args[A0 + 3] if flagged else 0)[:n]
    if value_set[D_CARDINALITY] > 0:
        registers = view_u8(value_set[D_TABLE + V_ADDRESS], value_set[D_TABLE + V_CAPACITY] * 8)
        _raise(registers, value_set[D_LOG2M], groups, single, entries, skip, flagged)
        return E_OK
    return append_entries(state, value_set, groups, single, entries, skip, flagged)


@inner
def append_entries(
    state: Any, value_set: Any, groups: Any, single: bool, entries: Any, skip: Any, flagged: bool
) -> Any:
    """Append entries to D_ARENA."""
    context, n = context_of(state), len(entries)
    code = reserve(context[G_CONTROL], vector_at(value_set, D_ARENA), (n + 1) * ENTRY_WORDS)
    if code == E_OK:
        out = words(value_set[D_ARENA + V_ADDRESS] + value_set[D_ARENA + V_USED] * 8, (n + 1) * ENTRY_WORDS)
        value_set[D_ARENA + V_USED] += _append(out, groups, single, entries, skip, flagged)
    return code


@inner
def _update(state: Any, args: Any, hashes: Any, entries: Any) -> Any:
    _entries(entries, hashes, set_at(state, args[A0 + 2])[D_LOG2M])
    return bring(state, args, entries)


@njit(cache=True, nogil=True)
def sketch_of_dictionary(meta: Any, registers: Any) -> None:
    """Bring the values of a dictionary of numbers into uint8 registers[2^log2m].

    Args:
        meta: of the column (abi.M_*).
    """
    count, data, stored = meta[M_CARDINALITY], meta[M_DICTIONARY], meta[M_STORED]
    log2m = 0
    while 1 << log2m < len(registers):
        log2m += 1
    hashes, entries = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.uint32)
    for first in range(0, count, BLOCK):
        n = min(BLOCK, count - first)
        block = hashes[:n]
        if stored == T_INT:
            hash_longs(block, view_i32(data + first * 4, n))
        elif stored == T_LONG:
            hash_longs(block, view_i64(data + first * 8, n))
        elif stored == T_FLOAT:
            hash_floats(block, view_f32(data + first * 4, n))
        else:
            hash_doubles(block, view_f64(data + first * 8, n))
        _entries(entries[:n], block, log2m)
        _raise_single(registers, entries[:n])


@njit(cache=True, nogil=True)
def sketch_of_hashes(hashes: Any, registers: Any) -> None:
    """Bring hashes (uint32) into uint8 registers[2^log2m]."""
    log2m = 0
    while 1 << log2m < len(registers):
        log2m += 1
    entries = np.empty(len(hashes), np.uint32)
    _entries(entries, hashes, log2m)
    _raise_single(registers, entries)


@block_function
def begin_sketch(state_address: int, args_address: int) -> Any:
    """Make room for the unit's registers."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, value_set = context_of(state), set_at(state, args[A0])
    value_set[D_LOG2M], value_set[D_CARDINALITY], value_set[D_FIRST] = (
        args[A0 + 2],
        args[A0 + 1],
        value_set[D_ARENA + V_USED],
    )
    if args[A0 + 1] == 0:
        return E_OK
    size_bytes = args[A0 + 1] << args[A0 + 2]
    return reserve_zeroed(context[G_CONTROL], vector_at(value_set, D_TABLE), (size_bytes + 7) >> 3)


@block_function
def add_hashed_ids(state_address: int, args_address: int) -> Any:
    """Bring the hashes of dict ids into the registers."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    hashes, entries = view_u32(state[S_SCRATCH], n), view_u32(state[S_SCRATCH] + BLOCK * 4, n)
    _gather(hashes, view_u32(args[A0 + 4], args[A0 + 5]), register_u32(state, args[A0 + 1])[:n])
    return _update(state, args, hashes, entries)


@block_function
def add_hashed_longs(state_address: int, args_address: int) -> Any:
    """Bring i64 values into the registers."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    hashes, entries = view_u32(state[S_SCRATCH], n), view_u32(state[S_SCRATCH] + BLOCK * 4, n)
    hash_longs(hashes, register_i64(state, args[A0 + 1])[:n])
    return _update(state, args, hashes, entries)


@block_function
def add_hashed_doubles(state_address: int, args_address: int) -> Any:
    """Bring f64 values into the registers: −0.0 as 0.0, one NaN."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    hashes, entries = view_u32(state[S_SCRATCH], n), view_u32(state[S_SCRATCH] + BLOCK * 4, n)
    values = register_f64(state, args[A0 + 1])[:n]
    if args[A0 + 4] != 0:
        hash_floats(hashes, values)
    else:
        hash_doubles(hashes, values)
    return _update(state, args, hashes, entries)


@block_function
def add_hashed_texts(state_address: int, args_address: int) -> Any:
    """Bring the texts of a raw column into the registers."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, meta = state[S_SELECTED], words(args[A0 + 4], META_WORDS)
    hashes, entries = view_u32(state[S_SCRATCH], n), view_u32(state[S_SCRATCH] + BLOCK * 4, n)
    starts = view_i64(meta[M_RAW_OFFSETS], meta[M_NUM_VALUES] + 1)
    hash_texts_of_docs(hashes, meta[M_DATA], starts, view_u32(state[S_SELECTION], n))
    return _update(state, args, hashes, entries)


@inner
def _leave_row(context: Any, value_set: Any, group: int) -> Any:
    log2m = value_set[D_LOG2M]
    width = _row_words(log2m)
    code = reserve(context[G_CONTROL], vector_at(value_set, D_REGISTERS), width + 1)
    if code != E_OK:
        return code
    out = words(value_set[D_REGISTERS + V_ADDRESS] + value_set[D_REGISTERS + V_USED] * 8, width + 1)
    out[0] = words(context[G_TABLE + V_ADDRESS] + group * context[G_ROW_WORDS] * 8, 1)[0]
    out[width] = 0
    size = 1 << log2m
    source = view_u8(value_set[D_TABLE + V_ADDRESS] + (group << log2m), size)
    target = view_u8(value_set[D_REGISTERS + V_ADDRESS] + (value_set[D_REGISTERS + V_USED] + 1) * 8, size)
    for i in range(size):
        target[i] = source[i]
        source[i] = 0
    value_set[D_REGISTERS + V_USED] += width + 1
    return E_OK


@inner
def _is_empty(value_set: Any, group: int) -> Any:
    registers = view_u8(value_set[D_TABLE + V_ADDRESS] + (group << value_set[D_LOG2M]), 1 << value_set[D_LOG2M])
    highest = np.uint8(0)
    for i in range(len(registers)):
        highest |= registers[i]
    return highest == 0


@block_function
def end_sketch(state_address: int, args_address: int) -> Any:
    """Move the groups' registers to D_REGISTERS; word 0 of the groups' rows is their arena row now."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, value_set = context_of(state), set_at(state, args[A0])
    if value_set[D_CARDINALITY] == 0:
        entries = words(
            value_set[D_ARENA + V_ADDRESS] + value_set[D_FIRST] * 8, value_set[D_ARENA + V_USED] - value_set[D_FIRST]
        )
        for i in range(0, len(entries), ENTRY_WORDS):
            row = words(context[G_TABLE + V_ADDRESS] + (entries[i] >> ROW_SHIFT) * context[G_ROW_WORDS] * 8, 1)[0]
            entries[i] = (row << ROW_SHIFT) | 1
        return E_OK
    if context[G_KEY_WORDS] == 0:
        return E_OK
    for group in range(context[G_NUM_GROUPS]):
        if not _is_empty(value_set, group):
            code = _leave_row(context, value_set, group)
            if code != E_OK:
                return code
    return E_OK


@njit(cache=True, nogil=True)
def merge_sketches(rows: Any, groups: Any, out: Any) -> None:
    """out[groups[r]] = the larger of each register and that of rows of [r, registers …].

    Args:
        rows: int64[n, 1 + register words]; groups: of every arena row; out: uint8[groups, registers].
    """
    for i in range(len(rows)):
        target, source = out[groups[rows[i, 0]]], rows[i, 1:].view(np.uint8)
        for k in range(len(target)):
            target[k] = max(target[k], source[k])


def warm() -> None:
    """Compile for the argument types that queries use."""
    one: Int64Array = np.zeros(1, np.int64)
    merge_sketches(np.zeros((1, 2), np.int64), one, np.zeros((1, 8), np.uint8))
    sketch_of_dictionary(np.zeros(META_WORDS, np.int64), np.zeros(2, np.uint8))
    sketch_of_hashes(np.zeros(1, np.uint32), np.zeros(2, np.uint8))
