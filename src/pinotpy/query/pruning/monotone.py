"""Predicates over a function of time: `TIMECONVERT(days, 'DAYS', 'MILLISECONDS') >= ago('P7D')`.

A function that never falls where its argument rises has its least and greatest value at the column's bounds. The
functions are computed by the code that servers compute them by, and only of times between the years 1 and 3900, where
none of them fails or overflows.

Times as texts are rising where the pattern has whole fields from the year down, in UTC: texts as values of a function
are compared by their places among the texts that are asked for, and numbers such as 20250110 are read as texts where
all between the bounds have all digits of the pattern. Texts of a STRING column say nothing: one that is shorter than
the pattern, as 2025-10-2, lies between 2025-10-11 and 2025-10-30, before which it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.errors import PinotError
from pinotpy.functions.scalar.date_time_convert import Granularity, TimeFormat, parse_granularity, parse_time_format
from pinotpy.functions.scalar.time_units import NANOS, time_unit
from pinotpy.functions.time.date_patterns import pattern_pieces
from pinotpy.functions.time.time_zones import UTC
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
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
_SHORT_TEXTS: Final = "texts of its column may be shorter than the pattern, and then do not order as their times"
# The fields of a pattern from the year down, each with its digits (S: as many as there are).
_FIELDS: Final = (("y", 4), ("M", 2), ("d", 2), ("H", 2), ("m", 2), ("s", 2))
_YEAR_MAX: Final = 3_870
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
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
        wanted = _wanted(predicate, call, context, rising)
    except PinotError as error:
        return None, f"servers refuse it: {error.message[:200]}"
    if wanted is None:
        return None, f"it is not compared with {'texts in SQL' if rising.gives_text else 'numbers or times'}"
    column = next((each for each in context.columns if each.name == rising.column), None)
    if column is None or not column.single_value or column.data_type not in _TYPES:
        is_text = column is not None and column.single_value and column.data_type is DataType.STRING
        return None, _SHORT_TEXTS if rising.digits is not None and is_text else _NOT_MONOTONE
    if rising.digits == 0 or (rising.digits and column.data_type is DataType.TIMESTAMP):
        return None, _NOT_MONOTONE
    bounds = table.bounds(column.name, column.data_type)
    if bounds is None:
        return None, f"no record has a range of column '{column.name}'"
    rows = np.flatnonzero(bounds.known & rising.takes(bounds.low, bounds.high))
    values = np.concatenate([bounds.low[rows], bounds.high[rows]])
    array = pa.array(values).cast(column.data_type.arrow)
    try:
        found = Rows(context, len(values), lambda _: array, lambda _: None).evaluate(call)
    except PinotError as error:
        return None, f"servers refuse it: {error.message[:200]}"
    if found.null_count or not (
        pa.types.is_string(found.type) if rising.gives_text else pa.types.is_integer(found.type)
    ):
        return None, _NOT_MONOTONE
    if rising.gives_text:
        image, wanted = _numbered(found, wanted)
    else:
        image = found.to_numpy(zero_copy_only=False).astype(np.float64)
    ranges = _ranges(wanted)
    if ranges is None:
        return None, "it is not compared with numbers or times"
    low, high = image[: len(rows)], image[len(rows) :]
    excluded = _all_pass(ranges, low, high) if negated else _none_passes(ranges, low, high)
    flags = np.zeros(len(table), np.bool_)
    flags[rows[excluded]] = True
    missing = len(table) - len(rows)
    why = f"{missing} of {len(table)} records have no usable range of column '{column.name}'" if missing else ""
    return flags, why


# --- which functions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rising:
    """A function of one column that never falls. nanos: what one unit of the column's values is.

    digits: of the numbers that it reads as texts of a pattern; 0: the pattern has more than digits; None: it reads
        counts.
    """

    column: str
    nanos: int = 0
    digits: int | None = None
    gives_text: bool = False

    def takes(self, low: NDArray[Any], high: NDArray[Any]) -> Flags:
        """Of bounds of whole numbers: between which it rises, and does not fail but for a number that is no time."""
        if self.digits:
            years = 10 ** (self.digits - 4)
            read: Flags = (low >= 1_000 * years) & (high < (_YEAR_MAX + 1) * years)
            return read
        factor = self.nanos / NANOS["MILLISECONDS"]
        near: Flags = (
            np.maximum(np.abs(low.astype(np.float64)), np.abs(high.astype(np.float64))) * factor <= _MILLIS_MAX
        )
        return near


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
        return _rising_of(name, operand.name, [arg.text for arg in others if isinstance(arg, Literal)])
    except PinotError:
        return None  # servers say what is wrong


def _rising_of(name: str, column: str, texts: Sequence[str]) -> _Rising | None:
    """None if the function may fall."""
    if name in _UNIT_OF_FUNCTION and not texts:
        return _Rising(column, NANOS[_UNIT_OF_FUNCTION[name]])
    if name == "timeconvert" and len(texts) == 2:
        return _Rising(column, NANOS[time_unit(texts[0], name)])
    if name == "datetrunc" and 1 <= len(texts) <= 4:
        # On the clock of another zone an hour may come twice.
        in_utc = len(texts) < 3 or _is_utc(texts[2])
        return (
            _Rising(column, NANOS[time_unit(texts[1], name) if len(texts) > 1 else "MILLISECONDS"]) if in_utc else None
        )
    if name in ("todatetime", "fromdatetime") and (len(texts) == 1 or (len(texts) == 2 and _is_utc(texts[1]))):
        digits = _digits(texts[0])
        if digits is None:
            return None
        millis = NANOS["MILLISECONDS"]
        return _Rising(column, millis, gives_text=True) if name == "todatetime" else _Rising(column, digits=digits)
    if name == "datetimeconvert" and len(texts) == 3:
        return _converted(column, parse_time_format(texts[0]), parse_time_format(texts[1]), parse_granularity(texts[2]))
    return None


def _converted(column: str, source: TimeFormat, target: TimeFormat, granularity: Granularity) -> _Rising | None:
    gives_text = target.pattern is not None
    # Days of a month before its first bucket fail.
    if gives_text and granularity.unit == "DAYS" and granularity.size > 1:
        return None
    if any(
        each.pattern is not None and (each.zone is not UTC or _digits(each.pattern) is None)
        for each in (source, target)
    ):
        return None
    if source.pattern is not None:
        return _Rising(column, digits=_digits(source.pattern), gives_text=gives_text)
    return _Rising(column, NANOS[source.unit] * source.size, gives_text=gives_text)


def _is_utc(zone: str) -> bool:
    return zone.strip().upper() in _UTC


def _digits(pattern: str) -> int | None:
    """The digits of a pattern of whole fields from the year down; 0: it has other characters, too; None: its texts do
    not order as their times.
    """
    pieces = pattern_pieces(pattern)
    fields = [piece for piece in pieces if piece.letter]
    plain = [(piece.letter, piece.length) for piece in fields if piece.letter != "S"]
    fractions = [piece for piece in fields if piece.letter == "S"]
    if not plain or tuple(plain) != _FIELDS[: len(plain)] or fields != [*fields[: len(plain)], *fractions]:
        return None
    if fractions and (len(fractions) > 1 or len(plain) < len(_FIELDS) or fractions[0].length > 3):
        return None
    return sum(piece.length for piece in fields) if len(fields) == len(pieces) else 0


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


def _wanted(predicate: Predicate, call: Call, context: QueryContext, rising: _Rising) -> Predicate | None:
    """The predicate with its literals as values of the function are compared with them. None: of patterns, long lists,
    texts beside numbers. Raises what servers refuse a literal with.
    """
    comparison = _NEGATIVE.get(predicate.comparison, predicate.comparison)
    if comparison not in _COMPARED or len(predicate.values) > _VALUES_MAX:
        return None
    if rising.gives_text:
        is_text = all(map(_is_text, predicate_literals(predicate)))
        return predicate if is_text and context.dialect is Dialect.SQL else None
    predicate = _texts_as_numbers(predicate, call, context)
    return predicate if _ranges(predicate) is not None else None


def _numbered(found: pa.Array, predicate: Predicate) -> tuple[Doubles, Predicate]:
    """Texts as their places in the order of all of them, those that are asked for among them."""
    asked = sorted({str(value) for value in predicate_literals(predicate)})
    texts = pa.concat_arrays([found.cast(pa.large_string()), pa.array(asked, pa.large_string())]).dictionary_encode()
    places = np.empty(len(texts.dictionary), np.float64)
    places[pc.sort_indices(texts.dictionary).to_numpy()] = np.arange(len(places))
    numbers = places[texts.indices.to_numpy()]
    of_asked = dict(zip(asked, numbers[len(found) :].tolist(), strict=True))
    return numbers[: len(found)], _with_literals(predicate, lambda value: of_asked[str(value)])


def _is_text(value: LiteralValue) -> bool:
    # Halves of characters are in no value.
    return isinstance(value, str) and not _HALF_CHARACTER.search(value)


def _ranges(predicate: Predicate) -> _Wanted | None:
    """None: something else than numbers is asked for."""
    if _NEGATIVE.get(predicate.comparison, predicate.comparison) is Comparison.RANGE:
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

    return _with_literals(predicate, lambda value: convert.integer(value) if type(value) is str else value)


def _with_literals(predicate: Predicate, change: Callable[[LiteralValue], LiteralValue]) -> Predicate:
    def end(bound: Bound | None) -> Bound | None:
        return None if bound is None else Bound(change(bound.value), bound.inclusive)

    values = tuple(map(change, predicate.values))
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
