"""Group numbers of dense tables: packed keys of dict ids, and what begins and ends a morsel of such a table.

A group's number is ((id0 * size1 + id1) * size2 + id2) …, where size is the number of ids of a key column in this
morsel (one more where null is a group: its id is the cardinality). Without GROUP BY there is one group, number 0.

    begin_dense   A0 groups, A1 address of int64[keys] sizes              begin section
    first_key     A0 out, A1 ids, A2 null flags or -1, A3 id of null      select: out = id
    next_key      A0 out, A1 ids, A2 null flags or -1, A3 id of null, A4 size      out = out * size + id
    touch         A0 groups                                               select, tables above TOUCH_ALL_GROUPS only
    end_dense                                                             end: rows → arena, overflow → overflow arena
    clear_dense                                                           end, after the sets
"""

from __future__ import annotations

from typing import Any, Final

from numba import njit, uint32, uint64

from pinotpy.kernels.aggregate.exact_sums import end_overflow
from pinotpy.kernels.aggregate.result_context import (
    G_ARENA,
    G_CONTROL,
    G_KEY_WORDS,
    G_MORSELS,
    G_NUM_GROUPS,
    G_PAGES,
    G_ROW_WORDS,
    G_SIZES,
    G_TABLE,
    PAGE_SHIFT,
    context_of,
    vector_at,
)
from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    S_MORSEL,
    S_SELECTED,
    STATE_WORDS,
    block_function,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.runtime.growable import V_ADDRESS, V_USED, reserve, reserve_zeroed
from pinotpy.kernels.runtime.views import view_u8

# Up to here the whole table is looked through when a morsel ends; larger ones note the pages that they touch.
TOUCH_ALL_GROUPS: Final = 4096


@block_function
def begin_dense(state_address: int, args_address: int) -> Any:
    """Make room for the morsel's groups."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context = context_of(state)
    groups = args[A0]
    context[G_NUM_GROUPS], context[G_SIZES] = groups, args[A0 + 1]
    code = reserve_zeroed(context[G_CONTROL], vector_at(context, G_TABLE), groups * context[G_ROW_WORDS])
    if code != E_OK:
        return code
    pages = ((groups - 1) >> PAGE_SHIFT) + 1
    code = reserve_zeroed(context[G_CONTROL], vector_at(context, G_PAGES), (pages >> 3) + 1)
    if code == E_OK and groups <= TOUCH_ALL_GROUPS:
        view_u8(context[G_PAGES + V_ADDRESS], pages)[:] = 1
    return code


@njit(nogil=True)
def _first(out: Any, ids: Any) -> None:
    for i in range(len(out)):
        out[i] = ids[i]


@njit(nogil=True)
def _first_nullable(out: Any, ids: Any, nulls: Any, null_id: Any) -> None:
    for i in range(len(out)):
        out[i] = null_id if nulls[i] else ids[i]


@njit(nogil=True)
def _next(out: Any, ids: Any, size: Any) -> None:
    for i in range(len(out)):
        out[i] = out[i] * size + ids[i]


@njit(nogil=True)
def _next_nullable(out: Any, ids: Any, nulls: Any, null_id: Any, size: Any) -> None:
    for i in range(len(out)):
        out[i] = out[i] * size + (null_id if nulls[i] else ids[i])


@block_function
def first_key(state_address: int, args_address: int) -> Any:
    """Group numbers from the first key column."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    out, ids = register_u32(state, args[A0])[:n], register_u32(state, args[A0 + 1])[:n]
    if args[A0 + 2] < 0:
        _first(out, ids)
    else:
        _first_nullable(out, ids, register_u8(state, args[A0 + 2])[:n], uint32(args[A0 + 3]))
    return E_OK


@block_function
def next_key(state_address: int, args_address: int) -> Any:
    """Fold one more key column into the group numbers."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    out, ids = register_u32(state, args[A0])[:n], register_u32(state, args[A0 + 1])[:n]
    size = uint32(args[A0 + 4])
    if args[A0 + 2] < 0:
        _next(out, ids, size)
    else:
        _next_nullable(out, ids, register_u8(state, args[A0 + 2])[:n], uint32(args[A0 + 3]), size)
    return E_OK


@njit(nogil=True)
def _touch(pages: Any, groups: Any) -> None:
    for i in range(len(groups)):
        pages[uint64(groups[i] >> PAGE_SHIFT)] = 1


@block_function
def touch(state_address: int, args_address: int) -> Any:
    """Mark the pages of the block's groups."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context = context_of(state)
    pages = view_u8(context[G_PAGES + V_ADDRESS], (context[G_NUM_GROUPS] >> PAGE_SHIFT) + 1)
    _touch(pages, register_u32(state, args[A0])[: state[S_SELECTED]])
    return E_OK


@njit(nogil=True)
def open_morsel(context: Any, morsel: int) -> Any:
    """Note that arena rows from here on are of `morsel`."""
    width = context[G_KEY_WORDS] + context[G_ROW_WORDS]
    code = reserve(context[G_CONTROL], vector_at(context, G_MORSELS), 2)
    if code == E_OK:
        entry = words(context[G_MORSELS + V_ADDRESS] + context[G_MORSELS + V_USED] * 8, 2)
        entry[0], entry[1] = morsel, context[G_ARENA + V_USED] // width
        context[G_MORSELS + V_USED] += 2
    return code


@njit(nogil=True)
def _leave_row(context: Any, group: int, row: Any, sizes: Any) -> None:
    # Room for the row was reserved. Word 0 of the table's row becomes the arena row, for overflow and sets.
    keys, width = context[G_KEY_WORDS], context[G_ROW_WORDS]
    used = context[G_ARENA + V_USED]
    out = words(context[G_ARENA + V_ADDRESS] + used * 8, keys + width)
    rest = group
    for k in range(keys - 1, 0, -1):
        out[k] = rest % sizes[k]
        rest //= sizes[k]
    if keys > 0:
        out[0] = rest
    for i in range(width):
        out[keys + i] = row[i]
        row[i] = 0
    row[0] = used // (keys + width)
    context[G_ARENA + V_USED] = used + keys + width


@block_function
def end_dense(state_address: int, args_address: int) -> Any:
    """Move the touched rows into the arena."""
    state = words(state_address, STATE_WORDS)
    context = context_of(state)
    code = open_morsel(context, state[S_MORSEL])
    if code != E_OK:
        return code
    groups, width = context[G_NUM_GROUPS], context[G_ROW_WORDS]
    page_groups = 1 << PAGE_SHIFT
    num_pages = ((groups - 1) >> PAGE_SHIFT) + 1
    pages = view_u8(context[G_PAGES + V_ADDRESS], num_pages)
    table = context[G_TABLE + V_ADDRESS]
    sizes = words(context[G_SIZES], context[G_KEY_WORDS])
    for page in range(num_pages):
        if pages[page] == 0:
            continue
        code = reserve(context[G_CONTROL], vector_at(context, G_ARENA), page_groups * (context[G_KEY_WORDS] + width))
        if code != E_OK:
            return code
        for group in range(page * page_groups, min((page + 1) * page_groups, groups)):
            row = words(table + group * width * 8, width)
            if row[0] != 0:
                _leave_row(context, group, row, sizes)
    return end_overflow(context)


@block_function
def clear_dense(state_address: int, args_address: int) -> Any:
    """Make the table zero again."""
    context = context_of(words(state_address, STATE_WORDS))
    groups, width = context[G_NUM_GROUPS], context[G_ROW_WORDS]
    page_groups = 1 << PAGE_SHIFT
    num_pages = ((groups - 1) >> PAGE_SHIFT) + 1
    pages = view_u8(context[G_PAGES + V_ADDRESS], num_pages)
    for page in range(num_pages):
        if pages[page] != 0:
            pages[page] = 0
            first = page * page_groups
            count = min(page_groups, groups - first)
            rows = words(context[G_TABLE + V_ADDRESS] + first * width * 8, count * width)
            for i in range(count):
                rows[i * width] = 0
    return E_OK
