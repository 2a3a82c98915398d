"""Conversions between numbers, and fixed units of time, on value registers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import float64, int64

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
from pinotpy.kernels.vector.operands import map_with

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


@inner
def _float64(v: Any) -> Any:
    return float64(v)


_LONG_END: Final = 2.0**63


@inner
def _to_long(v: Any) -> Any:
    inside = (v > -_LONG_END) & (v < _LONG_END)
    whole = int64(v if inside else 0.0)
    return (
        whole
        if inside
        else (np.int64(2**63 - 1) if v >= _LONG_END else (np.int64(-(2**63)) if v <= -_LONG_END else np.int64(0)))
    )


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


_long_to_double_all = map_with(_float64)
_double_to_long_all = map_with(_to_long)
_double_to_int_all = map_with(_to_int)
_long_to_int_all = map_with(_wrap)
_double_to_float_all = map_with(inner(lambda v: float64(np.float32(v))))
_double_to_wrapped_all = map_with(_to_wrapped)


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


# Instants further away are moved there first (functions.time.civil_time.INSTANT_MAX).
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
