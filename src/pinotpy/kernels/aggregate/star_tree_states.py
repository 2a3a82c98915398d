"""Select instructions over the records of star-trees: add up what was added up before.

Arguments as in counts_and_sums.py (A0 groups, A1 values, A2 slot, A3 flags of records that do not count, or -1); the
`_single` forms add to group 0.

    add_pairs    128-bit integers: A1 low words, A4 high words
    add_overflow  what lies outside the main window of a sum of doubles: A1 address of int64[n, 4] (record, window,
                 low, high), records ascending, A4 n
    doc_ids      A0 = the selected docs as i64
"""

from __future__ import annotations

from typing import Any

from numba import int64, njit, uint64

from pinotpy.kernels.aggregate.counts_and_sums import table_of
from pinotpy.kernels.aggregate.exact_sums import add_wide, overflow_part
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
    selection,
    words,
)


@njit(nogil=True)
def _add_pairs(state: Any, args: Any, single: bool) -> Any:
    context, n = context_of(state), state[S_SELECTED]
    table, width, slot = table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2])
    low, high = register_i64(state, args[A0 + 1])[:n], register_i64(state, args[A0 + 4])[:n]
    skips = args[A0 + 3] >= 0
    skip = register_u8(state, args[A0 + 3] if skips else 0)
    groups = register_u32(state, 0 if single else args[A0])
    for i in range(n):
        if not (skips and skip[i] != 0):
            add_wide(table, (uint64(0) if single else uint64(groups[i]) * width) + slot, low[i], high[i])
    return E_OK


@block_function
def add_pairs(state_address: int, args_address: int) -> Any:
    return _add_pairs(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), False)


@block_function
def add_pairs_single(state_address: int, args_address: int) -> Any:
    return _add_pairs(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), True)


@njit(nogil=True)
def _first_part(parts: Any, count: int, doc: int) -> Any:
    low, high = int64(0), int64(count)
    while low < high:
        middle = (low + high) >> 1
        if parts[middle * 4] < doc:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True)
def _add_overflow(state: Any, args: Any, single: bool) -> Any:
    context, n, count = context_of(state), state[S_SELECTED], args[A0 + 4]
    if count == 0:
        return E_OK
    parts, docs = words(args[A0 + 1], count * 4), selection(state)
    skips = args[A0 + 3] >= 0
    skip = register_u8(state, args[A0 + 3] if skips else 0)
    groups = register_u32(state, 0 if single else args[A0])
    for i in range(n):
        if skips and skip[i] != 0:
            continue
        doc = int64(docs[i])
        position = _first_part(parts, count, doc)
        while position < count and parts[position * 4] == doc:
            group = int64(0) if single else int64(groups[i])
            code = overflow_part(
                context, group, args[A0 + 2], parts[position * 4 + 1], parts[position * 4 + 2], parts[position * 4 + 3]
            )
            if code != E_OK:
                return code
            position += 1
    return E_OK


@block_function
def add_overflow(state_address: int, args_address: int) -> Any:
    return _add_overflow(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), False)


@block_function
def add_overflow_single(state_address: int, args_address: int) -> Any:
    return _add_overflow(words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS), True)


@njit(nogil=True)
def _widen(out: Any, docs: Any) -> None:
    for i in range(len(out)):
        out[i] = docs[i]


@block_function
def doc_ids(state_address: int, args_address: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    _widen(register_i64(state, args[A0])[: state[S_SELECTED]], selection(state))
    return E_OK
