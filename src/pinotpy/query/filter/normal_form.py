"""Filters in negation normal form: NOT only at the leaves, literals converted, expressions apart (ADR 0002).

With nulls a leaf is true only where its column is not null, and NOT of it is the negated leaf, also true only where the
column is not null: what is unknown is selected by neither, which is all that WHERE asks of three-valued logic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

from pinotpy.errors import InvalidQueryError, UnknownColumnError
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.context import And, ColumnRef, Constant, ExpressionPredicate, Filter, Not, Or, Predicate, QueryContext
from pinotpy.query.filter.text_functions import text_leg
from pinotpy.query.predicate import Leg, typed_leg

_DEPTH_MAX = 200


@dataclass(frozen=True, slots=True)
class AllOf:
    """True where all children are; without children: everywhere."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True where any child is; without children: nowhere."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Computed:
    """A predicate over an expression, computed in Python per segment; `negated`: true where the predicate is false."""

    condition: Predicate | ExpressionPredicate
    negated: bool = False


Node = Union[AllOf, AnyOf, Leg, Computed]

EVERYWHERE = AllOf(())
NOWHERE = AnyOf(())


def normal_form(condition: Filter | None, context: QueryContext) -> Node:
    """The normal form of a filter of `context` (None: everywhere).

    Raises: what predicate.typed_leg raises for literals; UnknownColumnError for columns that the context does not name.
    """
    if condition is None:
        return EVERYWHERE
    return _node(condition, False, {column.name: column for column in context.columns}, context.dialect, 0)


def _node(condition: Filter, negated: bool, columns: Mapping[str, ColumnRef], dialect: Dialect, depth: int) -> Node:
    if depth > _DEPTH_MAX:
        raise InvalidQueryError(f"a condition may be nested {_DEPTH_MAX} deep, found more: write it flatter")
    if isinstance(condition, Constant):
        return EVERYWHERE if condition.value is not negated else NOWHERE
    if isinstance(condition, Not):
        return _node(condition.child, not negated, columns, dialect, depth + 1)
    if isinstance(condition, (And, Or)):
        children = [_node(child, negated, columns, dialect, depth + 1) for child in condition.children]
        return _join(children, all_of=isinstance(condition, And) is not negated)
    if isinstance(condition, Predicate) and isinstance(condition.lhs, Identifier):
        column = columns.get(condition.lhs.name)
        if column is None:
            raise UnknownColumnError(f"no column '{condition.lhs.name}' among those of the query", column=condition.lhs.name)
        leg = typed_leg(condition, column, dialect)
        return leg.inverse() if negated else leg
    found = text_leg(condition, columns)
    if found is None:
        return Computed(condition, negated)
    return found.inverse() if negated else found


def _join(children: list[Node], *, all_of: bool) -> Node:
    # Flattens, drops neutral children, and ends at one that decides.
    kind: type[AllOf] | type[AnyOf] = AllOf if all_of else AnyOf
    neutral, deciding = (EVERYWHERE, NOWHERE) if all_of else (NOWHERE, EVERYWHERE)
    flat: list[Node] = []
    for child in children:
        if child == deciding:
            return deciding
        if isinstance(child, kind):
            flat.extend(child.children)
        elif child != neutral:
            flat.append(child)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))
