"""Fetch instructions: values of the selected docs (or lanes) of one column into a register.

Arguments: A0 register, A1 address of the column's meta, A2 = 1 + the register with the entry of every lane where the
column was expanded, else 0. A dense block reads contiguously from its base; otherwise it gathers by doc id or entry.
"""

from __future__ import annotations

from typing import Any, Final

from numba import int64, njit, uint64

from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    M_CARDINALITY,
    M_DATA,
    M_DICTIONARY,
    M_MV_OFFSETS,
    M_NULLS,
    M_NUM_DOCS,
    M_NUM_VALUES,
    M_SORTED,
    M_SORTED_STARTS,
    M_STORED,
    M_WIDTH,
    META_WORDS,
    S_BASE,
    S_DENSE,
    S_REGISTERS,
    S_SCRATCH,
    S_SELECTED,
    S_SELECTION,
    STATE_WORDS,
    T_DOUBLE,
    T_FLOAT,
    T_INT,
    T_LONG,
    block_function,
    inner,
    register_f64,
    register_i64,
    register_u8,
    register_u32,
    words,
)
from pinotpy.kernels.runtime.bit_flags import flags_at, flags_from
from pinotpy.kernels.runtime.prefetch import AHEAD_BYTES, LINE_BYTES, prefetch
from pinotpy.kernels.runtime.views import view_f32, view_f64, view_i32, view_i64, view_u8, view_u16, view_u32
from pinotpy.kernels.vector.fused_program import CHUNK, DOUBLES, FLOATS, IDS_1, IDS_2, IDS_4, INTS, LONGS

# At least one in so many docs is read: the lines between them are wanted as well.
_NEAR: Final = 2


def _reading(size_bytes: int) -> Any:
    # One function for values of each size: the rows of a cache line are a loop of known length, which becomes a few
    # vectors.
    rows = LINE_BYTES // size_bytes

    @inner
    def copy(out: Any, values: Any, address: int) -> None:
        whole = len(out) // rows * rows
        for i in range(0, whole, rows):
            prefetch(address + i * size_bytes + AHEAD_BYTES)
            for k in range(rows):
                out[uint64(i + k)] = values[uint64(i + k)]
        for i in range(whole, len(out)):
            out[uint64(i)] = values[uint64(i)]

    @inner
    def gather_ahead(out: Any, values: Any, address: int, positions: Any) -> None:
        whole = len(out) // rows * rows
        for i in range(0, whole, rows):
            prefetch(address + int64(positions[uint64(i)]) * size_bytes + AHEAD_BYTES)
            for k in range(rows):
                out[uint64(i + k)] = values[positions[uint64(i + k)]]
        for i in range(whole, len(out)):
            out[uint64(i)] = values[positions[uint64(i)]]

    @inner
    def read(out: Any, values: Any, address: int, dense: bool, base: int, positions: Any, near: bool) -> None:
        if dense:
            copy(out, values[base : base + len(out)], address + base * size_bytes)
        elif near:
            gather_ahead(out, values, address, positions)
        else:
            _gather(out, values, positions)

    return read


@inner
def _gather(out: Any, values: Any, positions: Any) -> None:
    # Positions are unsigned: signed ones would cost a wraparound check.
    for i in range(len(out)):
        out[i] = values[positions[i]]


_read_1, _read_2, _read_4, _read_8 = _reading(1), _reading(2), _reading(4), _reading(8)


@inner
def _span(positions: Any) -> Any:
    # (least, greatest): sorted rows may stand in any order.
    low, high = positions[0], positions[0]
    for i in range(len(positions)):
        low, high = min(low, positions[i]), max(high, positions[i])
    return int64(low), int64(high)


@inner
def _only_id(meta: Any, low: int, high: int) -> Any:
    """The id of all docs low .. high of a sorted column, -1 if they have several."""
    starts, first, last = view_u32(meta[M_SORTED_STARTS], meta[M_CARDINALITY] + 1), int64(0), meta[M_CARDINALITY]
    while first + 1 < last:
        middle = (first + last) >> 1
        if starts[middle] <= low:
            first = middle
        else:
            last = middle
    return first if starts[first] <= low and high < starts[first + 1] else int64(-1)


@inner
def _ids(out: Any, meta: Any, dense: bool, base: int, positions: Any, near: bool) -> None:
    if meta[M_SORTED] == 1 and meta[M_MV_OFFSETS] == 0 and len(out) > 0:
        # Most blocks of a sorted column have one id: nothing is read.
        low, high = (base, base + len(out) - 1) if dense else _span(positions)
        only = _only_id(meta, low, high)
        if only >= 0:
            _fill(out, only)
            return
    width, address, count = meta[M_WIDTH], meta[M_DATA], meta[M_NUM_VALUES]
    if width == 1:
        _read_1(out, view_u8(address, count), address, dense, base, positions, near)
    elif width == 2:
        _read_2(out, view_u16(address, count), address, dense, base, positions, near)
    else:
        _read_4(out, view_u32(address, count), address, dense, base, positions, near)


@inner
def _fill(out: Any, value: int) -> None:
    for i in range(len(out)):
        out[i] = value


@inner
def _are_near(positions: Any) -> Any:
    # Most of the docs between the first and the last are read, so that the next block will be as well. Not of lanes and
    # of sorted rows, whose positions may stand in any order; a wrong guess costs hints, no more.
    return len(positions) > 1 and int64(positions[len(positions) - 1]) - int64(positions[0]) < _NEAR * len(positions)


@inner
def _add(out: Any, first: int) -> None:
    for i in range(len(out)):
        out[i] += first


@inner
def _first_of_run(meta: Any) -> Any:
    # (whether the dictionary's integers follow each other without a gap, the first of them): then ids are the values
    # but for it.
    stored, last = meta[M_STORED], meta[M_CARDINALITY] - 1
    if last < 0 or stored > T_LONG:
        return False, int64(0)
    if stored == T_INT:
        ints = view_i32(meta[M_DICTIONARY], last + 1)
        return int64(ints[last]) - int64(ints[0]) == last, int64(ints[0])
    longs = view_i64(meta[M_DICTIONARY], last + 1)
    return longs[last] - longs[0] == last, longs[0]


@inner
def _positions(state: Any, args: Any) -> Any:
    lanes = args[A0 + 2] - 1
    return view_u32(state[S_SELECTION] if lanes < 0 else state[S_REGISTERS] + lanes * BLOCK * 8, state[S_SELECTED])


@block_function
def fetch_ids(state_address: int, args_address: int) -> Any:
    """Dict ids, u32."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    dense, positions = state[S_DENSE] == 1 and args[A0 + 2] == 0, _positions(state, args)
    _ids(
        register_u32(state, args[A0])[: state[S_SELECTED]],
        words(args[A0 + 1], META_WORDS),
        dense,
        state[S_BASE],
        positions,
        _are_near(positions),
    )
    return E_OK


@njit(nogil=True)
def _values(state: Any, args: Any, meta: Any) -> Any:
    n, base, stored = state[S_SELECTED], state[S_BASE], meta[M_STORED]
    positions = _positions(state, args)
    dense = state[S_DENSE] == 1 and args[A0 + 2] == 0
    near = not dense and _are_near(positions)
    integers, floats = register_i64(state, args[A0])[:n], register_f64(state, args[A0])[:n]
    address, count = meta[M_DATA], meta[M_NUM_VALUES]
    follows, first = _first_of_run(meta)
    if follows:
        _ids(integers, meta, dense, base, positions, near)
        _add(integers, first)
        return E_OK
    if meta[M_CARDINALITY] >= 0:
        ids = view_u32(state[S_SCRATCH], n)
        _ids(ids, meta, dense, base, positions, near)
        # From here the dictionary is the column and the ids are the positions.
        positions, dense, near, address, count = ids, False, False, meta[M_DICTIONARY], meta[M_CARDINALITY]
    if stored == T_INT:
        _read_4(integers, view_i32(address, count), address, dense, base, positions, near)
    elif stored == T_LONG:
        _read_8(integers, view_i64(address, count), address, dense, base, positions, near)
    elif stored == T_FLOAT:
        _read_4(floats, view_f32(address, count), address, dense, base, positions, near)
    elif stored == T_DOUBLE:
        _read_8(floats, view_f64(address, count), address, dense, base, positions, near)
    return E_OK


@block_function
def fetch_values(state_address: int, args_address: int) -> Any:
    """Values: i64 of INT and LONG columns, f64 of FLOAT and DOUBLE columns."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    return _values(state, args, words(args[A0 + 1], META_WORDS))


@inner
def program_source(meta: Any) -> Any:
    """(source, integer to add): how fused_program.py reads docs in a row of a column; source -1: it cannot."""
    stored = meta[M_STORED]
    if meta[M_MV_OFFSETS] != 0:
        return int64(-1), int64(0)
    if meta[M_CARDINALITY] >= 0:
        follows, first = _first_of_run(meta)
        if not follows:
            return int64(-1), int64(0)
        width = meta[M_WIDTH]
        return int64(IDS_1 if width == 1 else IDS_2 if width == 2 else IDS_4), first
    if stored == T_INT:
        return int64(INTS), int64(0)
    if stored == T_LONG:
        return int64(LONGS), int64(0)
    if stored == T_FLOAT:
        return int64(FLOATS), int64(0)
    return int64(DOUBLES if stored == T_DOUBLE else -1), int64(0)


@inner
def lies_in_a_row(state: Any, meta: Any) -> Any:
    """(source, integer to add): how fused_program.py reads the values of the block where the column lies; source -1:
    only `fetch_values` can.

    A chain reads whole chunks: those of the last block of a column may end behind it.
    """
    last = (state[S_SELECTED] + CHUNK - 1) // CHUNK * CHUNK + state[S_BASE]
    if state[S_DENSE] != 1 or last > meta[M_NUM_VALUES]:
        return int64(-1), int64(0)
    return program_source(meta)


@block_function
def fetch_unless_in_a_row(state_address: int, args_address: int) -> Any:
    """Like fetch_values, but only where a chain cannot read the column itself."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A0 + 1], META_WORDS)
    if args[A0 + 2] == 0 and lies_in_a_row(state, meta)[0] >= 0:
        return E_OK
    return _values(state, args, meta)


@block_function
def fetch_nulls(state_address: int, args_address: int) -> Any:
    """Null flags of the selected docs, u8: 1 = null."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A0 + 1], META_WORDS)
    n = state[S_SELECTED]
    out = register_u8(state, args[A0])[:n]
    if meta[M_NULLS] == 0:
        out[:] = 0
        return E_OK
    bits = view_u8(meta[M_NULLS], (meta[M_NUM_DOCS] + 7) >> 3)
    if state[S_DENSE] == 1:
        flags_from(state[S_REGISTERS] + args[A0] * BLOCK * 8, bits, state[S_BASE], n)
    else:
        flags_at(out, bits, view_u32(state[S_SELECTION], n))
    return E_OK
