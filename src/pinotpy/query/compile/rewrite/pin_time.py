"""now() and ago('…') of a query: one moment for all servers, segments and rows, read by the broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pinotpy.functions.scalar.dates import duration_ms
from pinotpy.pql.ast import Call, Expression, Literal
from pinotpy.pql.function_names import canonical_function
from pinotpy.pql.literals import integer_literal
from pinotpy.query.compile.rewrite.constant_sides import ConstantSides
from pinotpy.query.model.conditions import FilterCompiler
from pinotpy.query.model.context import (
    AggregationRef,
    And,
    Constant,
    ExpressionPredicate,
    Filter,
    Not,
    Or,
    Predicate,
    QueryContext,
)

_MOMENTS: Final = ("now", "ago")


def pin_time(context: QueryContext, now_ms: int) -> QueryContext:
    """The query with its calls of now and ago as constants; the same object if it has none.

    What the answer is named by stays in the given context: the pinned one is for servers.
    """

    if not reads_clock(context):
        return context
    sides = ConstantSides(context)
    found = _pinned(context, now_ms, sides.computed)
    return _pinned(context, now_ms, lambda condition: condition) if sides.may_fail else found


def _pinned(context: QueryContext, now_ms: int, computed: Callable[[Expression], Expression]) -> QueryContext:
    def pinned(expression: Expression) -> Expression:
        return at_moment(expression, now_ms)

    columns = {column.name: column for column in context.columns}
    compiler = FilterCompiler(
        context.dialect,
        lambda name: columns[name].data_type if name in columns else None,
        null_handling=context.null_handling,
    )

    def compiled(condition: Expression) -> Filter | None:
        # ts > ago('P1D') has become a comparison with a constant: a range, which indexes and pruning know.
        return compiler.compile(computed(condition))

    def output(expression: Expression | AggregationRef) -> Expression | AggregationRef:
        return expression if isinstance(expression, AggregationRef) else pinned(expression)

    return replace(
        context,
        output=tuple([replace(column, expression=output(column.expression)) for column in context.output]),
        filter=_pinned_filter(context.filter, pinned, compiled),
        group_by=tuple([pinned(expression) for expression in context.group_by]),
        aggregations=tuple(
            [
                replace(a, args=tuple(map(pinned, a.args)), filter=_pinned_filter(a.filter, pinned, compiled))
                for a in context.aggregations
            ]
        ),
        order_by=tuple([replace(by, expression=output(by.expression)) for by in context.order_by]),
    )


def at_moment(expression: Expression, now_ms: int) -> Expression:
    """The expression with its calls of now and ago as constants."""
    if not isinstance(expression, Call):
        return expression
    name = canonical_function(expression.name)
    if name == "now" and not expression.args:
        return integer_literal(now_ms, expression.position)
    if name == "ago" and len(expression.args) == 1 and isinstance(expression.args[0], Literal):
        return integer_literal(now_ms - duration_ms(expression.args[0].text), expression.position)
    args = tuple([at_moment(arg, now_ms) for arg in expression.args])
    return expression if args == expression.args else replace(expression, args=args)


def reads_clock(context: QueryContext) -> bool:
    """Whether the query calls now or ago."""
    stack: list[Expression | AggregationRef | Filter | None] = [
        *(column.expression for column in context.output),
        *context.group_by,
        *(by.expression for by in context.order_by),
        context.filter,
    ]
    for aggregation in context.aggregations:
        stack += [*aggregation.args, aggregation.filter]
    while stack:
        match stack.pop():
            case Call(name=name, args=args):
                if canonical_function(name) in _MOMENTS:
                    return True
                stack.extend(args)
            case And(children=children) | Or(children=children):
                stack.extend(children)
            case Not(child=child):
                stack.append(child)
            case Predicate(lhs=expression) | ExpressionPredicate(expression=expression):
                stack.append(expression)
            case _:
                pass
    return False


def _pinned_filter(
    condition: Filter | None,
    pinned: Callable[[Expression], Expression],
    compiled: Callable[[Expression], Filter | None],
) -> Filter | None:
    # None is always true.
    match condition:
        case And(children=children):
            parts = [part for child in children if (part := _pinned_filter(child, pinned, compiled)) is not None]
            return And(tuple(parts)) if parts else None
        case Or(children=children):
            either = [_pinned_filter(child, pinned, compiled) for child in children]
            return None if None in either else Or(tuple([part for part in either if part is not None]))
        case Not(child=child):
            inner = _pinned_filter(child, pinned, compiled)
            return Constant(False) if inner is None else Not(inner)
        case Predicate(lhs=expression):
            return replace(condition, lhs=pinned(expression))
        case ExpressionPredicate(expression=expression):
            moved = pinned(expression)
            return condition if moved is expression else compiled(moved)
        case _:
            return condition
