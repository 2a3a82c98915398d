"""Expressions and conditions over finished groups: HAVING, ORDER BY and selected expressions such as ROUND(SUM(a) /
COUNT(*), 2).

Evaluated once per answer over whole columns: aggregations and group keys stand as columns of one small table, over
which scalar functions and conditions mean what they mean over rows: without null handling they take the null that a
function makes for the default of its type. Where it is itself what is shown or ordered by, such as a CASE without ELSE,
it is null in both null modes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.spec import aggregation_function
from pinotpy.pql.ast import Call, Expression, Identifier, Literal
from pinotpy.pql.printer import print_expression
from pinotpy.query.expression.interpreter import Rows
from pinotpy.query.model.context import (
    Aggregation,
    AggregationRef,
    And,
    ColumnRef,
    Comparison,
    Constant,
    ExpressionPredicate,
    Filter,
    Not,
    Or,
    Predicate,
    QueryContext,
)
from pinotpy.query.model.positions import position_text
from pinotpy.query.model.result_type import ResultType
from pinotpy.query.model.result_types import CONDITIONS, argument_of, result_type, types_of

# Their values have no type of their own in the reference: an answer names them OBJECT (sql-live §3).
_UNTYPED: Final = frozenset({"case", "cast", "coalesce", "nullif"})


@dataclass(frozen=True, slots=True)
class Groups:
    """Finished groups: key columns by expression, aggregation values by index, all `num_rows` long; `ranks`: by index
    what PQL orders groups by.
    """

    context: QueryContext
    keys: Mapping[Expression, pa.Array]
    values: tuple[pa.Array, ...]
    num_rows: int
    ranks: tuple[pa.Array, ...] = ()


def evaluate(expression: Expression | AggregationRef, groups: Groups) -> pa.Array:
    """The values of an expression over the groups, in the Arrow form of `type_of_groups`; null where it has none."""
    match expression:
        case AggregationRef(index=index) | Call(name="$agg", args=(Literal(value=int(index)),)):
            return groups.values[index]
        case _ if expression in groups.keys:
            return groups.keys[expression]
        case _:
            rows, over_columns = _rows(groups), _over_columns(expression, groups.context)
            if isinstance(over_columns, Call) and over_columns.name not in CONDITIONS:
                return rows.computed(over_columns)
            return rows.evaluate(over_columns)


def _rows(groups: Groups) -> Rows:
    columns = {f"$agg{i}": values for i, values in enumerate(groups.values)}
    columns |= {f"$key{groups.context.group_by.index(key)}": values for key, values in groups.keys.items()}
    return Rows(
        as_rows_of_groups(groups.context), groups.num_rows, columns.__getitem__, lambda name: _nulls(columns[name])
    )


def type_of_groups(expression: Expression | AggregationRef, context: QueryContext) -> ResultType:
    """The type of an expression over aggregations and keys.

    Raises: InvalidQueryError for functions that do not exist or do not take their arguments, and columns that are not
    grouped.
    """
    match expression:
        case AggregationRef(index=index) | Call(name="$agg", args=(Literal(value=int(index)),)):
            return type_of_aggregation(context, context.aggregations[index])
        case Identifier() | Call() if expression in context.group_by:
            return ResultType(
                result_type(expression, context).data_type
            )  # a multi-value group expression shows one value a group
        case _:
            data_type = types_of(as_rows_of_groups(context)).of(_over_columns(expression, context))
            return (
                replace(data_type, shown_as="OBJECT")
                if isinstance(expression, Call) and expression.name in _UNTYPED
                else data_type
            )


def type_of_aggregation(context: QueryContext, aggregation: Aggregation) -> ResultType:
    """The type of an aggregation's value."""
    result_type = aggregation_function(aggregation.function, aggregation.args).result_of(
        argument_of(aggregation.args, types_of(context))
    )
    return ResultType(result_type.data_type, result_type.single_value)


def as_rows_of_groups(context: QueryContext) -> QueryContext:
    """The query as if aggregations and keys were its columns."""
    keys = [
        ColumnRef(f"$key{i}", result_type(key, context).data_type or DataType.STRING)
        for i, key in enumerate(context.group_by)
    ]
    values = []
    for index, aggregation in enumerate(context.aggregations):
        data_type = type_of_aggregation(context, aggregation)
        values.append(ColumnRef(f"$agg{index}", data_type.data_type or DataType.STRING, data_type.single_value))
    return replace(context, columns=(*keys, *values))


def _over_columns(expression: Expression | AggregationRef, context: QueryContext) -> Expression:
    match expression:
        case AggregationRef(index=index) | Call(name="$agg", args=(Literal(value=int(index)),)):
            return Identifier(f"$agg{index}")
        case _ if expression in context.group_by:
            return Identifier(f"$key{context.group_by.index(expression)}", expression.position)
        case Call():
            return replace(expression, args=tuple([_over_columns(arg, context) for arg in expression.args]))
        case Literal():
            return expression
        case _:
            assert not isinstance(expression, AggregationRef)
            text = print_expression(expression, context.dialect)
            raise InvalidQueryError(
                f"'{text}' is neither grouped nor an aggregation{position_text(expression.position)}"
            )


def _nulls(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), np.bool_) if values.null_count else None


def select_groups(condition: Filter, groups: Groups) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which groups a HAVING keeps, bool[num_rows]; conditions mean what they mean in WHERE."""
    passes = pc.fill_null(_rows(groups).filter(filter_over_groups(condition, groups.context)), False)
    return np.asarray(passes.to_numpy(zero_copy_only=False), np.bool_)


def filter_over_groups(condition: Filter, context: QueryContext) -> Filter:
    """The condition with aggregations and keys as columns of `as_rows_of_groups`."""
    match condition:
        case And(children=children) | Or(children=children):
            return replace(condition, children=tuple([filter_over_groups(child, context) for child in children]))
        case Not(child=child):
            return Not(filter_over_groups(child, context))
        case ExpressionPredicate(expression=expression):
            return ExpressionPredicate(_over_columns(expression, context))
        case Predicate(comparison=Comparison.TEXT_MATCH | Comparison.JSON_MATCH as comparison):
            raise InvalidQueryError(
                f"{comparison} searches a column in rows: it stands in WHERE or FILTER (WHERE …), not in HAVING"
            )
        case Predicate(lhs=left):
            return replace(condition, lhs=_over_columns(left, context))
        case Constant():
            return condition
