"""What scalar functions do with their arguments: other types, constants, text of numbers. All on whole arrays.

`values` below is a pa.Array or a pa.Scalar without nulls; what comes back is of the same kind. Text of numbers is
Java's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.scalar.spec import Operand, Value
from pinotpy.functions.stopping import unless_stopped
from pinotpy.pql.literals import java_double_text

_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1


# --- when a function is bound ----------------------------------------------------------------------------------------


def expect_single(operands: Sequence[Operand], function: str) -> None:
    """Raise InvalidQueryError if an argument is multi-valued."""
    for operand in operands:
        if not operand.single_value:
            raise InvalidQueryError(f"{function.upper()} takes single values, found {operand.name}")


def expect_multi(operand: Operand, function: str) -> None:
    """Raise InvalidQueryError unless the argument is multi-valued."""
    if operand.single_value:
        raise InvalidQueryError(f"{function.upper()} takes a multi-value column, found {operand.name}")


def constant_text(operand: Operand, what: str, function: str) -> str:
    """The text of an argument that must be a constant; raises InvalidQueryError."""
    if operand.literal is None or operand.literal.value is None:
        raise InvalidQueryError(f"expected a constant as {what} of {function.upper()}, found {operand.name}")
    return operand.literal.text


def constant_int(operand: Operand, what: str, function: str) -> int:
    """The whole number of an argument that must be a constant, quoted or not; raises InvalidQueryError."""
    text = constant_text(operand, what, function)
    try:
        return int(text)
    except ValueError as error:
        raise InvalidQueryError(
            f"expected a whole number as {what} of {function.upper()}, found '{text[:40]}'"
        ) from error


# --- when it is evaluated --------------------------------------------------------------------------------------------


def spread(values: Value, count: int) -> pa.Array:
    """An array of `count` values: a constant is repeated."""
    return pa.repeat(values, count) if isinstance(values, pa.Scalar) else values


def length_of(values: Sequence[Value]) -> int:
    """Rows of the arguments."""
    return next((len(value) for value in values if isinstance(value, pa.Array)), 1)


def map_distinct(values: pa.Array, function: Callable[[Any], Any], arrow: pa.DataType) -> pa.Array:
    """function(value) of every distinct value, once each: for what neither Arrow nor numpy computes."""
    encoded = values.dictionary_encode()
    results = [function(value) for value in unless_stopped(encoded.dictionary.to_pylist())]
    return pa.array(results, arrow).take(encoded.indices)


def _on_array(values: Value, convert: Callable[[pa.Array], pa.Array]) -> Value:
    if isinstance(values, pa.Scalar):
        return convert(pa.array([values.as_py()], values.type))[0]
    return convert(values)


def doubles(values: Value, data_type: DataType | None) -> Value:
    """Values as float64. Text must be a number as Java parses one; raises QueryExecutionError."""
    return _on_array(values, lambda array: _doubles(array, data_type))


def _doubles(array: pa.Array, data_type: DataType | None) -> pa.Array:
    if data_type is DataType.BIG_DECIMAL:
        return map_distinct(array, lambda data: float(decode_decimal(data)), pa.float64())
    if pa.types.is_string(array.type):
        return map_distinct(array, _parse_double, pa.float64())
    if pa.types.is_boolean(array.type):
        return array.cast(pa.int8()).cast(pa.float64())
    if pa.types.is_binary(array.type):
        raise QueryExecutionError("expected a number, found BYTES")
    return array.cast(pa.float64(), safe=False)  # a LONG beyond 2^53 is rounded, as everywhere in arithmetic


def _parse_double(text: str) -> float:
    trimmed = text.strip()
    try:
        if "_" in trimmed or trimmed.lower().lstrip("+-") in ("nan", "inf", "infinity"):
            return {
                "NaN": float("nan"),
                "Infinity": float("inf"),
                "+Infinity": float("inf"),
                "-Infinity": float("-inf"),
            }[trimmed]
        return float(trimmed.rstrip("fFdD") if trimmed[-1:] in "fFdD" and trimmed[:-1] else trimmed)
    except (ValueError, KeyError) as error:
        raise QueryExecutionError(f"expected a number, found the text '{text[:40]}'") from error


def longs(values: Value, data_type: DataType | None) -> Value:
    """Values as int64: fractions are cut off, doubles beyond the range become its ends, NaN 0 (Java's cast); text must
    be a whole number. Raises QueryExecutionError.
    """
    return _on_array(values, lambda array: _longs(array, data_type))


def _longs(array: pa.Array, data_type: DataType | None) -> pa.Array:
    if pa.types.is_floating(array.type):
        return pa.array(doubles_to_longs(array.to_numpy(zero_copy_only=False).astype(np.float64)))
    if data_type is DataType.BIG_DECIMAL:
        return map_distinct(array, lambda data: max(min(int(decode_decimal(data)), _LONG_MAX), _LONG_MIN), pa.int64())
    if pa.types.is_string(array.type):
        return map_distinct(array, _parse_long, pa.int64())
    if pa.types.is_boolean(array.type):
        return array.cast(pa.int8()).cast(pa.int64())
    if pa.types.is_binary(array.type):
        raise QueryExecutionError("expected a whole number, found BYTES")
    return array.cast(pa.int64())


def doubles_to_longs(values: NDArray[np.float64]) -> Int64Array:
    """Java's (long) of doubles."""
    with np.errstate(invalid="ignore"):
        out: Int64Array = np.where(np.isnan(values), 0.0, values).astype(np.int64)
    out[values >= 2.0**63] = _LONG_MAX
    out[values <= -(2.0**63)] = _LONG_MIN
    return out


def _parse_long(text: str) -> int:
    try:
        value = int(text) if text.isascii() and "_" not in text and text == text.strip() else None
    except ValueError:
        value = None
    if value is None or not _LONG_MIN <= value <= _LONG_MAX:
        raise QueryExecutionError(f"expected a whole number, found the text '{text[:40]}'")
    return value


def ints(values: Value, data_type: DataType | None) -> Value:
    """Values as int32, beyond its range wrapped as Java's (int) of a long does."""

    def convert(array: pa.Array) -> pa.Array:
        return pa.array(_longs(array, data_type).to_numpy(zero_copy_only=False).astype(np.int32))

    return _on_array(values, convert)


def texts(values: Value, data_type: DataType | None) -> Value:
    """Java's text of values: 1.0E10, true, lower-case hex of BYTES; TIMESTAMP is its milliseconds."""
    return _on_array(values, lambda array: _texts(array, data_type))


def _texts(array: pa.Array, data_type: DataType | None) -> pa.Array:
    if pa.types.is_string(array.type):
        return array
    if pa.types.is_float32(array.type):
        return map_distinct(array, java_float_text, pa.string())
    if pa.types.is_floating(array.type):
        return map_distinct(array, java_double_text, pa.string())
    if pa.types.is_boolean(array.type):
        return pc.if_else(array, "true", "false")
    if data_type is DataType.BIG_DECIMAL:
        return map_distinct(array, lambda data: format(decode_decimal(data), "f"), pa.string())
    if pa.types.is_binary(array.type):
        return map_distinct(array, lambda data: data.hex(), pa.string())
    return array.cast(pa.string())


def java_float_text(value: float) -> str:
    """Float.toString: the shortest digits that name this float32, in the layout of doubles."""
    if not np.isfinite(value) or value == 0:
        return java_double_text(value)
    shortest = float(np.format_float_scientific(np.float32(value), unique=True))
    return java_double_text(shortest)


def numpy_of(values: pa.Array) -> NDArray[Any]:
    """A fixed-type array as numpy."""
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return array
