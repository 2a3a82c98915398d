"""Numbers of query texts: their values and the text that Java prints for them.

Column names in responses show literals as Java prints them (`5.` is 5.0, 0.000001 is 1.0E-6, 10000000.0 is 1.0E7), so
the text is part of a literal. Source: recorded answers of Pinot 0.6.0 and 1.5.1.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Final

from pinotpy.pql.ast import Literal, Position

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1
NUMBER_CHARACTERS_MAX: Final = 1_000
EXPONENT_MAX: Final = (
    10_000  # of what nothing larger can be written for: 1E99999999 is ten characters and a hundred million digits
)


def java_double_text(value: float) -> str:
    """Text of a double as Java's Double.toString (shortest digits): plain from 1e-3 to below 1e7, else d.dddE±n."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    plain = repr(value)
    if 1e-3 <= abs(value) < 1e7:
        return plain  # Python prints these as Java does
    sign, digits, exponent = Decimal(plain).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent  # value = 0.digits * 10^point
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{point - 1}"


def integer_literal(value: int, position: Position) -> Literal:
    """A whole number; its text is its digits."""
    return Literal(value, str(value), False, position)


def double_literal(value: float, position: Position) -> Literal:
    """A number that went through a double, as every number with a point does in PQL. NaN is one object, so that it
    equals itself.
    """
    return Literal(math.nan if math.isnan(value) else value, java_double_text(value), False, position)


def is_beyond(text: str) -> bool:
    """Whether a number with an exponent is one that nobody can compute with."""
    exact = Decimal(text)
    return bool(exact) and abs(exact.adjusted()) > EXPONENT_MAX


def decimal_literal(text: str, position: Position) -> Literal:
    """A SQL number with a point or an exponent: a double where its digits are what is written, else the exact decimal.
    What a double holds in more digits is none: BIG_DECIMAL tells it from the double's shortest digits.
    """
    value = float(text)
    if len(text) <= 15 and text.isascii() and not text.isalnum() and "e" not in text and "E" not in text:
        return double_literal(value, position)  # 15 digits always survive
    exact = Decimal(text)
    if math.isfinite(value) and exact == Decimal(repr(value)):
        return double_literal(value, position)
    return Literal(exact, format(exact, "f") if -50 < exact.adjusted() < 400 else str(exact), False, position)


def string_literal(value: str, position: Position) -> Literal:
    """A quoted text."""
    return Literal(value, value, True, position)


def boolean_literal(value: bool, position: Position) -> Literal:
    """TRUE or FALSE."""
    return Literal(value, "true" if value else "false", False, position)


def null_literal(position: Position) -> Literal:
    """NULL."""
    return Literal(None, "null", False, position)


def negated(literal: Literal, position: Position) -> Literal | None:
    """The literal with a minus sign before it; None if it is no number."""
    value = literal.value
    if literal.is_string or value is None or isinstance(value, bool | str):
        return None
    if isinstance(value, int):
        return integer_literal(-value, position)
    if isinstance(value, float):
        return double_literal(-value, position)
    return Literal(
        value.copy_negate(), literal.text[1:] if literal.text.startswith("-") else "-" + literal.text, False, position
    )
