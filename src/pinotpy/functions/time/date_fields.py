"""The fields that a text of a date names, put together to a wall clock: by their size, the largest first.

Every field is set on what the larger ones made, as Joda does: 2014 and week 5 is week 5 of 2014, and where a text says
more than is needed ("Mon Jan 01 2014") the smallest field counts. One text at a time, so all of this is on plain
integers.
"""

from __future__ import annotations

from typing import Final

from pinotpy.functions.time.civil_time import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

# letter → (rank: larger fields come first, Joda's name, least value, greatest value)
FIELDS: Final = {
    "G": (0, "era", 0, 1),
    "C": (1, "centuryOfEra", 0, 2_922_789),
    "Y": (2, "yearOfEra", 1, 292_278_993),
    "y": (2, "year", -292_275_054, 292_278_993),
    "x": (2, "weekyear", -292_275_054, 292_278_993),
    "M": (3, "monthOfYear", 1, 12),
    "w": (4, "weekOfWeekyear", 1, 53),
    "D": (5, "dayOfYear", 1, 366),
    "d": (6, "dayOfMonth", 1, 31),
    "e": (7, "dayOfWeek", 1, 7),
    "a": (8, "halfdayOfDay", 0, 1),
    "H": (9, "hourOfDay", 0, 23),
    "k": (9, "clockhourOfDay", 1, 24),
    "K": (10, "hourOfHalfday", 0, 11),
    "h": (10, "clockhourOfHalfday", 1, 12),
    "m": (11, "minuteOfHour", 0, 59),
    "s": (12, "secondOfMinute", 0, 59),
    "S": (13, "millisOfSecond", 0, 999),
}
_DAY_RANKS: Final = range(3, 8)  # if the largest field is one of these, the year is 2000
_PLAIN: Final = frozenset("yMdHmsS")


def local_millis(named: dict[str, int]) -> int:
    """Milliseconds of the wall clock since 1970-01-01T00:00; raises ValueError for a value out of its range."""
    for letter, value in named.items():
        _, name, low, high = FIELDS[letter]
        _check(name, value, low, high)
    values = _with_year(named)
    if values.keys() <= _PLAIN:
        return _plain_millis(values)
    clock = _WallClock()
    order = sorted(values, key=lambda letter: FIELDS[letter][0])
    for letter in order:
        clock.set(letter, values[letter])
        clock.floor(letter)
    for letter in order:
        clock.set(letter, values[letter])
    clock.floor(order[-1])
    return clock.days * DAY_MS + clock.of_day


def _with_year(named: dict[str, int]) -> dict[str, int]:
    values = dict(named)
    era, century, of_era = values.pop("G", 1), values.pop("C", None), values.pop("Y", None)
    if of_era is None and century is not None:
        of_era = century * 100 + values.pop("y", 0) % 100
    if of_era is None and era == 0 and "y" in values:
        of_era = values.pop("y")
    if of_era is not None:
        values["y"] = of_era if era else 1 - of_era
    if values and min(FIELDS[letter][0] for letter in values) in _DAY_RANKS:
        values["y"] = 2000
    return values


def _plain_millis(values: dict[str, int]) -> int:
    year, month, day = values.get("y", 1970), values.get("M", 1), values.get("d", 1)
    if day > 28:
        _check("dayOfMonth", day, 1, _month_length(year, month))
    clock = (
        values.get("H", 0) * HOUR_MS
        + values.get("m", 0) * MINUTE_MS
        + values.get("s", 0) * SECOND_MS
        + values.get("S", 0)
    )
    return (_days(year, month) + day - 1) * DAY_MS + clock


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"Value {value} for {name} must be in the range [{low},{high}]")


# --- the calendar of civil_time.py, of single dates -------------------------------------------------------------------


def _days(year: int, month: int) -> int:
    """Days since 1970-01-01 of the first of a month; months beyond 1..12 belong to the years before and after."""
    year, month = year + (month - 3) // 12, (month - 3) % 12  # years from March, so that leap days come last
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 - 719_468


def _month_length(year: int, month: int) -> int:
    return _days(year, month + 1) - _days(year, month)


def _date(days: int) -> tuple[int, int, int]:
    """(year, month, day)."""
    year = days * 400 // 146_097 + 1970  # at most one off
    year += days >= _days(year + 1, 1)
    year -= days < _days(year, 1)
    month = (days - _days(year, 1)) // 32 + 1  # at most one too early
    month += days >= _days(year, month + 1)
    return year, month, days - _days(year, month) + 1


def _weekday(days: int) -> int:
    return (days + 3) % 7 + 1


def _week_one(year: int) -> int:
    """Monday of the first week: the one with January 4th."""
    fourth = _days(year, 1) + 3
    return fourth - _weekday(fourth) + 1


def _week(days: int) -> tuple[int, int]:
    """(week-based year, week)."""
    year = _date(days - _weekday(days) + 4)[0]
    return year, (days - _week_one(year)) // 7 + 1


def _weeks(year: int) -> int:
    return (_week_one(year + 1) - _week_one(year)) // 7


class _WallClock:
    """One wall clock whose fields are set one after the other."""

    def __init__(self) -> None:
        self.days = 0
        self.of_day = 0

    def floor(self, letter: str) -> None:
        """Forget what is smaller than this field of a date."""
        year, month, _ = _date(self.days)
        match letter:
            case "y":
                self.days = _days(year, 1)
            case "x":
                self.days = _week_one(_week(self.days)[0])
            case "M":
                self.days = _days(year, month)
            case "w":
                self.days -= _weekday(self.days) - 1

    def set(self, letter: str, value: int) -> None:
        """Set a field and keep the others."""
        if FIELDS[letter][0] < FIELDS["a"][0]:
            self._set_date(letter, value)
            return
        hour = self.of_day // HOUR_MS
        match letter:
            case "a":
                new, old, size = value * 12, hour // 12 * 12, HOUR_MS
            case "H" | "k":
                new, old, size = value % 24, hour, HOUR_MS
            case "K" | "h":
                new, old, size = value % 12, hour % 12, HOUR_MS
            case "m":
                new, old, size = value, self.of_day // MINUTE_MS % 60, MINUTE_MS
            case "s":
                new, old, size = value, self.of_day // SECOND_MS % 60, SECOND_MS
            case _:
                new, old, size = value, self.of_day % SECOND_MS, 1
        self.of_day += (new - old) * size

    def _set_date(self, letter: str, value: int) -> None:
        year, month, day = _date(self.days)
        weekyear, week = _week(self.days)
        weekday = _weekday(self.days)
        match letter:
            case "y":
                self.days = _days(value, month) + min(day, _month_length(value, month)) - 1
            case "x":
                self.days = _week_one(value) + 7 * (min(week, _weeks(value)) - 1) + weekday - 1
            case "M":
                self.days = _days(year, value) + min(day, _month_length(year, value)) - 1
            case "w":
                _check("weekOfWeekyear", value, 1, _weeks(weekyear))
                self.days += 7 * (value - week)
            case "D":
                _check("dayOfYear", value, 1, _days(year + 1, 1) - _days(year, 1))
                self.days = _days(year, 1) + value - 1
            case "d":
                _check("dayOfMonth", value, 1, _month_length(year, month))
                self.days += value - day
            case _:
                self.days += value - weekday
