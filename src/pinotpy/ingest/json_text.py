"""JSON as text: one form for equal documents, as the reference stores JSON columns.

Blanks go, keys keep their order, fractions and exponents become shortest decimals (1e10 and 1E+10 are 1E+10, -2.0 is
-2), as Jackson writes normalised BigDecimals.
"""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

# What orjson would change: fractions, exponents, integers beyond 64 bits. A match inside a string only costs the slower
# way.
_NEEDS_DECIMALS = re.compile(r"\d[.eE]|\d{18}")
DEPTH_MAX = 200


def normalized(text: str) -> str:
    """The one form of a JSON text; raises ValueError if it is none."""
    if _NEEDS_DECIMALS.search(text) is None:
        return orjson.dumps(orjson.loads(text)).decode()
    try:
        return dumps(json.loads(text, parse_float=decimal_of, parse_constant=_refuse_constant))
    except RecursionError:
        raise ValueError(f"nested deeper than {DEPTH_MAX}") from None


def dumps(value: Any) -> str:
    """A parsed value as text in that form; raises ValueError for what JSON cannot hold."""
    return "".join(_written(value, 0))


def decimal_of(text: str) -> Decimal:
    """The number of a JSON text with all its digits; raises ValueError where no decimal has such an exponent."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"the exponent of {text[:40]} is too large") from None


def may_be_deep(text: bytes) -> bool:
    """Whether a text opens more objects and lists than may be nested."""
    return text.count(b"{") + text.count(b"[") > DEPTH_MAX


def is_too_deep(value: Any) -> bool:
    """Whether a parsed value is nested deeper than `dumps` writes."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEPTH_MAX + 1):
        level = [
            item
            for parent in level
            for item in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _written(value: Any, depth: int) -> list[str]:
    if depth > DEPTH_MAX:
        raise ValueError(f"nested deeper than {DEPTH_MAX}")
    match value:
        case None | bool() | int():
            return [json.dumps(value)]
        case str():
            return [json.dumps(value, ensure_ascii=False)]
        case float() | Decimal():
            return [_number(Decimal(repr(value)) if isinstance(value, float) else value)]
        case bytes():
            return [json.dumps(value.hex())]
        case datetime() | date():
            return [json.dumps(value.isoformat())]
        case dict():
            pieces = [
                piece
                for key, item in value.items()
                for piece in (",", json.dumps(str(key), ensure_ascii=False), ":", *_written(item, depth + 1))
            ]
            return ["{", *pieces[1:], "}"]
        case list() | tuple():
            pieces = [piece for item in value for piece in (",", *_written(item, depth + 1))]
            return ["[", *pieces[1:], "]"]
    raise ValueError(f"JSON cannot hold a {type(value).__name__}")


def _number(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is no JSON number")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "0"
    stripped = text.rstrip("0")
    return str(Decimal((sign, tuple(map(int, stripped)), exponent + len(text) - len(stripped))))
