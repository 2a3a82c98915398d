"""Avro's logical type big-decimal: every value says its own scale.

Source: Avro 1.12, `Conversions.BigDecimalConversion`: the bytes of a value are an Avro bytes (the unscaled number,
big-endian in two's complement) and an Avro int (the scale).
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Final

# A few bytes may say a number of any length: 309 digits, as far as doubles reach.
BYTES_MAX: Final = 128
SCALE_MAX: Final = 1000
_ALL_DIGITS: Final = Context(prec=SCALE_MAX + 400)


def big_decimal_text(content: bytes) -> str:
    """The number in the bytes of a value, plain and with the digits that it has: `1.50`.

    Raises:
        ValueError: the bytes are no big-decimal, or one beyond the limits.
    """
    length, begin = _number(content, 0)
    scale, end = _number(content, begin + max(length, 0))
    if length < 0 or end != len(content):
        raise ValueError(f"a big-decimal that is none: {content[:40].hex()}")
    if length > BYTES_MAX or abs(scale) > SCALE_MAX:
        raise ValueError(
            f"a big-decimal of {length} bytes and scale {scale}, expected at most {BYTES_MAX} bytes and {SCALE_MAX}"
        )
    unscaled = int.from_bytes(content[begin : begin + length], "big", signed=True)
    return format(Decimal(unscaled).scaleb(-scale, _ALL_DIGITS), "f")


def _number(content: bytes, offset: int) -> tuple[int, int]:
    """(a number of Avro, the position behind it)."""
    word, shift = 0, 0
    while offset < len(content) and shift < 70:
        byte = content[offset]
        offset += 1
        word |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (word >> 1) ^ -(word & 1), offset
        shift += 7
    raise ValueError(f"a big-decimal that is none: {content[:40].hex()}")
