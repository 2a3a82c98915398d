"""What a compiled query must fulfil before a server is asked: every function exists and takes its arguments."""

from __future__ import annotations

from pinotpy.query.context import AggregationRef, And, ExpressionPredicate, Filter, Not, Or, Predicate, QueryContext, QueryKind
from pinotpy.query.result_types import ExpressionTypes, types_of


def check_expressions(context: QueryContext) -> None:
    """Find functions that do not exist or do not take their arguments.

    Raises: QueryExecutionError (200) in PQL, InvalidQueryError (700) in SQL.
    """
    types = types_of(context)
    expressions = [*context.group_by, *(aggregation.args[0] for aggregation in context.aggregations if aggregation.args)]
    if context.kind in (QueryKind.SELECTION, QueryKind.DISTINCT):
        expressions += [column.expression for column in context.output if not isinstance(column.expression, AggregationRef)]
        expressions += [by.expression for by in context.order_by if not isinstance(by.expression, AggregationRef)]
    for expression in expressions:
        types.of(expression)
    conditions = [context.filter, *(aggregation.filter for aggregation in context.aggregations)]
    for condition in conditions:
        if condition is not None:
            _check_filter(condition, types)


def _check_filter(condition: Filter, types: ExpressionTypes) -> None:
    match condition:
        case And(children=children) | Or(children=children):
            for child in children:
                _check_filter(child, types)
        case Not(child=child):
            _check_filter(child, types)
        case Predicate(lhs=expression) | ExpressionPredicate(expression=expression):
            types.of(expression)
