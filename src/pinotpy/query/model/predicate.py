"""Predicates on columns, made ready for execution: literals converted to the column's stored form, negation pulled out.

A predicate becomes a `TypedPredicate`: a positive test (a range, a set of values, a text pattern, a null test) and
whether it is negated; on multi-values the test asks for any value and the negation for none. Rules per dialect
(reference: what Pinot 0.6.0 answers to PQL and Pinot 1.x to SQL):

 - PQL: a literal is text that must parse as the column's type, else QueryExecutionError (200). BOOLEAN is the STRING
   'true' or 'false'.
 - SQL: numbers compare by value (int = 5.5 and int = 3000000000 are never true), in IN as beside =; quoted numbers and
   all literals on multi-values must parse, else InvalidQueryError (700). BOOLEAN: 'true' in any case and '1' are true,
   anything else false.
 - FLOAT columns compare as float. STRING, JSON and BYTES order by bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, Union

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.text.patterns import TextPattern, like_pattern, regexp_pattern
from pinotpy.functions.text.text_query import TextQuery, parse_text_query
from pinotpy.pql.ast import Call, Dialect, Identifier, Literal
from pinotpy.query.model.context import Bound, ColumnRef, Comparison, ExpressionPredicate, LiteralValue, Predicate
from pinotpy.query.model.stored_literals import INT_LIMITS, StoredLiterals, literal_text, refusal


@dataclass(frozen=True, slots=True)
class FixedRange:
    """Values of a fixed type in [low, high], both ends included; ints for INT and LONG, floats for FLOAT and DOUBLE."""

    low: int | float
    high: int | float


@dataclass(frozen=True, slots=True)
class VarRange:
    """Byte strings in [low, end); end None = no upper bound."""

    low: bytes
    end: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class FixedMembers:
    """Two or more values of a fixed type: int64 or float64, sorted, distinct."""

    values: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class VarMembers:
    """Two or more byte strings, sorted, distinct, as one blob with int64 offsets."""

    data: NDArray[np.uint8]
    offsets: Int64Array


@dataclass(frozen=True, slots=True)
class TextTest:
    """A pattern on the text of the value."""

    pattern: TextPattern


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A search in the text index of the column."""

    query: TextQuery


@dataclass(frozen=True, slots=True)
class JsonSearch:
    """A condition over paths of the column's documents, as written; checked when the predicate is made."""

    text: str


@dataclass(frozen=True, slots=True)
class NullTest:
    """The value is null."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """No value passes: the literal is outside what the type can hold."""


Stored = int | float | bytes
Test = Union[FixedRange, VarRange, FixedMembers, VarMembers, TextTest, TextSearch, JsonSearch, NullTest, Nothing]


@dataclass(frozen=True, slots=True)
class TypedPredicate:
    """One predicate on one column.

    prunes: segments may be skipped by comparing with min and max (what the reference's value pruner takes: =, IN of one
        value, ranges; never negations, patterns and longer lists).
    source: the predicate that the predicate, or its inverse, was made from; for EXPLAIN.
    """

    column: str
    test: Test
    negated: bool = False
    prunes: bool = False
    source: Predicate | ExpressionPredicate | None = field(default=None, compare=False)

    def inverse(self) -> TypedPredicate:
        """True where this predicate is false and the value is not null."""
        return replace(self, negated=not self.negated, prunes=False)


# More values than this are looked up in the columns themselves: what a segment is known by would let one of them pass
# anyway.
_VALUES_MAX: Final = 256


def values_of_members(test: VarMembers) -> list[bytes]:
    """The byte strings, ascending."""
    blob, ends = test.data.tobytes(), test.offsets.tolist()
    return [blob[first:end] for first, end in pairwise(ends)]


def wanted_values(test: Test) -> list[Stored] | None:
    """The stored values of = and IN; None for other tests and for long lists."""
    match test:
        case FixedRange(low, high):
            return [low] if low == high else None
        case VarRange(low, end):
            return [low] if end == low + b"\0" else None
        case FixedMembers(values):
            return values.tolist() if len(values) <= _VALUES_MAX else None
        case VarMembers(offsets=offsets):
            return [*values_of_members(test)] if len(offsets) - 1 <= _VALUES_MAX else None
    return None


_NEGATIVE: Final = {
    Comparison.NOT_EQ: Comparison.EQ,
    Comparison.NOT_IN: Comparison.IN,
    Comparison.NOT_LIKE: Comparison.LIKE,
    Comparison.IS_NOT_NULL: Comparison.IS_NULL,
}


def typed_predicate(predicate: Predicate, column: ColumnRef, dialect: Dialect) -> TypedPredicate:
    """The predicate of a predicate on a column.

    Raises:
        QueryExecutionError: (200) in PQL: a literal that is not of the column's type, a bad pattern; both dialects: a
            bad search text.
        InvalidQueryError: (700) in SQL: a literal that is not of the column's type, a bad pattern.
    """
    assert isinstance(predicate.lhs, Identifier)
    negated = predicate.comparison in _NEGATIVE
    comparison = _NEGATIVE.get(predicate.comparison, predicate.comparison)
    test = _test(predicate, comparison, column, dialect)
    prunes = not negated and isinstance(test, (FixedRange, VarRange))
    return TypedPredicate(column.name, test, negated, prunes, predicate)


def _test(predicate: Predicate, comparison: Comparison, column: ColumnRef, dialect: Dialect) -> Test:
    data_type = column.data_type
    if comparison is Comparison.IS_NULL:
        return NullTest()
    if comparison is Comparison.TEXT_MATCH:
        text = predicate.values[0]
        assert isinstance(text, str)
        return TextSearch(parse_text_query(text))
    if comparison is Comparison.JSON_MATCH:
        text = predicate.values[0]
        assert isinstance(text, str)
        if data_type not in (DataType.STRING, DataType.JSON) or not column.single_value:
            shown_type = data_type if column.single_value else f"multi-valued {data_type}"
            raise refusal(dialect)(
                f"JSON_MATCH needs a single-valued STRING or JSON column, found '{column.name}', which is {shown_type}",
                column=column.name,
            )
        return JsonSearch(text)
    if comparison in (Comparison.REGEXP_LIKE, Comparison.LIKE):
        pattern = _pattern(predicate, comparison, dialect)
        if data_type in (DataType.BYTES, DataType.BIG_DECIMAL, DataType.TIMESTAMP):
            raise refusal(dialect)(f"Unsupported data type: {data_type}: {comparison} needs text", column=column.name)
        if data_type is DataType.BOOLEAN:
            return _boolean_test(pattern.matches_one)
        return TextTest(pattern)
    if data_type is DataType.BOOLEAN:
        return _boolean(predicate, comparison, dialect)
    strict = dialect is Dialect.PQL or not column.single_value
    convert = _Converter(
        StoredLiterals(data_type, dialect, strict, "" if column.name.startswith("$") else f" of column '{column.name}'")
    )
    if comparison is Comparison.RANGE:
        return convert.range(predicate.lower, predicate.upper)
    if comparison is Comparison.IN and len(predicate.values) > 1:
        return convert.members(predicate.values)
    return convert.equal(predicate.values[0])


def _pattern(predicate: Predicate, comparison: Comparison, dialect: Dialect) -> TextPattern:
    text = predicate.values[0]
    assert isinstance(text, str)
    try:
        if comparison is Comparison.LIKE:
            return like_pattern(text, ignore_case="i" in predicate.flags, escape=predicate.escape)
        return regexp_pattern(text, ignore_case="i" in predicate.flags)
    except QueryExecutionError as error:
        raise refusal(dialect)(error.message) from error


# --- BOOLEAN --------------------------------------------------------------------------------------------------------


def _boolean_test(passes: Callable[[str], bool]) -> Test:
    passing = [value for value, text in enumerate(("false", "true")) if passes(text)]
    return FixedRange(passing[0], passing[-1]) if passing else Nothing()


def _boolean(predicate: Predicate, comparison: Comparison, dialect: Dialect) -> Test:
    if dialect is Dialect.SQL:
        as_int = replace(
            predicate,
            values=tuple(_truth(v) for v in predicate.values),
            lower=_truth_bound(predicate.lower),
            upper=_truth_bound(predicate.upper),
        )
        convert = _Converter(StoredLiterals(DataType.INT, dialect, strict=False))
        if comparison is Comparison.RANGE:
            return convert.range(as_int.lower, as_int.upper)
        return convert.members(as_int.values)
    if comparison is Comparison.RANGE:
        low, high = predicate.lower, predicate.upper
        low_text, high_text = literal_text(low.value) if low else "", literal_text(high.value) if high else ""

        def inside(text: str) -> bool:
            above = low is None or text > low_text or (low.inclusive and text == low_text)
            return above and (high is None or text < high_text or (high.inclusive and text == high_text))

        return _boolean_test(inside)
    texts = {literal_text(value) for value in predicate.values}
    return _boolean_test(lambda text: text in texts)


def _truth(value: LiteralValue) -> int:
    return int(literal_text(value).lower() in ("true", "1"))


def with_truths(call: Call, types: Sequence[DataType | None], dialect: Dialect) -> Call:
    """A comparison whose numbers beside a BOOLEAN are truths, 1 or 0, as filters read them in SQL: 5 is neither 'true'
    nor '1'.
    """
    if dialect is not Dialect.SQL or DataType.BOOLEAN not in types:
        return call
    args = [
        replace(arg, value=_truth(arg.value))
        if isinstance(arg, Literal) and type(arg.value) in (int, float, Decimal)
        else arg
        for arg in call.args
    ]
    return replace(call, args=tuple(args))


def _truth_bound(bound: Bound | None) -> Bound | None:
    return None if bound is None else Bound(_truth(bound.value), bound.inclusive)


# --- all other types -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Converter:
    """Literals to tests."""

    literals: StoredLiterals

    def equal(self, value: LiteralValue) -> Test:
        return self.range(Bound(value, True), Bound(value, True))

    def range(self, lower: Bound | None, upper: Bound | None) -> Test:
        if self.literals.data_type.stored is StoredType.VAR:
            low = b"" if lower is None else self.literals.var_bytes(lower.value) + (b"" if lower.inclusive else b"\0")
            end = None if upper is None else self.literals.var_bytes(upper.value) + (b"\0" if upper.inclusive else b"")
            return VarRange(low, end) if end is None or low < end else Nothing()
        if self.literals.data_type.stored.is_integer:
            least, most = INT_LIMITS[self.literals.data_type]
            low_int = least if lower is None else self.literals.integer_bound(lower, is_lower=True)
            high_int = most if upper is None else self.literals.integer_bound(upper, is_lower=False)
            low_int, high_int = max(low_int, least), min(high_int, most)
            return FixedRange(low_int, high_int) if low_int <= high_int else Nothing()
        low_real = -math.inf if lower is None else self.literals.real_bound(lower, is_lower=True)
        high_real = math.inf if upper is None else self.literals.real_bound(upper, is_lower=False)
        return FixedRange(low_real, high_real) if low_real <= high_real else Nothing()

    def members(self, values: tuple[LiteralValue, ...]) -> Test:
        stored = self.literals.data_type.stored
        if stored is StoredType.VAR:
            plain = self.literals.data_type in (DataType.STRING, DataType.JSON) and set(map(type, values)) == {str}
            strings = sorted(
                set(map(str.encode, values))  # type: ignore[arg-type]
                if plain and "".join(values).isascii()  # type: ignore[arg-type]
                else {self.literals.var_bytes(value) for value in values}
            )
            if len(strings) == 1:
                return VarRange(strings[0], strings[0] + b"\0")
            offsets = np.zeros(len(strings) + 1, np.int64)
            np.cumsum([len(text) for text in strings], out=offsets[1:])
            return VarMembers(np.frombuffer(b"".join(strings) or b"\0", np.uint8), offsets)
        if stored.is_integer:
            least, most = INT_LIMITS[self.literals.data_type]
            numbers = [value for value in values if type(value) is int]
            if len(numbers) < len(values) or min(numbers) < least or max(numbers) > most:
                exact = [
                    v
                    for v in map(self.literals.integer, values)
                    if isinstance(v, int) or (math.isfinite(v) and v == int(v))
                ]
                numbers = [int(v) for v in exact if least <= v <= most]
            integers = sorted(set(numbers))
            members: NDArray[Any] = np.array(integers, np.int64)
        else:
            members = np.array(sorted({v for v in map(self.literals.real, values) if not math.isnan(v)}), np.float64)
        if not len(members):
            return Nothing()
        return FixedRange(members[0].item(), members[0].item()) if len(members) == 1 else FixedMembers(members)
