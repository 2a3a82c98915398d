"""Time zones by the names that schemas use."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

# Java's three-letter zone ids (java.time.ZoneId.SHORT_IDS); the rest of the ids are those of the tz database.
_SHORT_ZONES: Final[dict[str, str]] = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh", "EST": "GMT-5", "MST": "GMT-7", "HST": "GMT-10",
}  # fmt: skip
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z0-9_+\-]+)*")


@lru_cache(maxsize=512)
def time_zone(name: str) -> tzinfo:
    """Zone by tz database id, Java's short id, or offset (GMT-8:00). Raises ValueError with what is allowed."""
    name = _SHORT_ZONES.get(name, name)
    if name in ("UTC", "GMT", "Z", "UT"):
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset:
        delta = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        if delta < timedelta(hours=24):
            return timezone(delta if offset[1] == "+" else -delta)
    if _ZONE_NAME.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise ValueError("a time zone: an id such as America/Los_Angeles, PST, or an offset such as GMT-8:00")
