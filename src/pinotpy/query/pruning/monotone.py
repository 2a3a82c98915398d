"""Predicates over a function of time: `TIMECONVERT(days, 'DAYS', 'MILLISECONDS') >= ago('P7D')`.

A function that never falls where its argument rises has its least and greatest value at the column's bounds. The
functions are computed by the code that servers compute them by, and only of times between the years 1 and 3900, where
none of them fails or overflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.errors import PinotError
from pinotpy.functions.scalar.date_time_convert import parse_time_format
from pinotpy.functions.scalar.time_units import NANOS, time_unit
from pinotpy.pql.ast import Call, Expression, Identifier, Literal
from pinotpy.pql.function_names import canonical_function
from pinotpy.query.expression.interpreter import Rows
from pinotpy.query.model.context import Bound, Comparison, LiteralValue, Predicate, QueryContext
from pinotpy.query.model.literals import predicate_literals
from pinotpy.query.model.result_types import types_of
from pinotpy.query.model.stored_literals import StoredLiterals
from pinotpy.query.pruning.facts_table import Facts
from pinotpy.query.pruning.indexes import Flags

Doubles = NDArray[np.float64]
_MILLIS_MAX: Final = 60_000_000_000_000
_EXACT_BELOW: Final = 2.0**53
_VALUES_MAX: Final = 256
_TYPES: Final = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)
_UTC: Final = frozenset({"UTC", "GMT", "Z"})
_NEGATIVE: Final = {Comparison.NOT_EQ: Comparison.EQ, Comparison.NOT_IN: Comparison.IN}
_COMPARED: Final = (Comparison.EQ, Comparison.IN, Comparison.RANGE)
_NOT_MONOTONE: Final = "it is computed of rows, and not by a function of time that only rises"
_UNIT_OF_FUNCTION: Final = {
    **{f"toepoch{unit}": "MILLISECONDS" for unit in ("seconds", "minutes", "hours", "days")},
    **{f"fromepoch{unit}": unit.upper() for unit in ("seconds", "minutes", "hours", "days")},
}


def exclude_by_function(
    predicate: Predicate, negated: bool, context: QueryContext, table: Facts
) -> tuple[Flags | None, str]:
    """What a predicate over a call excludes, bool[n]; why not more."""
    call = predicate.lhs
    rising = _rising(call)
    if rising is None or not isinstance(call, Call):
        return None, _NOT_MONOTONE
    negated ^= predicate.comparison in _NEGATIVE
    try:
        wanted = _wanted(predicate, call, context)
    except PinotError as error:
        return None, f"servers refuse it: {error.message[:200]}"
    if wanted is None:
        return None, "it is not compared with numbers or times"
    column = next((each for each in context.columns if each.name == rising.column), None)
    if column is None or not column.single_value or column.data_type not in _TYPES:
        return None, _NOT_MONOTONE
    bounds = table.bounds(column.name, column.data_type)
    if bounds is None:
        return None, f"no record has a range of column '{column.name}'"
    factor = rising.nanos / NANOS["MILLISECONDS"]
    near = np.maximum(np.abs(bounds.low.astype(np.float64)), np.abs(bounds.high.astype(np.float64))) * factor
    rows = np.flatnonzero(bounds.known & (near <= _MILLIS_MAX))
    values = np.concatenate([bounds.low[rows], bounds.high[rows]])
    array = pa.array(values).cast(column.data_type.arrow)
    try:
        found = Rows(context, len(values), lambda _: array, lambda _: None).evaluate(call)
    except PinotError as error:
        return None, f"servers refuse it: {error.message[:200]}"
    if not pa.types.is_integer(found.type) or found.null_count:
        return None, _NOT_MONOTONE
    image = found.to_numpy(zero_copy_only=False).astype(np.float64)
    low, high = image[: len(rows)], image[len(rows) :]
    excluded = _all_pass(wanted, low, high) if negated else _none_passes(wanted, low, high)
    flags = np.zeros(len(table), np.bool_)
    flags[rows[excluded]] = True
    missing = len(table) - len(rows)
    why = f"{missing} of {len(table)} records have no usable range of column '{column.name}'" if missing else ""
    return flags, why


# --- which functions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rising:
    """A function of one column that never falls. nanos: what one unit of the column's values is."""

    column: str
    nanos: int


def _rising(expression: Expression) -> _Rising | None:
    if not isinstance(expression, Call):
        return None
    name, args = canonical_function(expression.name), expression.args
    place = 1 if name == "datetrunc" else 0
    if len(args) <= place:
        return None
    operand, others = args[place], args[:place] + args[place + 1 :]
    if not isinstance(operand, Identifier) or not all(isinstance(arg, Literal) and arg.is_string for arg in others):
        return None
    try:
        nanos = _nanos(name, [arg.text for arg in others if isinstance(arg, Literal)])
    except PinotError:
        return None  # servers say what is wrong
    return None if nanos is None else _Rising(operand.name, nanos)


def _nanos(name: str, texts: Sequence[str]) -> int | None:
    """The unit of the argument; None if the function may fall."""
    if name in _UNIT_OF_FUNCTION and not texts:
        return NANOS[_UNIT_OF_FUNCTION[name]]
    if name == "timeconvert" and len(texts) == 2:
        return NANOS[time_unit(texts[0], name)]
    if name == "datetrunc" and 1 <= len(texts) <= 4:
        # On the clock of another zone an hour may come twice.
        in_utc = len(texts) < 3 or texts[2].strip().upper() in _UTC
        return NANOS[time_unit(texts[1], name) if len(texts) > 1 else "MILLISECONDS"] if in_utc else None
    if name == "datetimeconvert" and len(texts) == 3:
        source, target = parse_time_format(texts[0]), parse_time_format(texts[1])
        if source.pattern is None and target.pattern is None:
            return NANOS[source.unit] * source.size
    return None


# --- comparisons ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _End:
    """One end of what is wanted. is_exact: the double is the literal itself."""

    value: float
    inclusive: bool
    is_exact: bool


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Ranges of which a value passes any one; one end may be open."""

    ranges: tuple[tuple[_End | None, _End | None], ...]


def _wanted(predicate: Predicate, call: Call, context: QueryContext) -> _Wanted | None:
    """None: of patterns, long lists, texts. Raises what servers refuse a literal with."""
    comparison = _NEGATIVE.get(predicate.comparison, predicate.comparison)
    if comparison not in _COMPARED or len(predicate.values) > _VALUES_MAX:
        return None
    predicate = _texts_as_numbers(predicate, call, context)
    if comparison is Comparison.RANGE:
        pairs = [(predicate.lower, predicate.upper)]
    else:
        pairs = [(Bound(value, True), Bound(value, True)) for value in predicate.values]
    ranges = []
    for lower, upper in pairs:
        low, high = _end(lower), _end(upper)
        if (low is None) is not (lower is None) or (high is None) is not (upper is None):
            return None
        ranges.append((low, high))
    return _Wanted(tuple(ranges))


def _texts_as_numbers(predicate: Predicate, call: Call, context: QueryContext) -> Predicate:
    """With texts as the numbers that servers take them for by the function's type: '2025-01-10' of TIMESTAMP."""
    if not any(type(each) is str for each in predicate_literals(predicate)):
        return predicate
    data_type = types_of(context).of(call).data_type
    if data_type is None or data_type not in _TYPES:
        return predicate
    convert = StoredLiterals(data_type, context.dialect, strict=True)

    def number(value: LiteralValue) -> LiteralValue:
        return convert.integer(value) if type(value) is str else value

    def end(bound: Bound | None) -> Bound | None:
        return None if bound is None else Bound(number(bound.value), bound.inclusive)

    values = tuple(number(value) for value in predicate.values)
    return replace(predicate, values=values, lower=end(predicate.lower), upper=end(predicate.upper))


def _end(bound: Bound | None) -> _End | None:
    if bound is None or not _is_number(bound.value):
        return None
    try:
        value = float(bound.value)  # type: ignore[arg-type]  # a number
    except OverflowError:
        return None
    return _End(value, bound.inclusive, value == bound.value) if math.isfinite(value) else None


def _is_number(value: LiteralValue) -> bool:
    return type(value) in (int, float, Decimal)


# Doubles are compared, as some dialects compare them. Rounding keeps the order, so a smaller double is of a smaller
# number. Equal ones are of equal numbers below 2^53: that is the double of 2^53 + 1, too.


def _none_passes(wanted: _Wanted, low: Doubles, high: Doubles) -> Flags:
    excluded = np.ones(len(low), np.bool_)
    for least, most in wanted.ranges:
        outside = np.zeros(len(low), np.bool_)
        if least is not None:
            outside |= _is_below(high, least, or_equal=not least.inclusive)
        if most is not None:
            outside |= _is_above(low, most, or_equal=not most.inclusive)
        excluded &= outside
    return excluded


def _all_pass(wanted: _Wanted, low: Doubles, high: Doubles) -> Flags:
    """Whether all values lie within one of the ranges."""
    excluded = np.zeros(len(low), np.bool_)
    for least, most in wanted.ranges:
        inside = np.ones(len(low), np.bool_)
        if least is not None:
            inside &= _is_above(low, least, or_equal=least.inclusive)
        if most is not None:
            inside &= _is_below(high, most, or_equal=most.inclusive)
        excluded |= inside
    return excluded


def _is_below(values: Doubles, end: _End, *, or_equal: bool) -> Flags:
    below: Flags = values < end.value
    return below | (values == end.value) if or_equal and _compares_exactly(end) else below


def _is_above(values: Doubles, end: _End, *, or_equal: bool) -> Flags:
    above: Flags = values > end.value
    return above | (values == end.value) if or_equal and _compares_exactly(end) else above


def _compares_exactly(end: _End) -> bool:
    return end.is_exact and abs(end.value) < _EXACT_BELOW
