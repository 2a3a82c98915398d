"""Arithmetic of expressions on value registers: what functions/scalar computes on whole arrays, block by block.

A binary instruction takes its operands as registers or constants:

    A0 out   A1 left   A2 right   A3 operation   A4 form: FORM_REGISTERS, FORM_RIGHT (A2 is a constant) or FORM_LEFT (A1 is one;
                                                          not of operations that commute, nor of comparisons)

Constants are 64-bit words: an integer, or the bits of a double. Doubles follow IEEE 754 with one rounding an operation
(nothing is fused), integers wrap; the planner uses integer operations only where they cannot overflow. Conditions are u8
registers of 0 and 1; a register of null flags beside them says where they are unknown.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import float64, int64, uint8

from pinotpy.kernels.abi import (
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
from pinotpy.kernels.views import view_f64, view_i64

FORM_REGISTERS: Final = 0
FORM_RIGHT: Final = 1
FORM_LEFT: Final = 2

# Binary operations.
ADD: Final = 0
SUBTRACT: Final = 1
MULTIPLY: Final = 2
DIVIDE: Final = 3  # doubles only
REMAINDER: Final = 4  # doubles only: the sign of the dividend
LEAST: Final = 5  # of doubles: NaN only where both are
GREATEST: Final = 6

# Unary operations of doubles.
ABSOLUTE: Final = 0
NEGATE: Final = 1
SIGN: Final = 2
CEIL: Final = 3
FLOOR: Final = 4
SQUARE_ROOT: Final = 5
CANONICAL: Final = 6  # −0.0 is 0.0, and NaN one value: what looks at bits sees values

# Conversions.
LONG_TO_DOUBLE: Final = 0
DOUBLE_TO_LONG: Final = 1  # toward zero, ends of the range, NaN 0: Java's (long)
DOUBLE_TO_INT: Final = 2  # the same, then ends of the range of INT
LONG_TO_INT: Final = 3  # the lowest 32 bits
DOUBLE_TO_FLOAT: Final = 4
DOUBLE_TO_WRAPPED_INT: Final = 5  # (int) (long): the lowest 32 bits

# Operations on times (i64).
FLOOR_UNIT: Final = 0  # floor(v / A3) * A3
TRUNCATE_DIVIDE: Final = 1  # v / A3 toward zero
SATURATED_MULTIPLY: Final = 2  # v * A3 within 64 bits


# --- binary --------------------------------------------------------------------------------------------------------


def _registers_with(operation: Any) -> Any:
    @inner
    def run(out: Any, left: Any, right: Any) -> None:
        for i in range(len(out)):
            out[i] = operation(left[i], right[i])

    return run


def _right_with(operation: Any) -> Any:
    @inner
    def run(out: Any, left: Any, constant: Any) -> None:
        for i in range(len(out)):
            out[i] = operation(left[i], constant)

    return run


def _left_with(operation: Any) -> Any:
    @inner
    def run(out: Any, constant: Any, right: Any) -> None:
        for i in range(len(out)):
            out[i] = operation(constant, right[i])

    return run


def _commuting(operation: Any) -> Any:
    # A constant on the left is put on the right by the planner.
    registers, right_constant = _registers_with(operation), _right_with(operation)

    @inner
    def run(out: Any, left: Any, right: Any, _a: Any, b: Any, form: int) -> None:
        if form == FORM_REGISTERS:
            registers(out, left, right)
        else:
            right_constant(out, left, b)

    return run


def _forms_of(operation: Any) -> Any:
    registers, right_constant, left_constant = _registers_with(operation), _right_with(operation), _left_with(operation)

    @inner
    def run(out: Any, left: Any, right: Any, a: Any, b: Any, form: int) -> None:
        if form == FORM_REGISTERS:
            registers(out, left, right)
        elif form == FORM_RIGHT:
            right_constant(out, left, b)
        else:
            left_constant(out, a, right)

    return run


@inner
def _add(a: Any, b: Any) -> Any:
    return a + b


@inner
def _subtract(a: Any, b: Any) -> Any:
    return a - b


@inner
def _multiply(a: Any, b: Any) -> Any:
    return a * b


@inner
def _divide(a: Any, b: Any) -> Any:
    return a / b


@inner
def _remainder(a: Any, b: Any) -> Any:
    return np.fmod(a, b)


@inner
def _least(a: Any, b: Any) -> Any:
    return b if (b < a) | (a != a) else a  # noqa: PLR0124


@inner
def _greatest(a: Any, b: Any) -> Any:
    return b if (b > a) | (a != a) else a  # noqa: PLR0124


_add_all, _multiply_all, _least_all, _greatest_all = _commuting(_add), _commuting(_multiply), _commuting(_least), _commuting(_greatest)
_subtract_all, _divide_all, _remainder_all = _forms_of(_subtract), _forms_of(_divide), _forms_of(_remainder)


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


@inner
def _operand(state: Any, args: Any, place: int, is_constant: bool) -> Any:
    # Register 0 stands in for a constant: it is not read.
    return 0 if is_constant else args[place]


@block_function
def binary_doubles(state_address: int, args_address: int) -> Any:
    """Register A0 = A1 op A2, doubles."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, operation, form = state[S_SELECTED], args[A0 + 3], args[A0 + 4]
    constants = view_f64(args_address + (A0 + 1) * 8, 2)
    a, b = constants[0], constants[1]
    out = register_f64(state, args[A0])[:n]
    left = register_f64(state, _operand(state, args, A0 + 1, form == FORM_LEFT))[:n]
    right = register_f64(state, _operand(state, args, A0 + 2, form == FORM_RIGHT))[:n]
    if operation == ADD:
        _add_all(out, left, right, a, b, form)
    elif operation == SUBTRACT:
        _subtract_all(out, left, right, a, b, form)
    elif operation == MULTIPLY:
        _multiply_all(out, left, right, a, b, form)
    elif operation == DIVIDE:
        _divide_all(out, left, right, a, b, form)
    elif operation == REMAINDER:
        _remainders(out, left, right, a, b, form)
    elif operation == LEAST:
        _least_all(out, left, right, a, b, form)
    else:
        _greatest_all(out, left, right, a, b, form)
    return E_OK


@block_function
def binary_longs(state_address: int, args_address: int) -> Any:
    """Register A0 = A1 op A2, integers: ADD, SUBTRACT, MULTIPLY, LEAST, GREATEST."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, operation, form = state[S_SELECTED], args[A0 + 3], args[A0 + 4]
    a, b = args[A0 + 1], args[A0 + 2]
    out = register_i64(state, args[A0])[:n]
    left = register_i64(state, _operand(state, args, A0 + 1, form == FORM_LEFT))[:n]
    right = register_i64(state, _operand(state, args, A0 + 2, form == FORM_RIGHT))[:n]
    if operation == ADD:
        _add_all(out, left, right, a, b, form)
    elif operation == SUBTRACT:
        _subtract_all(out, left, right, a, b, form)
    elif operation == MULTIPLY:
        _multiply_all(out, left, right, a, b, form)
    elif operation == LEAST:
        _least_all(out, left, right, a, b, form)
    else:
        _greatest_all(out, left, right, a, b, form)
    return E_OK


# --- unary ---------------------------------------------------------------------------------------------------------


def _map_with(operation: Any) -> Any:
    @inner
    def run(out: Any, values: Any) -> None:
        for i in range(len(out)):
            out[i] = operation(values[i])

    return run


@inner
def _sign(v: Any) -> Any:
    return np.nan if v != v else (1.0 if v > 0.0 else (-1.0 if v < 0.0 else 0.0))  # noqa: PLR0124


@inner
def _canonical(v: Any) -> Any:
    return np.nan if v != v else v + 0.0  # noqa: PLR0124


@inner
def _abs(v: Any) -> Any:
    return abs(v)


@inner
def _ceil(v: Any) -> Any:
    return np.ceil(v)


@inner
def _floor(v: Any) -> Any:
    return np.floor(v)


@inner
def _sqrt(v: Any) -> Any:
    return np.sqrt(v)


@inner
def _float64(v: Any) -> Any:
    return float64(v)


_absolute_all = _map_with(_abs)
_negate_all = _map_with(inner(lambda v: -v))
_sign_all = _map_with(_sign)
_ceil_all = _map_with(_ceil)
_floor_all = _map_with(_floor)
_root_all = _map_with(_sqrt)
_canonical_all = _map_with(_canonical)


@block_function
def unary_doubles(state_address: int, args_address: int) -> Any:
    """Register A0 = operation A2 of register A1, doubles."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, operation = state[S_SELECTED], args[A0 + 2]
    out, values = register_f64(state, args[A0])[:n], register_f64(state, args[A0 + 1])[:n]
    if operation == ABSOLUTE:
        _absolute_all(out, values)
    elif operation == NEGATE:
        _negate_all(out, values)
    elif operation == SIGN:
        _sign_all(out, values)
    elif operation == CEIL:
        _ceil_all(out, values)
    elif operation == FLOOR:
        _floor_all(out, values)
    elif operation == SQUARE_ROOT:
        _root_all(out, values)
    else:
        _canonical_all(out, values)
    return E_OK


_LONG_END: Final = 2.0**63


@inner
def _to_long(v: Any) -> Any:
    inside = (v > -_LONG_END) & (v < _LONG_END)
    whole = int64(v if inside else 0.0)
    return whole if inside else (np.int64(2**63 - 1) if v >= _LONG_END else (np.int64(-(2**63)) if v <= -_LONG_END else np.int64(0)))


@inner
def _to_int(v: Any) -> Any:
    whole = _to_long(v)
    return max(min(whole, np.int64(2**31 - 1)), np.int64(-(2**31)))


@inner
def _wrap(v: Any) -> Any:
    return (v << np.int64(32)) >> np.int64(32)


@inner
def _to_wrapped(v: Any) -> Any:
    return _wrap(_to_long(v))


_long_to_double_all = _map_with(_float64)
_double_to_long_all = _map_with(_to_long)
_double_to_int_all = _map_with(_to_int)
_long_to_int_all = _map_with(_wrap)
_double_to_float_all = _map_with(inner(lambda v: float64(np.float32(v))))
_double_to_wrapped_all = _map_with(_to_wrapped)


@block_function
def convert(state_address: int, args_address: int) -> Any:
    """Register A0 = conversion A2 of register A1."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, conversion = state[S_SELECTED], args[A0 + 2]
    integers, floats = register_i64(state, args[A0])[:n], register_f64(state, args[A0])[:n]
    if conversion == LONG_TO_DOUBLE:
        _long_to_double_all(floats, register_i64(state, args[A0 + 1])[:n])
    elif conversion == DOUBLE_TO_LONG:
        _double_to_long_all(integers, register_f64(state, args[A0 + 1])[:n])
    elif conversion == DOUBLE_TO_INT:
        _double_to_int_all(integers, register_f64(state, args[A0 + 1])[:n])
    elif conversion == LONG_TO_INT:
        _long_to_int_all(integers, register_i64(state, args[A0 + 1])[:n])
    elif conversion == DOUBLE_TO_FLOAT:
        _double_to_float_all(floats, register_f64(state, args[A0 + 1])[:n])
    else:
        _double_to_wrapped_all(integers, register_f64(state, args[A0 + 1])[:n])
    return E_OK


# --- times ---------------------------------------------------------------------------------------------------------

_EXACT: Final = 1 << 51  # below this doubles count whole numbers, with room for a rounded quotient


@inner
def _is_small(values: Any) -> Any:
    # max − min style loops do not vectorise with early exit: or all magnitudes together.
    together = int64(0)
    for i in range(len(values)):
        together |= values[i] ^ (values[i] >> int64(63))
    return together < _EXACT


@inner
def _floor_small(out: Any, values: Any, size: int, reciprocal: float, scale: int) -> None:
    # The quotient by multiplication is off by one at most.
    for i in range(len(out)):
        v = values[i]
        q = int64(np.floor(float64(v) * reciprocal))
        rest = v - q * size
        q += int64(rest >= size) - int64(rest < 0)
        out[i] = q * scale


@inner
def _truncate_small(out: Any, values: Any, size: int, reciprocal: float) -> None:
    for i in range(len(out)):
        v = values[i]
        magnitude = abs(v)
        q = int64(float64(magnitude) * reciprocal)
        rest = magnitude - q * size
        q += int64(rest >= size) - int64(rest < 0)
        out[i] = -q if v < 0 else q


# Instants further away are moved there first (functions.civil_time.INSTANT_MAX).
_INSTANT_MAX: Final = 2**63 - 1 - 2 * 366 * 86_400_000


@inner
def _floor_any(out: Any, values: Any, size: int) -> None:
    for i in range(len(out)):
        out[i] = max(min(values[i], _INSTANT_MAX), -_INSTANT_MAX) // size * size


@inner
def _truncate_any(out: Any, values: Any, size: int) -> None:
    for i in range(len(out)):
        v = values[i]
        q = v // size
        out[i] = q + int64((q < 0) & (q * size != v))


@inner
def _saturate(out: Any, values: Any, factor: int) -> None:
    limit = np.int64(2**63 - 1) // factor
    for i in range(len(out)):
        v = values[i]
        inside = (v >= -limit) & (v <= limit)
        product = (v if inside else int64(0)) * factor
        out[i] = product if inside else (np.int64(2**63 - 1) if v > 0 else np.int64(-(2**63)))


@block_function
def time_longs(state_address: int, args_address: int) -> Any:
    """Register A0 = operation A2 of register A1 with the constant A3 (1 or more)."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, operation, size = state[S_SELECTED], args[A0 + 2], args[A0 + 3]
    out, values = register_i64(state, args[A0])[:n], register_i64(state, args[A0 + 1])[:n]
    if operation == SATURATED_MULTIPLY:
        _saturate(out, values, size)
    elif operation == FLOOR_UNIT:
        if _is_small(values):
            _floor_small(out, values, size, 1.0 / float64(size), size)
        else:
            _floor_any(out, values, size)
    elif _is_small(values):
        _truncate_small(out, values, size, 1.0 / float64(size))
    else:
        _truncate_any(out, values, size)
    return E_OK


# --- conditions ----------------------------------------------------------------------------------------------------

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


_equal_all, _not_equal_all, _less_all = _commuting(_equal), _commuting(_not_equal), _commuting(_less)
_less_or_equal_all, _greater_all, _greater_or_equal_all = _commuting(_less_or_equal), _commuting(_greater), _commuting(_greater_or_equal)


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
    left = register_f64(state, _operand(state, args, A0 + 1, form == FORM_LEFT))[:n]
    right = register_f64(state, _operand(state, args, A0 + 2, form == FORM_RIGHT))[:n]
    _compare(register_u8(state, args[A0])[:n], left, right, constants[0], constants[1], args[A0 + 3], form)
    return E_OK


@block_function
def compare_longs(state_address: int, args_address: int) -> Any:
    """Flags A0 = A1 compared with A2, integers."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, form = state[S_SELECTED], args[A0 + 4]
    left = register_i64(state, _operand(state, args, A0 + 1, form == FORM_LEFT))[:n]
    right = register_i64(state, _operand(state, args, A0 + 2, form == FORM_RIGHT))[:n]
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
    _among(register_u8(state, args[A0])[:n], register_f64(state, args[A0 + 1])[:n], view_f64(args[A0 + 2], args[A0 + 3]))
    return E_OK


@block_function
def among_longs(state_address: int, args_address: int) -> Any:
    """Flags A0 = register A1 is one of A3 sorted integers at A2."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    _among(register_u8(state, args[A0])[:n], register_i64(state, args[A0 + 1])[:n], view_i64(args[A0 + 2], args[A0 + 3]))
    return E_OK


# --- flags ---------------------------------------------------------------------------------------------------------

AND: Final = 0  # A0 = A1 & A2
OR: Final = 1  # A0 = A1 | A2
AND_NOT: Final = 2  # A0 = A1 & ~A2
OR_NOT: Final = 3  # A0 = A1 | ~A2
NOT: Final = 4  # A0 = ~A1

_and_all = _registers_with(inner(lambda a, b: a & b))
_or_all = _registers_with(inner(lambda a, b: a | b))
_and_not_all = _registers_with(inner(lambda a, b: a & (b ^ uint8(1))))
_or_not_all = _registers_with(inner(lambda a, b: a | (b ^ uint8(1))))
_not_all = _map_with(inner(lambda a: a ^ uint8(1)))


@block_function
def combine_flags(state_address: int, args_address: int) -> Any:
    """Flags A0 = A1 op A2; operation A3."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, operation = state[S_SELECTED], args[A0 + 3]
    out, left, right = register_u8(state, args[A0])[:n], register_u8(state, args[A0 + 1])[:n], register_u8(state, args[A0 + 2])[:n]
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


FORM_CONSTANTS: Final = 3


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
        register_u8(state, args[A0])[:n], register_u8(state, args[A0 + 3])[:n], register_u8(state, args[A0 + 1])[:n], register_u8(state, args[A0 + 2])[:n]
    )
    return E_OK
