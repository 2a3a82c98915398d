"""Which user functions a query takes: the broker writes them into the query, a server compares before it touches a
segment.

A function is the same on both sides if its signature is: a server whose package is of another version, with another
type of an argument or of the result, would merge into wrong answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pinotpy.errors import QueryExecutionError
from pinotpy.functions.scalar.spec import user_functions
from pinotpy.pql.ast import Call, Expression
from pinotpy.pql.function_names import canonical_function
from pinotpy.query.model.context import (
    AggregationRef,
    And,
    ExpressionPredicate,
    Filter,
    Not,
    Or,
    Predicate,
    QueryContext,
)


def with_user_functions(context: QueryContext) -> QueryContext:
    """The query with the names and signatures of the user functions in it, by name."""
    known = user_functions()
    if not known:
        return context
    used = {name for call in _calls(context) if (name := canonical_function(call.name)) in known}
    return (
        replace(context, user_functions=tuple((name, known[name].signature) for name in sorted(used)))
        if used
        else context
    )


def check_user_functions(context: QueryContext) -> None:
    """Raise QueryExecutionError unless this process has every user function of the query, with the same signature."""
    if not context.user_functions:
        return
    known = user_functions()
    for name, signature in context.user_functions:
        function = known.get(name)
        if function is None:
            raise QueryExecutionError(
                f"this server has no function '{name}', expected {signature}: install its package there, or name it "
                "in pinot.server.user.functions",
                function=name,
            )
        if function.signature != signature:
            raise QueryExecutionError(
                f"this server has another function '{name}' than the broker: expected {signature}, found "
                f"{function.signature}; install one version everywhere",
                function=name,
            )


def _calls(context: QueryContext) -> Iterator[Call]:
    """Every call in a query, wherever it stands. On a stack of its own: expressions may be deep."""
    stack: list[Expression | AggregationRef] = [
        *(column.expression for column in context.output),
        *context.group_by,
        *(arg for aggregation in context.aggregations for arg in aggregation.args),
        *(key.expression for key in context.order_by),
    ]
    for condition in (context.filter, context.having, *(aggregation.filter for aggregation in context.aggregations)):
        stack.extend(_filtered_expressions(condition))
    while stack:
        expression = stack.pop()
        if isinstance(expression, Call):
            yield expression
            stack.extend(expression.args)
            if expression.filter is not None:
                stack.append(expression.filter)


def _filtered_expressions(root: Filter | None) -> Iterator[Expression]:
    stack = [] if root is None else [root]
    while stack:
        node = stack.pop()
        if isinstance(node, And | Or):
            stack.extend(node.children)
        elif isinstance(node, Not):
            stack.append(node.child)
        elif isinstance(node, Predicate):
            yield node.lhs
        elif isinstance(node, ExpressionPredicate):
            yield node.expression
