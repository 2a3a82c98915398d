"""BIG_DECIMAL as bytes whose order is the order of the numbers.

A decimal is stored as its sign, its exponent and its digits in one self-ending byte string, so that dictionaries,
min/max, sorting, grouping and comparison work on bytes alone. Trailing zeros are dropped: 1.50 and 1.5 are one value,
as in the reference ("0.10 → 0.1").

    zero       80
    positive   C0, exponent (u32 big-endian, biased by 2^31), digit pairs + 1, 00
    negative   40, then everything complemented, so that larger magnitudes come first

where value = 0.d1d2d3… × 10^exponent and a digit pair d1d2 is the byte 10*d1 + d2 + 1 (1..100).
"""

from __future__ import annotations

from decimal import Context, Decimal

_ZERO = b"\x80"
_POSITIVE, _NEGATIVE = 0xC0, 0x40
_BIAS = 1 << 31
DIGITS_MAX = 10_000
_EXPONENT_MAX = 2 * DIGITS_MAX  # 1e999999999 is eleven bytes, and a gigabyte as digits
_CONTEXT = Context(prec=DIGITS_MAX, Emax=999_999_999, Emin=-999_999_999)


def encode_decimal(value: Decimal) -> bytes:
    """Encode a finite decimal; raises ValueError for NaN, infinities, more than DIGITS_MAX digits and numbers beyond
    10^±20000.
    """
    if not value.is_finite():
        raise ValueError(f"BIG_DECIMAL holds finite numbers only, found {value}")
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return _ZERO
    if len(text) > DIGITS_MAX:
        raise ValueError(f"BIG_DECIMAL holds at most {DIGITS_MAX} digits, found {len(text)}")
    assert isinstance(exponent, int)
    if abs(value.adjusted()) > _EXPONENT_MAX:
        raise ValueError(
            f"BIG_DECIMAL holds numbers from 10^-{_EXPONENT_MAX} to 10^{_EXPONENT_MAX}, found one of "
            f"10^{value.adjusted()}"
        )
    biased = exponent + len(text) + _BIAS
    text = text.rstrip("0")
    text += "0" * (len(text) % 2)
    body = biased.to_bytes(4, "big") + bytes(int(text[i : i + 2]) + 1 for i in range(0, len(text), 2)) + b"\x00"
    return bytes([_POSITIVE]) + body if not sign else bytes([_NEGATIVE]) + bytes(255 - b for b in body)


def decode_decimal(data: bytes) -> Decimal:
    """Inverse of `encode_decimal`; raises ValueError for bytes that it never writes."""
    if data == _ZERO:
        return Decimal(0)
    if len(data) < 7 or data[0] not in (_POSITIVE, _NEGATIVE):
        raise ValueError(f"not an encoded BIG_DECIMAL: {data[:16].hex()}")
    body = data[1:] if data[0] == _POSITIVE else bytes(255 - b for b in data[1:])
    pairs = body[4:-1]
    if body[-1] != 0 or not all(1 <= b <= 100 for b in pairs):
        raise ValueError(f"not an encoded BIG_DECIMAL: {data[:16].hex()}")
    text = "".join(f"{b - 1:02d}" for b in pairs)
    # Not by way of int: Python reads at most 4,300 digits, and that in the square of their number.
    number = Decimal(text).scaleb(int.from_bytes(body[:4], "big") - _BIAS - len(text), _CONTEXT)
    stripped = number.normalize(_CONTEXT)
    if stripped.as_tuple().exponent > 0:  # type: ignore[operator]
        stripped = stripped.quantize(Decimal(1), context=_CONTEXT) if stripped.adjusted() < 100 else stripped
    # copy_negate, since a minus rounds to the 28 digits of the default context
    return stripped.copy_negate() if data[0] == _NEGATIVE else stripped
