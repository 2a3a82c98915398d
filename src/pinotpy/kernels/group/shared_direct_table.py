"""Dense groups put together by shared codes: when a morsel ends, its rows are added to one table of the thread, in
which a group's row number is the packed key of its shared codes; tables of threads are added up, and nothing is
compared by value.

The table is the thread's arena (result_context.py), of a fixed size, with rows of zeros where a group was not seen.
What morsels leave aside (overflow of double sums) names the row of that table.

    begin_shared_table   A0 rows of the table                                             begin, before begin_dense
    end_shared_table     A0 address of the morsel's key words, A1 address of the kinds of   end
                   a row's words, A2 1: leave word 0 as the row's number

Key words: K_WORDS int64 a key column: address of int32[cardinality] (dict id → shared code), cardinality, shared code
of null (dict ids from the cardinality on), stride of the packed key, size of the local packed key.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.aggregate.exact_sums import end_overflow
from pinotpy.kernels.aggregate.result_context import (
    G_ARENA,
    G_CONTROL,
    G_KEY_WORDS,
    G_NUM_GROUPS,
    G_PAGES,
    G_ROW_WORDS,
    G_TABLE,
    PAGE_SHIFT,
    context_of,
    vector_at,
)
from pinotpy.kernels.group.merge_rows import ADD, add_row, flat
from pinotpy.kernels.runtime.abi import A0, E_OK, INSTRUCTION_WORDS, STATE_WORDS, block_function, words
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_USED, reserve_zeroed
from pinotpy.kernels.runtime.views import view_i32, view_u8

K_CODE_MAP: Final = 0
K_CARDINALITY: Final = 1
K_NULL: Final = 2
K_STRIDE: Final = 3
K_SIZE: Final = 4
K_WORDS: Final = 5


@block_function
def begin_shared_table(state_address: int, args_address: int) -> Any:
    """Make the thread's table, once."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context = context_of(state)
    size = args[A0] * context[G_ROW_WORDS]
    code = reserve_zeroed(context[G_CONTROL], vector_at(context, G_ARENA), size)
    if code == E_OK:
        context[G_ARENA + V_USED] = size
    return code


@njit(nogil=True, inline="always")
def _shared_code(key: Any, dict_id: int) -> Any:
    # Of one key column; `key` its K_* words.
    if dict_id >= key[K_CARDINALITY]:
        return key[K_NULL]
    return int64(view_i32(key[K_CODE_MAP], key[K_CARDINALITY])[uint64(dict_id)])


@njit(nogil=True)
def _table_row(keys: Any, num_keys: int, group: int) -> Any:
    # Row number of a local packed key.
    row, rest = int64(0), group
    for k in range(num_keys - 1, -1, -1):
        key = keys[k * K_WORDS : (k + 1) * K_WORDS]
        row += _shared_code(key, rest % key[K_SIZE]) * key[K_STRIDE]
        rest //= key[K_SIZE]
    return row


@njit(nogil=True)
def _move_two(table: Any, first: int, count: int, code_map: Any, null_row: int, out: Any) -> None:
    # Rows of two words that are added up, by one key: the count and a sum.
    for i in range(count):
        seen = table[2 * i]
        if seen != 0:
            group = first + i
            row = int64(code_map[uint64(group)]) if group < len(code_map) else null_row
            out[uint64(2 * row)] += seen
            out[uint64(2 * row + 1)] += table[2 * i + 1]
            table[2 * i], table[2 * i + 1] = 0, 0


@njit(nogil=True)
def _move(
    table: Any, first: int, count: int, width: int, keys: Any, num_keys: int, kinds: Any, out: Any, numbered: bool
) -> None:
    for i in range(count):
        row = i * width
        if table[row] != 0:
            number = _shared_code(keys, first + i) if num_keys == 1 else _table_row(keys, num_keys, first + i)
            add_row(out, number * width, table, row, kinds)
            table[row : row + width] = 0
            if numbered:
                table[row] = number


@block_function
def end_shared_table(state_address: int, args_address: int) -> Any:
    """Add the morsel's rows to the thread's table."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context = context_of(state)
    groups, width, num_keys = context[G_NUM_GROUPS], context[G_ROW_WORDS], context[G_KEY_WORDS]
    keys, kinds = words(args[A0], num_keys * K_WORDS), words(args[A0 + 1], width)
    numbered = args[A0 + 2] != 0
    out = words(context[G_ARENA + V_ADDRESS], context[G_ARENA + V_USED])
    page_groups = 1 << PAGE_SHIFT
    num_pages = ((groups - 1) >> PAGE_SHIFT) + 1
    pages = view_u8(context[G_PAGES + V_ADDRESS], num_pages)
    plain = num_keys == 1 and width == 2 and kinds[1] == ADD and not numbered
    code_map = view_i32(keys[K_CODE_MAP], keys[K_CARDINALITY])
    for page in range(num_pages):
        if pages[page] == 0:
            continue
        first = page * page_groups
        count = min(page_groups, groups - first)
        table = words(context[G_TABLE + V_ADDRESS] + first * width * 8, count * width)
        if plain:
            _move_two(table, first, count, code_map, keys[K_NULL], out)
        else:
            _move(table, first, count, width, keys, num_keys, kinds, out, numbered)
        if not numbered:
            pages[page] = 0
    return end_overflow(context)


@njit(cache=True, nogil=True)
def add_tables(target: Any, source: Any, kinds: Any) -> None:
    """target (int64[rows, words]) += source, where source has seen the group; word 0 counts rows."""
    width, rows, out = source.shape[1], flat(source), flat(target)
    for row in range(len(source)):
        if rows[row * width] != 0:
            add_row(out, row * width, rows, row * width, kinds)


@njit(cache=True, nogil=True)
def present(table: Any) -> Any:
    """Numbers of the rows of `table` (int64[rows, words]) that were seen, ascending."""
    count = 0
    for row in range(len(table)):
        count += table[row, 0] != 0
    out = np.empty(count, np.int64)
    count = 0
    for row in range(len(table)):
        if table[row, 0] != 0:
            out[count] = row
            count += 1
    return out


def warm() -> None:
    """Compile for the argument types that queries use."""
    table, kinds = np.zeros((1, 1), np.int64), np.zeros(1, np.int64)
    add_tables(table, table, kinds)
    present(table)
