"""Select instructions that bring values into the states of their groups, and the same for one group.

Arguments of the grouped forms: A0 register of groups (u32), A1 register of values, A2 slot (word in the group's row),
A3 register of flags (u8, 1 = this row does not count) or -1. The `_single` forms ignore A0 and add to row 0.

    slot contents (zero = nothing seen; of minima and maxima: extremes.py)
    count_rows              word 0 += 1; the row exists
    count_values            rows without flag
    sum_long                one word; the caller knows that it cannot overflow (sum of |values| of a unit < 2^63)
    sum_wide                low, high words of a 128-bit sum of i64 values
    sum_double              low, high words of the main window of an exact sum (exact_sums.py); the rest is spilled
"""

from __future__ import annotations

from typing import Any

from numba import int64, njit, types, uint64

from pinotpy.kernels.abi import (
    A0,
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    STATE_WORDS,
    block_function,
    register_i64,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.exact_sums import is_outside, spill, split_doubles
from pinotpy.kernels.memory import V_ADDRESS, V_CAPACITY, reserve_zeroed
from pinotpy.kernels.result_context import G_CONTROL, G_ROW_WORDS, G_SCRATCH, G_TABLE, SCRATCH_WORDS, context_of, vector_at

_LOW_HALF = (1 << 32) - 1


@njit(nogil=True, inline="always")
def table_of(context: Any) -> Any:
    """The words of all groups' states, row after row."""
    return words(context[G_TABLE + V_ADDRESS], context[G_TABLE + V_CAPACITY])


# --- counts --------------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _count_rows(table: Any, width: Any, groups: Any) -> None:
    for i in range(len(groups)):
        table[uint64(groups[i]) * width] += 1


@njit(nogil=True)
def _count_values(table: Any, width: Any, slot: Any, groups: Any, skip: Any) -> None:
    for i in range(len(groups)):
        table[uint64(groups[i]) * width + slot] += int64(1) - int64(skip[i])


@block_function
def count_rows(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context = context_of(state)
    _count_rows(table_of(context), uint64(context[G_ROW_WORDS]), register_u32(state, args[A0])[: state[S_SELECTED]])
    return E_OK


@block_function
def count_values(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    table, width, slot = table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2])
    groups = register_u32(state, args[A0])[:n]
    if args[A0 + 3] < 0:
        _count_rows(table[slot:], width, groups)
    else:
        _count_values(table, width, slot, groups, register_u8(state, args[A0 + 3])[:n])
    return E_OK


@block_function
def count_rows_single(state_address: int, args_address: int) -> Any:
    state = words(state_address, STATE_WORDS)
    table_of(context_of(state))[0] += state[S_SELECTED]
    return E_OK


@njit(nogil=True)
def _flagged(skip: Any) -> Any:
    total = 0
    for i in range(len(skip)):
        total += skip[i]
    return total


@block_function
def count_values_single(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    skipped = _flagged(register_u8(state, args[A0 + 3])[:n]) if args[A0 + 3] >= 0 else 0
    table_of(context_of(state))[args[A0 + 2]] += n - skipped
    return E_OK


@block_function
def fill(state_address: int, args_address: int) -> Any:
    """The same 64-bit word for every row: A0 register, A1 word."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    register_i64(state, args[A0])[: state[S_SELECTED]] = args[A0 + 1]
    return E_OK


@njit(nogil=True)
def _not(out: Any, flags: Any) -> None:
    for i in range(len(out)):
        out[i] = flags[i] ^ 1


@njit(nogil=True)
def _or_not(out: Any, skip: Any, counts: Any) -> None:
    for i in range(len(out)):
        out[i] = skip[i] | (counts[i] ^ 1)


@block_function
def skip_flags(state_address: int, args_address: int) -> Any:
    """Flags of rows that do not count, of a FILTER's flags: A0 out, A1 null flags or -1, A2 flags of rows that count."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    out, counts = register_u8(state, args[A0])[:n], register_u8(state, args[A0 + 2])[:n]
    if args[A0 + 1] < 0:
        _not(out, counts)
    else:
        _or_not(out, register_u8(state, args[A0 + 1])[:n], counts)
    return E_OK


# --- sums of integers ----------------------------------------------------------------------------------------------


@njit(nogil=True)
def _sum_long(table: Any, width: Any, slot: Any, groups: Any, values: Any) -> None:
    for i in range(len(groups)):
        table[uint64(groups[i]) * width + slot] += values[i]


@njit(nogil=True)
def _zero_skipped(values: Any, skip: Any, out: Any) -> None:
    for i in range(len(values)):
        out[i] = int64(0) if skip[i] else values[i]


@njit(nogil=True)
def _counting(state: Any, args: Any, context: Any, n: int) -> Any:
    # The values as i64 words (doubles as their bits), zero where flagged: for sums a zero adds nothing.
    values = register_i64(state, args[A0 + 1])[:n]
    if args[A0 + 3] < 0:
        return values
    scratch = words(context[G_SCRATCH + V_ADDRESS] + 2 * BLOCK * 8, BLOCK)[:n]
    _zero_skipped(values, register_u8(state, args[A0 + 3])[:n], scratch)
    return scratch


@njit(nogil=True)
def _prepare(context: Any) -> Any:
    return reserve_zeroed(context[G_CONTROL], vector_at(context, G_SCRATCH), SCRATCH_WORDS)


@block_function
def sum_long(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = _prepare(context)
    if code != E_OK:
        return code
    values = _counting(state, args, context, n)
    _sum_long(table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2]), register_u32(state, args[A0])[:n], values)
    return E_OK


@njit(nogil=True)
def _total(values: Any) -> Any:
    total = int64(0)
    for i in range(len(values)):
        total += values[i]
    return total


@block_function
def sum_long_single(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = _prepare(context)
    if code != E_OK:
        return code
    table_of(context)[args[A0 + 2]] += _total(_counting(state, args, context, n))
    return E_OK


@njit(nogil=True, inline="always")
def _add_wide(table: Any, at: Any, low: Any, high: Any) -> None:
    before = uint64(table[at])
    after = before + uint64(low)
    table[at] = int64(after)
    table[at + uint64(1)] += high + (int64(1) if after < before else int64(0))


@njit(nogil=True)
def _sum_wide(table: Any, width: Any, slot: Any, groups: Any, values: Any) -> None:
    for i in range(len(groups)):
        v = values[i]
        _add_wide(table, uint64(groups[i]) * width + slot, v, v >> 63)


@block_function
def sum_wide(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = _prepare(context)
    if code != E_OK:
        return code
    values = _counting(state, args, context, n)
    _sum_wide(table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2]), register_u32(state, args[A0])[:n], values)
    return E_OK


@njit(nogil=True)
def _halves(values: Any) -> Any:
    low = high = int64(0)
    for i in range(len(values)):
        low += values[i] & _LOW_HALF
        high += values[i] >> 32
    return low, high


@njit(nogil=True)
def _add_halves(table: Any, at: Any, low: Any, high: Any) -> None:
    # low + high * 2^32, both far from overflow
    _add_wide(table, at, high << 32, high >> 32)
    _add_wide(table, at, low, low >> 63)


@block_function
def sum_wide_single(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = _prepare(context)
    if code != E_OK:
        return code
    low, high = _halves(_counting(state, args, context, n))
    _add_halves(table_of(context), uint64(args[A0 + 2]), low, high)
    return E_OK


# --- sums of doubles -----------------------------------------------------------------------------------------------


@njit(nogil=True)
def _sum_parts(table: Any, width: Any, slot: Any, groups: Any, low: Any, high: Any) -> None:
    for i in range(len(groups)):
        _add_wide(table, uint64(groups[i]) * width + slot, low[i], high[i])


@njit(nogil=True)
def _spill_outside(context: Any, slot: int, groups: Any, bits: Any, single: bool) -> Any:
    for i in range(len(bits)):
        if is_outside(bits[i]):
            code = spill(context, 0 if single else int64(groups[i]), slot, bits[i])
            if code != E_OK:
                return code
    return E_OK


@block_function
def sum_double(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = _prepare(context)
    if code != E_OK:
        return code
    bits = _counting(state, args, context, n).view(types.uint64)
    low = words(context[G_SCRATCH + V_ADDRESS], BLOCK)[:n]
    high = words(context[G_SCRATCH + V_ADDRESS] + BLOCK * 8, BLOCK)[:n]
    outside = split_doubles(bits, low, high)
    groups = register_u32(state, args[A0])[:n]
    _sum_parts(table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2]), groups, low, high)
    return _spill_outside(context, args[A0 + 2], groups, bits, False) if outside != 0 else E_OK


@njit(nogil=True)
def _totals(low: Any, high: Any) -> Any:
    bottom = middle = top = int64(0)
    for i in range(len(low)):
        bottom += low[i] & _LOW_HALF
        middle += int64(uint64(low[i]) >> uint64(32))
        top += high[i]
    return bottom, middle, top


@block_function
def sum_double_single(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = _prepare(context)
    if code != E_OK:
        return code
    bits = _counting(state, args, context, n).view(types.uint64)
    low = words(context[G_SCRATCH + V_ADDRESS], BLOCK)[:n]
    high = words(context[G_SCRATCH + V_ADDRESS] + BLOCK * 8, BLOCK)[:n]
    outside = split_doubles(bits, low, high)
    bottom, middle, top = _totals(low, high)
    table, slot = table_of(context), uint64(args[A0 + 2])
    _add_halves(table, slot, bottom, middle)
    table[slot + uint64(1)] += top
    return _spill_outside(context, args[A0 + 2], register_u32(state, 0)[:n], bits, True) if outside != 0 else E_OK
