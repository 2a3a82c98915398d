"""What people write in SQL and this store does another way: a sentence for each, which says where it is done, or that
it is not there.

Nothing but queries is SQL here. Rows come in segments and streams, tables are documents of the controller.
"""

from __future__ import annotations

from typing import Final

from pinotpy.errors import ParseError
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.lexer import WORD, Token

# Raised by name in several places, each of them where such a text goes on with what is not there.
NOT_THERE: Final = {
    "subquery": (
        "subqueries are not there: ask the inner query first and put its values into IN (…); for many values, IDSET "
        "makes a set of them that INIDSET takes"
    ),
    "with": "WITH is not there: a query is one SELECT over one table; write the query out, or ask one after the other",
    "values": "VALUES is not there: SELECT 1, 'a' answers a row of constants, rows of a table come by `pinotpy load`",
    "window": (
        "window functions are not there: GROUP BY gives one row a group; FIRSTWITHTIME, LASTWITHTIME, EXPR_MIN and "
        "EXPR_MAX give the row of a group that is first, last, least or greatest"
    ),
    "within group": (
        "WITHIN GROUP is not there: for PERCENTILE_CONT(0.5) write PERCENTILE(x, 50); LISTAGG(x, ',') lists values in "
        "the order of segments and docs"
    ),
    "order in call": "ORDER BY inside an aggregation is not there: order the rows of the answer",
    "sets of groups": "CUBE, ROLLUP and GROUPING SETS are not there: ask one query for each set of columns",
    "position": "POSITION is not there: write STRPOS(text, 'part') + 1, as STRPOS counts from 0",
    "overlay": (
        "OVERLAY is not there: write CONCAT(SUBSTRING(text, 1, n), SUBSTRING(text, m), 'new'), which has 'new' between"
    ),
    "time zone": (
        "AT TIME ZONE is not there: write DATETRUNC('DAY', x, 'MILLISECONDS', 'Europe/Berlin') to cut, "
        "TODATETIME(x, 'yyyy-MM-dd HH:mm', 'Europe/Berlin') to show an instant as that zone's clock does"
    ),
    "similar": "SIMILAR TO is not there: write REGEXP_LIKE(x, 'pattern')",
    "floor to": "FLOOR(x TO DAY) is not there: write DATETRUNC('DAY', x)",
    "substring for": "SUBSTRING(text FOR n) is not there: write SUBSTRING(text, 1, n)",
    "row values": "rows of several values are not compared: compare their parts with AND",
}
# What stands after the first argument of calls that have words between their arguments, and between two values.
FORMS_OF_CALLS: Final = {
    ("OVERLAY", "PLACING"): NOT_THERE["overlay"],
    ("SUBSTRING", "FOR"): NOT_THERE["substring for"],
    ("FLOOR", "TO"): NOT_THERE["floor to"],
}
FORMS_OF_VALUES: Final = {("AT", "TIME"): NOT_THERE["time zone"], ("SIMILAR", "TO"): NOT_THERE["similar"]}
_JOIN: Final = (
    "joins are not there: a query reads one table, found {}; join when rows are made, or put the values of one table's "
    "answer into IN (…) of the other's query"
)
_SET_OPERATION: Final = "{} is not there: ask the queries one by one and put their rows together"
_JOIN_WORDS: Final = frozenset({"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL"})
_SET_OPERATIONS: Final = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})

_ROWS_COME: Final = (
    "rows come from files (`pinotpy load FILE --table T`, docs/loading.md), jobs (docs/batch-ingestion.md) and streams "
    "(docs/streams.md)"
)
_ROWS_STAY: Final = (
    "rows are never changed one by one: a segment is replaced as a whole, by uploading it again under its name "
    "(`pinotpy upload-segment`, docs/push.md) or many at once (docs/segment-lineage.md)"
)
_TABLES_ARE_MADE: Final = (
    "a table is made from a file by `pinotpy load FILE --table T` (docs/loading.md), or from its two documents by "
    "`pinotpy add-table` (POST /schemas and POST /tables of the controller)"
)
_NO_TRANSACTIONS: Final = "there are no transactions: each query sees the segments that are online when it is asked"
_ACCESS: Final = "users and what they may do are set by `pinotpy add-user` and the access file (docs/security.md)"
_CATALOG: Final = (
    "SHOW TABLES, SHOW COLUMNS FROM t and DESCRIBE t stand alone in their text; information_schema.tables and .columns "
    "are tables to query (docs/system-tables.md)"
)
# By the first word of a statement; CREATE and DROP also by what is to be made or dropped.
_STATEMENTS: Final = {
    "INSERT": _ROWS_COME,
    "REPLACE": _ROWS_COME,
    "COPY": _ROWS_COME,
    "IMPORT": _ROWS_COME,
    "UPDATE": _ROWS_STAY,
    "MERGE": _ROWS_STAY,
    "UPSERT": _ROWS_STAY,
    "DELETE": (
        "rows are not deleted one by one: whole segments are, by `pinotpy delete-segments` (DELETE "
        "/segments/{table}/{segment} of the controller) and by the retention of the table's config; a segment without "
        "the rows replaces one that has them (docs/push.md)"
    ),
    "TRUNCATE": (
        "all segments of a table are deleted by `pinotpy delete-segments TABLE --all` (DELETE /segments/{table} of the "
        "controller)"
    ),
    "CREATE": _TABLES_ARE_MADE,
    "CREATE VIEW": "views are not there: what a view would ask is part of each query",
    "CREATE INDEX": (
        "indexes are part of the table's config: PUT /tables/{table} of the controller, then `pinotpy reload-segments` "
        "builds them"
    ),
    "CREATE FUNCTION": "functions of users are installed as Python packages (docs/user-functions.md)",
    "CREATE USER": _ACCESS,
    "CREATE DATABASE": "a database is a prefix of a table's name: `SELECT … FROM db.table`",
    "DROP": "a table is deleted by `pinotpy delete-table` (DELETE /tables/{table} of the controller)",
    "DROP INDEX": "indexes are part of the table's config: PUT /tables/{table} of the controller without it",
    "DROP VIEW": "views are not there",
    "DROP USER": _ACCESS,
    "ALTER": (
        "columns, settings and indexes are changed in the table's documents, by `pinotpy update-table --reload` (PUT "
        "/schemas/{schema} and PUT /tables/{table} of the controller, then `pinotpy reload-segments`)"
    ),
    "RENAME": "a table keeps its name: load its files under another one",
    "GRANT": _ACCESS,
    "REVOKE": _ACCESS,
    "BEGIN": _NO_TRANSACTIONS,
    "START": _NO_TRANSACTIONS,
    "COMMIT": _NO_TRANSACTIONS,
    "ROLLBACK": _NO_TRANSACTIONS,
    "VACUUM": "segments need no upkeep: what is deleted is removed by the controller",
    "ANALYZE": "statistics are part of each segment: there is nothing to analyze",
    "USE": "a database is a prefix of a table's name: `SELECT … FROM db.table`",
    "CALL": "procedures are not there",
    "SHOW": _CATALOG,
    "DESCRIBE": _CATALOG,
    "DESC": _CATALOG,
}
_MODIFIERS: Final = frozenset(
    {"OR", "REPLACE", "TEMP", "TEMPORARY", "UNIQUE", "MATERIALIZED", "EXTERNAL", "GLOBAL", "LOCAL", "UNLOGGED"}
)
_LIKE: Final = {"SCHEMA": "DATABASE", "ROLE": "USER", "PROCEDURE": "FUNCTION"}


def elsewhere(cursor: Cursor) -> ParseError | None:
    """What to say of a text that begins with no SELECT; None if it begins with no word that is known."""
    word = cursor.word
    if word == "WITH":
        return cursor.error(NOT_THERE["with"])
    if word == "VALUES":
        return cursor.error(NOT_THERE["values"])
    if word not in _STATEMENTS:
        return None
    place = 1
    while cursor.ahead(place).kind == WORD and cursor.ahead(place).value.upper() in _MODIFIERS:
        place += 1
    following = cursor.ahead(place).value.upper() if cursor.ahead(place).kind == WORD else ""

    sentence = _STATEMENTS.get(f"{word} {_LIKE.get(following, following)}") or _STATEMENTS[word]
    return cursor.error(f"{word} is no statement here: {sentence}")


def join_error(cursor: Cursor, token: Token) -> ParseError | None:
    """What to say of a word after a table if it joins another one."""
    if token.kind != WORD or token.value.upper() not in _JOIN_WORDS:
        return None
    return cursor.error(joins_not_there(token.value.upper()), token)


def joins_not_there(found: str) -> str:
    """The sentence about joins; `found` is the word or sign that joins."""
    return _JOIN.format(found)


def set_operation_error(cursor: Cursor) -> ParseError | None:
    """What to say of UNION and its like at the cursor."""
    return cursor.error(_SET_OPERATION.format(cursor.word)) if cursor.word in _SET_OPERATIONS else None
