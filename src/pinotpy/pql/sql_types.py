"""Types as SQL texts write them: CAST(x AS VARCHAR(10)), x::DOUBLE PRECISION."""

from __future__ import annotations

from typing import Final

from pinotpy.pql.ast import Literal
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.lexer import QUOTED, STRING, WORD
from pinotpy.pql.literals import string_literal

# Of DECIMAL(precision, scale), digits; without both a DECIMAL has as many as a value needs.
PRECISION_MAX: Final = 1_000
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
    type_name = _TYPE_NAMES.get(type_name, type_name)
    if cursor.take_symbol("("):
        start = cursor.token
        precision = cursor.integer("the type")
        scale = cursor.integer("','") if cursor.take_symbol(",") else 0
        cursor.expect_symbol(")")
        if type_name == "DECIMAL":  # VARCHAR(10): the length is read and not kept
            if not 1 <= precision <= PRECISION_MAX or not 0 <= scale <= precision:
                raise cursor.error(
                    f"expected DECIMAL(precision, scale) with 1 to {PRECISION_MAX} digits and a scale from 0 to the "
                    f"precision, found DECIMAL({precision}, {scale})",
                    start,
                )
            type_name = f"DECIMAL({precision},{scale})"
    return string_literal(type_name, cursor.position(token))
