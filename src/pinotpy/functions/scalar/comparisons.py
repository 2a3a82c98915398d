"""Comparisons and logic as functions: INT 1 or 0 in PQL, BOOLEAN in SQL.

Numbers compare by value (number_order.py has the rule), text by its UTF-8 bytes. Where a query compares a column with a
constant in WHERE, query.model.predicate decides instead, by the column's type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import doubles, expect_single, length_of, spread
from pinotpy.functions.scalar.conversions import converted, decimal_of_text
from pinotpy.functions.scalar.number_order import COMPARE, FLIPPED, WHOLE, compared, compared_with, literal_beside
from pinotpy.functions.scalar.spec import MANY, Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect

_NUMBERS: Final = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL)


def _bind_comparison(name: str, operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, name)
    types = [operand.data_type for operand in operands]
    shared = _shared_type(operands)
    for operand in operands:
        if operand.literal is not None and operand.literal.is_string and shared is not DataType.STRING:
            _check_literal(operand, shared, dialect)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        count = length_of(values)
        if shared in _NUMBERS:
            for same, this, other in ((name, 0, 1), (FLIPPED[name], 1, 0)):
                number = literal_beside(operands[other].literal, types[this], dialect)
                if number is not None and operands[this].literal is None:
                    return _as_result(compared_with(same, spread(values[this], count), *number), dialect)
            return _as_result(
                compared(name, spread(values[0], count), types[0], spread(values[1], count), types[1]), dialect
            )
        left, right = (converted(value, data_type, shared) for value, data_type in zip(values, types, strict=True))
        if shared is DataType.BOOLEAN:  # Arrow does not order these
            left, right = left.cast(pa.int8()), right.cast(pa.int8())
        return _as_result(spread(COMPARE[name](left, right), count), dialect)

    return Bound(_result_type(dialect), evaluate)


def _shared_type(operands: Sequence[Operand]) -> DataType:
    """The type in which two values are compared."""
    left, right = (operand.data_type or DataType.STRING for operand in operands)
    if left is right and left is not DataType.JSON:
        return left
    both = {left, right}
    if both <= {DataType.STRING, DataType.JSON}:
        return DataType.STRING
    for special in (DataType.BOOLEAN, DataType.TIMESTAMP, DataType.BYTES):  # their text says what they are
        if both == {special, DataType.STRING}:
            return special
    if both <= set(WHOLE):
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


def _result_type(dialect: Dialect) -> DataType:
    return DataType.BOOLEAN if dialect is Dialect.SQL else DataType.INT


def _as_result(truths: pa.Array, dialect: Dialect) -> pa.Array:
    return truths if dialect is Dialect.SQL else truths.cast(pa.int32())


def truths(values: Value, data_type: DataType | None) -> Value:
    """A condition as BOOLEAN, null where it is null: numbers are true unless they are 0; raises QueryExecutionError for
    text.
    """
    if pa.types.is_boolean(values.type):
        return values
    if pa.types.is_null(values.type) or data_type is None:
        return pa.scalar(None, pa.bool_()) if isinstance(values, pa.Scalar) else pa.nulls(len(values), pa.bool_())
    return pc.not_equal(doubles(values, data_type), 0.0)


def expect_condition(operand: Operand, function: str) -> None:
    """Raise InvalidQueryError unless the argument can be a condition."""
    if not operand.single_value or operand.data_type in (
        DataType.BYTES,
        DataType.STRING,
        DataType.JSON,
        DataType.BIG_DECIMAL,
    ):
        raise InvalidQueryError(
            f"expected a condition in {function.upper()}, found {operand.name}: write a comparison such as equals(a, b)"
        )


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
    return ScalarFunction(
        name,
        f"{name.upper()}(x, y)",
        summary,
        lambda operands, dialect: _bind_comparison(name, operands, dialect),
        (example,),
        2,
        2,
    )


def _logic(
    name: str,
    signature: str,
    summary: str,
    combine: Callable[[list[Any]], Any],
    example: Example,
    arguments: tuple[int, int],
) -> ScalarFunction:
    return ScalarFunction(
        name,
        signature,
        summary,
        lambda operands, dialect: _bind_logic(name, combine, operands, dialect),
        (example,),
        *arguments,
    )


FUNCTIONS = (
    _comparison("equals", "=", Example("i = 7", True)),
    _comparison("not_equals", "<>", Example("s <> 'x'", True)),
    _comparison("greater_than", ">", Example("d > i", False)),
    _comparison("greater_than_or_equal", ">=", Example("f >= 1.5", True)),
    _comparison("less_than", "<", Example("l < 5", False)),
    _comparison("less_than_or_equal", "<=", Example("s <= 'Hello'", False)),
    _logic(
        "and",
        "AND(x, y, …)",
        "Whether all conditions hold.",
        lambda parts: reduce(pc.and_kleene, parts),
        Example("i = 7 AND b", True),
        (1, MANY),
    ),
    _logic(
        "or",
        "OR(x, y, …)",
        "Whether any condition holds.",
        lambda parts: reduce(pc.or_kleene, parts),
        Example("i = 8 OR b", True),
        (1, MANY),
    ),
    _logic(
        "not",
        "NOT(x)",
        "Whether the condition does not hold.",
        lambda parts: pc.invert(parts[0]),
        Example("NOT b", False),
        (1, 1),
    ),
)
