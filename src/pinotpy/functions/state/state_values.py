"""States of few groups as Python values, and what finishing makes of them: the same bits as the columns of states.py.

Values are those of `Array.to_pylist` of a state column: int, float, bytes, a list of ints (an exact sum), Decimal or
int (a wide sum), None where nothing was seen. Whoever has ten groups finishes them here before a vectorised function is
called once.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf, nan
from typing import Any, Final

from pinotpy.decimals import decode_decimal
from pinotpy.functions.state.exact_sums import MINUS_INFINITY, NOT_A_NUMBER, PLUS_INFINITY, UNIT_BIAS

_HEADER: Final = 65536


def sum_of(state: Any) -> float:
    """A sum rounded to double once."""
    if isinstance(state, list):
        return rounded_exact(state)
    if isinstance(state, bytes):
        return float(decode_decimal(state))
    return float(int(state))


def average_of(state: Any, count: int) -> float:
    """A sum over a count above 0: of integers and BIG_DECIMAL the exact quotient is rounded, of doubles the rounded sum
    divided.
    """
    if isinstance(state, list):
        return rounded_exact(state) / count
    if not isinstance(state, bytes):
        return int(state) / count
    total = decode_decimal(state)
    try:
        return float(Fraction(total) / count)
    except OverflowError:
        return -inf if total < 0 else inf


def extreme_of(state: Any) -> float:
    """A least or greatest value as double."""
    return float(decode_decimal(state)) if isinstance(state, bytes) else float(state)


def rounded_exact(words: Sequence[int]) -> float:
    """An exact sum of doubles (exact_sums.py) rounded to nearest even once."""
    flags, first = divmod(words[0], _HEADER)
    if flags:
        if flags & NOT_A_NUMBER or flags & 3 == PLUS_INFINITY | MINUS_INFINITY:
            return nan
        return inf if flags & PLUS_INFINITY else -inf
    total = 0
    for digit in reversed(words[1:]):
        total = (total << 32) + digit
    exponent = 32 * first - UNIT_BIAS
    try:
        return float(total << exponent) if exponent >= 0 else total / (1 << -exponent)
    except OverflowError:
        return -inf if total < 0 else inf


def doubles(values: Sequence[float | None], *, nothing: float, null_handling: bool) -> list[float | None]:
    """A DOUBLE result: `nothing`, or null under null handling, where nothing was seen; never −0.0."""
    unseen = None if null_handling else nothing + 0.0
    return [unseen if value is None else value + 0.0 for value in values]
