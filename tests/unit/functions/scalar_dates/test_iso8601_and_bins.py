"""Proves TOISO8601 and FROMISO8601 against datetime, and DATEBIN by walking the bins from their origin."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.pql.ast import Dialect
from pinotpy.pql.parser import parse_expression

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = [0, -1, 999, 1_577_934_245_678, 1_582_934_399_500, 1_603_587_599_999, 253_402_300_799_999, -2_208_988_800_001]
ZONED = [
    millis for millis in MOMENTS if 0 < millis < 2**45
]  # offsets had seconds before, and datetime ends with the year 9999
WIDTHS = {
    "15m": 900_000,
    "3h": 10_800_000,
    "4h30m": 16_200_000,
    "1d": 86_400_000,
    "1d12h": 129_600_000,
    "90s": 90_000,
    "250ms": 250,
}


def _moment(millis: int) -> datetime:
    return EPOCH + timedelta(milliseconds=millis)


@pytest.mark.parametrize("millis", MOMENTS)
def test_instants_in_utc(value_of: Callable[..., Any], millis: int) -> None:
    assert value_of(f"toIso8601({millis})") == _moment(millis).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert value_of(f"fromIso8601(toIso8601({millis}))") == millis


@pytest.mark.parametrize("millis", ZONED)
def test_instants_in_zones(value_of: Callable[..., Any], millis: int) -> None:
    for zone in ("Asia/Tokyo", "America/New_York", "Asia/Kolkata"):
        text = _moment(millis).astimezone(ZoneInfo(zone)).isoformat(timespec="milliseconds")
        assert value_of(f"toIso8601({millis}, '{zone}')") == text
        assert value_of(f"fromIso8601('{text}')") == millis


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2020", datetime(2020, 1, 1, tzinfo=UTC)),
        ("2020-02", datetime(2020, 2, 1, tzinfo=UTC)),
        ("2020-02-29", datetime(2020, 2, 29, tzinfo=UTC)),
        ("2020-02-29T23", datetime(2020, 2, 29, 23, tzinfo=UTC)),
        ("2020-02-29T23:59", datetime(2020, 2, 29, 23, 59, tzinfo=UTC)),
        ("2020-02-29T23:59:58Z", datetime(2020, 2, 29, 23, 59, 58, tzinfo=UTC)),
        ("2020-02-29T23:59:58.5", datetime(2020, 2, 29, 23, 59, 58, 500_000, tzinfo=UTC)),
        ("2020-02-29T23:59:58,123456789Z", datetime(2020, 2, 29, 23, 59, 58, 123_000, tzinfo=UTC)),
        ("2020-03-01T00:30+0130", datetime(2020, 2, 29, 23, 0, tzinfo=UTC)),
        ("2020-02-29T22:30:00-01", datetime(2020, 2, 29, 23, 30, tzinfo=UTC)),
    ],
)
def test_what_a_text_leaves_out(value_of: Callable[..., Any], text: str, moment: datetime) -> None:
    assert value_of(f"fromIso8601('{text}')") == (moment - EPOCH) // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2020-13-01",
        "2019-02-29",
        "2020-01-01T25:00",
        "2020-1-1",
        "2020-01-01 00:00",
        "2020-01-01T00:00:00+1",
    ],
)
def test_what_is_no_time_of_iso8601_is_refused(value_of: Callable[..., Any], text: str) -> None:
    with pytest.raises(QueryExecutionError, match="expected a time of ISO 8601"):
        value_of(f"fromIso8601('{text}')")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("origin", [0, 3_600_000, -7_777, 1_700_000_000_123])
def test_a_bin_begins_at_a_whole_number_of_widths_from_the_origin(
    value_of: Callable[..., Any], width: str, origin: int
) -> None:
    for millis in MOMENTS:
        begin = value_of(f"fromTimestamp(dateBin('{width}', {millis}, {origin}))")
        assert begin <= millis < begin + WIDTHS[width]
        assert (begin - origin) % WIDTHS[width] == 0


def test_bins_are_those_of_the_references_announcement(value_of: Callable[..., Any]) -> None:
    """The reference announced date_bin('3h', '2024-03-10 23:29:55.0', '2024-01-01 00:00:00.0'), which is PostgreSQL's:
    2024-03-10 21:00.
    """
    begin = value_of("fromTimestamp(date_bin('3h', '2024-03-10 23:29:55.0', '2024-01-01 00:00:00.0'))")
    assert _moment(begin) == datetime(2024, 3, 10, 21, tzinfo=UTC)


def test_a_bin_is_a_timestamp(compute_on: Callable[..., Any]) -> None:
    operand, _ = compute_on(parse_expression("dateBin('1d', 0, 0)"), {}, Dialect.SQL, 1)
    assert operand.data_type is DataType.TIMESTAMP


@pytest.mark.parametrize("width", ["", "15 minutes", "3", "h", "-3h", "0h", "1w", "1d 2h", "999999999999d"])
def test_what_is_no_width_is_refused(value_of: Callable[..., Any], width: str) -> None:
    with pytest.raises((QueryExecutionError, InvalidQueryError), match="expected a width of bins such as"):
        value_of(f"dateBin('{width}', 0, 0)")
