"""Comparisons and logic as functions: INT 1 or 0 in PQL, BOOLEAN in SQL.

Numbers compare by value (whole numbers exactly, others as doubles, a FLOAT widened), text by its UTF-8 bytes. -0.0
equals 0.0; NaN equals NaN and is neither above nor below a number. Where a query compares a column with a constant
in WHERE, query.predicate decides instead, by the column's type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.scalar.arguments import doubles, expect_single, length_of, spread
from pinotpy.functions.scalar.conversions import converted, decimal_of_text, decimal_order
from pinotpy.functions.scalar.spec import MANY, Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect

COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "equals": pc.equal,
    "not_equals": pc.not_equal,
    "greater_than": pc.greater,
    "greater_than_or_equal": pc.greater_equal,
    "less_than": pc.less,
    "less_than_or_equal": pc.less_equal,
}
_WHOLE: Final = (DataType.INT, DataType.LONG, DataType.TIMESTAMP, DataType.BOOLEAN)


def _bind_comparison(name: str, operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, name)
    types = [operand.data_type for operand in operands]
    shared = _shared_type(operands)
    for operand in operands:
        if operand.literal is not None and operand.literal.is_string and shared is not DataType.STRING:
            _check_literal(operand, shared, dialect)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        if shared is DataType.BIG_DECIMAL:  # doubles may have no end
            sides = [spread(value, length_of(values)) for value in values]
            return _as_result(compared_decimals(name, sides, types), dialect)
        left, right = (converted(value, data_type, shared) for value, data_type in zip(values, types, strict=True))
        count = length_of(values)
        if shared is DataType.DOUBLE:
            return _as_result(compared(name, spread(left, count), spread(right, count)), dialect)
        if shared is DataType.BOOLEAN:  # Arrow does not order these
            left, right = left.cast(pa.int8()), right.cast(pa.int8())
        return _as_result(spread(COMPARE[name](left, right), count), dialect)

    return Bound(_result_type(dialect), evaluate)


def _shared_type(operands: Sequence[Operand]) -> DataType:
    """The type in which two values are compared."""
    left, right = (operand.data_type or DataType.STRING for operand in operands)
    if left is right and left not in (DataType.FLOAT, DataType.JSON):
        return left
    both = {left, right}
    if both <= {DataType.STRING, DataType.JSON}:
        return DataType.STRING
    for special in (DataType.BOOLEAN, DataType.TIMESTAMP, DataType.BYTES):  # their text says what they are
        if both == {special, DataType.STRING}:
            return special
    if both <= set(_WHOLE):
        return DataType.LONG
    if DataType.BYTES in both or DataType.JSON in both:
        raise InvalidQueryError(f"cannot compare {operands[0].name} with {operands[1].name}: cast one of them")
    return DataType.BIG_DECIMAL if DataType.BIG_DECIMAL in both else DataType.DOUBLE


def _check_literal(operand: Operand, shared: DataType, dialect: Dialect) -> None:
    text = operand.literal.text if operand.literal else ""
    try:
        if dialect is Dialect.SQL and shared is DataType.DOUBLE:
            decimal_of_text(text)  # reference: a BigDecimal, which 'NaN' is not
        converted(pa.scalar(text), DataType.STRING, shared)
    except QueryExecutionError as error:
        raise InvalidQueryError(f"Cannot convert value: {operand.name} to type: {shared.value}: {error}") from error


def compared(name: str, left: pa.Array, right: pa.Array) -> pa.Array:
    """Values of one Arrow type that orders. NaN is equal to itself, as in groups, and neither above nor below anything
    (recorded: div(x, 0) > 5)."""
    found: pa.Array = COMPARE[name](left, right)
    if name not in ("equals", "not_equals") or not pa.types.is_floating(left.type):
        return found
    both_nan = pc.and_(pc.is_nan(left), pc.is_nan(right))
    return pc.or_(found, both_nan) if name == "equals" else pc.and_not(found, both_nan)


def compared_decimals(name: str, sides: Sequence[pa.Array], types: Sequence[DataType | None]) -> pa.Array:
    """BIG_DECIMAL with numbers of another type, by value; infinities are beyond all decimals, NaN is as in `compared`."""
    found: pa.Array = COMPARE[name](*[decimal_order(side, data_type) for side, data_type in zip(sides, types, strict=True)])
    for side in sides if name not in ("equals", "not_equals") else ():
        if pa.types.is_floating(side.type):
            found = pc.and_not(found, pc.is_nan(side))
    return found


def _result_type(dialect: Dialect) -> DataType:
    return DataType.BOOLEAN if dialect is Dialect.SQL else DataType.INT


def _as_result(truths: pa.Array, dialect: Dialect) -> pa.Array:
    return truths if dialect is Dialect.SQL else truths.cast(pa.int32())


def truths(values: Value, data_type: DataType | None) -> Value:
    """A condition as BOOLEAN, null where it is null: numbers are true unless they are 0; raises QueryExecutionError for text."""
    if pa.types.is_boolean(values.type):
        return values
    if pa.types.is_null(values.type) or data_type is None:
        return pa.scalar(None, pa.bool_()) if isinstance(values, pa.Scalar) else pa.nulls(len(values), pa.bool_())
    return pc.not_equal(doubles(values, data_type), 0.0)


def expect_condition(operand: Operand, function: str) -> None:
    """Raise InvalidQueryError unless the argument can be a condition."""
    if not operand.single_value or operand.data_type in (DataType.BYTES, DataType.STRING, DataType.JSON, DataType.BIG_DECIMAL):
        raise InvalidQueryError(f"expected a condition in {function.upper()}, found {operand.name}: write a comparison such as equals(a, b)")


def _bind_logic(name: str, combine: Callable[[list[Any]], Any], operands: Sequence[Operand], dialect: Dialect) -> Bound:
    for operand in operands:
        expect_condition(operand, name)
    types = [operand.data_type for operand in operands]

    def evaluate(values: Sequence[Value]) -> pa.Array:
        conditions = [truths(value, data_type) for value, data_type in zip(values, types, strict=True)]
        return _as_result(spread(combine(conditions), length_of(values)), dialect)

    return Bound(_result_type(dialect), evaluate, handles_nulls=True)


def _comparison(name: str, sign: str, example: Example) -> ScalarFunction:
    summary = f"Whether x {sign} y: 1 or 0 in PQL, true or false in SQL."
    return ScalarFunction(name, f"{name.upper()}(x, y)", summary, lambda operands, dialect: _bind_comparison(name, operands, dialect), (example,), 2, 2)


def _logic(name: str, signature: str, summary: str, combine: Callable[[list[Any]], Any], example: Example, arguments: tuple[int, int]) -> ScalarFunction:
    return ScalarFunction(name, signature, summary, lambda operands, dialect: _bind_logic(name, combine, operands, dialect), (example,), *arguments)


FUNCTIONS = (
    _comparison("equals", "=", Example("i = 7", True)),
    _comparison("not_equals", "<>", Example("s <> 'x'", True)),
    _comparison("greater_than", ">", Example("d > i", False)),
    _comparison("greater_than_or_equal", ">=", Example("f >= 1.5", True)),
    _comparison("less_than", "<", Example("l < 5", False)),
    _comparison("less_than_or_equal", "<=", Example("s <= 'Hello'", False)),
    _logic("and", "AND(x, y, …)", "Whether all conditions hold.", lambda parts: reduce(pc.and_kleene, parts), Example("i = 7 AND b", True), (1, MANY)),
    _logic("or", "OR(x, y, …)", "Whether any condition holds.", lambda parts: reduce(pc.or_kleene, parts), Example("i = 8 OR b", True), (1, MANY)),
    _logic("not", "NOT(x)", "Whether the condition does not hold.", lambda parts: pc.invert(parts[0]), Example("NOT b", False), (1, 1)),
)
