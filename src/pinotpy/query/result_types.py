"""The type of an expression's values, from the types of the columns in it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from pinotpy.data_types import INT_MIN, LONG_MIN, DataType
from pinotpy.functions.spec import Argument
from pinotpy.pql.ast import Call, Expression, Identifier, Literal, Star
from pinotpy.pql.function_names import canonical_function
from pinotpy.query.context import AggregationRef, ColumnRef, QueryContext
from pinotpy.query.reduced import ResultType

ARITHMETIC = frozenset({"plus", "minus", "times", "divide", "mod"})
COMPARISONS = frozenset({"equals", "not_equals", "greater_than", "greater_than_or_equal", "less_than", "less_than_or_equal"})
_BOOLEAN_OPERATORS = frozenset({"and", "or", "not", "between", "not_between", "in", "not_in", "like", "not_like", "regexp_like"})
_TESTS = frozenset({"is_null", "is_not_null", "is_true", "is_not_true", "is_false", "is_not_false"})
CONDITIONS = COMPARISONS | _BOOLEAN_OPERATORS | _TESTS


def columns_by_name(context: QueryContext) -> dict[str, ColumnRef]:
    """The columns that a query reads, by name."""
    return {column.name: column for column in context.columns}


def result_type(expression: Expression | AggregationRef, columns: Mapping[str, ColumnRef]) -> ResultType:
    """Type of an expression over columns. Arithmetic is DOUBLE, or BIG_DECIMAL if an operand of + − × ÷ is (sql-live §3)."""
    match expression:
        case Identifier(name=name):
            column = columns[name]
            return ResultType(column.data_type, column.single_value)
        case Literal(value=value):
            return ResultType(literal_type(value))
        case Star() | AggregationRef():
            return ResultType(DataType.LONG)
        case Call(name=name) if name in CONDITIONS:
            return ResultType(DataType.BOOLEAN)
        case Call(name="cast", args=(_, Literal(value=str(target)))):
            return ResultType(_cast_type(target))
        case Call(name=name, args=args) if (operator := canonical_function(name)) in ARITHMETIC and operator != "mod":
            types = [result_type(arg, columns).data_type for arg in args]
            return ResultType(DataType.BIG_DECIMAL if DataType.BIG_DECIMAL in types else DataType.DOUBLE)
        case _:
            return ResultType(DataType.DOUBLE)


def literal_type(value: object) -> DataType | None:
    """INT, LONG, BIG_DECIMAL beyond that, DOUBLE, STRING, BOOLEAN; None for a bare null."""
    match value:
        case None:
            return None
        case bool():
            return DataType.BOOLEAN
        case int():
            if not LONG_MIN <= value <= -LONG_MIN - 1:
                return DataType.BIG_DECIMAL
            return DataType.INT if INT_MIN <= value <= -INT_MIN - 1 else DataType.LONG
        case float() | Decimal():
            return DataType.DOUBLE
        case _:
            return DataType.STRING


def argument_of(args: tuple[Expression, ...], columns: Mapping[str, ColumnRef]) -> Argument:
    """What an aggregation call is applied to."""
    if not args or isinstance(args[0], Star):
        return Argument(None)
    found = result_type(args[0], columns)
    return Argument(found.data_type, found.single_value)


def _cast_type(target: str) -> DataType:
    name = {"INTEGER": "INT", "BIGINT": "LONG", "VARCHAR": "STRING", "DECIMAL": "BIG_DECIMAL"}.get(target.upper(), target.upper())
    return DataType(name) if name in DataType.__members__ else DataType.STRING
