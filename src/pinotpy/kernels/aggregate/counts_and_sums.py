"""Select instructions that bring values into the states of their groups, and the same for one group.

Arguments of the grouped forms: A0 register of groups (u32), A1 register of values, A2 slot (word in the group's row),
A3 register of flags (u8, 1 = this row does not count) or -1. The `_single` forms ignore A0 and add to row 0.

    slot contents (zero = nothing seen; of minima and maxima: min_max.py)
    count_rows              word 0 += 1; the row exists
    count_values            rows without flag
    sum_long                one word; the caller knows that it cannot overflow (sum of |values| of a unit < 2^63)
    sum_wide                low, high words of a 128-bit sum of i64 values

Sums of doubles: sums_of_doubles.py.
"""

from __future__ import annotations

from typing import Any, Final

from numba import int64, njit, uint64

from pinotpy.kernels.aggregate.exact_sums import add_wide
from pinotpy.kernels.aggregate.replicated_counters import (
    COPIES,
    FEW,
    add,
    add_totals,
    clear,
    count,
    count_unflagged,
    num_groups,
    total,
)
from pinotpy.kernels.aggregate.result_context import (
    G_CONTROL,
    G_ROW_WORDS,
    G_SCRATCH,
    G_TABLE,
    SCRATCH_WORDS,
    context_of,
    vector_at,
)
from pinotpy.kernels.runtime.abi import (
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
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_CAPACITY, reserve_zeroed

_LOW_HALF = (1 << 32) - 1


@njit(nogil=True, inline="always")
def table_of(context: Any) -> Any:
    """The words of all groups' states, row after row."""
    return words(context[G_TABLE + V_ADDRESS], context[G_TABLE + V_CAPACITY])


@njit(nogil=True)
def prepare(context: Any) -> Any:
    """Make `scratch` and `copies_of` usable; E_OK or E_MEMORY."""
    return reserve_zeroed(context[G_CONTROL], vector_at(context, G_SCRATCH), SCRATCH_WORDS)


@njit(nogil=True, inline="always")
def scratch(context: Any, part: int) -> Any:
    """Scratch memory of the update at hand: part 0, 1, 2 or 3 of BLOCK words; part 3 holds the copies of few groups."""
    return words(context[G_SCRATCH + V_ADDRESS] + part * BLOCK * 8, BLOCK)


@njit(nogil=True, inline="always")
def copies_of(context: Any, most: int) -> Any:
    """Copies of the words of groups 0 .. most - 1 (replicated_counters.py), zero."""
    copies = scratch(context, 3)[: most * COPIES]
    clear(copies)
    return copies


# --- counts --------------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _count_rows(table: Any, width: Any, groups: Any) -> None:
    for i in range(len(groups)):
        table[uint64(groups[i]) * width] += 1


@njit(nogil=True)
def _count_values(table: Any, width: Any, slot: Any, groups: Any, skip: Any) -> None:
    for i in range(len(groups)):
        table[uint64(groups[i]) * width + slot] += int64(1) - int64(skip[i])


@njit(nogil=True)
def _count(context: Any, slot: Any, groups: Any) -> Any:
    table, width = table_of(context), uint64(context[G_ROW_WORDS])
    most = num_groups(groups)
    if most > FEW:
        _count_rows(table[slot:], width, groups)
        return E_OK
    code = prepare(context)
    if code == E_OK:
        copies = copies_of(context, most)
        count(copies, groups)
        add_totals(table, width, slot, copies)
    return code


@njit(nogil=True)
def _count_unflagged(context: Any, slot: Any, groups: Any, skip: Any) -> Any:
    table, width = table_of(context), uint64(context[G_ROW_WORDS])
    most = num_groups(groups)
    if most > FEW:
        _count_values(table, width, slot, groups, skip)
        return E_OK
    code = prepare(context)
    if code == E_OK:
        copies = copies_of(context, most)
        count_unflagged(copies, groups, skip)
        add_totals(table, width, slot, copies)
    return code


@block_function
def count_rows(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    return _count(context_of(state), uint64(0), register_u32(state, args[A0])[: state[S_SELECTED]])


@block_function
def count_values(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    slot, groups = uint64(args[A0 + 2]), register_u32(state, args[A0])[:n]
    if args[A0 + 3] < 0:
        return _count(context, slot, groups)
    return _count_unflagged(context, slot, groups, register_u8(state, args[A0 + 3])[:n])


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
    """Flags of rows that do not count, of a FILTER's flags: A0 out, A1 null flags or -1, A2 flags of rows that
    count.
    """
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
def counted_values(state: Any, args: Any, context: Any, n: int) -> Any:
    """The values as i64 words (doubles as their bits), zero where flagged: for sums a zero adds nothing."""
    values = register_i64(state, args[A0 + 1])[:n]
    if args[A0 + 3] < 0:
        return values
    counted = scratch(context, 2)[:n]
    _zero_skipped(values, register_u8(state, args[A0 + 3])[:n], counted)
    return counted


@block_function
def sum_long(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = prepare(context)
    if code != E_OK:
        return code
    values, groups = counted_values(state, args, context, n), register_u32(state, args[A0])[:n]
    table, width, slot = table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2])
    most = num_groups(groups)
    if most > FEW:
        _sum_long(table, width, slot, groups, values)
    else:
        copies = copies_of(context, most)
        add(copies, groups, values)
        add_totals(table, width, slot, copies)
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
    code = prepare(context)
    if code != E_OK:
        return code
    table_of(context)[args[A0 + 2]] += _total(counted_values(state, args, context, n))
    return E_OK


_SMALL: Final = (1 << 63) // BLOCK


@njit(nogil=True)
def _fits_one_word(values: Any) -> Any:
    # Whether any sum of a block's values does. The bits that differ from the sign, of all values together.
    together = int64(0)
    for i in range(len(values)):
        together |= values[i] ^ (values[i] >> 63)
    return together < _SMALL


@njit(nogil=True)
def _sum_wide(table: Any, width: Any, slot: Any, groups: Any, values: Any) -> None:
    for i in range(len(groups)):
        v = values[i]
        add_wide(table, uint64(groups[i]) * width + slot, v, v >> 63)


@block_function
def sum_wide(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = prepare(context)
    if code != E_OK:
        return code
    values, groups = counted_values(state, args, context, n), register_u32(state, args[A0])[:n]
    table, width, slot = table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2])
    most = num_groups(groups)
    if most > FEW or not _fits_one_word(values):
        _sum_wide(table, width, slot, groups, values)
    else:
        copies = copies_of(context, most)
        add(copies, groups, values)
        for group in range(most):
            added = total(copies, group)
            add_wide(table, uint64(group) * width + slot, added, added >> 63)
    return E_OK


@njit(nogil=True)
def _halves(values: Any) -> Any:
    low = high = int64(0)
    for i in range(len(values)):
        low += values[i] & _LOW_HALF
        high += values[i] >> 32
    return low, high


@njit(nogil=True)
def add_halves(table: Any, word: Any, low: Any, high: Any) -> None:
    # low + high * 2^32, both far from overflow
    add_wide(table, word, high << 32, high >> 32)
    add_wide(table, word, low, low >> 63)


@block_function
def sum_wide_single(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = prepare(context)
    if code != E_OK:
        return code
    low, high = _halves(counted_values(state, args, context, n))
    add_halves(table_of(context), uint64(args[A0 + 2]), low, high)
    return E_OK
