"""Expressions and conditions over finished groups: HAVING, ORDER BY and selected expressions such as ROUND(SUM(a) / COUNT(*), 2).

Evaluated once per answer over whole columns: aggregations and group keys stand as columns of one small table, over which scalar
functions and conditions mean what they mean over rows. Null is null in both null modes: only aggregates of nothing and CASE
without ELSE give one. A condition that is unknown is not true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.patterns import like_pattern, regexp_pattern
from pinotpy.functions.spec import aggregation_function
from pinotpy.pql.ast import Call, Expression, Identifier, Literal
from pinotpy.query.context import (
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
from pinotpy.query.expression import Rows
from pinotpy.query.predicate import as_double
from pinotpy.query.reduced import ResultType
from pinotpy.query.result_types import argument_of, result_type, types_of

# Their values have no type of their own in the reference: an answer names them OBJECT (sql-live §3).
_UNTYPED: Final = frozenset({"case", "cast", "coalesce", "nullif"})


@dataclass(frozen=True, slots=True)
class Groups:
    """Finished groups: key columns by expression, aggregation values by index, all `num_rows` long; `ranks`: by index what
    PQL orders groups by."""

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
            columns = {f"$agg{i}": values for i, values in enumerate(groups.values)}
            columns |= {f"$key{groups.context.group_by.index(key)}": values for key, values in groups.keys.items()}
            rows = Rows(_as_rows(groups.context), groups.num_rows, columns.__getitem__, lambda name: _nulls(columns[name]))
            return rows.evaluate(_over_columns(expression, groups.context))


def type_of_groups(expression: Expression | AggregationRef, context: QueryContext) -> ResultType:
    """The type of an expression over aggregations and keys.

    Raises: InvalidQueryError for functions that do not exist or do not take their arguments, and columns that are not grouped.
    """
    match expression:
        case AggregationRef(index=index) | Call(name="$agg", args=(Literal(value=int(index)),)):
            return type_of_aggregation(context, context.aggregations[index])
        case Identifier() | Call() if expression in context.group_by:
            return ResultType(result_type(expression, context).data_type)  # a multi-value group expression shows one value a group
        case _:
            found = types_of(_as_rows(context)).of(_over_columns(expression, context))
            return replace(found, shown_as="OBJECT") if isinstance(expression, Call) and expression.name in _UNTYPED else found


def type_of_aggregation(context: QueryContext, aggregation: Aggregation) -> ResultType:
    """The type of an aggregation's value."""
    found = aggregation_function(aggregation.function, aggregation.args).result_of(argument_of(aggregation.args, types_of(context)))
    return ResultType(found.data_type, found.single_value)


def _as_rows(context: QueryContext) -> QueryContext:
    """The query as if aggregations and keys were its columns."""
    keys = [ColumnRef(f"$key{i}", result_type(key, context).data_type or DataType.STRING) for i, key in enumerate(context.group_by)]
    values = []
    for index, aggregation in enumerate(context.aggregations):
        found = type_of_aggregation(context, aggregation)
        values.append(ColumnRef(f"$agg{index}", found.data_type or DataType.STRING, found.single_value))
    return replace(context, columns=(*keys, *values), null_handling=True)


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
            raise InvalidQueryError(f"'{expression}' is neither grouped nor an aggregation")


def _nulls(values: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), np.bool_) if values.null_count else None


def select_groups(condition: Filter, groups: Groups) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which groups a HAVING keeps, bool[num_rows]."""
    kept = pc.fill_null(_condition(condition, groups), False)
    return np.asarray(kept.to_numpy(zero_copy_only=False), np.bool_)


def _condition(condition: Filter, groups: Groups) -> pa.Array:
    match condition:
        case And(children=children):
            return _fold(pc.and_kleene, [_condition(child, groups) for child in children])
        case Or(children=children):
            return _fold(pc.or_kleene, [_condition(child, groups) for child in children])
        case Not(child=child):
            return pc.invert(_condition(child, groups))
        case Constant(value=value):
            return pa.array(np.full(groups.num_rows, value))
        case ExpressionPredicate(expression=expression):
            return evaluate(expression, groups)
        case Predicate():
            return _predicate(condition, evaluate(condition.lhs, groups))


def _predicate(predicate: Predicate, values: pa.Array) -> pa.Array:
    def compare(operation: Any, literal: Any) -> pa.Array:
        return operation(*_comparable(values, pa.array([_plain(literal)])))

    match predicate.comparison:
        case Comparison.EQ:
            return compare(_broadcast(pc.equal), predicate.values[0])
        case Comparison.NOT_EQ:
            return compare(_broadcast(pc.not_equal), predicate.values[0])
        case Comparison.IN:
            return _fold(pc.or_kleene, [compare(_broadcast(pc.equal), value) for value in predicate.values])
        case Comparison.NOT_IN:
            return pc.invert(_fold(pc.or_kleene, [compare(_broadcast(pc.equal), value) for value in predicate.values]))
        case Comparison.RANGE:
            ends = []
            if predicate.lower is not None:
                ends.append(compare(_broadcast(pc.greater_equal if predicate.lower.inclusive else pc.greater), predicate.lower.value))
            if predicate.upper is not None:
                ends.append(compare(_broadcast(pc.less_equal if predicate.upper.inclusive else pc.less), predicate.upper.value))
            return _fold(pc.and_kleene, ends)
        case Comparison.IS_NULL:
            return pc.is_null(values)
        case Comparison.IS_NOT_NULL:
            return pc.is_valid(values)
        case Comparison.LIKE | Comparison.NOT_LIKE | Comparison.REGEXP_LIKE if pa.types.is_string(values.type):
            return _matches(predicate, values)
        case other:
            raise InvalidQueryError(f"HAVING takes {other.value} on text only, found {values.type}; compare numbers with < = > BETWEEN IN")


def _matches(predicate: Predicate, values: pa.Array) -> pa.Array:
    written, ignore_case = str(predicate.values[0]), "i" in predicate.flags
    if predicate.comparison is Comparison.REGEXP_LIKE:
        pattern = regexp_pattern(written, ignore_case=ignore_case)
    else:
        pattern = like_pattern(written, ignore_case=ignore_case, escape=predicate.escape)
    found = pattern.matches(pc.fill_null(values, ""))
    return pa.array(~found if predicate.comparison is Comparison.NOT_LIKE else found, mask=values.is_null().to_numpy(zero_copy_only=False))


def _broadcast(operation: Any) -> Any:
    return lambda values, one: operation(values, one[0])


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    too_large = isinstance(value, int) and not -(2**63) <= value < 2**63
    return as_double(value) if too_large else value


def _comparable(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both sides in one type: numbers by value, else text; comparing a number with text that is none is refused."""
    if left.type == right.type or pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return left, right
    numeric = [_is_number(side.type) for side in (left, right)]
    if all(numeric):
        return left, right
    try:
        return (left, right.cast(left.type)) if numeric[0] or not numeric[1] else (left.cast(right.type), right)
    except pa.ArrowException as error:
        raise InvalidQueryError(f"cannot compare {left.type} with {right.type} in HAVING: {error}") from error


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _fold(operation: Any, parts: list[pa.Array]) -> pa.Array:
    folded = parts[0]
    for part in parts[1:]:
        folded = operation(folded, part)
    return folded
