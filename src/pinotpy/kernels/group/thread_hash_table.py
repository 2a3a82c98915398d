"""Hashed groups that last over all morsels of a thread: for keys of one word that means the same in every segment, a
packed key of shared codes or a raw value. Nothing is left in the arena; tables of threads are put together by key.

    begin_thread_table   no arguments                                                                       begin
    key_of_shared_codes  A0 ids, A1 null flags or -1, A2 address of int32 shared codes, A3 cardinality,     select
                         A4 shared code of null, A5 stride, A6 1: the first key column, else add to the word
    hash_table.key_values and hash_table.find_groups as for hashed groups of one morsel
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.aggregate.exact_sums import leave_overflow
from pinotpy.kernels.aggregate.result_context import G_INDEX, G_KEY_BLOCK, context_of
from pinotpy.kernels.group.hash_table import start_hashed
from pinotpy.kernels.group.merge_rows import add_row
from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    STATE_WORDS,
    block_function,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_CAPACITY
from pinotpy.kernels.runtime.hashing import find_number, first_slot, mix
from pinotpy.kernels.runtime.partitioning import partition_of, take_place
from pinotpy.kernels.runtime.views import view_i32


@block_function
def begin_thread_table(state_address: int, args_address: int) -> Any:
    """An empty table before the thread's first morsel."""
    context = context_of(words(state_address, STATE_WORDS))
    return start_hashed(context) if context[G_INDEX + V_CAPACITY] == 0 else E_OK


@njit(nogil=True)
def _set(block: Any, ids: Any, code_map: Any, stride: int) -> None:
    for i in range(len(ids)):
        block[i] = int64(code_map[ids[i]]) * stride


@njit(nogil=True)
def _add(block: Any, ids: Any, code_map: Any, stride: int) -> None:
    for i in range(len(ids)):
        block[i] += int64(code_map[ids[i]]) * stride


@njit(nogil=True)
def _add_nullable(block: Any, ids: Any, code_map: Any, stride: int, nulls: Any, null_id: int, is_first: bool) -> None:
    for i in range(len(ids)):
        word = (null_id if nulls[i] else int64(code_map[ids[i]])) * stride
        block[i] = word if is_first else block[i] + word


@block_function
def key_of_shared_codes(state_address: int, args_address: int) -> Any:
    """Shared codes of dict ids, as a digit of the block's packed keys."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    block = words(context[G_KEY_BLOCK + V_ADDRESS], BLOCK)
    ids, code_map, stride = register_u32(state, args[A0])[:n], view_i32(args[A0 + 2], args[A0 + 3]), args[A0 + 5]
    if args[A0 + 1] >= 0:
        _add_nullable(
            block, ids, code_map, stride, register_u8(state, args[A0 + 1])[:n], args[A0 + 4], args[A0 + 6] != 0
        )
    elif args[A0 + 6] != 0:
        _set(block, ids, code_map, stride)
    else:
        _add(block, ids, code_map, stride)
    return E_OK


@njit(cache=True, nogil=True)
def leave_all_overflow(context: Any) -> Any:
    """Move the overflow of a thread to its overflow arena; E_OK or E_MEMORY."""
    return leave_overflow(context)


# --- putting threads together --------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def part_sizes(keys: Any, shift: int, out: Any) -> None:
    """out[part] += keys of that part; a key's part are the bits of its hash from `shift` on."""
    for i in range(len(keys)):
        out[partition_of(mix(keys[i]), shift, len(out))] += 1


@njit(cache=True, nogil=True)
def scatter(
    keys: Any, rows: Any, width: int, shift: int, ends: Any, keys_out: Any, rows_out: Any, places_out: Any
) -> None:
    """Copy the groups of one thread to their parts.

    Args:
        keys: int64[n]; rows: int64[n * width].
        ends: int64[parts], where the next group of each part goes; moved on.
        keys_out, rows_out: of all threads. places_out: int64[n] gets where each group went, or empty.
    """
    next_places = words(ends.ctypes.data, len(ends))
    for group in range(len(keys)):
        position = int64(take_place(next_places, mix(keys[group]), shift))
        keys_out[position] = keys[group]
        for k in range(width):
            rows_out[position * width + k] = rows[group * width + k]
        if len(places_out) > 0:
            places_out[group] = position


@njit(cache=True, nogil=True)
def merge_part(keys: Any, rows: Any, width: int, kinds: Any, index: Any, numbers: Any) -> Any:
    """Put equal keys of one part together, in place: what is left stands in front; gives how many.

    Args:
        keys: int64[n]; rows: int64[n * width]; index: int64[2^k] of zeros, at least twice n.
        numbers: int64[n] gets the place of every group, or empty.
    """
    count = 0
    mask = uint64(len(index) - 1)
    table = words(rows.ctypes.data, len(rows))
    known, slots = words(keys.ctypes.data, len(keys)), words(index.ctypes.data, len(index))
    for i in range(len(keys)):
        key = known[i]
        slot = find_number(slots, first_slot(mix(key), mask), mask, known, key)
        number = slots[slot] - 1
        if number < 0:
            number = count
            count += 1
            slots[slot], known[number] = count, key
            for k in range(width):
                table[number * width + k] = table[i * width + k]
        else:
            add_row(table, number * width, table, i * width, kinds)
        if len(numbers) > 0:
            numbers[i] = number
    return count


def warm() -> None:
    """Compile for the argument types that queries use."""
    one, four = np.ones(1, np.int64), np.zeros(4, np.int64)
    part_sizes(one, 63, four)
    scatter(one, one, 1, 63, four, np.zeros(4, np.int64), np.zeros(4, np.int64), one)
    merge_part(one, one, 1, one, np.zeros(4, np.int64), one)
    leave_all_overflow(np.zeros(64, np.int64))
