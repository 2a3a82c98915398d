"""Flags combined, and values chosen by them, on value registers."""

from __future__ import annotations

from typing import Any, Final

from numba import uint8

from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    STATE_WORDS,
    block_function,
    inner,
    register_i64,
    register_u8,
    words,
)
from pinotpy.kernels.vector.operands import FORM_LEFT, FORM_REGISTERS, FORM_RIGHT, map_with, sketch_with

AND: Final = 0  # A0 = A1 & A2
OR: Final = 1  # A0 = A1 | A2
AND_NOT: Final = 2  # A0 = A1 & ~A2
OR_NOT: Final = 3  # A0 = A1 | ~A2
NOT: Final = 4  # A0 = ~A1

_and_all = sketch_with(inner(lambda a, b: a & b))
_or_all = sketch_with(inner(lambda a, b: a | b))
_and_not_all = sketch_with(inner(lambda a, b: a & (b ^ uint8(1))))
_or_not_all = sketch_with(inner(lambda a, b: a | (b ^ uint8(1))))
_not_all = map_with(inner(lambda a: a ^ uint8(1)))


@block_function
def combine_flags(state_address: int, args_address: int) -> Any:
    """Flags A0 = A1 op A2; operation A3."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, operation = state[S_SELECTED], args[A0 + 3]
    out, left, right = (
        register_u8(state, args[A0])[:n],
        register_u8(state, args[A0 + 1])[:n],
        register_u8(state, args[A0 + 2])[:n],
    )
    if operation == AND:
        _and_all(out, left, right)
    elif operation == OR:
        _or_all(out, left, right)
    elif operation == AND_NOT:
        _and_not_all(out, left, right)
    elif operation == OR_NOT:
        _or_not_all(out, left, right)
    else:
        _not_all(out, left)
    return E_OK


@block_function
def fill_flags(state_address: int, args_address: int) -> Any:
    """Flags A0 = A1 everywhere."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    register_u8(state, args[A0])[: state[S_SELECTED]] = uint8(args[A0 + 1])
    return E_OK


@inner
def _widened(out: Any, flags: Any) -> None:
    for i in range(len(out)):
        out[i] = flags[i]


@block_function
def widen_flags(state_address: int, args_address: int) -> Any:
    """Register A0 (i64) = flags A1."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    _widened(register_i64(state, args[A0])[:n], register_u8(state, args[A0 + 1])[:n])
    return E_OK


@inner
def _choose(out: Any, flags: Any, left: Any, right: Any) -> None:
    for i in range(len(out)):
        out[i] = left[i] if flags[i] != 0 else right[i]


@inner
def _choose_right_constant(out: Any, flags: Any, left: Any, constant: Any) -> None:
    for i in range(len(out)):
        out[i] = left[i] if flags[i] != 0 else constant


@inner
def _choose_left_constant(out: Any, flags: Any, constant: Any, right: Any) -> None:
    for i in range(len(out)):
        out[i] = constant if flags[i] != 0 else right[i]


@inner
def _choose_constants(out: Any, flags: Any, left: Any, right: Any) -> None:
    for i in range(len(out)):
        out[i] = left if flags[i] != 0 else right


@block_function
def choose(state_address: int, args_address: int) -> Any:
    """Register A0 = A1 where flags A3 are set, else A2: words of any kind; A4 the form."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, form = state[S_SELECTED], args[A0 + 4]
    out, flags = register_i64(state, args[A0])[:n], register_u8(state, args[A0 + 3])[:n]
    if form == FORM_REGISTERS:
        _choose(out, flags, register_i64(state, args[A0 + 1])[:n], register_i64(state, args[A0 + 2])[:n])
    elif form == FORM_RIGHT:
        _choose_right_constant(out, flags, register_i64(state, args[A0 + 1])[:n], args[A0 + 2])
    elif form == FORM_LEFT:
        _choose_left_constant(out, flags, args[A0 + 1], register_i64(state, args[A0 + 2])[:n])
    else:
        _choose_constants(out, flags, args[A0 + 1], args[A0 + 2])
    return E_OK


@inner
def _choose_flags(out: Any, flags: Any, left: Any, right: Any) -> None:
    for i in range(len(out)):
        out[i] = (left[i] & flags[i]) | (right[i] & (flags[i] ^ uint8(1)))


@block_function
def choose_flags(state_address: int, args_address: int) -> Any:
    """Flags A0 = flags A1 where flags A3 are set, else flags A2."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    _choose_flags(
        register_u8(state, args[A0])[:n],
        register_u8(state, args[A0 + 3])[:n],
        register_u8(state, args[A0 + 1])[:n],
        register_u8(state, args[A0 + 2])[:n],
    )
    return E_OK
