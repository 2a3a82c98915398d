"""SQL's statements about the catalog, recognised before a text is parsed: SHOW TABLES, SHOW COLUMNS, DESCRIBE, and
EXPLAIN ANALYZE. What they mean is a query over a system table, or two runs of a query: the broker knows.

SHOW TABLES [LIKE 'pattern'] | SHOW COLUMNS {FROM | IN} table [LIKE 'pattern'] | {DESCRIBE | DESC} [TABLE] table
EXPLAIN ANALYZE SELECT …
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pinotpy.pql.ast import Dialect
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.lexer import END, QUOTED, STRING, WORD, QueryText

# White space and comments, as the lexer skips them. Possessive: texts of strangers are matched.
_SKIP: Final = r"(?:\s++|--[^\n]*+(?:\n|$)|/\*[^*]*+\*++(?:[^/*][^*]*+\*++)*+/)*+"
_OF_CATALOG: Final = re.compile(rf"{_SKIP}(?:SHOW|DESCRIBE|DESC)\b", re.IGNORECASE)
# Before EXPLAIN there may be SETs; whether it begins a statement, the tokens say.
_ANALYZE: Final = re.compile(r"\bEXPLAIN\s+ANALY[ZS]E\b", re.IGNORECASE)
_ANALYZE_WITHIN_CHARACTERS: Final = 4096


class CatalogQuestion(Enum):
    """What a statement asks for."""

    TABLES = "TABLES"
    COLUMNS = "COLUMNS"


@dataclass(frozen=True, slots=True)
class CatalogStatement:
    """`table` as it is written, after the rules of FROM; empty for TABLES. `like`: of the names of what is listed."""

    asks_for: CatalogQuestion
    table: str = ""
    like: str | None = None


def catalog_statement(text: str) -> CatalogStatement | None:
    """The statement about the catalog that `text` is, else None.

    Raises:
        ParseError: it begins like one and goes on otherwise.
    """
    if _OF_CATALOG.match(text) is None:
        return None
    cursor = Cursor(QueryText(text, Dialect.SQL))
    if cursor.take_word("SHOW"):
        statement = _show(cursor)
    else:
        cursor.take()
        if cursor.word == "TABLE" and cursor.ahead().kind in (WORD, QUOTED):
            cursor.take()
        if cursor.word in ("FORMATTED", "EXTENDED") and cursor.ahead().kind in (WORD, QUOTED):
            raise cursor.unexpected("the name of a table", hint=f"write DESCRIBE {cursor.ahead().value[:80]}")
        statement = CatalogStatement(CatalogQuestion.COLUMNS, _table(cursor))
    while cursor.take_symbol(";"):
        pass
    if cursor.token.kind != END:
        raise cursor.unexpected("the end", hint="to filter and sort, query information_schema.tables or .columns")
    return statement


def without_analyze(text: str) -> str | None:
    """Of EXPLAIN ANALYZE SELECT … the SELECT, with blanks where the two words stood (so that errors name the right
    places); None for any other text.

    Raises:
        ParseError: the text holds characters that begin no word or sign.
    """
    if "explain" not in text[:_ANALYZE_WITHIN_CHARACTERS].lower():
        return None  # asked of every query: a tenth of the time of the expression
    found = _ANALYZE.search(text, 0, _ANALYZE_WITHIN_CHARACTERS)
    if found is None:
        return None
    cursor = Cursor(QueryText(text, Dialect.SQL))
    while cursor.token.kind != END and cursor.token.start < found.start():
        cursor.take()
    before = cursor.ahead(-1).value if cursor.token.start and cursor.ahead(-1) is not cursor.token else ";"
    if cursor.token.start != found.start() or cursor.word != "EXPLAIN" or before != ";":
        return None  # within a literal, a comment or a name
    return f"{text[: found.start()]}{' ' * (found.end() - found.start())}{text[found.end() :]}"


def _show(cursor: Cursor) -> CatalogStatement:
    if cursor.take_word("TABLES"):
        return CatalogStatement(CatalogQuestion.TABLES, like=_like(cursor))
    if cursor.take_word("COLUMNS", "FIELDS"):
        if not cursor.take_word("FROM", "IN"):
            raise cursor.unexpected("FROM and a table after SHOW COLUMNS", keywords=("FROM", "IN"))
        return CatalogStatement(CatalogQuestion.COLUMNS, _table(cursor), _like(cursor))
    is_above = cursor.word in ("SCHEMAS", "DATABASES", "CATALOGS")
    raise cursor.unexpected(
        "TABLES or COLUMNS FROM after SHOW",
        keywords=("TABLES", "COLUMNS"),
        hint="SHOW TABLES lists all tables, there is nothing above them"
        if is_above
        else "system.tables, system.segments, system.instances and system.queries are tables to query",
    )


def _like(cursor: Cursor) -> str | None:
    if not cursor.take_word("LIKE"):
        return None
    if cursor.token.kind != STRING:
        raise cursor.unexpected("a pattern in single quotes after LIKE")
    return cursor.take().value


def _table(cursor: Cursor) -> str:
    parts = []
    while True:
        if cursor.token.kind not in (WORD, QUOTED):
            raise cursor.unexpected("the name of a table")
        parts.append(cursor.take().value)
        if not cursor.take_symbol("."):
            break
    if parts[0] == "default" and len(parts) > 1:
        del parts[0]
    return ".".join(parts)
