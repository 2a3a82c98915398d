"""ROUND, ROUNDDECIMAL and TRUNCATE: to a number of decimals of the number as Java prints it, halves away from zero.

Doubles are scaled by a power of ten where that cannot go wrong; near a half (near a whole number in TRUNCATE) the
decimal text decides: 1.005 to two decimals is 1.01, though the double is below. In the reference ROUND(x, n) is the
start of the bucket of size n: dashboards cut time into minutes so, and others ask for decimals. Both get what they
mean: of times n is a size, of whole numbers it is one where no number has so many decimals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import numpy as np

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.scalar.math import of_doubles, of_longs
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction
from pinotpy.functions.time.civil_time import truncating_divide
from pinotpy.pql.ast import Dialect

_DECIMALS_MAX: Final = 22  # powers of ten up to here are exact in doubles
_EXACT_BELOW: Final = 2.0**50
_NEAR: Final = 1e-4
_WHOLE: Final = (DataType.INT, DataType.LONG)
_TENS_MAX: Final = 18  # powers of ten that a LONG holds
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
    doubtful = (
        (np.abs(scaled - np.floor(scaled + (0.5 - edge)) - edge) < near)
        | (scaled >= _EXACT_BELOW)
        | (places < 0)
        | (places > _DECIMALS_MAX)
    )
    for row in np.flatnonzero(doubtful & np.isfinite(x)):
        out[row] = float(Decimal(repr(float(x[row]))).quantize(Decimal(1).scaleb(-int(places[row])), rounding, _WIDE))
    return np.where(np.isfinite(x), out, x)


def _round_decimal(x: Any, decimals: Any = None) -> Any:
    if decimals is None:
        return _round_whole(x)
    return _to_decimals(x, decimals, lambda scaled: np.floor(scaled + 0.5), 0.5, ROUND_HALF_UP)


def _truncate(x: Any, decimals: Any = None) -> Any:
    if decimals is None:
        return np.trunc(x)
    return _to_decimals(x, decimals, np.floor, 0.0, ROUND_DOWN)


def _bucket_start(x: Any, size: Any) -> Any:
    if (size == 0).any():
        raise QueryExecutionError(
            "expected a size of buckets other than 0: ROUND of times gives the start of their bucket, in milliseconds"
        )
    return truncating_divide(x, size) * size  # toward zero, as all buckets of time


def _round_longs(x: Any, n: Any) -> Any:
    if (n < -_TENS_MAX).any():
        raise QueryExecutionError(f"expected at least -{_TENS_MAX} decimals of whole numbers, found {int(n.min())}")
    out = np.where(n > _DECIMALS_MAX, truncating_divide(x, np.maximum(n, 1)) * n, x)
    for decimals in np.unique(n[n < 0]).tolist():
        selected, unit = n == decimals, 10**-decimals
        magnitude = (
            (np.abs(x[selected]).astype(np.uint64) + np.uint64(unit // 2)) // np.uint64(unit) * np.uint64(unit)
        )  # 2^63 too
        if (magnitude > np.uint64(2**63 - 1)).any():
            raise QueryExecutionError(f"ROUND to {decimals} decimals goes beyond LONG: cast to DOUBLE first")
        out[selected] = np.where(x[selected] < 0, -magnitude.astype(np.int64), magnitude.astype(np.int64))
    return out


_ROUND_FRACTIONS = of_doubles(
    "round",
    "x, n",
    "Rounded to n decimals, without n to a whole number. TIMESTAMPs, and whole numbers where n is above 22, become "
    "the start of their bucket "
    "of size n; both are LONG.",
    _round_decimal,
    Example("round(d, 1)", 2.3),
    Example("round(2.5)", 3.0),
    Example("round(ts, 300000)", 1577934000000),
    least=1,
)
_ROUND_LONGS = of_longs("round", "x, n", "", _round_longs)
_ROUND_TIMES = of_longs("round", "x, size", "", _bucket_start)


def _bind_round(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    kind = operands[0].data_type if len(operands) == 2 else None
    return (_ROUND_TIMES if kind is DataType.TIMESTAMP else _ROUND_LONGS if kind in _WHOLE else _ROUND_FRACTIONS).bind(
        operands, dialect
    )


FUNCTIONS: tuple[ScalarFunction, ...] = (
    replace(_ROUND_FRACTIONS, bind=_bind_round),
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
