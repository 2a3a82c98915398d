"""Walking the values of a multi-value column for functions that see each of them (SUMMV, DISTINCTCOUNTMV …).

For portions of at most BLOCK lanes (one a value) the instruction fills a register with entry indexes and one with the
groups of their docs, and runs its own small program on them as if the lanes were selected docs.

Arguments: A0 address of the column's meta, A1 register of groups or -1, A2 out: groups of the lanes, A3 out: entries,
A4 register of flags of docs that do not count or -1, A5 address of the program, A6 its length.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from pinotpy.kernels.abi import (
    A0,
    BLOCK,
    E_OK,
    I_FUNCTION,
    INSTRUCTION_WORDS,
    META_WORDS,
    S_DENSE,
    S_SELECTED,
    S_SELECTION,
    STATE_WORDS,
    block_function,
    call_block,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.views import mv_offsets, view_i32


@njit(nogil=True)
def _run_lanes(state: Any, state_address: int, lanes: int, program: int, count: int) -> Any:
    selected, dense = state[S_SELECTED], state[S_DENSE]
    state[S_SELECTED], state[S_DENSE] = lanes, 0
    code = E_OK
    for i in range(count):
        row = program + i * INSTRUCTION_WORDS * 8
        code = call_block(words(row, 1)[I_FUNCTION], state_address, row)
        if code != E_OK:
            break
    state[S_SELECTED], state[S_DENSE] = selected, dense
    return code


@block_function
def walk(state_address: int, args_address: int) -> Any:
    """Run the program over all values of the selected docs."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    offsets = mv_offsets(words(args[A0], META_WORDS))
    n = state[S_SELECTED]
    docs = view_i32(state[S_SELECTION], n)
    grouped, flagged = args[A0 + 1] >= 0, args[A0 + 4] >= 0
    groups = register_u32(state, args[A0 + 1] if grouped else 0)
    skip = register_u8(state, args[A0 + 4] if flagged else 0)
    lane_groups, entries = register_u32(state, args[A0 + 2]), register_u32(state, args[A0 + 3])
    lanes = 0
    for i in range(n):
        if flagged and skip[i] != 0:
            continue
        for entry in range(int(offsets[docs[i]]), int(offsets[docs[i] + 1])):
            entries[lanes] = entry
            if grouped:
                lane_groups[lanes] = groups[i]
            lanes += 1
            if lanes == BLOCK:
                code = _run_lanes(state, state_address, lanes, args[A0 + 5], args[A0 + 6])
                if code != E_OK:
                    return code
                lanes = 0
    return _run_lanes(state, state_address, lanes, args[A0 + 5], args[A0 + 6]) if lanes > 0 else E_OK
