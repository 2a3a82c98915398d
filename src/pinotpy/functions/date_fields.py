"""The fields that a text of a date names, put together to a wall clock: by their size, the largest first.

Every field is set on what the larger ones made, as Joda does: 2014 and week 5 is week 5 of 2014, and where a text says
more than is needed ("Mon Jan 01 2014") the smallest field counts.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pinotpy.functions.civil_time import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    add_units,
    day_of_week,
    day_of_year,
    days_of_months,
    floor_days,
    week_of_year,
    year_month_day,
)

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
_SMALLEST_UNIT: Final = {"y": "YEAR", "Y": "YEAR", "M": "MONTH", "w": "WEEK"}  # what is left of smaller fields is dropped at first


class Fields:
    """Values by letter; of a letter that comes twice the last one counts."""

    def __init__(self) -> None:
        self._values: dict[str, int] = {}

    def set(self, letter: str, value: int) -> None:
        self._values[letter] = value

    def local_millis(self) -> int:
        """Milliseconds of the wall clock since 1970-01-01T00:00; raises ValueError for a value out of its range."""
        for letter, value in self._values.items():
            _, name, low, high = FIELDS[letter]
            _check(name, value, low, high)
        values = self._with_year()
        clock = _WallClock()
        order = sorted(values, key=lambda letter: FIELDS[letter][0])
        for letter in order:
            clock.set(letter, values[letter])
            clock.floor(letter)
        for letter in order:
            clock.set(letter, values[letter])
        return clock.days * DAY_MS + clock.of_day

    def _with_year(self) -> dict[str, int]:
        values = dict(self._values)
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


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"Value {value} for {name} must be in the range [{low},{high}]")


def _week_one(year: int) -> int:
    """Monday of the first week, in days since 1970-01-01."""
    fourth_of_january = days_of_months(np.array([(year - 1970) * 12])) + 3
    return int(floor_days("WEEK", fourth_of_january)[0])


def _weeks(year: int) -> int:
    return (_week_one(year + 1) - _week_one(year)) // 7


class _WallClock:
    """One wall clock whose fields are set one after the other."""

    def __init__(self) -> None:
        self.days = 0
        self.of_day = 0

    def floor(self, letter: str) -> None:
        """Forget what is smaller than this field."""
        if letter in "yYM":
            self.days = int(floor_days(_SMALLEST_UNIT[letter], np.array([self.days]))[0])
        elif letter == "x":
            self.days -= 7 * (self._week()[1] - 1) + int(day_of_week(np.array([self.days]))[0]) - 1
        elif letter == "w":
            self.days = int(floor_days("WEEK", np.array([self.days]))[0])

    def set(self, letter: str, value: int) -> None:
        """Set a field and keep the others."""
        if FIELDS[letter][0] < 8:
            self._set_date(letter, value)
            return
        hour = self.of_day // HOUR_MS
        match letter:
            case "a":
                hour, size, old = value * 12, HOUR_MS, hour // 12 * 12
            case "H" | "k":
                hour, size, old = value % 24, HOUR_MS, hour
            case "K" | "h":
                hour, size, old = value % 12, HOUR_MS, hour % 12
            case "m":
                hour, size, old = value, MINUTE_MS, self.of_day // MINUTE_MS % 60
            case "s":
                hour, size, old = value, SECOND_MS, self.of_day // SECOND_MS % 60
            case _:
                hour, size, old = value, 1, self.of_day % 1000
        self.of_day += (hour - old) * size

    def _set_date(self, letter: str, value: int) -> None:
        days = np.array([self.days])
        year, month, day = (int(part[0]) for part in year_month_day(days))
        match letter:
            case "y":
                self._add("MONTH", 12 * (value - year))
            case "x":
                week = min(self._week()[1], _weeks(value))
                self.days = _week_one(value) + 7 * (week - 1) + int(day_of_week(days)[0]) - 1
            case "M":
                self._add("MONTH", value - month)
            case "w":
                weekyear, week = self._week()
                _check("weekOfWeekyear", value, 1, _weeks(weekyear))
                self.days += 7 * (value - week)
            case "D":
                first = floor_days("YEAR", days)
                _check("dayOfYear", value, 1, int(floor_days("YEAR", first + 370)[0] - first[0]))
                self.days += value - int(day_of_year(days)[0])
            case "d":
                first = floor_days("MONTH", days)
                _check("dayOfMonth", value, 1, int(floor_days("MONTH", first + 31)[0] - first[0]))
                self.days += value - day
            case _:
                self.days += value - int(day_of_week(days)[0])

    def _week(self) -> tuple[int, int]:
        year, week = week_of_year(np.array([self.days]))
        return int(year[0]), int(week[0])

    def _add(self, unit: str, amount: int) -> None:
        self.days = int(add_units(unit, np.array([amount]), np.array([self.days * DAY_MS]))[0]) // DAY_MS
