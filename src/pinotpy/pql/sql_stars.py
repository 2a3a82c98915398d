"""All columns in a select list: *, flights.*, * EXCLUDE (a, b), which BigQuery calls * EXCEPT (a, b)."""

from __future__ import annotations

from pinotpy.pql.ast import Identifier, Star
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.lexer import QUOTED, WORD


def read_star(cursor: Cursor) -> Star | None:
    """The star at the cursor; None if the select item is an expression."""
    num_names = 0
    while cursor.ahead(2 * num_names).kind in (WORD, QUOTED) and cursor.ahead(2 * num_names + 1).value == ".":
        num_names += 1
    last = cursor.ahead(2 * num_names)
    if last.kind != "symbol" or last.value != "*":
        return None
    position = cursor.position()
    names = []
    for _ in range(num_names):
        names.append(cursor.take().value)
        cursor.take()
    cursor.take()
    return Star(position, ".".join(names), _excluded(cursor))


def _excluded(cursor: Cursor) -> tuple[Identifier, ...]:
    following = cursor.ahead()
    is_name = following.kind == QUOTED or (following.kind == WORD and following.value.upper() != "FROM")
    if cursor.word not in ("EXCLUDE", "EXCEPT") or not (following.value == "(" or is_name):
        return ()
    cursor.take()
    if not cursor.take_symbol("("):
        return (_name(cursor),)
    names = [_name(cursor)]
    while cursor.take_symbol(","):
        names.append(_name(cursor))
    if cursor.symbol != ")":
        raise cursor.unexpected("',' or ')' in the list of EXCLUDE")
    cursor.take()
    return tuple(names)


def _name(cursor: Cursor) -> Identifier:
    if cursor.token.kind not in (WORD, QUOTED):
        raise cursor.unexpected("a column in the list of EXCLUDE")
    token = cursor.take()
    return Identifier(token.value, cursor.position(token))
