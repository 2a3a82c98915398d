"""Types as SQL texts write them: CAST(x AS VARCHAR(10)), x::DOUBLE PRECISION."""

from __future__ import annotations

from typing import Final

from pinotpy.pql.ast import Literal
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.lexer import QUOTED, STRING, WORD
from pinotpy.pql.literals import string_literal

_TYPE_NAMES: Final = {
    "INT": "INTEGER",
    "BIGINT": "LONG",
    "TEXT": "STRING",
    "BOOL": "BOOLEAN",
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "CHARACTER": "STRING",
    "REAL": "FLOAT",
    "BIG_DECIMAL": "DECIMAL",
    "NUMERIC": "DECIMAL",
    "VARBINARY": "BYTES",
    "BINARY": "BYTES",
}


def read_type(cursor: Cursor, after: str) -> Literal:
    """The type at the cursor, as the second argument of `cast`; `after` is what it follows, for messages."""
    if cursor.token.kind not in (WORD, STRING, QUOTED):
        raise cursor.unexpected(f"a type after {after}, such as INT or VARCHAR")
    token = cursor.take()
    type_name = token.value.upper()
    if type_name in ("DATE", "TIME"):
        raise cursor.error(
            f"expected a type that columns have after {after}, found {type_name}; TIMESTAMP is one"
            + (", and DATETRUNC('DAY', x) is its day" if type_name == "DATE" else ""),
            token,
        )
    if type_name == "DOUBLE" and cursor.word == "PRECISION":
        cursor.take()
    if cursor.take_symbol("("):  # VARCHAR(10), DECIMAL(10, 2): lengths are read and not kept
        cursor.integer("the type")
        if cursor.take_symbol(","):
            cursor.integer("','")
        cursor.expect_symbol(")")
    return string_literal(_TYPE_NAMES.get(type_name, type_name), cursor.position(token))
