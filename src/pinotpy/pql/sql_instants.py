"""Instants in SQL: TIMESTAMP '…', CURRENT_TIMESTAMP and CURRENT_DATE.

Beside a column TIMESTAMP '…' is its text, which is read as the column's type: of a TIMESTAMP, or of a column of texts.
Beside anything computed, and as an argument of a function, no column says what it is: there it is CAST('…' AS
TIMESTAMP).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pinotpy.pql.aggregation_names import is_aggregation
from pinotpy.pql.ast import Call, Expression, Identifier, Literal
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.expressions import COMPARISONS
from pinotpy.pql.lexer import SYMBOL
from pinotpy.pql.literals import string_literal

_BESIDE: Final = frozenset(
    {*COMPARISONS.values(), "between", "in", "not_in", "is_distinct_from", "is_not_distinct_from"}
)
_LOGIC: Final = frozenset({"and", "or", "not"})


def read_moment(cursor: Cursor) -> Expression | None:
    """CURRENT_TIMESTAMP is now(), CURRENT_DATE the beginning of its day; also with empty brackets. None for what stands
    before the point of a qualified name.
    """
    if cursor.ahead().kind == SYMBOL and cursor.ahead().value == ".":
        return None
    name = cursor.take()
    if cursor.symbol == "(" and cursor.ahead().value == ")":
        cursor.take()
        cursor.take()
    position = cursor.position(name)
    moment = Call("now", (), position=position)
    if name.value.upper() != "CURRENT_DATE":
        return moment
    return Call("datetrunc", (string_literal("DAY", position), moment), position=position)


def with_instants(expression: Expression, written: Mapping[int, Literal]) -> Expression:
    """The expression with its instants as they are computed with.

    Args:
        written: the literals in it that were written as TIMESTAMP '…', by identity.
    """
    if not isinstance(expression, Call):
        return expression
    args = [with_instants(arg, written) for arg in expression.args]
    if expression.name not in _LOGIC and not _is_beside_column(expression):
        args = [_instant(arg) if id(arg) in written and isinstance(arg, Literal) else arg for arg in args]
    condition = None if expression.filter is None else with_instants(expression.filter, written)
    return replace(expression, args=tuple(args), filter=condition)


def _is_beside_column(call: Call) -> bool:
    """Whether the literals of a call are compared with what has a type of its own: a column, or its MIN and MAX."""
    if call.name not in _BESIDE:
        return False
    others = [arg for arg in call.args if not isinstance(arg, Literal)]
    return all(isinstance(arg, Identifier) or (isinstance(arg, Call) and is_aggregation(arg.name)) for arg in others)


def _instant(text: Literal) -> Call:
    return Call("cast", (text, string_literal("TIMESTAMP", text.position)), position=text.position)
