"""Values of each group behind each other, for functions that look for a few ranks of them: nothing but the value is
kept of a row.

Values are kept as *order words* (integers as they are, doubles so that they compare as integers, see ranks.py). Each
group of a unit fills runs of the value set's pool, one after the other; `runs` says of which arena row each is:
(row, address, number of words).

    begin_value_lists    A0 word of the value_set in the context, A1 groups, A2 words of a run   begin
    add_to_value_lists   A0 groups or -1, A1 values, A2 value_set, A3 flags of rows that do      select
                  not count or -1, A4 LONGS, DOUBLES or CAST_DOUBLES: doubles as LONG
    end_value_lists      A0 value_set                                                            end, after the rows
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.aggregate.result_context import (
    D_FIRST,
    D_POOL,
    D_RUN_WORDS,
    D_RUNS,
    D_STREAMS,
    G_CONTROL,
    G_ROW_WORDS,
    G_SCRATCH,
    G_TABLE,
    SCRATCH_WORDS,
    SET_WORDS,
    context_of,
    vector_at,
)
from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    S_USER,
    STATE_WORDS,
    block_function,
    register_f64,
    register_i64,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.runtime.growable import POOL_WORDS, V_ADDRESS, V_CAPACITY, V_USED, reserve, reserve_zeroed, take

LONGS: Final = 0
DOUBLES: Final = 1
CAST_DOUBLES: Final = 2
RUN_ENTRY_WORDS: Final = 3
_MAGNITUDE: Final = np.int64(0x7FFFFFFFFFFFFFFF)
_LEAST: Final = np.int64(-0x8000000000000000)
_NAN: Final = np.int64(0x7FF8000000000000)
_TWO_63: Final = 2.0**63


@block_function
def begin_value_lists(state_address: int, args_address: int) -> Any:
    """No runs of the unit's groups."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, value_set = context_of(state), words(state[S_USER] + args[A0] * 8, SET_WORDS)
    value_set[D_RUN_WORDS], value_set[D_FIRST] = args[A0 + 2], value_set[D_RUNS + V_USED]
    code = reserve_zeroed(context[G_CONTROL], vector_at(context, G_SCRATCH), SCRATCH_WORDS)
    return (
        reserve_zeroed(context[G_CONTROL], vector_at(value_set, D_STREAMS), 2 * args[A0 + 1]) if code == E_OK else code
    )


@njit(nogil=True)
def _order_doubles(values: Any, bits: Any, out: Any) -> None:
    # −0.0 as 0.0, one NaN, above all.
    for i in range(len(out)):
        word = bits[i]
        word = int64(0) if word == _LEAST else word ^ ((word >> int64(63)) & _MAGNITUDE)
        out[i] = _NAN if np.isnan(values[i]) else word


@njit(nogil=True)
def _cast_doubles(values: Any, out: Any) -> None:
    # As Java casts: towards zero, within LONG, NaN to 0.
    for i in range(len(out)):
        v = values[i]
        if v >= -_TWO_63 and v < _TWO_63:
            out[i] = int64(v)
        else:
            out[i] = int64(0) if np.isnan(v) else (_MAGNITUDE if v > 0 else _LEAST)


@njit(nogil=True)
def _open(control: int, value_set: Any, group: int) -> Any:
    # (code, address) of a run for a group whose last one is full.
    code = reserve(control, vector_at(value_set, D_RUNS), RUN_ENTRY_WORDS)
    if code != E_OK:
        return code, int64(0)
    code, address = take(control, value_set[D_POOL : D_POOL + POOL_WORDS], value_set[D_RUN_WORDS])
    if code == E_OK:
        entry = words(value_set[D_RUNS + V_ADDRESS] + value_set[D_RUNS + V_USED] * 8, RUN_ENTRY_WORDS)
        entry[0], entry[1], entry[2] = group, address, value_set[D_RUN_WORDS]
        value_set[D_RUNS + V_USED] += RUN_ENTRY_WORDS
    return code, address


@njit(nogil=True)
def _add(control: int, value_set: Any, groups: Any, values: Any) -> Any:
    streams = words(value_set[D_STREAMS + V_ADDRESS], value_set[D_STREAMS + V_CAPACITY])
    for i in range(len(values)):
        stream = uint64(groups[i]) * uint64(2)
        position = streams[stream]
        if position == streams[stream + uint64(1)]:
            code, position = _open(control, value_set, int64(groups[i]))
            if code != E_OK:
                return code
            streams[stream + uint64(1)] = position + value_set[D_RUN_WORDS] * 8
        words(position, 1)[0] = values[i]
        streams[stream] = position + 8
    return E_OK


@njit(nogil=True)
def _add_single(control: int, value_set: Any, values: Any) -> Any:
    streams = words(value_set[D_STREAMS + V_ADDRESS], 2)
    done, count = 0, len(values)
    while done < count:
        if streams[0] == streams[1]:
            code, address = _open(control, value_set, 0)
            if code != E_OK:
                return code
            streams[0], streams[1] = address, address + value_set[D_RUN_WORDS] * 8
        taken = min(count - done, (streams[1] - streams[0]) >> 3)
        words(streams[0], taken)[:] = values[done : done + taken]
        streams[0] += taken * 8
        done += taken
    return E_OK


@njit(nogil=True)
def _without_skipped(values: Any, groups: Any, single: bool, skip: Any, copy: Any) -> Any:
    # The values that count to the front, and their groups, in their own registers' copies.
    count = 0
    for i in range(len(values)):
        values[count] = values[i]
        copy[count] = 0 if single else groups[i]
        count += 1 - int64(skip[i])
    return count


@block_function
def add_to_value_lists(state_address: int, args_address: int) -> Any:
    """Append the block's values to the runs of their groups."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, value_set, n = context_of(state), words(state[S_USER] + args[A0 + 2] * 8, SET_WORDS), state[S_SELECTED]
    single, control = args[A0] < 0, context[G_CONTROL]
    out = words(context[G_SCRATCH + V_ADDRESS], BLOCK)[:n]
    if args[A0 + 4] == DOUBLES:
        _order_doubles(register_f64(state, args[A0 + 1])[:n], register_i64(state, args[A0 + 1])[:n], out)
    elif args[A0 + 4] == CAST_DOUBLES:
        _cast_doubles(register_f64(state, args[A0 + 1])[:n], out)
    elif args[A0 + 3] >= 0:
        out[:] = register_i64(state, args[A0 + 1])[:n]
    else:
        out = register_i64(state, args[A0 + 1])[:n]
    groups = register_u32(state, 0 if single else args[A0])[:n]
    if args[A0 + 3] >= 0:
        copy = words(context[G_SCRATCH + V_ADDRESS] + BLOCK * 8, BLOCK)[:n]
        count = _without_skipped(out, groups, single, register_u8(state, args[A0 + 3])[:n], copy)
        return _add(control, value_set, copy[:count], out[:count])
    return _add_single(control, value_set, out) if single else _add(control, value_set, groups, out)


@block_function
def end_value_lists(state_address: int, args_address: int) -> Any:
    """Runs are of arena rows now: word 0 of the groups' rows. The unfinished ones get their lengths."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, value_set = context_of(state), words(state[S_USER] + args[A0] * 8, SET_WORDS)
    streams = words(value_set[D_STREAMS + V_ADDRESS], value_set[D_STREAMS + V_CAPACITY])
    runs = words(value_set[D_RUNS + V_ADDRESS], value_set[D_RUNS + V_USED])
    for position in range(value_set[D_FIRST], len(runs), RUN_ENTRY_WORDS):
        group, address = runs[position], runs[position + 1]
        if address + value_set[D_RUN_WORDS] * 8 == streams[2 * group + 1]:
            runs[position + 2] = (streams[2 * group] - address) >> 3
        runs[position] = words(context[G_TABLE + V_ADDRESS] + group * context[G_ROW_WORDS] * 8, 1)[0]
    for position in range(len(streams)):
        streams[position] = 0
    return E_OK
