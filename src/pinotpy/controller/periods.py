"""Periods as Pinot writes them: `7d`, `3h30m`, `1d2h`, or milliseconds."""

from __future__ import annotations

import re

from pinotpy.errors import UserError

_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_PERIOD = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")


def period_ms(text: str, parameter: str) -> int:
    """Milliseconds of a period; UserError names the parameter (Pinot: TimeUtils.convertPeriodToMillis)."""
    cleaned = text.strip().lower()
    if cleaned.isascii() and cleaned.isdigit():
        return int(cleaned[:18])
    found = _PERIOD.fullmatch(cleaned)
    if not cleaned or found is None:
        raise UserError(f"Invalid time spec '{text[:40]}' in '{parameter}' (Valid examples: '3h', '4h30m')")
    return sum(int(count) * unit for count, unit in zip(found.groups(), _UNITS_MS.values(), strict=True) if count)
