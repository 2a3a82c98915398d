"""Expanding a multi-value column: each selected doc becomes one lane per value, at most BLOCK lanes at a time.

The instruction keeps its place in its own words and answers E_REPEAT while docs of the block are left, so the driver
runs what follows once per portion. Expanding inside an expansion makes the cross product.

Arguments: A0 address of the column's meta, A1 register (u32) for the entry of every lane, A2 level 1.. (which selection
buffer to fill), A3 number of registers of outer expansions to carry over (0..2), A4..A7 them as (from, to).
Own words: A8 = 1 while in the middle of a block, then A9 position in the outer selection, A10 entry within that doc, and
the outer selection: A11 its address, A12 its length.
"""

from __future__ import annotations

from typing import Any, Final

from numba import uint32

from pinotpy.kernels.abi import (
    A0,
    BLOCK,
    E_OK,
    E_REPEAT,
    INSTRUCTION_WORDS,
    META_WORDS,
    S_DENSE,
    S_SCRATCH,
    S_SELECTED,
    S_SELECTION,
    S_SELECTIONS,
    STATE_WORDS,
    block_function,
    inner,
    register_u32,
    words,
)
from pinotpy.kernels.views import mv_offsets, view_i32

_ACTIVE: Final = A0 + 8
_DOC: Final = A0 + 9
_ENTRY: Final = A0 + 10
_OUTER: Final = A0 + 11
_OUTER_LENGTH: Final = A0 + 12


@inner
def _lanes(args: Any, offsets: Any, outer: Any, docs: Any, entries: Any, sources: Any) -> Any:
    n = 0
    position, entry = args[_DOC], args[_ENTRY]
    while position < len(outer):
        doc = outer[position]
        first, end = int(offsets[doc]), int(offsets[doc + 1])
        entry = max(entry, first)
        while entry < end and n < BLOCK:
            docs[n], entries[n], sources[n] = doc, entry, position
            n += 1
            entry += 1
        if entry < end:
            break
        position += 1
        entry = -1
    args[_DOC], args[_ENTRY] = position, entry
    return n


@inner
def _carry(out: Any, entries: Any, sources: Any) -> None:
    for i in range(len(out)):
        out[i] = entries[uint32(sources[i])]


@block_function
def expand(state_address: int, args_address: int) -> Any:
    """Fill the next portion of lanes; E_REPEAT while there are more."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    if args[_ACTIVE] == 0:
        args[_ACTIVE], args[_DOC], args[_ENTRY] = 1, 0, -1
        args[_OUTER], args[_OUTER_LENGTH] = state[S_SELECTION], state[S_SELECTED]
    outer = view_i32(args[_OUTER], args[_OUTER_LENGTH])
    docs_address = state[S_SELECTIONS] + args[A0 + 2] * BLOCK * 4
    sources = view_i32(state[S_SCRATCH], BLOCK)
    n = _lanes(args, mv_offsets(words(args[A0], META_WORDS)), outer, view_i32(docs_address, BLOCK), register_u32(state, args[A0 + 1]), sources)
    for i in range(args[A0 + 3]):
        _carry(register_u32(state, args[A0 + 5 + 2 * i])[:n], register_u32(state, args[A0 + 4 + 2 * i]), sources)
    state[S_SELECTION], state[S_SELECTED], state[S_DENSE] = docs_address, n, 0
    if args[_DOC] < args[_OUTER_LENGTH]:
        return E_REPEAT
    args[_ACTIVE] = 0
    return E_OK
