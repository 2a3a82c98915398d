"""Comparisons on value registers: flags of 0 and 1. A register of null flags beside them says where they are
unknown.
"""

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
    register_f64,
    register_i64,
    register_u8,
    words,
)
from pinotpy.kernels.runtime.views import view_f64, view_i64
from pinotpy.kernels.vector.operands import FORM_LEFT, FORM_RIGHT, commuting, operand

EQUAL: Final = 0
NOT_EQUAL: Final = 1
LESS: Final = 2
LESS_OR_EQUAL: Final = 3
GREATER: Final = 4
GREATER_OR_EQUAL: Final = 5


@inner
def _equal(a: Any, b: Any) -> Any:
    return uint8((a == b) | ((a != a) & (b != b)))  # noqa: PLR0124 — NaN is equal to itself, as in groups


@inner
def _not_equal(a: Any, b: Any) -> Any:
    return uint8((a != b) & ((a == a) | (b == b)))  # noqa: PLR0124


@inner
def _less(a: Any, b: Any) -> Any:
    return uint8(a < b)


@inner
def _less_or_equal(a: Any, b: Any) -> Any:
    return uint8(a <= b)


@inner
def _greater(a: Any, b: Any) -> Any:
    return uint8(a > b)


@inner
def _greater_or_equal(a: Any, b: Any) -> Any:
    return uint8(a >= b)


_equal_all, _not_equal_all, _less_all = commuting(_equal), commuting(_not_equal), commuting(_less)
_less_or_equal_all, _greater_all, _greater_or_equal_all = (
    commuting(_less_or_equal),
    commuting(_greater),
    commuting(_greater_or_equal),
)


@inner
def _compare(out: Any, left: Any, right: Any, a: Any, b: Any, comparison: int, form: int) -> None:
    if comparison == EQUAL:
        _equal_all(out, left, right, a, b, form)
    elif comparison == NOT_EQUAL:
        _not_equal_all(out, left, right, a, b, form)
    elif comparison == LESS:
        _less_all(out, left, right, a, b, form)
    elif comparison == LESS_OR_EQUAL:
        _less_or_equal_all(out, left, right, a, b, form)
    elif comparison == GREATER:
        _greater_all(out, left, right, a, b, form)
    else:
        _greater_or_equal_all(out, left, right, a, b, form)


@block_function
def compare_doubles(state_address: int, args_address: int) -> Any:
    """Flags A0 = A1 compared with A2, doubles."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, form = state[S_SELECTED], args[A0 + 4]
    constants = view_f64(args_address + (A0 + 1) * 8, 2)
    left = register_f64(state, operand(args, A0 + 1, form == FORM_LEFT))[:n]
    right = register_f64(state, operand(args, A0 + 2, form == FORM_RIGHT))[:n]
    _compare(register_u8(state, args[A0])[:n], left, right, constants[0], constants[1], args[A0 + 3], form)
    return E_OK


@block_function
def compare_longs(state_address: int, args_address: int) -> Any:
    """Flags A0 = A1 compared with A2, integers."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, form = state[S_SELECTED], args[A0 + 4]
    left = register_i64(state, operand(args, A0 + 1, form == FORM_LEFT))[:n]
    right = register_i64(state, operand(args, A0 + 2, form == FORM_RIGHT))[:n]
    _compare(register_u8(state, args[A0])[:n], left, right, args[A0 + 1], args[A0 + 2], args[A0 + 3], form)
    return E_OK


@inner
def _within(out: Any, values: Any, low: Any, high: Any) -> None:
    for i in range(len(out)):
        out[i] = uint8((values[i] >= low) & (values[i] <= high))


@block_function
def between_doubles(state_address: int, args_address: int) -> Any:
    """Flags A0 = register A1 in [A2, A3], doubles."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, bounds = state[S_SELECTED], view_f64(args_address + (A0 + 2) * 8, 2)
    _within(register_u8(state, args[A0])[:n], register_f64(state, args[A0 + 1])[:n], bounds[0], bounds[1])
    return E_OK


@block_function
def between_longs(state_address: int, args_address: int) -> Any:
    """Flags A0 = register A1 in [A2, A3], integers."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    _within(register_u8(state, args[A0])[:n], register_i64(state, args[A0 + 1])[:n], args[A0 + 2], args[A0 + 3])
    return E_OK


@inner
def _among(out: Any, values: Any, members: Any) -> None:
    # Binary search: lists in expressions are short, and doubles come as values, not bits.
    for i in range(len(out)):
        v = values[i]
        low, high = 0, len(members)
        while low < high:
            middle = (low + high) >> 1
            if members[middle] < v:
                low = middle + 1
            else:
                high = middle
        out[i] = uint8(low < len(members) and members[low] == v)


@block_function
def among_doubles(state_address: int, args_address: int) -> Any:
    """Flags A0 = register A1 is one of A3 sorted doubles at A2; NaN is none."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    _among(
        register_u8(state, args[A0])[:n], register_f64(state, args[A0 + 1])[:n], view_f64(args[A0 + 2], args[A0 + 3])
    )
    return E_OK


@block_function
def among_longs(state_address: int, args_address: int) -> Any:
    """Flags A0 = register A1 is one of A3 sorted integers at A2."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    _among(
        register_u8(state, args[A0])[:n], register_i64(state, args[A0 + 1])[:n], view_i64(args[A0 + 2], args[A0 + 3])
    )
    return E_OK
