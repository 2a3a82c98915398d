"""The door of this room: query text in, Statement out, or a ParseError that points at the place."""

from __future__ import annotations

from pinotpy.pql.ast import Dialect, Statement
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.lexer import QueryText
from pinotpy.pql.pql_statements import PqlStatementParser


def parse_pql(text: str) -> Statement:
    """Parse one PQL statement.

    Raises:
        ParseError: (150) with line, column, an excerpt with a caret, what was expected and what was found.
    """
    return PqlStatementParser(Cursor(QueryText(text, Dialect.PQL))).statement()
