"""Distributions: how often each group saw each value, exact (DISTINCTCOUNT, sums of BIG_DECIMAL).

Where groups * cardinality is at most DIRECT_MAX, or DIRECT_PAIRS_PER_DOC for every doc, the counts of a unit are addressed
directly by (group, dict id); else pairs are hashed. When a unit ends, what it counted goes to the distribution's arena as (arena row, value, count), where
value is a dict id of the unit or the 64 bits of a raw value.

    begin_distribution  A0 word of the distribution in the context, A1 groups, A2 cardinality (0: hashed)      begin
    add_ids             A0 groups or -1, A1 ids, A2 distribution, A3 flags of rows that do not count or -1     select
    add_values          the same with 64-bit values
    end_distribution    A0 distribution                                                                        end
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    S_USER,
    STATE_WORDS,
    block_function,
    register_i64,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.memory import V_ADDRESS, V_USED, reserve, reserve_zeroed
from pinotpy.kernels.result_context import (
    D_ARENA,
    D_CARDINALITY,
    D_MASK,
    D_TABLE,
    D_USED,
    G_CONTROL,
    G_NUM_GROUPS,
    G_ROW_WORDS,
    G_TABLE,
    SET_WORDS,
    context_of,
    vector_at,
)

DIRECT_MAX: Final = 1 << 18
DIRECT_PAIRS_PER_DOC: Final = 4
_ENTRY: Final = 3  # group + 1, value, count
_FIRST: Final = 1 << 12
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


@njit(nogil=True, inline="always")
def _distribution(state: Any, args: Any) -> Any:
    return words(state[S_USER] + args[A0 + 2] * 8, SET_WORDS)


@block_function
def begin_distribution(state_address: int, args_address: int) -> Any:
    """Make room for the unit's pairs."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context = context_of(state)
    own = words(state[S_USER] + args[A0] * 8, SET_WORDS)
    own[D_CARDINALITY] = args[A0 + 2]
    if args[A0 + 2] > 0:
        return reserve_zeroed(context[G_CONTROL], vector_at(own, D_TABLE), args[A0 + 1] * args[A0 + 2])
    own[D_MASK], own[D_USED] = _FIRST - 1, 0
    return reserve_zeroed(context[G_CONTROL], vector_at(own, D_TABLE), _FIRST * _ENTRY)


@njit(nogil=True, inline="always")
def _place(entries: Any, mask: Any, group: Any, value: Any) -> Any:
    h = (uint64(value) + uint64(group) * _MIX) * _MULTIPLIER
    at = (h >> uint64(29)) & mask
    while True:
        held = entries[at * uint64(_ENTRY)]
        if held == 0 or (held == group + 1 and entries[at * uint64(_ENTRY) + uint64(1)] == value):
            return at * uint64(_ENTRY)
        at = (at + uint64(1)) & mask


@njit(nogil=True)
def _grow(context: Any, own: Any, extra: int) -> Any:
    # Keep the table at most half full after `extra` more entries.
    count = own[D_MASK] + 1
    if (own[D_USED] + extra) * 2 <= count:
        return E_OK
    new_count = count
    while (own[D_USED] + extra) * 2 > new_count:
        new_count *= 2
    old = words(own[D_TABLE + V_ADDRESS], count * _ENTRY)
    kept = np.empty(own[D_USED] * _ENTRY, np.int64)
    position = 0
    for i in range(count):
        if old[i * _ENTRY] != 0:
            for k in range(_ENTRY):
                kept[position + k] = old[i * _ENTRY + k]
            position += _ENTRY
    old[:] = 0
    code = reserve_zeroed(context[G_CONTROL], vector_at(own, D_TABLE), new_count * _ENTRY)
    if code != E_OK:
        return code
    own[D_MASK] = new_count - 1
    entries = words(own[D_TABLE + V_ADDRESS], new_count * _ENTRY)
    mask = uint64(new_count - 1)
    for i in range(0, position, _ENTRY):
        at = _place(entries, mask, kept[i] - 1, kept[i + 1])
        for k in range(_ENTRY):
            entries[at + uint64(k)] = kept[i + k]
    return E_OK


@njit(nogil=True)
def _add_hashed(own: Any, groups: Any, single: bool, values: Any, skip: Any, flagged: bool) -> None:
    mask = uint64(own[D_MASK])
    entries = words(own[D_TABLE + V_ADDRESS], (own[D_MASK] + 1) * _ENTRY)
    used = own[D_USED]
    for i in range(len(values)):
        if flagged and skip[i] != 0:
            continue
        group = int64(0) if single else int64(groups[i])
        value = int64(values[i])
        at = _place(entries, mask, group, value)
        if entries[at] == 0:
            entries[at], entries[at + uint64(1)] = group + 1, value
            used += 1
        entries[at + uint64(2)] += 1
    own[D_USED] = used


@njit(nogil=True)
def _add_direct(counts: Any, cardinality: Any, groups: Any, single: bool, ids: Any, skip: Any, flagged: bool) -> None:
    for i in range(len(ids)):
        if flagged and skip[i] != 0:
            continue
        group = uint64(0) if single else uint64(groups[i])
        counts[group * cardinality + uint64(ids[i])] += 1


@block_function
def add_ids(state_address: int, args_address: int) -> Any:
    """Count dict ids."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, own, n = context_of(state), _distribution(state, args), state[S_SELECTED]
    single, flagged = args[A0] < 0, args[A0 + 3] >= 0
    groups = register_u32(state, 0 if single else args[A0])[:n]
    ids = register_u32(state, args[A0 + 1])[:n]
    skip = register_u8(state, args[A0 + 3] if flagged else 0)[:n]
    if own[D_CARDINALITY] > 0:
        counts = words(own[D_TABLE + V_ADDRESS], context[G_NUM_GROUPS] * own[D_CARDINALITY])
        _add_direct(counts, uint64(own[D_CARDINALITY]), groups, single, ids, skip, flagged)
        return E_OK
    code = _grow(context, own, n)
    if code == E_OK:
        _add_hashed(own, groups, single, ids, skip, flagged)
    return code


@block_function
def add_values(state_address: int, args_address: int) -> Any:
    """Count 64-bit values."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, own, n = context_of(state), _distribution(state, args), state[S_SELECTED]
    single, flagged = args[A0] < 0, args[A0 + 3] >= 0
    groups = register_u32(state, 0 if single else args[A0])[:n]
    skip = register_u8(state, args[A0 + 3] if flagged else 0)[:n]
    code = _grow(context, own, n)
    if code == E_OK:
        _add_hashed(own, groups, single, register_i64(state, args[A0 + 1])[:n], skip, flagged)
    return code


@njit(nogil=True, inline="always")
def _leave(context: Any, own: Any, group: int, value: int, count: int) -> None:
    out = words(own[D_ARENA + V_ADDRESS] + own[D_ARENA + V_USED] * 8, 3)
    out[0] = words(context[G_TABLE + V_ADDRESS] + group * context[G_ROW_WORDS] * 8, 1)[0]
    out[1], out[2] = value, count
    own[D_ARENA + V_USED] += 3


@block_function
def end_distribution(state_address: int, args_address: int) -> Any:
    """Move the unit's counts to the arena; word 0 of the groups' rows is their arena row now."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context = context_of(state)
    own = words(state[S_USER] + args[A0] * 8, SET_WORDS)
    if own[D_CARDINALITY] == 0:
        code = reserve(context[G_CONTROL], vector_at(own, D_ARENA), own[D_USED] * 3)
        if code != E_OK:
            return code
        entries = words(own[D_TABLE + V_ADDRESS], (own[D_MASK] + 1) * _ENTRY)
        for i in range(own[D_MASK] + 1):
            if entries[i * _ENTRY] != 0:
                _leave(context, own, entries[i * _ENTRY] - 1, entries[i * _ENTRY + 1], entries[i * _ENTRY + 2])
        entries[:] = 0
        own[D_USED] = 0
        return E_OK
    cardinality = own[D_CARDINALITY]
    for group in range(context[G_NUM_GROUPS]):
        code = reserve(context[G_CONTROL], vector_at(own, D_ARENA), cardinality * 3)
        if code != E_OK:
            return code
        counts = words(own[D_TABLE + V_ADDRESS] + group * cardinality * 8, cardinality)
        for i in range(cardinality):
            if counts[i] != 0:
                _leave(context, own, group, i, counts[i])
                counts[i] = 0
    return E_OK
