"""`?` in a query, replaced by literals that are quoted safely.

A `?` inside of quotes or a comment is text. A literal never grows together with what stands beside it: `a -?` with -1
must not become a comment, `'x'?` with 'y' not one string.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isfinite

from pinotpy.errors import UserError

# What is skipped as a whole, to its end or the text's; doubled quotes are two strings side by side, which is the same.
_SKIPPED_OR_PLACE = re.compile(
    r"'[^']*(?:'|\Z)|\"[^\"]*(?:\"|\Z)|`[^`]*(?:`|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|(\?)", re.DOTALL
)
# Brokers read no longer numbers.
NUMBER_DIGITS_MAX = 1000
NUMBER_BITS_MAX = 3300
_SCALAR_KINDS = tuple("biufU")
_GROWS = re.compile(r"[\w.$'\"`-]")


def split_at_places(query: str) -> list[str]:
    """The text before, between and after the placeholders: one part more than there are placeholders."""
    parts: list[str] = []
    start = 0
    for match in _SKIPPED_OR_PLACE.finditer(query):
        if match[1]:
            parts.append(query[start : match.start()])
            start = match.end()
    parts.append(query[start:])
    return parts


def bind(query: str, parameters: Sequence[object], dialect: str = "sql") -> str:
    """`query` with each placeholder replaced. UserError if their numbers differ or a value has no literal."""
    parts = split_at_places(query)
    if len(parts) - 1 != len(parameters):
        raise UserError(
            f"the query has {len(parts) - 1} '?' outside of quotes and comments, but {len(parameters)} parameters are "
            "given"
        )
    return join(parts, [literal(value, dialect) for value in parameters])


def join(parts: Sequence[str], literals: Sequence[str]) -> str:
    """The parts with the literals between them, and blanks where one would grow together with its neighbour."""
    pieces = [parts[0]]
    last = parts[0][-1:]
    for value, after in zip(literals, parts[1:], strict=True):
        for piece in (value, after):
            if _GROWS.match(last) and _GROWS.match(piece[:1]):
                pieces.append(" ")
            pieces.append(piece)
            last = piece[-1:] or last
    return "".join(pieces)


def literal(value: object, dialect: str = "sql") -> str:
    """The text of a value in a query: numbers as plain decimals, text in single quotes, sequences in parentheses.

    PQL knows neither NULL nor TRUE and FALSE, nor exponents: None is refused there, booleans are text as its columns
    are, and bytes are the text of their hexadecimal digits, which SQL marks as bytes: x'…'.
    """
    match value:
        case None if dialect == "pql":
            raise UserError("PQL has no literal for None: write IS NULL or IS NOT NULL into the query")
        case None:
            return "NULL"
        case bool():
            word = "true" if value else "false"
            return f"'{word}'" if dialect == "pql" else word
        case int() if value.bit_length() <= NUMBER_BITS_MAX:
            return str(int(value))
        case float() if isfinite(value):
            return plain_decimal(value)
        case float():
            raise UserError(f"{value} has no literal: expected a finite number")
        case Decimal() if (
            value.is_finite() and max(abs(value.adjusted()), len(value.as_tuple().digits)) < NUMBER_DIGITS_MAX
        ):
            return format(value, "f")
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes() | bytearray() | memoryview():
            return f"'{value.hex()}'" if dialect == "pql" else f"x'{value.hex()}'"
        case datetime():
            # Times in the store are UTC; one without zone is taken as such.
            naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return f"'{naive.isoformat(sep=' ', timespec='milliseconds')}'"
        case date():
            return f"'{value.isoformat()}'"
        case list() | tuple() if value:
            return "(" + ", ".join(literal(item, dialect) for item in value) + ")"
        case list() | tuple():
            raise UserError("an empty sequence has no literal: IN needs one value at least")
    # numpy's scalars, known by their kind, without numpy.
    if getattr(getattr(value, "dtype", None), "kind", "") in _SCALAR_KINDS and getattr(value, "shape", None) == ():
        return literal(value.item(), dialect)  # type: ignore[attr-defined]
    shown = (
        f"a number of more than {NUMBER_DIGITS_MAX} digits"
        if isinstance(value, int | Decimal)
        else repr(str(value)[:80])
    )
    raise UserError(f"a parameter of type {type(value).__name__} has no literal: {shown}")


def plain_decimal(value: float) -> str:
    """The shortest digits that read back as `value`, without an exponent and with a point: 1e-7 → 0.0000001, 1e5 →
    100000.0.
    """
    text = format(Decimal(repr(float(value))), "f")
    return text if "." in text else text + ".0"
