"""The select list of SQL: stars to columns, the names that an answer shows, and what GROUP BY ALL groups by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pinotpy.errors import InvalidQueryError
from pinotpy.pql.ast import Dialect, Expression, Identifier, Literal, SelectItem, Star
from pinotpy.pql.printer import print_expression, print_literal
from pinotpy.query.compile.aggregations import has_aggregation
from pinotpy.query.compile.columns import ColumnResolver
from pinotpy.query.model.conditions import parse_error
from pinotpy.query.model.positions import position_text


def expanded(written: Sequence[SelectItem], resolver: ColumnResolver) -> Iterator[SelectItem]:
    """The items with a star's columns in its place, less those that it excludes."""
    for item in written:
        if not isinstance(item.expression, Star):
            yield item
            continue
        star = item.expression
        excluded = {resolver.column(column).name for column in star.exclude}
        columns = [column for column in resolver.physical_columns() if column.name not in excluded]
        if not columns:
            raise InvalidQueryError(f"no column is left of * EXCLUDE (…){position_text(star.position)}")
        for column in columns:
            yield SelectItem(replace(column, position=star.position))


def field_names(items: Sequence[SelectItem], resolver: ColumnResolver) -> list[str | None]:
    """For every item that is a field of a JSON column and nothing else the name by which it was asked."""
    return [
        resolver.without_qualifier(item.expression.name)
        if isinstance(item.expression, Identifier) and resolver.field(item.expression.name) is not None
        else None
        for item in items
    ]


def shown_names(items: Sequence[SelectItem], fields: Sequence[str | None]) -> list[str]:
    """Aliases, else texts; literals alone stand bare, beside columns they are quoted."""
    bare = all(isinstance(item.expression, Literal) for item in items)
    names = []
    for item, field in zip(items, fields, strict=True):
        expression = item.expression
        if item.alias is not None:
            names.append(item.alias)
        elif field is not None:
            names.append(field)
        elif bare and isinstance(expression, Literal):
            names.append(print_literal(expression))
        else:
            names.append(print_expression(expression, Dialect.SQL))
    return names


def aliases_of(items: Sequence[SelectItem]) -> dict[str, Expression]:
    """What each alias stands for; raises ParseError if one stands twice."""
    aliases: dict[str, Expression] = {}
    for item in items:
        if item.alias is not None:
            if item.alias in aliases:
                raise parse_error(f"expected each alias once, found '{item.alias}' twice", item.expression.position)
            aliases[item.alias] = item.expression
    return aliases


def groups_of_all(items: Sequence[SelectItem]) -> list[Expression]:
    """GROUP BY ALL: the items without an aggregation. Constants divide no group; they are groups only where there is
    nothing else, which makes one row of equal ones.
    """
    groups = [item.expression for item in items if not has_aggregation(item.expression)]
    varying: list[Expression] = [expression for expression in groups if not isinstance(expression, Literal)]
    return varying if varying or len(groups) < len(items) else groups
