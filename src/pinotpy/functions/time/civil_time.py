"""Calendar arithmetic on whole arrays: the proleptic Gregorian calendar, ISO weeks, floors of the units of time.

Everything counts from 1970-01-01: days, months, milliseconds, all int64. "Local" milliseconds are instants moved by a
zone's offset, so that UTC arithmetic gives that zone's wall clock (functions/time/time_zones.py moves them).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import QueryExecutionError

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000

# Instants further away are taken for these: a zone's offset, or the start of a year, then stays within 64 bits.
INSTANT_MAX: Final = 2**63 - 1 - 2 * 366 * DAY_MS
INSTANT_MIN: Final = -INSTANT_MAX

_ERA_DAYS: Final = 146_097  # days of 400 years; the calendar repeats after them
_EPOCH_DAYS: Final = 719_468  # 0000-03-01 to 1970-01-01: years are counted from March, so that leap days come last
_EPOCH_MONTHS: Final = 1970 * 12


def within_calendar(instants: Int64Array) -> Int64Array:
    """Instants (or wall clocks), those beyond INSTANT_MIN and INSTANT_MAX moved there: order stays, and nothing changes
    sign.
    """
    if instants.size and (instants.min() < INSTANT_MIN or instants.max() > INSTANT_MAX):
        return np.clip(instants, INSTANT_MIN, INSTANT_MAX)
    return instants


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """As int32 where that is safe: divisions by constants run twice as fast."""
    if values.size and values.min() > -(2**30) and values.max() < 2**30:
        return values.astype(np.int32)
    return values


def months_of_days(days: Int64Array) -> tuple[NDArray[Any], NDArray[Any]]:
    """(months since 1970-01, day of the month from 1) of days since 1970-01-01."""
    shifted = _narrow(days) + _EPOCH_DAYS
    era = shifted // _ERA_DAYS
    day_of_era = shifted - era * _ERA_DAYS
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153  # 0 = March
    day = day_of_year - (153 * month + 2) // 5 + 1
    return (year_of_era + era * 400) * 12 + month + (2 - _EPOCH_MONTHS), day


def days_of_months(months: NDArray[Any]) -> Int64Array:
    """Days since 1970-01-01 of the first day of months since 1970-01."""
    shifted = _narrow(months) + (_EPOCH_MONTHS - 2)  # months since 0000-03
    year = shifted // 12
    month = shifted - year * 12
    days: Int64Array = (
        365 * year.astype(np.int64) + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5
    ) - _EPOCH_DAYS
    return days


def year_month_day(days: Int64Array) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(year, month from 1, day from 1)."""
    months, day = months_of_days(days)
    year = months // 12
    return year + 1970, months - year * 12 + 1, day


def day_of_week(days: Int64Array) -> NDArray[Any]:
    """1 = Monday … 7 = Sunday."""
    shifted = _narrow(days) + 3
    weekday: NDArray[Any] = shifted - shifted // 7 * 7 + 1
    return weekday


def day_of_year(days: Int64Array) -> Int64Array:
    """1 = January 1st."""
    return days - floor_days("YEAR", days) + 1


def week_of_year(days: Int64Array) -> tuple[NDArray[Any], Int64Array]:
    """(week-based year, week from 1) by ISO 8601: a week belongs to the year of its Thursday."""
    thursday = days - day_of_week(days) + 4
    new_year = floor_days("YEAR", thursday)
    return months_of_days(thursday)[0] // 12 + 1970, (thursday - new_year) // 7 + 1


def floor_days(unit: str, days: Int64Array) -> Int64Array:
    """The first day of the WEEK (Monday), MONTH, QUARTER or YEAR of each day."""
    if unit == "WEEK":
        return (days + 3) // 7 * 7 - 3
    months = months_of_days(days)[0]
    size = _MONTHS[unit]
    return days_of_months(months if size == 1 else months // size * size)


def _fixed_floor(size_ms: int) -> Callable[[Int64Array], Int64Array]:
    return lambda millis: millis // size_ms * size_ms


def _calendar_floor(unit: str) -> Callable[[Int64Array], Int64Array]:
    return lambda millis: floor_days(unit, millis // DAY_MS) * DAY_MS


_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
FIXED_MS: Final = {
    "MILLISECOND": 1,
    "SECOND": SECOND_MS,
    "MINUTE": MINUTE_MS,
    "HOUR": HOUR_MS,
    "DAY": DAY_MS,
    "WEEK": 7 * DAY_MS,
}
_FLOORS: Final = {unit: _fixed_floor(size) for unit, size in FIXED_MS.items() if unit != "WEEK"} | {
    unit: _calendar_floor(unit) for unit in ("WEEK", *_MONTHS)
}
UNITS: Final = tuple(_FLOORS)
CLOCK_UNITS: Final = frozenset(
    {"MILLISECOND", "SECOND", "MINUTE", "HOUR"}
)  # their floors keep the offset that holds at the instant


def floor_millis(unit: str, millis: Int64Array) -> Int64Array:
    """The start of the MILLISECOND, SECOND, MINUTE, HOUR, DAY, WEEK (Monday), MONTH, QUARTER or YEAR, also before
    1970.
    """
    return _FLOORS[unit](millis)


def add_units(unit: str, amount: NDArray[Any], millis: Int64Array) -> Int64Array:
    """Later by `amount` units. Months keep the day of the month, or take the last one of a shorter month.

    Raises: QueryExecutionError for what lies beyond 64 bits of milliseconds.
    """
    limit = 2**62 // FIXED_MS.get(unit, 31 * DAY_MS * _MONTHS.get(unit, 1))
    amount = np.asarray(amount, np.int64)
    if (
        amount.size
        and millis.size
        and (max(abs(int(amount.min())), abs(int(amount.max()))) > limit or np.abs(millis // 2).max() >= 2**61)
    ):
        exact = [
            _added(unit, more, instant)
            for more, instant in zip(*(values.tolist() for values in np.broadcast_arrays(amount, millis)), strict=True)
        ]
        return np.array(exact, np.int64)
    if unit in FIXED_MS:
        moved: Int64Array = millis + amount * FIXED_MS[unit]
        return moved
    days = millis // DAY_MS
    months, day = months_of_days(days)
    target = months + amount * _MONTHS[unit]
    start = days_of_months(target)
    length = days_of_months(target + 1) - start
    later: Int64Array = (start + np.minimum(day, length) - 1) * DAY_MS + (millis - days * DAY_MS)
    return later


def _added(unit: str, amount: int, millis: int) -> int:
    """`add_units` of one far time, on integers without an end: whole eras of 400 years are put aside."""
    if unit in FIXED_MS:
        later = millis + amount * FIXED_MS[unit]
    else:
        months = amount * _MONTHS[unit]
        eras, rest = divmod(months, 4800)
        away, near = divmod(millis, _ERA_DAYS * DAY_MS)
        later = (
            int(add_units("MONTH", np.array([rest]), np.array([near], np.int64))[0])
            + (eras + away) * _ERA_DAYS * DAY_MS
        )
    if not -(2**63) <= later < 2**63:
        raise QueryExecutionError(
            f"expected a time within 64 bits of milliseconds, found {millis} and {amount} {unit.lower()}s: add less"
        )
    return later


def units_between(unit: str, start: Int64Array, end: Int64Array) -> Int64Array:
    """Whole units from start to end, negative if end comes first: the most that `add_units` may add to the earlier
    one.
    """
    if unit in FIXED_MS:
        return (
            truncating_divide(end - start, FIXED_MS[unit])
            if _is_near(start) and _is_near(end)
            else _far_units_between(FIXED_MS[unit], start, end)
        )
    start, end = within_calendar(start), within_calendar(end)
    first, last = np.minimum(start, end), np.maximum(start, end)
    months: Int64Array = (months_of_days(last // DAY_MS)[0] - months_of_days(first // DAY_MS)[0]).astype(np.int64)
    months -= add_units("MONTH", months, first) > last
    units: Int64Array = np.where(end < start, -1, 1) * (months // _MONTHS[unit])
    return units


def _is_near(instants: Int64Array) -> bool:
    """Whether any two of these can be subtracted."""
    return not instants.size or bool(instants.min() >= -(2**62) and instants.max() < 2**62)


def _far_units_between(size_ms: int, start: Int64Array, end: Int64Array) -> Int64Array:
    """Whole units between times whose difference may not fit 64 bits; in milliseconds it ends at the range."""
    if size_ms == 1:
        difference = np.subtract(end, start)
        wrapped = ((end ^ start) & (end ^ difference)) < 0
        return np.where(wrapped, np.where(end < 0, -(2**63), 2**63 - 1), difference)
    whole = end // size_ms - start // size_ms
    rest = end % size_ms - start % size_ms
    floor = whole - (rest < 0)
    exact = rest == 0
    units: Int64Array = floor + ((floor < 0) & ~exact)
    return units


def truncating_divide(values: Int64Array, divisor: int | Int64Array) -> Int64Array:
    """Java's division of long: toward zero. No divisor may be 0."""
    if isinstance(divisor, int) and divisor == 1:
        return values
    quotient: Int64Array = values // divisor
    if not values.size or (isinstance(divisor, int) and divisor > 0 and values.min() >= 0):
        return quotient
    truncated: Int64Array = quotient + ((quotient < 0) & (quotient * divisor != values))
    return truncated
