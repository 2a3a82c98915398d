"""Expressions computed over plain columns, without a segment or a server."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.data_types import DataType
from pinotpy.functions.scalar.spec import Operand, Value, bind, evaluate
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
from pinotpy.pql.parser import parse_expression

Columns = dict[str, tuple[DataType, pa.Array]]


def _literal_type(literal: Literal) -> DataType:
    if isinstance(literal.value, bool):
        return DataType.BOOLEAN
    if isinstance(literal.value, int):
        return DataType.LONG
    return DataType.DOUBLE if isinstance(literal.value, (float, Decimal)) else DataType.STRING


def compute(expression: Expression, columns: Columns, dialect: Dialect, count: int) -> tuple[Operand, Value]:
    """The type of an expression, and its values."""
    if isinstance(expression, Identifier):
        data_type, values = columns[expression.name]
        return Operand(data_type), values
    if isinstance(expression, Literal):
        data_type = _literal_type(expression)
        return Operand(data_type, literal=expression), pa.scalar(expression.value, data_type.arrow)
    assert isinstance(expression, Call), expression
    arguments = [compute(argument, columns, dialect, count) for argument in expression.args]
    bound = bind(expression.name, tuple(operand for operand, _ in arguments), dialect)
    return Operand(bound.data_type, bound.single_value), evaluate(bound, [value for _, value in arguments], count)


@pytest.fixture
def value_of() -> Callable[..., Any]:
    """value_of("year(0)") → 1970."""

    def value_of(text: str, columns: Columns | None = None, dialect: Dialect = Dialect.SQL) -> Any:
        return compute(parse_expression(text), columns or {}, dialect, 1)[1][0].as_py()

    return value_of


@pytest.fixture
def compute_on() -> Callable[..., tuple[Operand, Value]]:
    return compute
