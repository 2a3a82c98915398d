"""What a compiled query must fulfil before a server is asked: every function exists and takes its arguments."""

from __future__ import annotations

from typing import Final

from pinotpy.errors import InvalidQueryError
from pinotpy.pql.ast import Call, Dialect
from pinotpy.query.context import AggregationRef, And, ExpressionPredicate, Filter, Not, Or, Predicate, QueryContext, QueryKind
from pinotpy.query.post_aggregation import type_of_groups
from pinotpy.query.result_types import ExpressionTypes, expressions_of, types_of

# Every different key takes a register of the kernels, and the number of the group one more (kernels/abi.NUM_REGISTERS, which
# brokers do not load). Nulls and multi-values take registers too: fewer keys with them can be too many for servers.
GROUP_KEYS_MAX: Final = 23


def check_expressions(context: QueryContext) -> None:
    """Find functions that do not exist or do not take their arguments, and more keys than can be grouped by.

    Raises: QueryExecutionError (200) in PQL, InvalidQueryError (700) in SQL; InvalidQueryError for too many keys.
    """
    _check_group_keys(context)
    types = types_of(context)
    expressions = [*context.group_by, *(arg for aggregation in context.aggregations for arg in expressions_of(aggregation))]
    if context.kind in (QueryKind.SELECTION, QueryKind.DISTINCT):
        expressions += [column.expression for column in context.output if not isinstance(column.expression, AggregationRef)]
        expressions += [by.expression for by in context.order_by if not isinstance(by.expression, AggregationRef)]
    elif context.dialect is Dialect.SQL:
        for over_groups in [*(column.expression for column in context.output), *(by.expression for by in context.order_by)]:
            if isinstance(over_groups, Call) and over_groups not in context.group_by:
                type_of_groups(over_groups, context)
    for by in context.order_by:
        if isinstance(by.expression, AggregationRef) and not type_of_groups(by.expression, context).single_value:
            name = context.aggregations[by.expression.index].name
            raise InvalidQueryError(f"ORDER BY needs single values: {name} is a list")
    for expression in expressions:
        types.of(expression)
    conditions = [context.filter, *(aggregation.filter for aggregation in context.aggregations)]
    for condition in conditions:
        if condition is not None:
            _check_filter(condition, types)


def _check_group_keys(context: QueryContext) -> None:
    """Servers would compute all keys before they find that these are too many."""
    keys = {column.expression for column in context.output} if context.kind is QueryKind.DISTINCT else set(context.group_by)
    if len(keys) > GROUP_KEYS_MAX:
        where = "DISTINCT" if context.kind is QueryKind.DISTINCT else "GROUP BY"
        raise InvalidQueryError(f"{where} takes at most {GROUP_KEYS_MAX} different columns and expressions, found {len(keys)}: name fewer")


def _check_filter(condition: Filter, types: ExpressionTypes) -> None:
    match condition:
        case And(children=children) | Or(children=children):
            for child in children:
                _check_filter(child, types)
        case Not(child=child):
            _check_filter(child, types)
        case Predicate(lhs=expression) | ExpressionPredicate(expression=expression):
            types.of(expression)
