"""Filters in a plain form, as the reference's optimizer leaves them, so that statistics mean the same.

Nested AND in AND and OR in OR melt together; TRUE and FALSE disappear; IN with one value is =, NOT IN with one is <>;
equalities and INs on one column under an OR are one IN. Ranges and <> are left alone. Source: pql-live.md §6.
"""

from __future__ import annotations

from pinotpy.pql.ast import Expression
from pinotpy.query.model.context import And, Comparison, Constant, Filter, LiteralValue, Not, Or, Predicate


def simplify_filter(node: Filter) -> Filter:
    """The same filter in plain form."""
    if isinstance(node, And | Or):
        return _junction(node)
    if isinstance(node, Not):
        child = simplify_filter(node.child)
        return Constant(not child.value) if isinstance(child, Constant) else Not(child)
    if isinstance(node, Predicate) and node.comparison in (Comparison.IN, Comparison.NOT_IN):
        values = _distinct(node.values)
        if len(values) == 1:
            return Predicate(node.lhs, Comparison.EQ if node.comparison is Comparison.IN else Comparison.NOT_EQ, values)
        return Predicate(node.lhs, node.comparison, values)
    return node


def _junction(node: And | Or) -> Filter:
    is_and = isinstance(node, And)
    children: list[Filter] = []
    for raw in node.children:
        child = simplify_filter(raw)
        if isinstance(child, Constant):
            if child.value is not is_and:
                return child
            continue
        children.extend(child.children if isinstance(child, And if is_and else Or) else (child,))
    if not is_and:
        children = _merge(children)
    if not children:
        return Constant(is_and)
    if len(children) == 1:
        return children[0]
    return And(tuple(children)) if is_and else Or(tuple(children))


def _merge(children: list[Filter]) -> list[Filter]:
    """One IN per left side, at the place of the first."""
    merged: list[Filter | None] = []
    values: dict[Expression, list[LiteralValue]] = {}
    places: dict[Expression, int] = {}
    for child in children:
        if isinstance(child, Predicate) and child.comparison in (Comparison.EQ, Comparison.IN):
            if child.lhs not in places:
                places[child.lhs] = len(merged)
                values[child.lhs] = []
                merged.append(None)
            values[child.lhs].extend(child.values)
        else:
            merged.append(child)
    for lhs, place in places.items():
        distinct = _distinct(tuple(values[lhs]))
        merged[place] = Predicate(lhs, Comparison.EQ if len(distinct) == 1 else Comparison.IN, distinct)
    return [child for child in merged if child is not None]


def _distinct(values: tuple[LiteralValue, ...]) -> tuple[LiteralValue, ...]:
    # 1, True and 1.0 are equal in Python and not the same literal.
    return tuple({(type(value), value): value for value in values}.values())
