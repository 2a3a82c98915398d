"""The door of this room: query text in, Statement out, or a ParseError that points at the place."""

from __future__ import annotations

from pinotpy.errors import ParseError
from pinotpy.pql.ast import Dialect, Expression, Statement
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.expressions import check_height
from pinotpy.pql.lexer import END, QueryText
from pinotpy.pql.pql_statements import PqlStatementParser
from pinotpy.pql.sql_expressions import SqlExpressionParser
from pinotpy.pql.sql_statements import SqlStatementParser


def parse_pql(text: str) -> Statement:
    """Parse one PQL statement.

    Raises:
        ParseError: (150) with line, column, an excerpt with a caret, what was expected and what was found.
    """
    cursor = Cursor(QueryText(text, Dialect.PQL))
    try:
        return PqlStatementParser(cursor).statement()
    except RecursionError:
        raise _too_deep(cursor) from None


def parse_sql(text: str) -> Statement:
    """Parse one SQL statement with the SETs around it.

    Raises:
        ParseError: (150) with line, column, an excerpt with a caret, what was expected and what was found; for what is
            not there, where it is done or what to write instead.
        InvalidQueryError: (700) FROM with several tables.
    """
    cursor = Cursor(QueryText(text, Dialect.SQL))
    try:
        return SqlStatementParser(cursor).statement()
    except RecursionError:
        raise _too_deep(cursor) from None


def parse_expression(text: str) -> Expression:
    """Parse one expression of SQL that stands alone, as table configs and schemas have them.

    Raises:
        ParseError: (150) with line, column, an excerpt with a caret, what was expected and what was found.
    """
    cursor = Cursor(QueryText(text, Dialect.SQL))
    try:
        expression = SqlExpressionParser(cursor).expression()
    except RecursionError:
        raise _too_deep(cursor) from None
    if cursor.token.kind != END:
        raise cursor.unexpected("an operator or the end of the expression")
    return check_height(expression, cursor)


def _too_deep(cursor: Cursor) -> ParseError:
    # Only where the caller's own stack is deep already: DEPTH_MAX levels need about 600 frames.
    return cursor.error("expressions nest too deeply here; split the query")
