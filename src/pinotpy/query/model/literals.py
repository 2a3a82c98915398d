"""The literals of a filter, taken out and put back: queries of one template differ in nothing else.

A template is a context whose filter's literals count for nothing. `blank` writes 0 for each of them, so that all
queries of a template have one blank context; `encode_literals` writes what was taken out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from operator import attrgetter

import orjson

from pinotpy.errors import DataError
from pinotpy.query.model.context import And, Bound, Filter, LiteralValue, Not, Or, Predicate, QueryContext
from pinotpy.query.model.context_codec import read_value, write_value


def literals_of(condition: Filter | None) -> list[LiteralValue]:
    """Every literal of the predicates of a filter, in order."""
    return (
        []
        if condition is None
        else [value for predicate in predicates_of(condition) for value in predicate_literals(predicate)]
    )


def predicates_of(condition: Filter) -> Iterator[Predicate]:
    """The predicates of a filter, in order."""
    return (node for node in nodes_of(condition) if isinstance(node, Predicate))


def nodes_of(condition: Filter) -> Iterator[Filter]:
    """A filter and all its parts, each before its own."""
    stack: list[Filter] = [condition]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, And | Or):
            stack.extend(reversed(node.children))
        elif isinstance(node, Not):
            stack.append(node.child)


def predicate_literals(predicate: Predicate) -> list[LiteralValue]:
    """The literals of one predicate: its values, its lower and its upper bound."""
    values = list(predicate.values)
    values += [bound.value for bound in (predicate.lower, predicate.upper) if bound is not None]
    return values


def with_literals(context: QueryContext, literals: Sequence[LiteralValue]) -> QueryContext:
    """The query with other literals in its filter. DataError unless there are as many as it has."""
    if context.filter is None:
        condition, rest = None, iter(literals)
    else:
        rest = iter(literals)
        try:
            condition = _filled(context.filter, rest)
        except StopIteration:
            raise DataError(f"a query takes more literals than the {len(literals)} that came with it") from None
    if next(rest, _NONE_LEFT) is not _NONE_LEFT:
        raise DataError(f"a query takes fewer literals than the {len(literals)} that came with it")
    return context if condition is None else _with_filter(context, condition)


def _with_filter(context: QueryContext, condition: Filter) -> QueryContext:
    # Attribute by attribute, as the initialiser of a frozen class does it: dataclasses.replace takes twice as long.
    bound = object.__new__(QueryContext)
    for name, value in zip(_NAMES, _values_of(context), strict=True):
        object.__setattr__(bound, name, value)
    object.__setattr__(bound, "filter", condition)
    return bound


def blank(context: QueryContext) -> QueryContext:
    """The query with 0 for every literal of its filter."""
    return with_literals(context, [0] * len(literals_of(context.filter)))


def encode_literals(literals: Sequence[LiteralValue]) -> bytes:
    """The literals as bytes; `decode_literals` gives equal ones of equal types back."""
    return orjson.dumps([write_value(value) for value in literals])


def decode_literals(content: bytes) -> list[LiteralValue]:
    """Inverse of `encode_literals`. DataError for anything that it never writes."""
    try:
        return [read_value(value) for value in orjson.loads(content)]
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise DataError(
            f"the literals of a query cannot be read: {type(error).__name__}: {str(error)[:200]}"
        ) from error


_NAMES = tuple(item.name for item in fields(QueryContext))
_values_of = attrgetter(*_NAMES)
_NONE_LEFT = object()


def _filled(node: Filter, literals: Iterator[LiteralValue]) -> Filter:
    # Filters are as deep as the parser lets them be (cursor.DEPTH_MAX).
    if isinstance(node, Predicate):
        values = tuple([next(literals) for _ in node.values]) if node.values else ()
        lower = None if node.lower is None else Bound(next(literals), node.lower.inclusive)
        upper = None if node.upper is None else Bound(next(literals), node.upper.inclusive)
        return Predicate(node.lhs, node.comparison, values, lower, upper, node.flags, node.escape)
    if isinstance(node, And):
        return And(tuple([_filled(child, literals) for child in node.children]))
    if isinstance(node, Or):
        return Or(tuple([_filled(child, literals) for child in node.children]))
    if isinstance(node, Not):
        return Not(_filled(node.child, literals))
    return node
