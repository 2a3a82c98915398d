"""Whole numbers that a query wrote as text, for parameters of functions."""

from __future__ import annotations

from typing import Final

_DIGITS_MAX: Final = 18  # no parameter is larger, and Python reads no number of more than 4,300


def whole_number(text: str) -> int | None:
    """The number that these digits name, without sign; None for any other text and for more than 18 digits."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS_MAX else None
