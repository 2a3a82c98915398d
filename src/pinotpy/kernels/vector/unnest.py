"""Expanding a multi-value column: each selected doc becomes one lane per value (unnested_entries.py), at most BLOCK
lanes at a time.

The instruction keeps its place in its own words and answers E_REPEAT while docs of the block are left, so the driver
runs what follows once per portion. Expanding inside an expansion makes the cross product.

Arguments: A0 address of the column's meta, A1 register (u32) for the entry of every lane, A2 level 1.. (which selection
buffer to fill), A3 number of registers of outer expansions to carry over (0..2), A4..A7 them as (from, to).
Own words: A8 = 1 while in the middle of a block, then A9 position in the outer selection, A10 entry within that doc,
and the outer selection: A11 its address, A12 its length.
"""

from __future__ import annotations

from typing import Any, Final

from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    E_OK,
    E_REPEAT,
    INSTRUCTION_WORDS,
    META_WORDS,
    S_DENSE,
    S_REGISTERS,
    S_SCRATCH,
    S_SELECTED,
    S_SELECTION,
    S_SELECTIONS,
    STATE_WORDS,
    block_function,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.runtime.views import mv_offsets, view_u32
from pinotpy.kernels.vector.unnested_entries import fill_unnested, of_docs

_ACTIVE: Final = A0 + 8
_DOC: Final = A0 + 9
_ENTRY: Final = A0 + 10
_OUTER: Final = A0 + 11
_OUTER_LENGTH: Final = A0 + 12


@block_function
def expand(state_address: int, args_address: int) -> Any:
    """Fill the next portion of lanes; E_REPEAT while there are more."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    if args[_ACTIVE] == 0:
        args[_ACTIVE], args[_DOC], args[_ENTRY] = 1, 0, -1
        args[_OUTER], args[_OUTER_LENGTH] = state[S_SELECTION], state[S_SELECTED]
    outer = view_u32(args[_OUTER], args[_OUTER_LENGTH])
    offsets = mv_offsets(words(args[A0], META_WORDS))
    entries = state[S_REGISTERS] + args[A0 + 1] * BLOCK * 8
    n, args[_DOC], args[_ENTRY] = fill_unnested(
        offsets, outer, register_u8(state, 0), False, args[_DOC], args[_ENTRY], entries, state[S_SCRATCH]
    )
    sources = view_u32(state[S_SCRATCH], BLOCK)
    docs_address = state[S_SELECTIONS] + args[A0 + 2] * BLOCK * 4
    of_docs(view_u32(docs_address, n), outer, sources)
    for i in range(args[A0 + 3]):
        of_docs(register_u32(state, args[A0 + 5 + 2 * i])[:n], register_u32(state, args[A0 + 4 + 2 * i]), sources)
    state[S_SELECTION], state[S_SELECTED], state[S_DENSE] = docs_address, n, 0
    if args[_DOC] < args[_OUTER_LENGTH]:
        return E_REPEAT
    args[_ACTIVE] = 0
    return E_OK
