"""The type of an expression's values, from the types of the columns in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Final
from weakref import ref

from pinotpy.data_types import INT_MIN, LONG_MIN, DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.scalar.spec import Bound, Operand, bind, find_scalar_function
from pinotpy.functions.spec import Argument, aggregation_function, function_named
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, Star
from pinotpy.query.model.context import Aggregation, AggregationRef, ColumnRef, QueryContext
from pinotpy.query.model.positions import at_position
from pinotpy.query.model.result_type import ResultType
from pinotpy.query.model.unknown_function import unknown_function

ARITHMETIC = frozenset({"plus", "minus", "times", "divide", "mod"})
COMPARISONS = frozenset(
    {"equals", "not_equals", "greater_than", "greater_than_or_equal", "less_than", "less_than_or_equal"}
)
# What the query room evaluates itself, because null vectors or predicates decide; everything else is a scalar function.
NULL_TESTS = frozenset({"is_null", "is_not_null"})
TRUTH_TESTS = frozenset({"is_true", "is_not_true", "is_false", "is_not_false"})
PREDICATES = frozenset(
    {
        "between",
        "not_between",
        "in",
        "not_in",
        "like",
        "not_like",
        "regexp_like",
        "is_distinct_from",
        "is_not_distinct_from",
    }
)
LOGIC = frozenset({"and", "or", "not"})
CONDITIONS = COMPARISONS | PREDICATES | LOGIC | NULL_TESTS | TRUTH_TESTS

# Functions that look at the null vector in both modes; without the underscores that some names are written with.
_SEE_NULLS: Final = frozenset({"coalesce", "isnull", "isnotnull", "isdistinctfrom", "isnotdistinctfrom"})

# Functions bound to longer constants are not kept for the next query: a text may have 2 MiB.
_KEPT_CHARACTERS_MAX: Final = 1_000


class ExpressionTypes:
    """Types of the expressions of one query."""

    def __init__(self, columns: tuple[ColumnRef, ...], dialect: Dialect) -> None:
        self.columns: Mapping[str, ColumnRef] = {column.name: column for column in columns}
        self.dialect = dialect
        # By identity, because deep expressions are asked at every level, and only while the call lives: a call may hold
        # 50,000 literals.
        self._bound: dict[int, tuple[ref[Call], Bound]] = {}
        # PQL has no booleans: conditions are 1 and 0.
        self._condition = ResultType(DataType.BOOLEAN if dialect is Dialect.SQL else DataType.INT)

    def of(self, expression: Expression | AggregationRef) -> ResultType:
        """Raises QueryExecutionError (PQL) or InvalidQueryError (SQL) for functions that do not exist or do not take
        their arguments.
        """
        match expression:
            case Identifier(name=name):
                column = self.columns[name]
                return ResultType(column.data_type, column.single_value)
            case Literal():
                return ResultType(type_of_literal(expression))
            case Star() | AggregationRef():
                return ResultType(DataType.LONG)
            case Call(name=name) if name in CONDITIONS:
                return self._condition
            case Call():
                bound = self.bound(expression)
                return ResultType(bound.data_type, bound.single_value)

    def operand(self, expression: Expression) -> Operand:
        """The expression as an argument of a function."""
        if isinstance(expression, Literal):
            # Where it stands makes no other function of it: equal calls are bound once.
            return Operand(type_of_literal(expression), True, replace(expression))
        operand_type = self.of(expression)
        if isinstance(expression, Call) and expression.name in CONDITIONS:
            return Operand(DataType.BOOLEAN)
        return Operand(operand_type.data_type, operand_type.single_value)

    def bound(self, call: Call) -> Bound:
        """The scalar function of a call."""
        known = self._bound.get(id(call))
        if known is not None and known[0]() is call:
            return known[1]
        operands = tuple([self.operand(arg) for arg in call.args])
        if find_scalar_function(call.name) is None:
            raise unknown_function(call, self.dialect)
        is_long = any(
            operand.literal is not None and len(operand.literal.text) > _KEPT_CHARACTERS_MAX for operand in operands
        )
        try:
            bound_function = (bind.__wrapped__ if is_long else bind)(call.name, operands, self.dialect)
        except (InvalidQueryError, QueryExecutionError) as error:
            raise at_position(error, call.position) from error
        key, bound = id(call), self._bound
        bound[key] = ref(call, lambda _: bound.pop(key, None)), bound_function
        return bound_function


@lru_cache(maxsize=256)
def types_of_columns(columns: tuple[ColumnRef, ...], dialect: Dialect) -> ExpressionTypes:
    """The types of expressions over these columns."""
    return ExpressionTypes(columns, dialect)


def types_of(context: QueryContext) -> ExpressionTypes:
    """The types of the query's expressions."""
    return types_of_columns(context.columns, context.dialect)


def columns_by_name(context: QueryContext) -> Mapping[str, ColumnRef]:
    """The columns that a query reads, by name."""
    return types_of(context).columns


def result_type(expression: Expression | AggregationRef, context: QueryContext) -> ResultType:
    """Type of an expression over the columns of the query."""
    return types_of(context).of(expression)


def type_of_literal(literal: Literal) -> DataType | None:
    """The type of a constant: the one that computing it gave, else that of its value."""
    return literal_type(literal.value) if literal.data_type is None or literal.value is None else literal.data_type


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


def argument_of(args: tuple[Expression, ...], types: ExpressionTypes, num_expressions: int = 1) -> Argument:
    """What an aggregation call is applied to; the first `num_expressions` arguments are its expressions."""
    if not args or isinstance(args[0], Star):
        return Argument(None)
    argument_type = types.of(args[0])
    if num_expressions == 1:
        return Argument(argument_type.data_type, argument_type.single_value)
    further = [types.of(arg) for arg in args[1:num_expressions]]
    return Argument(
        argument_type.data_type,
        argument_type.single_value,
        tuple([Argument(one.data_type, one.single_value) for one in further]),
    )


def expressions_of(aggregation: Aggregation) -> tuple[Expression, ...]:
    """The arguments of an aggregation that are no constants of its call."""
    args = aggregation.args
    return args if len(args) <= 1 else args[: function_named(aggregation.function).num_expressions]


def reads_rows(aggregation: Aggregation) -> bool:
    """Whether an aggregation is made of the selected rows after the scan, not of columns that the scan reads."""
    return aggregation_function(aggregation.function, aggregation.args).reads_rows


def columns_in(expression: Expression) -> list[str]:
    """Names of the columns that an expression reads, each as often as it stands there."""
    if isinstance(expression, Identifier):
        return [expression.name]
    if isinstance(expression, Literal | Star):
        return []
    return [name for arg in expression.args for name in columns_in(arg)]


def columns_with_nulls_in(expression: Expression) -> Iterator[str]:
    """Names of the columns whose nulls an expression takes for values in the mode of default values."""
    if isinstance(expression, Identifier):
        yield expression.name
    elif isinstance(expression, Call) and expression.name.replace("_", "") not in _SEE_NULLS:
        for arg in expression.args:
            yield from columns_with_nulls_in(arg)


def is_strict(expression: Expression, context: QueryContext) -> bool:
    """Whether the expression is null wherever a column in it is, and asks for nothing else of nulls."""
    if not isinstance(expression, Call):
        return True
    if expression.name in CONDITIONS - COMPARISONS:
        return False
    if expression.name not in CONDITIONS and types_of(context).bound(expression).handles_nulls:
        return False
    return all(is_strict(arg, context) for arg in expression.args)


def has_null(expression: Expression) -> bool:
    """Whether a constant null stands anywhere in the expression."""
    if isinstance(expression, Call):
        return any(map(has_null, expression.args))
    return isinstance(expression, Literal) and expression.value is None


def is_fixed(expression: Expression) -> bool:
    """Whether all rows give the same value: a constant, or a function of constants alone."""
    if not isinstance(expression, Call):
        return isinstance(expression, Literal)
    return all(map(is_fixed, expression.args)) and _is_constant_function(expression.name)


def is_constant(expression: Expression) -> bool:
    """Whether equal rows give equal values: no call of now() and its kin."""
    if not isinstance(expression, Call):
        return True
    return _is_constant_function(expression.name) and all(is_constant(arg) for arg in expression.args)


def _is_constant_function(name: str) -> bool:
    function = None if name in CONDITIONS else find_scalar_function(name)
    return function is None or function.constant
