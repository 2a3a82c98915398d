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
from pinotpy.query.filter.text.functions import text_predicate
from pinotpy.query.model.context import (
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
from pinotpy.query.model.predicate import FixedRange, NullTest, TypedPredicate, VarRange, typed_predicate
from pinotpy.query.segments.segment_set import VISIBLE, SegmentSet

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


Node = Union[AllOf, AnyOf, TypedPredicate, Computed]

EVERYWHERE = AllOf(())
NOWHERE = AnyOf(())
_IS_VISIBLE = TypedPredicate(
    VISIBLE, NullTest(), negated=True, source=Predicate(Identifier(VISIBLE), Comparison.IS_NOT_NULL)
)


def normal_form(condition: Filter | None, context: QueryContext) -> Node:
    """The normal form of a filter of `context` (None: everywhere).

    Raises: what predicate.typed_predicate raises for literals; UnknownColumnError for columns that the context does not
    name.
    """
    if condition is None:
        return EVERYWHERE
    return _node(condition, False, {column.name: column for column in context.columns}, context.dialect, 0)


def of_visible_rows(node: Node, segments: SegmentSet) -> Node:
    """The condition, and before it that the row may be seen, where some segment has rows that must not."""
    return _join([_IS_VISIBLE, node], all_of=True) if segments.hides_rows else node


def _node(condition: Filter, negated: bool, columns: Mapping[str, ColumnRef], dialect: Dialect, depth: int) -> Node:
    if depth > _DEPTH_MAX:
        raise InvalidQueryError(f"a condition may be nested {_DEPTH_MAX} deep, found more: write it flatter")
    if isinstance(condition, Constant):
        return EVERYWHERE if condition.value is not negated else NOWHERE
    if isinstance(condition, Not):
        return _node(condition.child, not negated, columns, dialect, depth + 1)
    if isinstance(condition, (And, Or)):
        children = [_node(child, negated, columns, dialect, depth + 1) for child in condition.children]
        joined = _join(children, all_of=isinstance(condition, And) is not negated)
        return _with_whole_ranges(joined, columns) if isinstance(joined, AllOf) else joined
    if isinstance(condition, Predicate) and isinstance(condition.lhs, Identifier):
        column = columns.get(condition.lhs.name)
        if column is None:
            raise UnknownColumnError(
                f"no column '{condition.lhs.name}' among those of the query", column=condition.lhs.name
            )
        bound = typed_predicate(condition, column, dialect)
        return bound.inverse() if negated else bound
    predicate = text_predicate(condition, columns)
    if predicate is None:
        return Computed(condition, negated)
    return predicate.inverse() if negated else predicate


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


def _with_whole_ranges(node: AllOf, columns: Mapping[str, ColumnRef]) -> Node:
    """`x >= a` and `x < b` of a single-valued column as one range: tested once, and estimated as what it is."""
    children: list[Node] = []
    half: dict[str, int] = {}  # of each column the place of a predicate that is open at one end
    for child in node.children:
        if not isinstance(child, TypedPredicate) or _open_end(child) is None or not columns[child.column].single_value:
            children.append(child)
            continue
        other = half.get(child.column)
        whole = None if other is None else _whole_range(children[other], child)
        if other is None or whole is None:
            half.setdefault(child.column, len(children))
            children.append(child)
        else:
            children[other] = whole
            del half[child.column]
    return children[0] if len(children) == 1 else AllOf(tuple(children))


def _open_end(bound: TypedPredicate) -> bool | None:
    """Whether it is the upper end of a range that is open; None: neither end is, or both."""
    source = bound.source
    if (
        bound.negated
        or not isinstance(bound.test, (FixedRange, VarRange))
        or not isinstance(source, Predicate)
        or source.comparison is not Comparison.RANGE
    ):
        return None
    return source.upper is None if (source.lower is None) is not (source.upper is None) else None


def _whole_range(first: Node, second: TypedPredicate) -> TypedPredicate | None:
    """Both as one predicate; None where they are open at the same end, or no value is in both."""
    assert isinstance(first, TypedPredicate)
    if _open_end(first) is _open_end(second):
        return None
    low, high = (first, second) if _open_end(first) else (second, first)
    assert isinstance(low.source, Predicate) and isinstance(high.source, Predicate)
    source = Predicate(low.source.lhs, Comparison.RANGE, lower=low.source.lower, upper=high.source.upper)
    if isinstance(low.test, FixedRange) and isinstance(high.test, FixedRange) and low.test.low <= high.test.high:
        return TypedPredicate(low.column, FixedRange(low.test.low, high.test.high), prunes=low.prunes, source=source)
    if (
        isinstance(low.test, VarRange)
        and isinstance(high.test, VarRange)
        and high.test.end is not None
        and low.test.low < high.test.end
    ):
        return TypedPredicate(low.column, VarRange(low.test.low, high.test.end), prunes=low.prunes, source=source)
    return None
