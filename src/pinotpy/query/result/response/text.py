"""Numbers and values as text, as the reference prints them.

Source: pql-live §3, executed on a live server: Java's Double.toString for group values, DecimalFormat with up to 5 or
10 decimals for selections, and "%.5f" rounded half-up on the shortest decimal for aggregation values.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext

import numpy as np

_FIVE_PLACES = Decimal("0.00001")
_LONG_MAX = 2**63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def aggregation_text(value: float | None) -> str:
    """A double-typed aggregation value: five decimals, half-up on the shortest decimal; integral longs print exactly.

    -0.0 prints 0.00000, infinities `Infinity`/`-Infinity`, NaN `NaN`; None (SQL nulls) `null`.
    """
    if value is None:
        return "null"
    if not math.isfinite(value):
        return _java_non_finite(value)
    if value == math.floor(value) and abs(value) < _LONG_MAX:
        return f"{int(value)}.00000"
    exact = Decimal(repr(value))
    if exact.as_tuple().exponent >= 0:  # type: ignore[operator]  # finite: the exponent is a number
        return f"{int(exact)}.00000"
    rounded = exact.quantize(_FIVE_PLACES, rounding=ROUND_HALF_UP)
    return f"{rounded:f}" if rounded else "0.00000"


def selection_double(value: float) -> str:
    """A DOUBLE in a selection: 1 to 10 decimals, half-even on the exact value, never an exponent; infinity is ∞."""
    return _decimal_format(value, 10)


def selection_float(value: float) -> str:
    """A FLOAT in a selection: 1 to 5 decimals."""
    return _decimal_format(value, 5)


def _decimal_format(value: float, places: int) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    shortest = repr(value)
    if "e" not in shortest and len(shortest) - shortest.index(".") - 1 <= places:
        return shortest
    exact = Decimal(shortest)
    if exact.as_tuple().exponent >= -places:  # type: ignore[operator]  # finite: the exponent is a number
        text = f"{exact:f}"
    else:
        text = f"{_half_even(exact, value, places):f}"
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}"


def _half_even(shortest: Decimal, value: float, places: int) -> Decimal:
    """Java rounds the shortest digits, and looks at the exact binary value only where these stand on a tie."""
    unit = Decimal(1).scaleb(-places)
    with localcontext() as context:
        context.prec = 400
        is_tie = (shortest / unit) % 1 in (Decimal("0.5"), Decimal("-0.5"))
        return (Decimal(value) if is_tie else shortest).quantize(unit, rounding=ROUND_HALF_EVEN)


def _java_non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def java_double(value: float) -> str:
    """Double.toString: plain between 1e-3 and 1e7, else d.dddE±n, always with a fraction."""
    if not math.isfinite(value):
        return _java_non_finite(value)
    return _java_digits(repr(value), value)


def java_float(value: float) -> str:
    """Float.toString of a value that fits float32: the shortest digits that name that float."""
    if not math.isfinite(value):
        return _java_non_finite(value)
    return _java_digits(np.format_float_scientific(np.float32(value), unique=True), value)


def _java_digits(shortest: str, value: float) -> str:
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent  # value = 0.text × 10^point
    minus = "-" if sign else ""
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        whole = text[:point].ljust(point, "0")
        return f"{minus}{whole}.{text[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def timestamp_text(millis: int) -> str:
    """`2014-01-01 00:00:00.0`, UTC: the fraction without trailing zeros, at least one digit."""
    seconds, fraction = divmod(millis, 1000)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return str(millis)
    digits = f"{fraction:03d}".rstrip("0") or "0"
    return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}.{digits}"
