"""Distributions: which values each group saw, and how often where that counts (DISTINCTCOUNT, percentiles, sums of
BIG_DECIMAL).

Where groups * cardinality is at most DIRECT_MAX, or DIRECT_PAIRS_PER_DOC for every doc, a unit has a place for every
(group, dict id): a byte (seen), or a u32 (how often) where the value set counts. Else every row is appended as it
comes. When a unit ends, the value set's arena holds entries of two words: arena row << 32 | count, then the dict id
of the unit or the 64 bits of a raw value (doubles with −0.0 as 0.0 and one NaN). Equal entries may come several times;
distinct_pairs.py unites them.

    begin_value_set  A0 word of the value_set in the context, A1 groups, A2 cardinality (0: appended),  begin
                        A3 counts
    add_ids             A0 groups or -1, A1 ids, A2 value_set, A3 flags of rows that do not count or -1    select
    add_values          the same with 64-bit values; A4 1: doubles
    add_docs            A0 groups or -1, A1 value_set, A2 flags of rows that do not count or -1: appends   select
                        doc ids
    end_value_set    A0 value_set                                                                       end
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import float64, int64, njit, uint64

from pinotpy.kernels.aggregate.distinct_pairs import ENTRY_WORDS, ROW_SHIFT
from pinotpy.kernels.aggregate.result_context import (
    D_ARENA,
    D_CARDINALITY,
    D_COUNTS,
    D_FIRST,
    D_TABLE,
    G_CONTROL,
    G_NUM_GROUPS,
    G_ROW_WORDS,
    G_TABLE,
    SET_WORDS,
    context_of,
    vector_at,
)
from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    S_USER,
    STATE_WORDS,
    block_function,
    inner,
    register_f64,
    register_i64,
    register_u8,
    register_u32,
    selection,
    words,
)
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_USED, reserve, reserve_zeroed
from pinotpy.kernels.runtime.views import view_u8, view_u32

DIRECT_MAX: Final = 1 << 18
DIRECT_PAIRS_PER_DOC: Final = 4


@njit(nogil=True, inline="always")
def _value_set(state: Any, word: int) -> Any:
    return words(state[S_USER] + word * 8, SET_WORDS)


@inner
def _table_words(value_set: Any, groups: int) -> Any:
    pairs = groups * value_set[D_CARDINALITY]
    return (pairs + 1) >> 1 if value_set[D_COUNTS] != 0 else (pairs + 7) >> 3


@block_function
def begin_value_set(state_address: int, args_address: int) -> Any:
    """Make room for the unit's pairs."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    value_set = _value_set(state, args[A0])
    value_set[D_CARDINALITY], value_set[D_COUNTS], value_set[D_FIRST] = (
        args[A0 + 2],
        args[A0 + 3],
        value_set[D_ARENA + V_USED],
    )
    if args[A0 + 2] == 0:
        return E_OK
    return reserve_zeroed(
        context_of(state)[G_CONTROL], vector_at(value_set, D_TABLE), _table_words(value_set, args[A0 + 1])
    )


# --- directly --------------------------------------------------------------------------------------------------------


@inner
def _see_single(seen: Any, ids: Any) -> None:
    for i in range(len(ids)):
        seen[ids[i]] = 1


@inner
def _see(seen: Any, cardinality: Any, groups: Any, ids: Any) -> None:
    for i in range(len(ids)):
        seen[uint64(groups[i]) * cardinality + uint64(ids[i])] = 1


@inner
def _see_unless(seen: Any, cardinality: Any, groups: Any, single: bool, ids: Any, skip: Any) -> None:
    for i in range(len(ids)):
        group = uint64(0) if single else uint64(groups[i])
        seen[group * cardinality + uint64(ids[i])] |= skip[i] ^ 1


@inner
def _count_single(counts: Any, ids: Any) -> None:
    for i in range(len(ids)):
        counts[ids[i]] += 1


@inner
def _count(counts: Any, cardinality: Any, groups: Any, ids: Any) -> None:
    for i in range(len(ids)):
        counts[uint64(groups[i]) * cardinality + uint64(ids[i])] += 1


@inner
def _count_unless(counts: Any, cardinality: Any, groups: Any, single: bool, ids: Any, skip: Any) -> None:
    for i in range(len(ids)):
        group = uint64(0) if single else uint64(groups[i])
        counts[group * cardinality + uint64(ids[i])] += skip[i] ^ 1


# --- appended --------------------------------------------------------------------------------------------------------


@inner
def _append(out: Any, groups: Any, single: bool, values: Any, skip: Any, flagged: bool) -> Any:
    position = uint64(0)
    for i in range(len(values)):
        group = int64(0) if single else int64(groups[i])
        out[position], out[position + uint64(1)] = (group << ROW_SHIFT) | 1, int64(values[i])
        position += uint64(ENTRY_WORDS) * (uint64(1) - uint64(skip[i])) if flagged else uint64(ENTRY_WORDS)
    return int64(position)


@inner
def _append_doubles(out: Any, bits: Any, groups: Any, single: bool, values: Any, skip: Any, flagged: bool) -> Any:
    position = uint64(0)
    for i in range(len(values)):
        group = int64(0) if single else int64(groups[i])
        value = values[i] + 0.0
        out[position], bits[position + uint64(1)] = (
            (group << ROW_SHIFT) | 1,
            float64(np.nan) if np.isnan(value) else value,
        )
        position += uint64(ENTRY_WORDS) * (uint64(1) - uint64(skip[i])) if flagged else uint64(ENTRY_WORDS)
    return int64(position)


@block_function
def add_ids(state_address: int, args_address: int) -> Any:
    """See or count dict ids."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, value_set, n = context_of(state), _value_set(state, args[A0 + 2]), state[S_SELECTED]
    single, flagged = args[A0] < 0, args[A0 + 3] >= 0
    groups = register_u32(state, 0 if single else args[A0])[:n]
    ids = register_u32(state, args[A0 + 1])[:n]
    skip = register_u8(state, args[A0 + 3] if flagged else 0)[:n]
    if value_set[D_CARDINALITY] == 0:
        code = reserve(context[G_CONTROL], vector_at(value_set, D_ARENA), (n + 1) * ENTRY_WORDS)
        if code == E_OK:
            out = words(value_set[D_ARENA + V_ADDRESS] + value_set[D_ARENA + V_USED] * 8, (n + 1) * ENTRY_WORDS)
            value_set[D_ARENA + V_USED] += _append(out, groups, single, ids, skip, flagged)
        return code
    cardinality = uint64(value_set[D_CARDINALITY])
    pairs = value_set[D_CARDINALITY] * (1 if single else context[G_NUM_GROUPS])
    if value_set[D_COUNTS] != 0:
        counts = view_u32(value_set[D_TABLE + V_ADDRESS], pairs)
        if flagged:
            _count_unless(counts, cardinality, groups, single, ids, skip)
        elif single:
            _count_single(counts, ids)
        else:
            _count(counts, cardinality, groups, ids)
    else:
        seen = view_u8(value_set[D_TABLE + V_ADDRESS], pairs)
        if flagged:
            _see_unless(seen, cardinality, groups, single, ids, skip)
        elif single:
            _see_single(seen, ids)
        else:
            _see(seen, cardinality, groups, ids)
    return E_OK


@block_function
def add_values(state_address: int, args_address: int) -> Any:
    """Append 64-bit values."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, value_set, n = context_of(state), _value_set(state, args[A0 + 2]), state[S_SELECTED]
    single, flagged = args[A0] < 0, args[A0 + 3] >= 0
    groups = register_u32(state, 0 if single else args[A0])[:n]
    skip = register_u8(state, args[A0 + 3] if flagged else 0)[:n]
    code = reserve(context[G_CONTROL], vector_at(value_set, D_ARENA), (n + 1) * ENTRY_WORDS)
    if code != E_OK:
        return code
    out = words(value_set[D_ARENA + V_ADDRESS] + value_set[D_ARENA + V_USED] * 8, (n + 1) * ENTRY_WORDS)
    if args[A0 + 4] != 0:
        value_set[D_ARENA + V_USED] += _append_doubles(
            out, out.view(np.float64), groups, single, register_f64(state, args[A0 + 1])[:n], skip, flagged
        )
    else:
        value_set[D_ARENA + V_USED] += _append(
            out, groups, single, register_i64(state, args[A0 + 1])[:n], skip, flagged
        )
    return E_OK


@block_function
def add_docs(state_address: int, args_address: int) -> Any:
    """Append the numbers of the docs."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, value_set, n = context_of(state), _value_set(state, args[A0 + 1]), state[S_SELECTED]
    single, flagged = args[A0] < 0, args[A0 + 2] >= 0
    groups = register_u32(state, 0 if single else args[A0])[:n]
    skip = register_u8(state, args[A0 + 2] if flagged else 0)[:n]
    code = reserve(context[G_CONTROL], vector_at(value_set, D_ARENA), (n + 1) * ENTRY_WORDS)
    if code == E_OK:
        out = words(value_set[D_ARENA + V_ADDRESS] + value_set[D_ARENA + V_USED] * 8, (n + 1) * ENTRY_WORDS)
        value_set[D_ARENA + V_USED] += _append(out, groups, single, selection(state)[:n], skip, flagged)
    return code


# --- the end of a unit -----------------------------------------------------------------------------------------------


@inner
def _row(context: Any, group: int) -> Any:
    return words(context[G_TABLE + V_ADDRESS] + group * context[G_ROW_WORDS] * 8, 1)[0]


@inner
def _name_rows(context: Any, entries: Any) -> None:
    # Groups of the unit become arena rows.
    for i in range(0, len(entries), ENTRY_WORDS):
        entries[i] = (_row(context, entries[i] >> ROW_SHIFT) << ROW_SHIFT) | 1


@inner
def _leave(context: Any, value_set: Any, group: int, tag_count: int, value: int) -> None:
    position = value_set[D_ARENA + V_USED]
    out = words(value_set[D_ARENA + V_ADDRESS] + position * 8, ENTRY_WORDS)
    out[0], out[1] = (_row(context, group) << ROW_SHIFT) | tag_count, value
    value_set[D_ARENA + V_USED] = position + ENTRY_WORDS


@inner
def _seen(value_set: Any, groups: int) -> Any:
    # Eight flags a word, mostly none of them set.
    table = words(value_set[D_TABLE + V_ADDRESS], _table_words(value_set, groups))
    total = 0
    for i in range(len(table)):
        word = uint64(table[i])
        # Bytes are 0 or 1: the product gathers them in the highest one.
        total += int64((word * uint64(0x0101010101010101)) >> uint64(56))
    return total


@njit(nogil=True)
def _leave_seen(context: Any, value_set: Any, groups: int) -> Any:
    code = reserve(context[G_CONTROL], vector_at(value_set, D_ARENA), _seen(value_set, groups) * ENTRY_WORDS)
    if code != E_OK:
        return code
    cardinality = value_set[D_CARDINALITY]
    table = words(value_set[D_TABLE + V_ADDRESS], _table_words(value_set, groups))
    flags = view_u8(value_set[D_TABLE + V_ADDRESS], len(table) * 8)
    position, out = (
        value_set[D_ARENA + V_USED],
        words(
            value_set[D_ARENA + V_ADDRESS], value_set[D_ARENA + V_USED] + (_seen(value_set, groups) + 1) * ENTRY_WORDS
        ),
    )
    group, first, row = 0, 0, _row(context, 0) << ROW_SHIFT
    for i in range(len(table)):
        if table[i] == 0:
            continue
        for pair in range(i * 8, i * 8 + 8):
            if flags[pair] == 0:
                continue
            if pair - first >= cardinality:
                group = pair // cardinality
                first, row = group * cardinality, _row(context, group) << ROW_SHIFT
            out[position], out[position + 1] = row | 1, pair - first
            position += ENTRY_WORDS
        table[i] = 0
    value_set[D_ARENA + V_USED] = position
    return E_OK


@njit(nogil=True)
def _leave_counts(context: Any, value_set: Any, groups: int) -> Any:
    cardinality = value_set[D_CARDINALITY]
    for group in range(groups):
        code = reserve(context[G_CONTROL], vector_at(value_set, D_ARENA), cardinality * ENTRY_WORDS)
        if code != E_OK:
            return code
        counts = view_u32(value_set[D_TABLE + V_ADDRESS] + group * cardinality * 4, cardinality)
        for i in range(cardinality):
            if counts[i] != 0:
                _leave(context, value_set, group, int64(counts[i]), i)
                counts[i] = 0
    return E_OK


@block_function
def end_value_set(state_address: int, args_address: int) -> Any:
    """Move what the unit saw to the arena; word 0 of the groups' rows is their arena row now."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, value_set = context_of(state), _value_set(state, args[A0])
    if value_set[D_CARDINALITY] == 0:
        used = value_set[D_ARENA + V_USED] - value_set[D_FIRST]
        _name_rows(context, words(value_set[D_ARENA + V_ADDRESS] + value_set[D_FIRST] * 8, used))
        return E_OK
    return (
        _leave_counts(context, value_set, context[G_NUM_GROUPS])
        if value_set[D_COUNTS] != 0
        else _leave_seen(context, value_set, context[G_NUM_GROUPS])
    )
