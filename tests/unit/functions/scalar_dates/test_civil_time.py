"""Proves calendar arithmetic against Python's datetime, before 1970, over leap years and beyond the years that datetime
knows against numpy's own calendar.
"""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinotpy.functions.time.civil_time import (
    UNITS,
    add_units,
    day_of_week,
    day_of_year,
    days_of_months,
    floor_millis,
    months_of_days,
    truncating_divide,
    units_between,
    week_of_year,
    year_month_day,
)

EPOCH = date(1970, 1, 1)
DAYS = st.lists(st.dates(date(2, 1, 1), date(9998, 12, 31)), min_size=1, max_size=30)
MILLIS = st.integers(-60_000_000_000_000, 250_000_000_000_000)


def numbers(dates: list[date]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([(day - EPOCH).days for day in dates], np.int64)


@given(DAYS)
def test_fields_of_days_are_those_of_datetime(dates: list[date]) -> None:
    days = numbers(dates)
    assert list(zip(*(part.tolist() for part in year_month_day(days)), strict=True)) == [
        (d.year, d.month, d.day) for d in dates
    ]
    assert day_of_week(days).tolist() == [d.isoweekday() for d in dates]
    assert day_of_year(days).tolist() == [d.timetuple().tm_yday for d in dates]
    assert list(zip(*(part.tolist() for part in week_of_year(days)), strict=True)) == [
        tuple(d.isocalendar())[:2] for d in dates
    ]


def test_months_are_those_of_numpy_in_far_years() -> None:
    days = np.random.default_rng(1).integers(-100_000_000_000, 100_000_000_000, 5_000)
    months, day = months_of_days(days)
    expected = days.astype("M8[D]").astype("M8[M]")
    assert (months == expected.astype(np.int64)).all()
    assert (day == (days.astype("M8[D]") - expected.astype("M8[D]")).astype(np.int64) + 1).all()
    assert (days_of_months(months) == expected.astype("M8[D]").astype(np.int64)).all()


@pytest.mark.parametrize("unit", UNITS)
@given(millis=st.lists(MILLIS, min_size=1, max_size=20))
def test_floors_are_the_last_start_of_a_unit(unit: str, millis: list[int]) -> None:
    def start(value: int) -> int:
        moment = EPOCH + timedelta(days=value // 86_400_000)
        match unit:
            case "WEEK":
                found = moment - timedelta(days=moment.weekday())
            case "MONTH":
                found = moment.replace(day=1)
            case "QUARTER":
                found = moment.replace(month=(moment.month - 1) // 3 * 3 + 1, day=1)
            case "YEAR":
                found = moment.replace(month=1, day=1)
            case _:
                size = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}[unit]
                return value - value % size
        return (found - EPOCH).days * 86_400_000

    assert floor_millis(unit, np.array(millis)).tolist() == [start(value) for value in millis]


@pytest.mark.parametrize("unit", UNITS)
@given(pairs=st.lists(st.tuples(MILLIS, MILLIS), min_size=1, max_size=20))
def test_units_between_are_the_most_that_fit(unit: str, pairs: list[tuple[int, int]]) -> None:
    start, end = np.array(pairs).T
    between = units_between(unit, start, end)
    first, last, size = np.minimum(start, end), np.maximum(start, end), np.abs(between)
    assert (np.sign(between) * np.sign(end - start) >= 0).all()
    assert (add_units(unit, size, first) <= last).all()
    assert (add_units(unit, size + 1, first) > last).all()


def test_months_keep_the_day_or_take_the_last_one() -> None:
    days = numbers([date(2020, 1, 31), date(2020, 2, 29), date(2021, 3, 31), date(1969, 12, 31)])
    added = add_units("MONTH", np.array([1, 12, -1, 2]), days * 86_400_000 + 5)
    expected = numbers([date(2020, 2, 29), date(2021, 2, 28), date(2021, 2, 28), date(1970, 2, 28)])
    assert added.tolist() == (expected * 86_400_000 + 5).tolist()


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.integers(-1_000_000, 10**15).filter(lambda d: d not in (0, -1)),
)
def test_division_cuts_toward_zero(values: list[int], divisor: int) -> None:
    expected = [abs(value) // abs(divisor) * (1 if (value < 0) == (divisor < 0) else -1) for value in values]
    assert truncating_divide(np.array(values, np.int64), divisor).tolist() == expected
