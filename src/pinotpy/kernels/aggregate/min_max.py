"""Select instructions that keep the least or the greatest value of each group, and the same for one group.

Arguments as in counts_and_sums.py. A slot holds ~key (minima) or key (maxima) of `order_key`: an unsigned number that
only grows, zero = nothing seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.aggregate.counts_and_sums import table_of
from pinotpy.kernels.aggregate.result_context import G_ROW_WORDS, context_of
from pinotpy.kernels.runtime.abi import (
    A0,
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

_SIGN = np.uint64(1 << 63)
_NAN_KEY = np.uint64(0x7FF8 << 48) ^ _SIGN


@njit(nogil=True, inline="always")
def order_key(value: Any, is_double: bool) -> Any:
    """uint64 that orders like the value: i64 by value; doubles (as bits) totally, −0.0 = 0.0, NaN above all."""
    b = uint64(value)
    if not is_double:
        return b ^ _SIGN
    magnitude = b & ~_SIGN
    if magnitude > np.uint64(0x7FF << 52):
        return _NAN_KEY
    if magnitude == np.uint64(0):
        return _SIGN
    return ~b if b >= _SIGN else b | _SIGN


@njit(nogil=True)
def _grow_keys(table: Any, width: Any, slot: Any, groups: Any, values: Any, is_double: bool, is_min: bool) -> None:
    for i in range(len(groups)):
        key = order_key(values[i], is_double)
        if is_min:
            key = ~key
        word = uint64(groups[i]) * width + slot
        if key > uint64(table[word]):
            table[word] = int64(key)


@njit(nogil=True)
def _grow_keys_flagged(
    table: Any, width: Any, slot: Any, groups: Any, values: Any, skip: Any, is_double: bool, is_min: bool
) -> None:
    for i in range(len(groups)):
        key = order_key(values[i], is_double)
        if is_min:
            key = ~key
        word = uint64(groups[i]) * width + slot
        if skip[i] == 0 and key > uint64(table[word]):
            table[word] = int64(key)


@njit(nogil=True)
def _largest_key(values: Any, is_double: bool, is_min: bool) -> Any:
    largest = uint64(0)
    for i in range(len(values)):
        key = order_key(values[i], is_double)
        if is_min:
            key = ~key
        largest = max(largest, key)
    return largest


@njit(nogil=True)
def _largest_key_flagged(values: Any, skip: Any, is_double: bool, is_min: bool) -> Any:
    largest = uint64(0)
    for i in range(len(values)):
        key = order_key(values[i], is_double)
        if is_min:
            key = ~key
        largest = max(largest, uint64(0) if skip[i] else key)
    return largest


@njit(nogil=True)
def _extreme(state: Any, args: Any, is_double: bool, is_min: bool) -> Any:
    context, n = context_of(state), state[S_SELECTED]
    groups, values = register_u32(state, args[A0])[:n], register_i64(state, args[A0 + 1])[:n]
    table, width, slot = table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2])
    if args[A0 + 3] < 0:
        _grow_keys(table, width, slot, groups, values, is_double, is_min)
    else:
        _grow_keys_flagged(table, width, slot, groups, values, register_u8(state, args[A0 + 3])[:n], is_double, is_min)
    return E_OK


@njit(nogil=True)
def _extreme_single(state: Any, args: Any, is_double: bool, is_min: bool) -> Any:
    context, n = context_of(state), state[S_SELECTED]
    values = register_i64(state, args[A0 + 1])[:n]
    if args[A0 + 3] < 0:
        key = _largest_key(values, is_double, is_min)
    else:
        key = _largest_key_flagged(values, register_u8(state, args[A0 + 3])[:n], is_double, is_min)
    table, slot = table_of(context), args[A0 + 2]
    if key > uint64(table[slot]):
        table[slot] = int64(key)
    return E_OK


@block_function
def min_long(state_address: int, args_address: int) -> Any:
    return _extreme(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), False, True)


@block_function
def max_long(state_address: int, args_address: int) -> Any:
    return _extreme(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), False, False)


@block_function
def min_double(state_address: int, args_address: int) -> Any:
    return _extreme(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), True, True)


@block_function
def max_double(state_address: int, args_address: int) -> Any:
    return _extreme(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), True, False)


@block_function
def min_long_single(state_address: int, args_address: int) -> Any:
    return _extreme_single(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), False, True)


@block_function
def max_long_single(state_address: int, args_address: int) -> Any:
    return _extreme_single(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), False, False)


@block_function
def min_double_single(state_address: int, args_address: int) -> Any:
    return _extreme_single(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), True, True)


@block_function
def max_double_single(state_address: int, args_address: int) -> Any:
    return _extreme_single(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), True, False)
