"""Arithmetic of expressions on value registers: what functions/scalar computes on whole arrays, block by block.

Operations that follow each other in a vector register are steps of chains (fused_program.py), and here only named.
Instructions are those of operands.py. Doubles follow IEEE 754 with one rounding an operation (nothing is fused),
integers wrap; the planner uses integer operations only where they cannot overflow.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64

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
    words,
)
from pinotpy.kernels.runtime.views import view_f64
from pinotpy.kernels.vector.operands import FORM_LEFT, FORM_RIGHT, commuting, forms_of, map_with, operand

# Binary operations. The first four: of doubles, in chains.
ADD: Final = 0  # of integers too
SUBTRACT: Final = 1
MULTIPLY: Final = 2
DIVIDE: Final = 3
REMAINDER: Final = 4  # doubles only: the sign of the dividend
LEAST: Final = 5  # of doubles: NaN only where both are
GREATEST: Final = 6

# Unary operations of doubles, in chains but for the last two.
ABSOLUTE: Final = 0
NEGATE: Final = 1
CEIL: Final = 2
FLOOR: Final = 3
SQUARE_ROOT: Final = 4
SIGN: Final = 5
CANONICAL: Final = 6  # −0.0 is 0.0, and NaN one value: what looks at bits sees values


@inner
def _add(a: Any, b: Any) -> Any:
    return a + b


@inner
def _remainder(a: Any, b: Any) -> Any:
    return np.fmod(a, b)


@inner
def _least(a: Any, b: Any) -> Any:
    return b if (b < a) | (a != a) else a  # noqa: PLR0124


@inner
def _greatest(a: Any, b: Any) -> Any:
    return b if (b > a) | (a != a) else a  # noqa: PLR0124


_add_all, _least_all, _greatest_all = commuting(_add), commuting(_least), commuting(_greatest)
_remainder_all = forms_of(_remainder)


_WHOLE_MAX: Final = 2.0**51


@inner
def _are_whole(values: Any) -> Any:
    # Whole numbers that doubles count exactly, with room for a rounded quotient.
    strange = 0
    for i in range(len(values)):
        v = values[i]
        strange += int64(not (abs(v) < _WHOLE_MAX)) | int64(np.floor(v) != v)
    return strange == 0


@inner
def _whole_remainder(out: Any, values: Any, divisor: float, reciprocal: float) -> None:
    # The quotient by multiplication is off by one at most; all products are whole and exact.
    for i in range(len(out)):
        magnitude = abs(values[i])
        rest = magnitude - np.floor(magnitude * reciprocal) * divisor
        rest = rest + divisor if rest < 0.0 else rest
        rest = rest - divisor if rest >= divisor else rest
        out[i] = np.copysign(rest, values[i])


@inner
def _remainders(out: Any, left: Any, right: Any, a: Any, b: Any, form: int) -> None:
    if form == FORM_RIGHT and 1.0 <= abs(b) < _WHOLE_MAX and np.floor(b) == b and _are_whole(left):
        _whole_remainder(out, left, abs(b), 1.0 / abs(b))
    else:
        _remainder_all(out, left, right, a, b, form)


@block_function
def binary_doubles(state_address: int, args_address: int) -> Any:
    """Register A0 = A1 op A2, doubles: REMAINDER, LEAST, GREATEST."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, operation, form = state[S_SELECTED], args[A0 + 3], args[A0 + 4]
    constants = view_f64(args_address + (A0 + 1) * 8, 2)
    a, b = constants[0], constants[1]
    out = register_f64(state, args[A0])[:n]
    left = register_f64(state, operand(args, A0 + 1, form == FORM_LEFT))[:n]
    right = register_f64(state, operand(args, A0 + 2, form == FORM_RIGHT))[:n]
    if operation == REMAINDER:
        _remainders(out, left, right, a, b, form)
    elif operation == LEAST:
        _least_all(out, left, right, a, b, form)
    else:
        _greatest_all(out, left, right, a, b, form)
    return E_OK


@block_function
def binary_longs(state_address: int, args_address: int) -> Any:
    """Register A0 = A1 op A2, integers: ADD, LEAST, GREATEST."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, operation, form = state[S_SELECTED], args[A0 + 3], args[A0 + 4]
    a, b = args[A0 + 1], args[A0 + 2]
    out = register_i64(state, args[A0])[:n]
    left = register_i64(state, operand(args, A0 + 1, form == FORM_LEFT))[:n]
    right = register_i64(state, operand(args, A0 + 2, form == FORM_RIGHT))[:n]
    if operation == ADD:
        _add_all(out, left, right, a, b, form)
    elif operation == LEAST:
        _least_all(out, left, right, a, b, form)
    else:
        _greatest_all(out, left, right, a, b, form)
    return E_OK


@inner
def _sign(v: Any) -> Any:
    return np.nan if v != v else (1.0 if v > 0.0 else (-1.0 if v < 0.0 else 0.0))  # noqa: PLR0124


@inner
def _canonical(v: Any) -> Any:
    return np.nan if v != v else v + 0.0  # noqa: PLR0124


_sign_all = map_with(_sign)
_canonical_all = map_with(_canonical)


@block_function
def unary_doubles(state_address: int, args_address: int) -> Any:
    """Register A0 = operation A2 of register A1, doubles: SIGN, CANONICAL."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    out, values = register_f64(state, args[A0])[:n], register_f64(state, args[A0 + 1])[:n]
    if args[A0 + 2] == SIGN:
        _sign_all(out, values)
    else:
        _canonical_all(out, values)
    return E_OK
