"""Walking the values of a multi-value column for functions that see each of them (SUMMV, DISTINCTCOUNTMV …).

For portions of at most BLOCK lanes (vector/unnested_entries.py) the instruction fills a register with entry indexes and
one with the groups of their docs, and runs its own small program on them as if the lanes were selected docs. How many
values there are (COUNTMV) is known without looking at them.

    walk            A0 address of the column's meta, A1 register of groups or -1, A2 out: groups of the lanes,
                    A3 out: entries, A4 register of flags of docs that do not count or -1, A5 address of the program,
                    A6 its length
    count_lengths   A0, A1 and A4 as of walk, A2 slot (word in the group's row) of the number of values
"""

from __future__ import annotations

from typing import Any, Final

from numba import int64, njit, uint32, uint64

from pinotpy.kernels.aggregate.counts_and_sums import table_of
from pinotpy.kernels.aggregate.result_context import G_ROW_WORDS, context_of
from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    E_OK,
    I_FUNCTION,
    INSTRUCTION_WORDS,
    META_WORDS,
    S_DENSE,
    S_REGISTERS,
    S_SCRATCH,
    S_SELECTED,
    S_SELECTION,
    STATE_WORDS,
    block_function,
    call_block,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.runtime.views import mv_offsets, view_u32
from pinotpy.kernels.vector.unnested_entries import fill_unnested, of_docs

# Scratch memory of positions: those before are of functions that the program calls.
_POSITIONS: Final = 3


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
    selected = state[S_SELECTED]
    docs = view_u32(state[S_SELECTION], selected)
    grouped, flagged = args[A0 + 1] >= 0, args[A0 + 4] >= 0
    skip = register_u8(state, args[A0 + 4] if flagged else 0)
    entries, positions = state[S_REGISTERS] + args[A0 + 3] * BLOCK * 8, state[S_SCRATCH] + _POSITIONS * BLOCK * 4
    position, entry = int64(0), int64(-1)
    while position < selected:
        n, position, entry = fill_unnested(offsets, docs, skip, flagged, position, entry, entries, positions)
        if n == 0:
            break
        if grouped:
            of_docs(register_u32(state, args[A0 + 2])[:n], register_u32(state, args[A0 + 1]), view_u32(positions, n))
        code = _run_lanes(state, state_address, n, args[A0 + 5], args[A0 + 6])
        if code != E_OK:
            return code
    return E_OK


# --- how many values -------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _lengths(out: Any, offsets: Any, docs: Any, skip: Any, flagged: bool) -> None:
    for i in range(len(out)):
        doc = docs[i]
        length = offsets[doc + uint32(1)] - offsets[doc]
        out[i] = uint32(0) if flagged and skip[i] != 0 else length


@njit(nogil=True)
def _add_lengths(table: Any, width: Any, slot: Any, groups: Any, lengths: Any) -> None:
    for i in range(len(groups)):
        table[uint64(groups[i]) * width + slot] += int64(lengths[i])


@njit(nogil=True)
def _total(lengths: Any) -> Any:
    total = uint64(0)
    for i in range(len(lengths)):
        total += uint64(lengths[i])
    return int64(total)


@block_function
def count_lengths(state_address: int, args_address: int) -> Any:
    """Add the number of values of the selected docs to their groups, or to row 0."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    offsets, docs = mv_offsets(words(args[A0], META_WORDS)), view_u32(state[S_SELECTION], n)
    flagged = args[A0 + 4] >= 0
    lengths = view_u32(state[S_SCRATCH], n)
    _lengths(lengths, offsets, docs, register_u8(state, args[A0 + 4] if flagged else 0), flagged)
    if args[A0 + 1] < 0:
        table_of(context)[args[A0 + 2]] += _total(lengths)
    else:
        _add_lengths(
            table_of(context),
            uint64(context[G_ROW_WORDS]),
            uint64(args[A0 + 2]),
            register_u32(state, args[A0 + 1])[:n],
            lengths,
        )
    return E_OK
