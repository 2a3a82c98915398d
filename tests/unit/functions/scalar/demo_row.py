"""How an expression over the row of functions/example_rows.py is evaluated."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pinotpy.errors import ParseError
from pinotpy.functions.example_rows import EXAMPLE_ROW
from pinotpy.functions.scalar.spec import Operand, Value, bind, evaluate
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.model.result_types import literal_type


def value_of(expression: str, dialect: Dialect = Dialect.SQL) -> Any:
    """The value of an expression in SQL's or PQL's spelling over the demo row, evaluated as `dialect` does."""
    _, value = _evaluated(_parsed(expression), dialect)
    return value.as_py() if isinstance(value, pa.Scalar) else value.to_pylist()[0]


def _parsed(expression: str) -> Expression:
    text = f"SELECT {expression} FROM t"
    try:
        return parse_sql(text).select[0].expression
    except ParseError:  # EXTRACT and TIMESTAMPADD are calls with a quoted unit in PQL only
        return parse_pql(text).select[0].expression


def _evaluated(expression: Expression, dialect: Dialect) -> tuple[Operand, Value]:
    if isinstance(expression, Identifier):
        data_type, value = EXAMPLE_ROW[expression.name]
        is_many = isinstance(value, list)
        return Operand(data_type, not is_many), pa.array(
            [value], pa.list_(data_type.arrow) if is_many else data_type.arrow
        )
    if isinstance(expression, Literal):
        found = literal_type(expression.value)
        value = expression.text if expression.is_string else expression.value
        return Operand(found, True, expression), pa.scalar(value, found.arrow if found else pa.null())
    assert isinstance(expression, Call)
    arguments = [_evaluated(argument, dialect) for argument in expression.args]
    bound = bind(expression.name, tuple(operand for operand, _ in arguments), dialect)
    return Operand(bound.data_type, bound.single_value), evaluate(bound, [value for _, value in arguments], 1)
