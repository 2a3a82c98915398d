"""The instruction that runs a chain (fused_program.py) over the selected docs of a block.

    A0 register of the outcome (f64, of comparisons flags)
    A1 address of the planned steps   A2 number of steps   A3 number of columns
    A4 + 2k address of column k's meta   A5 + 2k register that `fetch_unless_in_a_row` filled for it

Planned steps are chains.STEP_WORDS words as well; beside CONSTANT their sources are

    COLUMN   operand k: column k, read where it lies in a row, else from its register
    DOUBLE_REGISTER, LONG_REGISTER   operand: a register
    KEPT     operand: a slot, of KEPT_MAX
"""

from __future__ import annotations

from typing import Any, Final

from numba import int64

from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    M_DATA,
    M_STORED,
    M_WIDTH,
    META_WORDS,
    S_BASE,
    S_REGISTERS,
    S_SCRATCH,
    S_SELECTED,
    STATE_WORDS,
    T_DOUBLE,
    T_LONG,
    block_function,
    inner,
    words,
)
from pinotpy.kernels.vector.fetch import lies_in_a_row
from pinotpy.kernels.vector.fused_program import CHUNK, DOUBLES, IDS_1, KEPT, LONGS, STEP_WORDS, run_steps

COLUMN: Final = 32
DOUBLE_REGISTER: Final = 33
LONG_REGISTER: Final = 34
COLUMNS_MAX: Final = (INSTRUCTION_WORDS - A0 - 4) // 2
STEPS_MAX: Final = 32
KEPT_MAX: Final = 8
# In scratch 0: the steps with addresses, then what is kept.
KEPT_AT: Final = STEPS_MAX * STEP_WORDS * 8
assert KEPT_AT + KEPT_MAX * 64 * 8 <= BLOCK * 4


@inner
def bytes_of(source: int, meta: Any) -> Any:
    """Bytes of a value of a column that a chain reads by `source`."""
    return (
        int64(meta[M_WIDTH])
        if source >= IDS_1
        else int64(8 if meta[M_STORED] == T_LONG or meta[M_STORED] == T_DOUBLE else 4)
    )


@block_function
def fused_doubles(state_address: int, args_address: int) -> Any:
    """Register A0 = the outcome of the chain."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    count, registers, scratch = args[A0 + 2], state[S_REGISTERS], state[S_SCRATCH]
    planned, steps = words(args[A0 + 1], count * STEP_WORDS), words(scratch, count * STEP_WORDS)
    for i in range(0, count * STEP_WORDS, STEP_WORDS):
        source, operand, other = planned[i], planned[i + 2], planned[i + 3]
        if source == COLUMN:
            meta, register = words(args[A0 + 4 + 2 * operand], META_WORDS), args[A0 + 5 + 2 * operand]
            source, first = lies_in_a_row(state, meta)
            if source < 0:
                source, operand = (
                    int64(LONGS if meta[M_STORED] <= T_LONG else DOUBLES),
                    registers + register * (BLOCK * 8),
                )
            else:
                other, operand = first, meta[M_DATA] + state[S_BASE] * bytes_of(source, meta)
        elif source in (DOUBLE_REGISTER, LONG_REGISTER):
            source, operand = int64(DOUBLES if source == DOUBLE_REGISTER else LONGS), registers + operand * (BLOCK * 8)
        elif source == KEPT:
            operand = scratch + KEPT_AT + operand * (CHUNK * 8)
        steps[i], steps[i + 1], steps[i + 2], steps[i + 3] = source, planned[i + 1], operand, other
    run_steps(scratch, count, 0, (state[S_SELECTED] + CHUNK - 1) // CHUNK, registers + args[A0] * (BLOCK * 8))
    return E_OK
