"""Fetch instructions: values of the selected docs (or lanes) of one column into a register.

Arguments: A0 register, A1 address of the column's meta, A2 = 1 + the register with the entry of every lane where the
column was expanded, else 0. A dense block reads contiguously from its base; otherwise it gathers by doc id or entry.
"""

from __future__ import annotations

from typing import Any

from pinotpy.kernels.abi import (
    A0,
    BLOCK,
    E_OK,
    INSTRUCTION_WORDS,
    M_CARDINALITY,
    M_DATA,
    M_DICTIONARY,
    M_NULLS,
    M_NUM_DOCS,
    M_NUM_VALUES,
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
from pinotpy.kernels.bit_flags import flags_at, flags_from
from pinotpy.kernels.views import view_f32, view_f64, view_i32, view_i64, view_u8, view_u16, view_u32


@inner
def _copy(out: Any, values: Any) -> None:
    for i in range(len(out)):
        out[i] = values[i]


@inner
def _gather(out: Any, values: Any, positions: Any) -> None:
    # Positions are unsigned: signed ones would cost a wraparound check.
    for i in range(len(out)):
        out[i] = values[positions[i]]


@inner
def _read(out: Any, values: Any, dense: bool, base: int, positions: Any) -> None:
    if dense:
        _copy(out, values[base : base + len(out)])
    else:
        _gather(out, values, positions)


@inner
def _ids(out: Any, meta: Any, dense: bool, base: int, positions: Any) -> None:
    width, address, count = meta[M_WIDTH], meta[M_DATA], meta[M_NUM_VALUES]
    if width == 1:
        _read(out, view_u8(address, count), dense, base, positions)
    elif width == 2:
        _read(out, view_u16(address, count), dense, base, positions)
    else:
        _read(out, view_u32(address, count), dense, base, positions)


@inner
def _positions(state: Any, args: Any) -> Any:
    lanes = args[A0 + 2] - 1
    return view_u32(state[S_SELECTION] if lanes < 0 else state[S_REGISTERS] + lanes * BLOCK * 8, state[S_SELECTED])


@block_function
def fetch_ids(state_address: int, args_address: int) -> Any:
    """Dict ids, u32."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    dense = state[S_DENSE] == 1 and args[A0 + 2] == 0
    _ids(register_u32(state, args[A0])[: state[S_SELECTED]], words(args[A0 + 1], META_WORDS), dense, state[S_BASE], _positions(state, args))
    return E_OK


@block_function
def fetch_values(state_address: int, args_address: int) -> Any:
    """Values: i64 of INT and LONG columns, f64 of FLOAT and DOUBLE columns."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    meta = words(args[A0 + 1], META_WORDS)
    n, base, stored = state[S_SELECTED], state[S_BASE], meta[M_STORED]
    positions = _positions(state, args)
    dense = state[S_DENSE] == 1 and args[A0 + 2] == 0
    integers, floats = register_i64(state, args[A0])[:n], register_f64(state, args[A0])[:n]
    address, count = meta[M_DATA], meta[M_NUM_VALUES]
    if meta[M_CARDINALITY] >= 0:
        ids = view_u32(state[S_SCRATCH], n)
        _ids(ids, meta, dense, base, positions)
        # From here the dictionary is the column and the ids are the positions.
        positions, dense, address, count = ids, False, meta[M_DICTIONARY], meta[M_CARDINALITY]
    if stored == T_INT:
        _read(integers, view_i32(address, count), dense, base, positions)
    elif stored == T_LONG:
        _read(integers, view_i64(address, count), dense, base, positions)
    elif stored == T_FLOAT:
        _read(floats, view_f32(address, count), dense, base, positions)
    elif stored == T_DOUBLE:
        _read(floats, view_f64(address, count), dense, base, positions)
    return E_OK


@inner
def _widen(out: Any, values: Any) -> None:
    for i in range(len(out)):
        out[i] = values[i]


@block_function
def to_doubles(state_address: int, args_address: int) -> Any:
    """Register A0 (f64) = register A1 (i64)."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    _widen(register_f64(state, args[A0])[:n], register_i64(state, args[A0 + 1])[:n])
    return E_OK


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
