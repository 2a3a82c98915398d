"""TIMECONVERT, toEpoch… and fromEpoch…: counts of one unit of time to counts of another, as
java.util.concurrent.TimeUnit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import constant_text, expect_single, longs
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.functions.time.civil_time import DAY_MS, truncating_divide, units_between
from pinotpy.pql.ast import Dialect

NANOS: Final = {
    "NANOSECONDS": 1,
    "MICROSECONDS": 1_000,
    "MILLISECONDS": 1_000_000,
    "SECONDS": 1_000_000_000,
    "MINUTES": 60_000_000_000,
    "HOURS": 3_600_000_000_000,
    "DAYS": 86_400_000_000_000,
}
_CALENDAR_UNITS: Final = {"WEEKS": "WEEK", "MONTHS": "MONTH", "YEARS": "YEAR"}  # to convert to, not from
_LONG_MAX: Final = 2**63 - 1


def time_unit(text: str, where: str) -> str:
    """The name of a Java TimeUnit, in any case; raises InvalidQueryError."""
    unit = text.strip().upper()
    if unit not in NANOS:
        raise InvalidQueryError(f"Invalid time unit: {text[:40]} in {where}: expected one of {', '.join(NANOS)}")
    return unit


def output_unit(text: str, where: str) -> str:
    """A Java TimeUnit, or WEEKS, MONTHS, YEARS; raises InvalidQueryError."""
    unit = text.strip().upper()
    return unit if unit in _CALENDAR_UNITS else time_unit(text, f"{where}, which may also be WEEKS, MONTHS or YEARS")


def saturating_multiply(values: Int64Array, factor: int) -> Int64Array:
    """values × factor (1 or more); what leaves 64 bits becomes the end of the range, as TimeUnit does."""
    if factor == 1 or not values.size:
        return values
    limit = _LONG_MAX // factor
    if values.min() >= -limit and values.max() <= limit:
        return values * factor
    inside = (values >= -limit) & (values <= limit)
    return np.where(inside, np.where(inside, values, 0) * factor, np.where(values > 0, _LONG_MAX, -_LONG_MAX - 1))


def saturating_product(left: Int64Array, right: Int64Array) -> Int64Array:
    """left × right; what leaves 64 bits becomes the end of the range."""
    with np.errstate(over="ignore"):
        product = left * right
    about = left.astype(np.float64) * right  # beyond 2^63 by more than it is off, or else the wrapped sign tells
    beyond = (np.abs(about) > 2.0**63 + 4096) | ((np.abs(about) > 2.0**62) & ((product < 0) != (about < 0)))
    return np.where(beyond, np.where(about < 0, -_LONG_MAX - 1, _LONG_MAX), product) if beyond.any() else product


def convert_units(values: Int64Array, source: str, target: str) -> Int64Array:
    """Counts of `source` as counts of `target`, toward zero; WEEKS, MONTHS and YEARS are whole ones since 1970 in
    UTC.
    """
    if target in _CALENDAR_UNITS:
        millis = convert_units(values, source, "MILLISECONDS")
        return units_between(_CALENDAR_UNITS[target], np.zeros_like(millis), millis)
    have, want = NANOS[source], NANOS[target]
    return saturating_multiply(values, have // want) if have >= want else truncating_divide(values, want // have)


def long_array(value: Value, data_type: DataType | None) -> Int64Array:
    """An argument as int64: of length 1 if it is a constant."""
    array = longs(value, data_type)
    if isinstance(array, pa.Scalar):
        return np.array([array.as_py()], np.int64)
    numbers: Int64Array = array.to_numpy(zero_copy_only=False)
    return numbers


def long_function(operands: Sequence[Operand], place: int, compute: Callable[[Int64Array], Int64Array]) -> Bound:
    """A function of one LONG, the argument at `place`, that gives a LONG."""
    data_type = operands[place].data_type
    return Bound(DataType.LONG, lambda values: pa.array(compute(long_array(values[place], data_type))))


def _bind_time_convert(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, "timeconvert")
    source = time_unit(constant_text(operands[1], "the unit of the values", "timeconvert"), "TIMECONVERT")
    target = output_unit(constant_text(operands[2], "the unit of the result", "timeconvert"), "TIMECONVERT")
    return long_function(operands, 0, lambda values: convert_units(values, source, target))


def _epoch_functions(unit: str, size_ms: int, in_demo: int) -> list[ScalarFunction]:
    name = unit.capitalize()
    millis = 1577934245678

    def to_bucket(count: Int64Array, bucket: Int64Array) -> Int64Array:
        return truncating_divide(truncating_divide(count, size_ms), _not_zero(bucket, unit))

    def to_rounded(count: Int64Array, size: Int64Array) -> Int64Array:
        return to_bucket(count, size) * size

    def from_bucket(count: Int64Array, bucket: Int64Array) -> Int64Array:
        return saturating_multiply(saturating_product(count, bucket), size_ms)

    return [
        ScalarFunction(
            f"toepoch{unit}",
            f"TOEPOCH{unit.upper()}(millis)",
            f"Whole {unit} since 1970 of milliseconds since 1970.",
            _unary(lambda values: truncating_divide(values, size_ms)),
            (Example(f"toEpoch{name}(ts)", in_demo),),
        ),
        ScalarFunction(
            f"toepoch{unit}rounded",
            f"TOEPOCH{unit.upper()}ROUNDED(millis, size)",
            f"{name} since 1970, rounded toward zero to a multiple of size.",
            _binary(to_rounded),
            (Example(f"toEpoch{name}Rounded(ts, 10)", in_demo // 10 * 10),),
            arguments_min=2,
            arguments_max=2,
        ),
        ScalarFunction(
            f"toepoch{unit}bucket",
            f"TOEPOCH{unit.upper()}BUCKET(millis, size)",
            f"How many whole buckets of size {unit} have passed since 1970.",
            _binary(to_bucket),
            (Example(f"toEpoch{name}Bucket(ts, 10)", in_demo // 10),),
            arguments_min=2,
            arguments_max=2,
        ),
        ScalarFunction(
            f"fromepoch{unit}",
            f"FROMEPOCH{unit.upper()}({unit})",
            f"Milliseconds since 1970 of {unit} since 1970.",
            _unary(lambda values: saturating_multiply(values, size_ms)),
            (Example(f"fromEpoch{name}({millis // size_ms})", millis // size_ms * size_ms),),
        ),
        ScalarFunction(
            f"fromepoch{unit}bucket",
            f"FROMEPOCH{unit.upper()}BUCKET(buckets, size)",
            f"Milliseconds since 1970 of buckets of size {unit} since 1970.",
            _binary(from_bucket),
            (Example(f"fromEpoch{name}Bucket(100, 10)", 1000 * size_ms),),
            arguments_min=2,
            arguments_max=2,
        ),
    ]


def _not_zero(sizes: Int64Array, unit: str) -> Int64Array:
    if (sizes == 0).any():
        raise QueryExecutionError(f"expected a size of the buckets of {unit} other than 0, found 0")
    return sizes


def _unary(compute: Callable[[Int64Array], Int64Array]) -> Callable[[Sequence[Operand], Dialect], Bound]:
    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        expect_single(operands, "the function")
        return long_function(operands, 0, compute)

    return bind


def _binary(compute: Callable[[Int64Array, Int64Array], Any]) -> Callable[[Sequence[Operand], Dialect], Bound]:
    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        expect_single(operands, "the function")
        first, second = (operand.data_type for operand in operands)
        return Bound(
            DataType.LONG, lambda values: pa.array(compute(long_array(values[0], first), long_array(values[1], second)))
        )

    return bind


FUNCTIONS = (
    ScalarFunction(
        "timeconvert",
        "TIMECONVERT(value, unit, outputUnit)",
        "A time in one unit since 1970 as whole units of another, toward zero; WEEKS, MONTHS and YEARS are counted in "
        "UTC.",
        _bind_time_convert,
        (
            Example("timeConvert(days, 'DAYS', 'HOURS')", 438312),
            Example("timeConvert(ts, 'MILLISECONDS', 'MONTHS')", 600),
        ),
        arguments_min=3,
        arguments_max=3,
    ),
    *_epoch_functions("seconds", 1_000, 1577934245),
    *_epoch_functions("minutes", 60_000, 26298904),
    *_epoch_functions("hours", 3_600_000, 438315),
    *_epoch_functions("days", DAY_MS, 18263),
)
