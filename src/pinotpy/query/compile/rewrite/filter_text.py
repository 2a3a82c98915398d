"""Filters as text in column names: `count(*) FILTER(WHERE league = 'NL')`. Source: sql-live.md §2."""

from __future__ import annotations

from typing import Final

from pinotpy.pql.ast import Dialect
from pinotpy.pql.literals import java_double_text
from pinotpy.pql.printer import print_expression
from pinotpy.query.model.context import (
    And,
    Comparison,
    Constant,
    ExpressionPredicate,
    Filter,
    LiteralValue,
    Not,
    Or,
    Predicate,
)

_OPERATORS: Final = {Comparison.EQ: "=", Comparison.NOT_EQ: "!=", Comparison.IN: "IN", Comparison.NOT_IN: "NOT IN"}


def print_filter(node: Filter) -> str:
    """The text of a filter, literals in single quotes."""
    if isinstance(node, And | Or):
        word = " AND " if isinstance(node, And) else " OR "
        return f"({word.join([print_filter(child) for child in node.children])})"
    if isinstance(node, Not):
        return f"(NOT {print_filter(node.child)})"
    if isinstance(node, Constant):
        return "true" if node.value else "false"
    if isinstance(node, ExpressionPredicate):
        return print_expression(node.expression, Dialect.SQL)
    return _predicate(node)


def _predicate(node: Predicate) -> str:
    lhs = print_expression(node.lhs, Dialect.SQL)
    if node.comparison in (Comparison.IS_NULL, Comparison.IS_NOT_NULL):
        return f"{lhs} {node.comparison.value.replace('_', ' ')}"
    if node.comparison in (Comparison.IN, Comparison.NOT_IN):
        return f"{lhs} {_OPERATORS[node.comparison]} ({','.join([_quoted(value) for value in node.values])})"
    if node.comparison in _OPERATORS:
        return f"{lhs} {_OPERATORS[node.comparison]} {_quoted(node.values[0])}"
    if node.comparison is Comparison.RANGE:
        lower = (
            None if node.lower is None else f"{lhs} {'>=' if node.lower.inclusive else '>'} {_quoted(node.lower.value)}"
        )
        upper = (
            None if node.upper is None else f"{lhs} {'<=' if node.upper.inclusive else '<'} {_quoted(node.upper.value)}"
        )
        return f"({lower} AND {upper})" if lower and upper else lower or upper or "true"
    return f"{node.comparison.value.lower()}({lhs},{_quoted(node.values[0])})"


def _quoted(value: LiteralValue) -> str:
    if isinstance(value, bool):
        return f"'{'true' if value else 'false'}'"
    return f"'{java_double_text(value) if isinstance(value, float) else value}'"
