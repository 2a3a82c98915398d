"""Checks every name of a statement of SQL before anything is concluded from it, clause by clause as written: a typo in
GROUP BY is an unknown column, and not a column of the select list that nobody grouped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from pinotpy.pql.ast import Call, Expression, Identifier, Literal, SelectItem, Star, Statement
from pinotpy.query.compile.columns import ColumnResolver
from pinotpy.query.compile.unknown_columns import missing_quotes, unknown_column
from pinotpy.query.model.result_types import COMPARISONS, PREDICATES

# Whose arguments after the first are mostly constants.
_CONDITIONS: Final = COMPARISONS | PREDICATES


def check_names(statement: Statement, resolver: ColumnResolver) -> None:
    """Raises UnknownColumnError (710) for the first name that is neither a column, nor a field of a JSON column, nor an
    alias where aliases stand: in GROUP BY, HAVING and ORDER BY.
    """
    aliases = frozenset(item.alias for item in statement.select if item.alias is not None)
    checked = _Names(resolver, statement.table, aliases)
    for item in statement.select:
        if isinstance(item.expression, Star):
            _check_star(item, resolver)
        else:
            checked.check(item.expression, may_be_alias=False)
    if statement.where is not None:
        checked.check(statement.where, may_be_alias=False)
    for expression in _after_select(statement):
        checked.check(expression, may_be_alias=True)


def _after_select(statement: Statement) -> Iterator[Expression]:
    yield from statement.group_by
    if statement.having is not None:
        yield statement.having
    for item in statement.order_by:
        yield item.expression


def _check_star(item: SelectItem, resolver: ColumnResolver) -> None:
    star = item.expression
    assert isinstance(star, Star)
    if star.qualifier:
        resolver.check_qualifier(star.qualifier, star.position)
    for column in star.exclude:
        resolver.column(column)


class _Names:
    def __init__(self, resolver: ColumnResolver, table: str, aliases: Collection[str]) -> None:
        self._resolver = resolver
        self._table = table
        self._aliases = aliases

    def check(self, expression: Expression, *, may_be_alias: bool) -> None:
        if isinstance(expression, Identifier):
            self._check_name(expression, may_be_alias=may_be_alias)
        elif isinstance(expression, Call):
            self._resolver.check()
            if expression.name in _CONDITIONS:
                self._check_quotes(expression, may_be_alias=may_be_alias)
            for arg in expression.args:
                if type(arg) is not Literal:
                    self.check(arg, may_be_alias=may_be_alias)
            if expression.filter is not None:
                self.check(expression.filter, may_be_alias=False)

    def _is_known(self, name: Identifier, *, may_be_alias: bool) -> bool:
        return (may_be_alias and name.name in self._aliases) or self._resolver.is_name(name.name)

    def _check_name(self, name: Identifier, *, may_be_alias: bool) -> None:
        if self._is_known(name, may_be_alias=may_be_alias):
            return
        if name.name in self._aliases:
            sentence = (
                f"{name.name} is an alias of this select list: aliases stand in GROUP BY, HAVING and ORDER BY; "
                "elsewhere write what it stands for"
            )
            raise unknown_column(name, (), sentence)
        raise self._resolver.unknown(name)

    def _check_quotes(self, call: Call, *, may_be_alias: bool) -> None:
        """A word beside a column in a comparison may be a text whose quotes are missing."""
        if not call.args or isinstance(call.args[0], Literal):
            return
        # Of two names alone either may be the text: UA = carrier.
        either = len(call.args) == 2 and all(isinstance(arg, Identifier) for arg in call.args)
        unknown = [
            arg
            for arg in (call.args if either else call.args[1:])
            if isinstance(arg, Identifier)
            and "." not in arg.name
            and arg.name not in self._aliases
            and not self._is_known(arg, may_be_alias=may_be_alias)
        ]
        first = call.args[0]
        is_told_first = isinstance(first, Identifier) and not self._is_known(first, may_be_alias=may_be_alias)
        if not unknown or (len(unknown) > 1 if either else is_told_first):
            return
        raise missing_quotes(unknown[0], self._table, self._resolver.column_names())
