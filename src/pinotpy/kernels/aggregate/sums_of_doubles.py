"""Select instructions that bring sums of doubles into the states of their groups; arguments as of those in
counts_and_sums.py.

    slot contents: low, high words of the main window of an exact sum (exact_sums.py); what lies outside of it is
                   kept as overflow

A value of the main window has up to 101 bits. For adding they are cut into two **lanes**, high * 2^LANE_BITS + low, of
which a whole block adds up in 64 bits each, without carries; only their totals are joined.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, types, uint64

from pinotpy.kernels.aggregate.counts_and_sums import copies_of, counted_values, prepare, scratch, table_of
from pinotpy.kernels.aggregate.exact_sums import WINDOW, WINDOW_MAIN, add_wide, is_outside, overflow_row
from pinotpy.kernels.aggregate.replicated_counters import FEW, add, clear, num_groups, total
from pinotpy.kernels.aggregate.result_context import G_ROW_WORDS, context_of
from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    STATE_WORDS,
    block_function,
    inner,
    register_u32,
    words,
)

LANE_BITS: Final = 51
_LANE: Final = (1 << LANE_BITS) - 1
_MAIN_BASE: Final = np.uint64(WINDOW * WINDOW_MAIN - 1)
_IMPLICIT: Final = np.uint64(1 << 52)
_FRACTION: Final = np.uint64((1 << 52) - 1)


@inner
def _lanes(b: Any) -> Any:
    """(low, high, 1 if outside) of the double with bits `b`; what is outside, and zero, is 0."""
    shift = ((b >> np.uint64(52)) & np.uint64(0x7FF)) - _MAIN_BASE
    inside = (shift - np.uint64(1)) < np.uint64(WINDOW)
    magnitude = int64((b & _FRACTION) | _IMPLICIT) if inside else int64(0)
    places = int64(shift) if inside else int64(1)
    sign = int64(b) >> 63
    m = (magnitude ^ sign) - sign
    outside = int64(not inside) & int64((b << np.uint64(1)) != np.uint64(0))
    return (m << places) & _LANE, m >> (int64(LANE_BITS) - places), outside


@inner
def cut_doubles(bits: Any, low: Any, high: Any) -> Any:
    """Both lanes of every value, int64[n]; gives how many lie outside the main window (their lanes are 0)."""
    strange = int64(0)
    for i in range(len(bits)):
        low[i], high[i], outside = _lanes(bits[i])
        strange += outside
    return strange


@inner
def sum_unnested(bits: Any) -> Any:
    """(sum of low lanes, sum of high lanes, how many lie outside the main window) of at most BLOCK values."""
    bottom = top = strange = int64(0)
    for i in range(len(bits)):
        low, high, outside = _lanes(bits[i])
        bottom += low
        top += high
        strange += outside
    return bottom, top, strange


@njit(nogil=True, inline="always")
def _add_lanes(table: Any, word: Any, low: Any, high: Any) -> None:
    add_wide(table, word, high << LANE_BITS, high >> (64 - LANE_BITS))
    add_wide(table, word, low, low >> 63)


@njit(nogil=True)
def _sum_many(table: Any, width: Any, slot: Any, groups: Any, low: Any, high: Any) -> None:
    for i in range(len(groups)):
        # The bits of the lanes do not overlap.
        add_wide(table, uint64(groups[i]) * width + slot, high[i] << LANE_BITS | low[i], high[i] >> (64 - LANE_BITS))


@njit(nogil=True)
def _sum_few(context: Any, slot: Any, most: int, groups: Any, low: Any, high: Any) -> None:
    table, width = table_of(context), uint64(context[G_ROW_WORDS])
    copies = copies_of(context, most)
    add(copies, groups, low)
    for group in range(most):
        _add_lanes(table, uint64(group) * width + slot, total(copies, group), int64(0))
    clear(copies)
    add(copies, groups, high)
    for group in range(most):
        _add_lanes(table, uint64(group) * width + slot, int64(0), total(copies, group))


@njit(nogil=True)
def _overflow_outside(context: Any, slot: int, groups: Any, bits: Any, single: bool) -> Any:
    for i in range(len(bits)):
        if is_outside(bits[i]):
            code = overflow_row(context, 0 if single else int64(groups[i]), slot, bits[i])
            if code != E_OK:
                return code
    return E_OK


@block_function
def sum_double(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = prepare(context)
    if code != E_OK:
        return code
    bits = counted_values(state, args, context, n).view(types.uint64)
    low, high = scratch(context, 0)[:n], scratch(context, 1)[:n]
    outside = cut_doubles(bits, low, high)
    groups = register_u32(state, args[A0])[:n]
    most = num_groups(groups)
    if most > FEW:
        _sum_many(table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2]), groups, low, high)
    else:
        _sum_few(context, uint64(args[A0 + 2]), most, groups, low, high)
    return _overflow_outside(context, args[A0 + 2], groups, bits, False) if outside != 0 else E_OK


@block_function
def sum_double_single(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = prepare(context)
    if code != E_OK:
        return code
    bits = counted_values(state, args, context, n).view(types.uint64)
    bottom, top, outside = sum_unnested(bits)
    _add_lanes(table_of(context), uint64(args[A0 + 2]), bottom, top)
    return _overflow_outside(context, args[A0 + 2], register_u32(state, 0)[:n], bits, True) if outside != 0 else E_OK
