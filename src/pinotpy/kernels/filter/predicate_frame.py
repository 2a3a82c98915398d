"""The frame of a filter predicate: what comes before and after its test, for all tests alike.

Arguments of every predicate:
    A0 address of the column's meta
    A1 mask of the predicates before (-1: all docs)
    A2 mask to write
    A3 PREDICATE_RUN, PREDICATE_ALWAYS or PREDICATE_NEVER (known when planning; reads nothing)
    A4 1: negated (not any, for multi-values)
    A5 1: false where the column is null
    A6.. of the test

A predicate reads only docs that survived the predicates before it, which is what S_ENTRIES_FILTER counts (in values):
all of a block at once where many did (multi-values: multi_value.py), one by one where few did or where the block is a
list of docs.
"""

from __future__ import annotations

from typing import Any, Final

from numba import njit

from pinotpy.kernels.filter.byte_masks import SCRATCH_MASK, finish, finish_or, mask_count, set_empty, survivors
from pinotpy.kernels.filter.multi_value import any_of_block, tests_whole_block
from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    I_FLAGS,
    I_FUNCTION,
    I_OR,
    I_PLAIN,
    I_SCAN_PREDICATE,
    INSTRUCTION_WORDS,
    M_CARDINALITY,
    M_MV_OFFSETS,
    M_WIDTH,
    META_WORDS,
    S_ENTRIES_FILTER,
    S_LIST,
    S_NUM,
    S_SURVIVORS,
    call_block,
    inner,
    mask_register,
    words,
)

A_META: Final = A0
A_KEPT: Final = A0 + 1
A_OUT: Final = A0 + 2
A_MODE: Final = A0 + 3
A_NEGATED: Final = A0 + 4
A_NULLS: Final = A0 + 5
A_TEST: Final = A0 + 6

PREDICATE_RUN: Final = 0
PREDICATE_ALWAYS: Final = 1
PREDICATE_NEVER: Final = 2

# Below one survivor in this many docs a predicate looks at them one by one. Ids of one or two bytes are compared by the
# register, so that the whole block costs less than finding the survivors.
SPARSE: Final = 16
SPARSE_NARROW: Final = 64


@inner
def _is_dense(state: Any, meta: Any, count: int) -> Any:
    is_narrow = meta[M_CARDINALITY] >= 0 and meta[M_WIDTH] <= 2
    return count * (SPARSE_NARROW if is_narrow else SPARSE) >= state[S_NUM]


@njit(cache=True, nogil=True)
def run_instruction(state: Any, state_address: int, row: int) -> Any:
    """Run the instruction at address `row`, with the frame that its flags ask for."""
    args = words(row, INSTRUCTION_WORDS)
    flags = args[I_FLAGS]
    if flags == I_PLAIN:
        return call_block(args[I_FUNCTION], state_address, row)
    if flags == I_OR:
        finish_or(state, args[A0], args[A0 + 1], args[A0 + 2])
        return E_OK
    count = mask_count(state, args[A_KEPT])
    meta = words(args[A_META], META_WORDS)
    if count == 0 or args[A_MODE] == PREDICATE_NEVER:
        set_empty(state, args[A_OUT])
        return E_OK
    if args[A_MODE] == PREDICATE_ALWAYS:
        mask_register(state, SCRATCH_MASK)[: state[S_NUM]] = 1
        finish(state, args[A_KEPT], args[A_OUT], 0, args[A_NULLS], meta)
        return E_OK
    state[S_SURVIVORS] = -1
    in_range = state[S_LIST] == 0
    if flags == I_SCAN_PREDICATE and meta[M_MV_OFFSETS] != 0 and in_range and tests_whole_block(state, meta, count):
        code = any_of_block(state, state_address, row, meta, args[A_KEPT])
    else:
        if flags == I_SCAN_PREDICATE:
            if meta[M_MV_OFFSETS] == 0 and in_range and _is_dense(state, meta, count):
                state[S_ENTRIES_FILTER] += count
            else:
                state[S_SURVIVORS] = survivors(state, args[A_KEPT])
        code = call_block(args[I_FUNCTION], state_address, row)
    finish(state, args[A_KEPT], args[A_OUT], args[A_NEGATED], args[A_NULLS], meta)
    return code
