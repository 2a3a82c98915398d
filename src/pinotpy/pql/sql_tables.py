"""FROM: the table, its alias, and the names that go before columns.

FROM [database .] table [[AS] alias]
"""

from __future__ import annotations

from typing import Final

from pinotpy.errors import InvalidQueryError
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.lexer import INTEGER, QUOTED, SYMBOL, WORD
from pinotpy.pql.sql_elsewhere import NOT_THERE, join_error, joins_not_there
from pinotpy.pql.sql_keywords import RESERVED

CLAUSES: Final = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH", "OPTION")
# Those that are no reserved words, because columns are called so.
_NO_ALIASES: Final = frozenset(CLAUSES)


def read_table(cursor: Cursor) -> tuple[str, str | None]:
    """The table at the cursor and its alias, None without one.

    Raises:
        ParseError: (150) what is no table, a subquery, a join.
        InvalidQueryError: (700) a second table after a comma.
    """
    if cursor.symbol == "(":
        raise cursor.error(NOT_THERE["subquery"])
    if cursor.word == "VALUES":
        raise cursor.error(NOT_THERE["values"])
    if cursor.token.kind not in (WORD, QUOTED) or cursor.word in RESERVED:
        raise cursor.unexpected("a table after FROM")
    parts = [cursor.take().value]
    while cursor.take_symbol("."):
        if cursor.token.kind not in (WORD, QUOTED):
            raise cursor.unexpected("a name after '.'")
        parts.append(cursor.take().value)
    if parts[0] == "default" and len(parts) > 1:
        del parts[0]
    alias = _alias(cursor)
    joined = join_error(cursor, cursor.token)
    if joined is not None:
        raise joined
    if cursor.symbol == ",":
        position = cursor.position()
        sentence = joins_not_there("','")
        raise InvalidQueryError(f"{sentence} at line {position.line}, column {position.column}")
    return ".".join(parts), alias


def _alias(cursor: Cursor) -> str | None:
    if cursor.take_word("AS"):
        if cursor.token.kind == QUOTED or (cursor.token.kind == WORD and cursor.word not in RESERVED):
            return cursor.take().value
        raise cursor.unexpected(
            "an alias of the table after AS", hint=f'quote it: "{cursor.token.value}"' if cursor.word else ""
        )
    if cursor.token.kind == QUOTED:
        return cursor.take().value
    if cursor.token.kind != WORD or cursor.word in RESERVED or cursor.word in _NO_ALIASES:
        return None
    following = cursor.ahead()
    if cursor.word == "TOP" and following.kind == INTEGER:
        cursor.take()
        raise cursor.unexpected("the next clause or the end", hint=f"SQL writes LIMIT {cursor.token.value} at the end")
    # `FROM t WHRE a = 1` is no table called WHRE: a clause goes on with a value, an alias with the next clause.
    near = cursor.near(CLAUSES)
    if near and following.kind not in (SYMBOL, "end") and following.value.upper() not in (*CLAUSES, "WINDOW"):
        raise cursor.unexpected("the next clause or the end", hint=near)
    return cursor.take().value
