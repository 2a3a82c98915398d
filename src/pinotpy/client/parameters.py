"""`?` in a query, replaced by literals that are quoted safely."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite

from pinotpy.errors import UserError

QUOTES = "'\"`"


def bind(query: str, parameters: Sequence[object]) -> str:
    """`query` with each `?` outside of quotes replaced. UserError if their numbers differ or a value has no literal."""
    parts: list[str] = []
    values = iter(parameters)
    used = 0
    quote = ""
    for character in query:
        text = character
        if quote:
            # A doubled quote inside a string closes and opens again: the same as staying inside.
            quote = "" if character == quote else quote
        elif character in QUOTES:
            quote = character
        elif character == "?":
            try:
                text = literal(next(values))
            except StopIteration:
                raise UserError(f"the query has more '?' than the {len(parameters)} parameters given") from None
            used += 1
        parts.append(text)
    if used != len(parameters):
        raise UserError(f"the query has {used} '?', but {len(parameters)} parameters are given")
    return "".join(parts)


def literal(value: object) -> str:
    """The text of a value in a query: numbers as they are, text in single quotes, sequences in parentheses."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if isfinite(value):
            return repr(value)
        case Decimal() if value.is_finite():
            return format(value, "f")
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"'{value.hex()}'"
        case datetime():
            return f"'{value.isoformat(sep=' ', timespec='milliseconds')}'"
        case date():
            return f"'{value.isoformat()}'"
        case list() | tuple() if value:
            return "(" + ", ".join(literal(item) for item in value) + ")"
    raise UserError(f"a parameter of type {type(value).__name__} has no literal: {str(value)[:80]!r}")
