"""Proves that time formats of both spellings mean the same, and that patterns read and write as java.time would."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinotpy.config.date_time import DateTimeFormat, TimeFormat, TimeUnit, parse_format, parse_granularity
from pinotpy.config.time_zone import time_zone


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("1:MILLISECONDS:EPOCH", "EPOCH", DateTimeFormat(TimeFormat.EPOCH)),
        ("1:HOURS:EPOCH", "EPOCH|HOURS", DateTimeFormat(TimeFormat.EPOCH, TimeUnit.HOURS)),
        ("5:SECONDS:EPOCH", "EPOCH|SECONDS|5", DateTimeFormat(TimeFormat.EPOCH, TimeUnit.SECONDS, 5)),
        ("1:MILLISECONDS:TIMESTAMP", "TIMESTAMP", DateTimeFormat(TimeFormat.TIMESTAMP)),
        ("1:MILLISECONDS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH:mm:ss", "SIMPLE_DATE_FORMAT|yyyy-MM-dd HH:mm:ss", None),
        ("1:MILLISECONDS:SIMPLE_DATE_FORMAT:yyyy-MM-dd tz(IST)", "SIMPLE_DATE_FORMAT|yyyy-MM-dd|IST", None),
        ("1:MILLISECONDS:SIMPLE_DATE_FORMAT", "SIMPLE_DATE_FORMAT", None),
    ],
)
def test_both_spellings_are_one_format(old: str, new: str, expected: DateTimeFormat | None) -> None:
    assert parse_format(old) == parse_format(new)
    assert expected is None or parse_format(old) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "EPOCH|WEEKS",
        "EPOCH|DAYS|0",
        "EPOCH|DAYS|1|2",
        "0:DAYS:EPOCH",
        "1:DAYS",
        "1:DAYS:EPOCH:x",
        "x:DAYS:EPOCH",
        "1:DAYS:MAGIC",
        "SIMPLE_DATE_FORMAT|yyyy-QQ",
        "SIMPLE_DATE_FORMAT|yyyy|Nowhere/Land",
        "SIMPLE_DATE_FORMAT|'open",
        "SIMPLE_DATE_FORMAT|yyyy yyyy",
        "TIMESTAMP|x",
    ],
)
def test_what_is_no_format_says_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"such as|where unit|letters|size"):
        parse_format(text)


def test_the_examples_of_the_manual_in_milliseconds() -> None:
    assert parse_format("5:MINUTES:EPOCH").millis_from_value(4996308) == 1498892400000
    assert parse_format("1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd").millis_from_value(20170701) == 1498867200000
    assert parse_format("1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd").millis_from_value("2020-08-21") == 1597968000000
    long_form = parse_format("1:HOURS:SIMPLE_DATE_FORMAT:EEE MMM dd HH:mm:ss ZZZ yyyy")
    assert long_form.millis_from_value("Mon Aug 24 12:36:50 America/Los_Angeles 2019") == 1566675410000
    assert not long_form.is_lexicographic
    assert (
        parse_format("SIMPLE_DATE_FORMAT|yyyy-MM-dd|America/New_York").millis_from_value("2013-01-01") == 1357016400000
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013", "2013-01-01T00:00:00"),
        ("2013-02", "2013-02-01T00:00:00"),
        ("2013-02-03", "2013-02-03T00:00:00"),
        ("2013-02-03T04", "2013-02-03T04:00:00"),
        ("2013-02-03 04:05:06.789", "2013-02-03T04:05:06.789"),
        ("2013-02-03T04:05:06Z", "2013-02-03T04:05:06"),
        ("2013-02-03T04:05:06+02:00", "2013-02-03T02:05:06"),
    ],
)
def test_without_a_pattern_iso_texts_of_any_precision_are_read(text: str, expected: str) -> None:
    moment = datetime.fromisoformat(expected).replace(tzinfo=UTC)
    assert parse_format("SIMPLE_DATE_FORMAT").millis_from_value(text) == round(moment.timestamp() * 1000)


@pytest.mark.parametrize("text", ["2013-13-01", "2013-02-30", "20130101", "soon", "", "2013-01-01T25:00"])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_format("SIMPLE_DATE_FORMAT").millis_from_value(text)


@pytest.mark.parametrize(
    ("pattern", "ordered"),
    [
        ("yyyy-MM-dd", True),
        ("yyyyMMdd HH:mm:ss.SSS", True),
        ("MM-dd", True),
        ("yyyy-dd", True),
        ("MM-dd-yyyy", False),
        ("yyyy-M-d", False),
        ("yyyy-MMM", False),
        ("yyyyDDD", True),
    ],
)
def test_which_patterns_order_as_their_times(pattern: str, ordered: bool) -> None:
    assert parse_format(f"SIMPLE_DATE_FORMAT|{pattern}").is_lexicographic is ordered


PATTERNS = [
    "yyyy-MM-dd HH:mm:ss.SSS",
    "yyyyMMddHHmmssSSS",
    "dd/MM/yyyy hh:mm:ss.SSS a",
    "yyyy-DDD'T'HH:mm:ss,SSSZZ",
    "EEE, d MMM yyyy HH:mm:ss.SSS Z",
    "yyyy-MMMM-dd kk:mm:ss:SSS",
]


SAO_PAULO_STANDARD_TIME_MS = -1_767_214_412_000  # 1914-01-01, local mean time before


@given(
    st.sampled_from(PATTERNS),
    st.integers(-2_000_000_000_000, 4_000_000_000_000),
    st.sampled_from(["UTC", "America/Sao_Paulo", "GMT+5:30", "PST"]),
)
def test_what_is_written_reads_back(pattern: str, millis: int, zone: str) -> None:
    written = parse_format(f"1:DAYS:SIMPLE_DATE_FORMAT:{pattern} tz({zone})")
    text = written.value_from_millis(millis)
    again = written.millis_from_value(text)
    if "Z" in pattern and millis < SAO_PAULO_STANDARD_TIME_MS and zone == "America/Sao_Paulo":
        # Local mean time, 3 h 6 min 28 s behind: an offset is written in hours and minutes.
        assert again == millis - 28_000
        return
    # An hour that the clocks repeat in autumn cannot be told apart without an offset.
    assert again == millis or (abs(again - millis) == 3_600_000 and zone in ("America/Sao_Paulo", "PST"))
    assert "ZZ" not in pattern or again == millis


@given(st.sampled_from(list(TimeUnit)), st.integers(1, 100), st.integers(-(10**12), 4 * 10**12))
def test_epoch_values_are_the_floor_of_the_time(unit: TimeUnit, size: int, millis: int) -> None:
    time_format = DateTimeFormat(TimeFormat.EPOCH, unit, size)
    value = time_format.value_from_millis(millis)
    assert isinstance(value, int)
    start = time_format.millis_from_value(value)
    if unit.nanos >= 1_000_000:
        assert start <= millis < start + size * unit.nanos // 1_000_000


@pytest.mark.parametrize(
    ("name", "offset_hours"), [("UTC", 0), ("Z", 0), ("GMT-8:00", -8), ("GMT+5", 5), ("+02:00", 2), ("EST", -5)]
)
def test_zones_by_offset_and_short_id(name: str, offset_hours: int) -> None:
    assert time_zone(name).utcoffset(datetime(2020, 1, 1, tzinfo=UTC)) == timezone(
        timedelta(hours=offset_hours)
    ).utcoffset(None)


@pytest.mark.parametrize("name", ["", "../etc/passwd", "/etc/passwd", "Nowhere/Land", "GMT+99:00", "America/../UTC"])
def test_no_zone_is_no_path(name: str) -> None:
    with pytest.raises(ValueError, match="a time zone"):
        time_zone(name)


def test_granularities() -> None:
    assert parse_granularity("15:MINUTES") == (15, TimeUnit.MINUTES)
    assert parse_granularity("MINUTES|15") == (15, TimeUnit.MINUTES)
    assert parse_granularity("DAYS") == (1, TimeUnit.DAYS)
    for text in ("", "15", "MINUTES:15", "15:WEEKS"):
        with pytest.raises(ValueError, match="15:MINUTES"):
            parse_granularity(text)
