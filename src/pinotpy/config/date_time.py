"""Formats of time columns: both spellings, parsed once; values of single columns to and from milliseconds.

Old: `size:unit:format[:pattern [tz(zone)]]` (1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd). New: `EPOCH|unit|size`,
`SIMPLE_DATE_FORMAT|pattern|zone`, `TIMESTAMP`, each part after the first optional. Source: Pinot's schema page, "Date
time formats".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from pinotpy.config.date_pattern import DatePattern
from pinotpy.config.time_zone import time_zone


class TimeUnit(StrEnum):
    """java.util.concurrent.TimeUnit."""

    NANOSECONDS = "NANOSECONDS"
    MICROSECONDS = "MICROSECONDS"
    MILLISECONDS = "MILLISECONDS"
    SECONDS = "SECONDS"
    MINUTES = "MINUTES"
    HOURS = "HOURS"
    DAYS = "DAYS"

    @property
    def nanos(self) -> int:
        """Nanoseconds in one unit."""
        return _NANOS[self]


_NANOS: Final[dict[TimeUnit, int]] = {
    TimeUnit.NANOSECONDS: 1,
    TimeUnit.MICROSECONDS: 1_000,
    TimeUnit.MILLISECONDS: 1_000_000,
    TimeUnit.SECONDS: 1_000_000_000,
    TimeUnit.MINUTES: 60_000_000_000,
    TimeUnit.HOURS: 3_600_000_000_000,
    TimeUnit.DAYS: 86_400_000_000_000,
}
UNIT_NAMES: Final = ", ".join(TimeUnit)


class TimeFormat(StrEnum):
    """What a value of a time column is: a count since 1970, a text (or digits) by pattern, or a TIMESTAMP in
    milliseconds.
    """

    EPOCH = "EPOCH"
    SIMPLE_DATE_FORMAT = "SIMPLE_DATE_FORMAT"
    TIMESTAMP = "TIMESTAMP"


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OLD_ZONE = re.compile(r"^(.*?)\s+tz\s*\(\s*(.*?)\s*\)\s*$", re.IGNORECASE)
_SYNTAX: Final = (
    "size:unit:EPOCH, size:unit:SIMPLE_DATE_FORMAT:pattern, EPOCH|unit|size, SIMPLE_DATE_FORMAT|pattern|time zone, or "
    "TIMESTAMP, "
    f"where unit is one of {UNIT_NAMES}"
)


@dataclass(frozen=True, slots=True)
class DateTimeFormat:
    """How the values of a time column are to be read.

    Attributes:
        kind: EPOCH, SIMPLE_DATE_FORMAT or TIMESTAMP.
        unit, size: an EPOCH value v means v × size units since 1970-01-01T00:00Z; 1 MILLISECONDS for TIMESTAMP.
        pattern: of SIMPLE_DATE_FORMAT; None = ISO 8601, any precision.
        zone: name of the zone in which texts without an offset are read.
    """

    kind: TimeFormat
    unit: TimeUnit = TimeUnit.MILLISECONDS
    size: int = 1
    pattern: str | None = None
    zone: str = "UTC"

    @property
    def is_lexicographic(self) -> bool:
        """Whether values order as their times do; only such a column can be the time column of a table."""
        return self.kind is not TimeFormat.SIMPLE_DATE_FORMAT or self.pattern is None or self._compiled.is_lexicographic

    @property
    def full_width(self) -> str | None:
        """Of a lexicographic pattern: see `DatePattern.full_width`."""
        return self._compiled.full_width

    @property
    def _compiled(self) -> DatePattern:
        return DatePattern.compile(self.pattern)

    def millis_from_value(self, value: int | str) -> int:
        """Milliseconds since the epoch of a column's value; raises ValueError naming what was expected."""
        if self.kind is TimeFormat.SIMPLE_DATE_FORMAT:
            moment = self._compiled.parse(str(value), time_zone(self.zone))
            return (moment - _EPOCH) // timedelta(milliseconds=1)
        return int(value) * self.size * self.unit.nanos // 1_000_000

    def value_from_millis(self, millis: int) -> int | str:
        """Inverse of `millis_from_value`, rounding down: a number for EPOCH and TIMESTAMP, a text by pattern."""
        if self.kind is TimeFormat.SIMPLE_DATE_FORMAT:
            return self._compiled.format((_EPOCH + timedelta(milliseconds=millis)).astimezone(time_zone(self.zone)))
        return millis * 1_000_000 // (self.unit.nanos * self.size)


def parse_format(text: str) -> DateTimeFormat:
    """Parse either spelling. Raises ValueError whose text is what is allowed."""
    text = text.strip()
    if text.upper() == TimeFormat.TIMESTAMP:
        return DateTimeFormat(TimeFormat.TIMESTAMP)
    for kind in (TimeFormat.EPOCH, TimeFormat.SIMPLE_DATE_FORMAT):
        if text.upper() == kind or text.upper().startswith(f"{kind}|"):
            return _parse_new(kind, text[len(kind) + 1 :])
    return _parse_old(text)


def _parse_new(kind: TimeFormat, rest: str) -> DateTimeFormat:
    parts = [field.strip() for field in rest.split("|")] if rest else []
    if len(parts) > 2:
        raise ValueError(_SYNTAX)
    first, second = ([*parts, "", ""])[:2]
    if kind is TimeFormat.EPOCH:
        return DateTimeFormat(kind, _unit(first or TimeUnit.MILLISECONDS), _size(second or "1"))
    return _simple(first or None, second or "UTC", TimeUnit.MILLISECONDS, 1)


def _parse_old(text: str) -> DateTimeFormat:
    parts = text.split(":", 3)
    if len(parts) < 3:
        raise ValueError(_SYNTAX)
    size, unit, name = _size(parts[0]), _unit(parts[1]), parts[2].strip().upper()
    if name == TimeFormat.SIMPLE_DATE_FORMAT:
        pattern, zone = (parts[3].strip() if len(parts) == 4 else ""), "UTC"
        zoned = _OLD_ZONE.match(pattern)
        if zoned:
            pattern, zone = zoned[1], zoned[2]
        return _simple(pattern or None, zone, unit, size)
    if len(parts) == 4 or name not in (TimeFormat.EPOCH, TimeFormat.TIMESTAMP):
        raise ValueError(_SYNTAX)
    return (
        DateTimeFormat(TimeFormat.EPOCH, unit, size)
        if name == TimeFormat.EPOCH
        else DateTimeFormat(TimeFormat.TIMESTAMP)
    )


def _simple(pattern: str | None, zone: str, unit: TimeUnit, size: int) -> DateTimeFormat:
    DatePattern.compile(pattern)
    time_zone(zone)
    return DateTimeFormat(TimeFormat.SIMPLE_DATE_FORMAT, unit, size, pattern, zone)


def _unit(text: str) -> TimeUnit:
    try:
        return TimeUnit(text.strip().upper())
    except ValueError:
        raise ValueError(_SYNTAX) from None


def _size(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text.strip()):
        raise ValueError("a size that is a whole number from 1 on, in " + _SYNTAX)
    return int(text)


def parse_granularity(text: str) -> tuple[int, TimeUnit]:
    """`15:MINUTES` or `MINUTES|15` → (15, MINUTES); raises ValueError whose text is what is allowed."""
    allowed = f"size:unit such as 15:MINUTES, or unit|size; unit is one of {UNIT_NAMES}"
    first, separator, second = text.strip().partition("|")
    size, unit = (
        (second or "1", first) if separator or ":" not in text else (text.split(":", 1)[0], text.split(":", 1)[1])
    )
    try:
        return _size(size), TimeUnit(unit.strip().upper())
    except ValueError:
        raise ValueError(allowed) from None
