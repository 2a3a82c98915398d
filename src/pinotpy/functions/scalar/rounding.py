"""ROUND, ROUNDDECIMAL and TRUNCATE: to a number of decimals of the number as Java prints it, halves away from zero.

Doubles are scaled by a power of ten where that cannot go wrong; near a half (near a whole number in TRUNCATE) the decimal text
decides: 1.005 to two decimals is 1.01, though the double is below. The reference's ROUND(x, n) rounds down to a multiple of n;
here it is what SQL says.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import numpy as np

from pinotpy.errors import QueryExecutionError
from pinotpy.functions.scalar.math import of_doubles
from pinotpy.functions.scalar.spec import Example

_DECIMALS_MAX: Final = 22  # powers of ten up to here are exact in doubles
_EXACT_BELOW: Final = 2.0**50
_NEAR: Final = 1e-4
_WIDE: Final = Context(prec=1100)  # 400 decimals of 1e308, and all digits of the least double


def _round_whole(x: Any) -> Any:
    return np.where(np.abs(x) < _EXACT_BELOW, np.floor(x + 0.5), x)  # Math.round


def _to_decimals(x: Any, decimals: Any, shorten: Callable[[Any], Any], edge: float, rounding: str) -> Any:
    if np.abs(decimals).max(initial=0) > 400 or np.isnan(decimals).any():
        raise QueryExecutionError("expected at most 400 decimals")
    places = np.trunc(decimals)
    scale = 10.0 ** np.clip(places, 0, _DECIMALS_MAX)
    scaled = np.abs(x) * scale
    out = np.copysign(shorten(scaled) / scale, x)
    out = np.where(out == 0, 0.0, out)  # BigDecimal has no -0
    near = _NEAR + scaled * 2.0**-50  # the product is off by half a unit in its last place
    doubtful = (np.abs(scaled - np.floor(scaled + (0.5 - edge)) - edge) < near) | (scaled >= _EXACT_BELOW) | (places < 0) | (places > _DECIMALS_MAX)
    for at in np.flatnonzero(doubtful & np.isfinite(x)):
        out[at] = float(Decimal(repr(float(x[at]))).quantize(Decimal(1).scaleb(-int(places[at])), rounding, _WIDE))
    return np.where(np.isfinite(x), out, x)


def _round_decimal(x: Any, decimals: Any = None) -> Any:
    if decimals is None:
        return _round_whole(x)
    return _to_decimals(x, decimals, lambda scaled: np.floor(scaled + 0.5), 0.5, ROUND_HALF_UP)


def _truncate(x: Any, decimals: Any = None) -> Any:
    if decimals is None:
        return np.trunc(x)
    return _to_decimals(x, decimals, np.floor, 0.0, ROUND_DOWN)


FUNCTIONS = (
    of_doubles(
        "round",
        "x, decimals",
        "Rounded to so many decimals, without them to a whole number.",
        _round_decimal,
        Example("round(d, 1)", 2.3),
        Example("round(2.5)", 3.0),
        least=1,
    ),
    of_doubles(
        "rounddecimal",
        "x, decimals",
        "Rounded to so many decimals, without them to a whole number.",
        _round_decimal,
        Example("roundDecimal(1.005, 2)", 1.01),
        Example("roundDecimal(-2.25, 1)", -2.3),
        least=1,
    ),
    of_doubles(
        "truncate",
        "x, decimals",
        "Cut off after so many decimals, without them to a whole number.",
        _truncate,
        Example("truncate(-1.57)", -1.0),
        Example("truncate(0.29, 2)", 0.29),
        least=1,
    ),
)
