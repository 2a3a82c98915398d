"""Which queries are cheap enough to run inline: their cost is bounded by the number of docs that kernels read."""

from __future__ import annotations

from typing import Final

from pinotpy.pql.ast import Call, Identifier, Star
from pinotpy.query.model.context import And, Comparison, Filter, Or, Predicate, QueryContext, QueryKind

# A plain query has no more of each.
PLAIN_COLUMNS_MAX = 8
PLAIN_ROWS_MAX = 1_000
_PLAIN_FUNCTIONS: Final = frozenset({"count", "sum", "min", "max", "avg", "minmaxrange"})
_PLAIN_COMPARISONS: Final = frozenset(
    {Comparison.EQ, Comparison.NOT_EQ, Comparison.IN, Comparison.NOT_IN, Comparison.RANGE}
)


def is_plain(context: QueryContext) -> bool:
    """Whether kernels alone answer a query, over few columns and into few rows: no Python runs per row or value."""
    if context.kind is QueryKind.DISTINCT or context.explain or context.options.trace or context.having is not None:
        return False
    if len(context.columns) > PLAIN_COLUMNS_MAX or context.offset + context.limit > PLAIN_ROWS_MAX:
        return False
    expressions = [column.expression for column in context.output]
    if context.kind is QueryKind.SELECTION:
        expressions += [by.expression for by in context.order_by]
    expressions += [*context.group_by, *(arg for aggregation in context.aggregations for arg in aggregation.args)]
    if any(isinstance(expression, Call) for expression in expressions):
        return False
    if any(
        aggregation.function not in _PLAIN_FUNCTIONS or aggregation.filter is not None
        for aggregation in context.aggregations
    ):
        return False
    return context.filter is None or _is_plain_filter(context.filter)


def is_sorted(context: QueryContext) -> bool:
    """Whether such a query sorts rows: its cost also depends on the sort keys and the length of their texts, not only
    on docs.
    """
    return context.kind is QueryKind.SELECTION and bool(context.order_by)


def is_counted(context: QueryContext) -> bool:
    """Whether such a query needs only metadata (COUNT(*) of all rows): segments answer without reading anything."""
    if context.kind is not QueryKind.AGGREGATION or context.filter is not None:
        return False
    return all(
        call.function == "count" and (not context.null_handling or all(isinstance(arg, Star) for arg in call.args))
        for call in context.aggregations
    )


def _is_plain_filter(condition: Filter) -> bool:
    if isinstance(condition, And | Or):
        return all(_is_plain_filter(child) for child in condition.children)
    return (
        isinstance(condition, Predicate)
        and isinstance(condition.lhs, Identifier)
        and condition.comparison in _PLAIN_COMPARISONS
    )
