"""Proves the edges of the date and time functions: times before 1970, saturation, every unit and format, calls that are
refused and with which words. The reference's recorded answers are in test_dates_of_the_reference.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, PinotError, QueryExecutionError
from pinotpy.functions.scalar.date_time_convert import Granularity, TimeFormat, parse_granularity, parse_time_format
from pinotpy.functions.scalar.dates import duration_ms
from pinotpy.functions.scalar.spec import Operand, bind, evaluate
from pinotpy.functions.scalar.time_units import NANOS, convert_units
from pinotpy.functions.time.time_zones import time_zone
from pinotpy.pql.ast import Dialect

ValueOf = Callable[..., Any]
LONG_MAX = 2**63 - 1


@given(
    values=st.lists(st.integers(-LONG_MAX - 1, LONG_MAX), min_size=1),
    source=st.sampled_from(sorted(NANOS)),
    target=st.sampled_from(sorted(NANOS)),
)
def test_units_convert_toward_zero_and_saturate(values: list[int], source: str, target: str) -> None:
    def expected(value: int) -> int:
        exact = abs(value) * NANOS[source] // NANOS[target] * (1 if value >= 0 else -1)
        return min(max(exact, -LONG_MAX - 1), LONG_MAX)

    assert convert_units(np.array(values, np.int64), source, target).tolist() == [expected(value) for value in values]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("timeConvert(-1, 'DAYS', 'MONTHS')", 0),
        ("timeConvert(-31, 'DAYS', 'MONTHS')", -1),
        ("timeConvert(-32, 'DAYS', 'MONTHS')", -1),
        ("timeConvert(-365, 'DAYS', 'YEARS')", -1),
        ("timeConvert(-364, 'DAYS', 'YEARS')", 0),
        ("timeConvert(-8, 'days', 'weeks')", -1),
        ("timeConvert('90', 'SECONDS', 'MINUTES')", 1),
        ("toEpochSeconds(-1)", 0),
        ("toEpochMinutesRounded(-119999, 5)", 0),
        ("toEpochMinutesBucket(-600000, 5)", -2),
        ("fromEpochDaysBucket(3, 7)", 21 * 86_400_000),
        ("dateTrunc('DAY', -1)", -86_400_000),
        ("dateTrunc('week', 0)", -3 * 86_400_000),
        ("dateTrunc('month', -1, 'DAYS')", -31),
        ("dateTrunc('day', 1, 'HOURS', 'UTC', 'WEEKS')", 0),
        ("dateTrunc('hour', 3599999, 'MILLISECONDS', '+05:30')", 1_800_000),
        ("dateTimeConvert(-1, '1:DAYS:EPOCH', '1:DAYS:EPOCH', '7:DAYS')", 0),
        ("dateTimeConvert(-8, '1:DAYS:EPOCH', '1:DAYS:EPOCH', '7:DAYS')", -7),
        ("dateTimeConvert(7, '2:HOURS:EPOCH', 'EPOCH|MINUTES|10', 'HOURS|1')", 84),
        (
            "dateTimeConvert('2020-01-02 03', 'SIMPLE_DATE_FORMAT|yyyy-MM-dd HH|Asia/Kolkata', 'EPOCH', "
            "'1:MILLISECONDS')",
            1577914200000,
        ),
        (
            "dateTimeConvert(20200102, '1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd', '1:MILLISECONDS:TIMESTAMP', '1:DAYS')",
            1577923200000,
        ),
        (
            "dateTimeConvert(1577934245678, 'TIMESTAMP', '1:MINUTES:SIMPLE_DATE_FORMAT:HH:mm:ss tz( Asia/Tokyo )', "
            "'15:MINUTES')",
            "12:00:00",
        ),
        (
            "dateTimeConvert(1578934245678, 'TIMESTAMP', '1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH:mm', '5:DAYS')",
            "2020-01-10 00:00",
        ),
        (
            "dateTimeConvert(1577934245678, 'TIMESTAMP', '1:HOURS:SIMPLE_DATE_FORMAT:dd HH:mm Z "
            "tz(America/New_York)', '6:HOURS')",
            "01 18:00 -0500",
        ),
        ("dateTimeConvert(1577934245678, 'TIMESTAMP', 'TIMESTAMP', '1:DAYS', 'America/New_York')", 1577854800000),
        ("year(-1)", 1969),
        ("year(1577934245678, 'UTC')", 2020),
        ("hour(1577934245678, 'Asia/Kolkata')", 8),
        ("month_of_year(1577836799999)", 12),
        ("week(1609459200000)", 53),
        ("yow(1609459200000)", 2020),
        ("millisecond(-1)", 999),
        ("second(-1)", 59),
        ("EXTRACT(CENTURY FROM 0)", 20),
        ("EXTRACT(ISOYEAR FROM 1609459200000)", 2020),
        ("timezoneHour('America/New_York')", -5),
        ("timezoneHour('America/New_York', 1593659045000)", -4),
        ("timezoneMinute('America/St_Johns')", -30),
        ("timestampadd(MONTH, 1, 1580428800000)", 1582934400000),
        ("dateAdd('SECOND', -1, 0)", -1000),
        ("dateDiff('MONTH', 1580428800000, 1582934400000)", 1),
        ("TIMESTAMPDIFF(QUARTER, 1577934245678, 0)", -200),
        ("fromDateTime('2020-07-01 00:00', 'yyyy-MM-dd HH:mm', 'Europe/Berlin')", 1593554400000),
        ("toDateTime(1577934245678, 'HH ''h''')", "03 h"),
    ],
)
def test_edges(call: str, value: Any, value_of: ValueOf) -> None:
    assert value_of(call) == value


def test_null_stays_null(compute_on: ValueOf) -> None:
    bound = bind("year", (Operand(DataType.TIMESTAMP),), Dialect.SQL)
    assert evaluate(bound, [pa.array([0, None, -1])], 3).to_pylist() == [1970, None, 1969]


def test_doubles_are_cut_to_longs() -> None:
    bound = bind("dayofweek", (Operand(DataType.DOUBLE),), Dialect.PQL)
    assert evaluate(bound, [pa.array([86_400_000.9, -0.5])], 2).to_pylist() == [5, 4]


def test_now_and_ago_are_near_the_clock(value_of: ValueOf) -> None:
    before = time.time_ns() // 1_000_000
    now, hour_ago = value_of("now()"), value_of("ago('PT1H')")
    after = time.time_ns() // 1_000_000
    assert before <= now <= after
    assert before <= hour_ago + 3_600_000 <= after


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("PT1H", 3_600_000),
        ("P1D", 86_400_000),
        ("P2DT3H4M5.5S", 183_845_500),
        ("-PT10M", -600_000),
        ("pt-1.25s", -1_250),
        ("PT0S", 0),
        ("P-1DT1H", -82_800_000),
    ],
)
def test_durations_are_those_of_java(text: str, millis: int) -> None:
    assert duration_ms(text) == millis


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1Y", "P1DT", "PT1X", "P1H"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(InvalidQueryError, match="expected a duration"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:MILLISECONDS:EPOCH", TimeFormat()),
        ("5:minutes:epoch", TimeFormat("MINUTES", 5)),
        ("EPOCH", TimeFormat()),
        ("EPOCH|DAYS", TimeFormat("DAYS")),
        ("TIMESTAMP", TimeFormat()),
        ("1:DAYS:SIMPLE_DATE_FORMAT:HH:mm:ss", TimeFormat("DAYS", 1, "HH:mm:ss")),
        (
            "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd tz(Asia/Tokyo)",
            TimeFormat("DAYS", 1, "yyyyMMdd", time_zone("Asia/Tokyo")),
        ),
        ("SIMPLE_DATE_FORMAT|yyyy|+09:00", TimeFormat("MILLISECONDS", 1, "yyyy", time_zone("+09:00"))),
    ],
)
def test_time_formats_have_two_spellings(text: str, expected: TimeFormat) -> None:
    assert parse_time_format(text) == expected


def test_granularities_have_two_spellings() -> None:
    assert parse_granularity("15:MINUTES") == parse_granularity("minutes|15") == Granularity(15, "MINUTES")
    assert parse_granularity("DAYS") == Granularity(1, "DAYS")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            "timeConvert(1, 'FORTNIGHTS', 'DAYS')",
            InvalidQueryError,
            "Invalid time unit: FORTNIGHTS in TIMECONVERT: expected one of NANOSECONDS",
        ),
        ("timeConvert(1, 'WEEKS', 'DAYS')", InvalidQueryError, "Invalid time unit: WEEKS"),
        ("dateTrunc('decade', 1)", InvalidQueryError, "'decade' is not a valid Timestamp field"),
        ("dateTrunc('day', 1, 'DAYS', 'Mars/Base')", InvalidQueryError, "expected a time zone"),
        ("dateTrunc('day', 'x')", QueryExecutionError, "expected a whole number"),
        ("dateTimeConvert(1, 'bad', '1:DAYS:EPOCH', '1:DAYS')", InvalidQueryError, "Invalid time format: bad"),
        ("dateTimeConvert(1, '0:DAYS:EPOCH', '1:DAYS:EPOCH', '1:DAYS')", InvalidQueryError, "Invalid time size: 0"),
        (
            "dateTimeConvert(1, '1:DAYS:EPOCH', '1:DAYS:EPOCH', '1:NANOSECONDS')",
            InvalidQueryError,
            "expected a granularity of at least 1:MILLISECONDS",
        ),
        (
            "dateTimeConvert(1, '1:DAYS:EPOCH', '1:DAYS:SIMPLE_DATE_FORMAT:yyyy-ii', '1:DAYS')",
            InvalidQueryError,
            "found the letter 'i'",
        ),
        (
            "dateTimeConvert(6, '1:DAYS:EPOCH', '1:DAYS:SIMPLE_DATE_FORMAT:dd', '8:DAYS')",
            QueryExecutionError,
            "Value 0 for dayOfMonth",
        ),
        ("toEpochDaysRounded(1, 0)", QueryExecutionError, "other than 0"),
        ("EXTRACT(EPOCH FROM 1)", InvalidQueryError, "'EPOCH' is not a unit"),
        ("dateAdd('CENTURY', 1, 1)", InvalidQueryError, "'CENTURY' is not a valid Timestamp field"),
        ("fromDateTime('2021-01-01', 'yyyyMMdd')", QueryExecutionError, "is malformed"),
    ],
)
def test_wrong_calls_are_refused(call: str, error: type[PinotError], message: str, value_of: ValueOf) -> None:
    with pytest.raises(error, match=message):
        value_of(call)


def test_patterns_and_units_must_be_constants() -> None:
    with pytest.raises(InvalidQueryError, match="expected a constant as the pattern of TODATETIME, found STRING"):
        bind("todatetime", (Operand(DataType.LONG), Operand(DataType.STRING)), Dialect.SQL)


def test_multi_values_are_refused() -> None:
    with pytest.raises(InvalidQueryError, match="YEAR takes single values"):
        bind("year", (Operand(DataType.LONG, single_value=False),), Dialect.SQL)
