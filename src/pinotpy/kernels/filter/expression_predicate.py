"""A filter predicate that computes: a small program over the docs that the predicates before let through leaves flags
in a register.

The program's instructions are those of the select section; for their time the survivors are the selection. Arguments
behind the frame's (predicate_frame.py): A6 address of the program, A7 its length, A8 register of the truth, A9 register
of flags where it is unknown or -1. Its registers are its own (abi.NUM_PREDICATE_REGISTERS).
"""

from __future__ import annotations

from typing import Any, Final

from pinotpy.kernels.filter.byte_masks import SCRATCH_MASK, mask_count, survivors
from pinotpy.kernels.filter.predicate_frame import A_KEPT, A_TEST
from pinotpy.kernels.runtime.abi import (
    BLOCK,
    E_OK,
    I_FUNCTION,
    INSTRUCTION_WORDS,
    S_BASE,
    S_DENSE,
    S_ENTRIES_FILTER,
    S_LIST,
    S_NUM,
    S_SCRATCH,
    S_SELECTED,
    S_SELECTION,
    STATE_WORDS,
    block_function,
    call_block,
    inner,
    mask_register,
    register_u8,
    words,
)
from pinotpy.kernels.runtime.views import view_i32, view_u32

# Where at least this share of a block survives, all of it is computed: contiguous reads beat gathers.
_DENSE_SHARE: Final = 0.7


@inner
def _fill_range(out: Any, first: int) -> None:
    for i in range(len(out)):
        out[i] = first + i


@inner
def _copy(out: Any, values: Any) -> None:
    for i in range(len(out)):
        out[i] = values[i]


@inner
def _known(out: Any, truth: Any, unknown: Any) -> None:
    for i in range(len(out)):
        out[i] = truth[i] & (unknown[i] ^ 1)


@inner
def _scatter(out: Any, flags: Any, positions: Any) -> None:
    for i in range(len(flags)):
        out[positions[i]] = flags[i]


@block_function
def expression_test(state_address: int, args_address: int) -> Any:
    """Run the program on the survivors and put its truth into the scratch mask."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, listed = state[S_NUM], state[S_LIST]
    count = mask_count(state, args[A_KEPT])
    state[S_ENTRIES_FILTER] += count
    selected, selection, dense = state[S_SELECTED], state[S_SELECTION], state[S_DENSE]
    docs_address = state[S_SCRATCH] + 3 * BLOCK * 4
    positions = view_u32(state[S_SCRATCH] + 2 * BLOCK * 4, BLOCK)
    everything = count == n or (listed == 0 and count >= n * _DENSE_SHARE)
    if everything:
        count = n
        if listed == 0:
            _fill_range(view_i32(docs_address, n), state[S_BASE])
        else:
            docs_address = listed
    else:
        survivors(state, args[A_KEPT])
        _copy(positions[:count], view_u32(state[S_SCRATCH], count))
        _copy(view_i32(docs_address, count), view_i32(state[S_SCRATCH] + BLOCK * 4, count))
    state[S_SELECTED], state[S_SELECTION], state[S_DENSE] = count, docs_address, 1 if everything and listed == 0 else 0
    code = E_OK
    for i in range(args[A_TEST + 1]):
        row = args[A_TEST] + i * INSTRUCTION_WORDS * 8
        code = call_block(words(row, 1)[I_FUNCTION], state_address, row)
        if code != E_OK:
            break
    state[S_SELECTED], state[S_SELECTION], state[S_DENSE] = selected, selection, dense
    if code != E_OK:
        return code
    truth = register_u8(state, args[A_TEST + 2])[:count]
    if args[A_TEST + 3] >= 0:
        _known(truth, truth, register_u8(state, args[A_TEST + 3])[:count])
    out = mask_register(state, SCRATCH_MASK)
    if everything:
        _copy(out[:n], truth)
    else:
        _scatter(out, truth, positions)
    return E_OK
