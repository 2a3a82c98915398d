"""Proves that offsets of zones are those of Python's zoneinfo on the same files, at random times, at every change, in
far years; that wall clocks come back as instants, gaps go forward, and of an overlap the first pass counts.
"""

from __future__ import annotations

import io
import zoneinfo
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.errors import InvalidQueryError
from pinotpy.functions.time.time_zones import find_time_zone, time_zone
from pinotpy.functions.time.zone_files import read_zone_file

ZONES = [
    "America/New_York", "America/Sao_Paulo", "America/St_Johns", "America/Havana", "Europe/Berlin", "Europe/London",
    "Europe/Dublin",
    "Asia/Kolkata", "Asia/Tokyo", "Asia/Tehran", "Asia/Amman", "Africa/Casablanca", "Australia/Lord_Howe",
    "Pacific/Apia", "America/Nuuk",
]  # fmt: skip
LOW, HIGH = -62_000_000_000, 253_000_000_000  # seconds: years 5 to 9987, which datetime can hold in any zone
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def oracle(zone_id: str) -> zoneinfo.ZoneInfo:
    data = read_zone_file(zone_id)
    assert data is not None
    return zoneinfo.ZoneInfo.from_file(io.BytesIO(data))


def offset_ms(zone: zoneinfo.ZoneInfo, second: int) -> int:
    offset = (EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(milliseconds=1)


@pytest.mark.parametrize("zone_id", ZONES)
def test_offsets_are_those_of_zoneinfo(zone_id: str) -> None:
    random = np.random.default_rng(3)
    zone, expected = time_zone(zone_id), oracle(zone_id)
    changes = (
        np.flatnonzero(np.diff(zone.offsets_at(np.arange(-3_000_000_000_000, 5_000_000_000_000, 43_200_000)))) * 43_200
        - 3_000_000_000
    )
    near = (changes[:, None] + np.array([0, 3_600, 7_200, 36_000, 43_200])).ravel()
    seconds = np.concatenate(
        [random.integers(LOW, HIGH, 400), random.integers(-3_000_000_000, 5_000_000_000, 400), near]
    )
    assert zone.offsets_at(seconds * 1000).tolist() == [offset_ms(expected, second) for second in seconds.tolist()]


@settings(max_examples=150, deadline=None)
@given(zone_id=st.sampled_from(ZONES), seconds=st.lists(st.integers(LOW, HIGH), min_size=1, max_size=20))
def test_wall_clocks_come_back_as_the_first_of_their_instants(zone_id: str, seconds: list[int]) -> None:
    zone, expected = time_zone(zone_id), oracle(zone_id)
    instants = np.array(seconds) * 1000
    local = zone.to_local(instants)
    back = zone.to_instants(local)
    first = [
        datetime(1970, 1, 1, tzinfo=expected) + timedelta(milliseconds=int(wall)) for wall in local
    ]  # fold=0 is the first pass
    assert back.tolist() == [(wall - EPOCH) // timedelta(milliseconds=1) for wall in first]
    assert (zone.to_local(back) == local).all()


def wall(text: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([np.datetime64(text, "ms")]).astype(np.int64)


@pytest.mark.parametrize(
    ("zone_id", "local", "instant"),
    [
        ("America/New_York", "2021-03-14T02:30", "2021-03-14T07:30"),  # skipped: half an hour after 03:00 EDT
        ("America/New_York", "2021-11-07T01:30", "2021-11-07T05:30"),  # twice: the one in EDT
        ("Europe/Berlin", "2021-03-28T02:30", "2021-03-28T01:30"),
        ("Europe/Berlin", "2021-10-31T02:30", "2021-10-31T00:30"),
        ("Pacific/Apia", "2011-12-30T12:00", "2011-12-30T22:00"),  # a whole day was skipped
    ],
)
def test_gaps_go_forward_and_overlaps_take_the_first_pass(zone_id: str, local: str, instant: str) -> None:
    assert time_zone(zone_id).to_instants(wall(local)).tolist() == wall(instant).tolist()


def test_days_that_begin_in_a_gap_begin_after_it() -> None:
    # Brazil's clocks went from 00:00 to 01:00: that day begins at 01:00, 03:00 UTC
    noon = wall("2017-10-15T15:00")
    assert time_zone("America/Sao_Paulo").floor("DAY", noon).tolist() == wall("2017-10-15T03:00").tolist()


def test_days_that_begin_twice_keep_the_offset_of_the_time() -> None:
    # Cuba's clocks went from 01:00 back to 00:00 at 05:00 UTC
    zone = time_zone("America/Havana")
    assert zone.floor("DAY", wall("2021-11-07T04:30")).tolist() == wall("2021-11-07T04:00").tolist()
    assert zone.floor("DAY", wall("2021-11-07T17:00")).tolist() == wall("2021-11-07T05:00").tolist()


def test_hours_keep_half_hour_offsets() -> None:
    assert (
        time_zone("Asia/Kolkata").floor("HOUR", wall("2021-01-01T00:10")).tolist() == wall("2020-12-31T23:30").tolist()
    )


@pytest.mark.parametrize(
    ("zone_id", "hours"),
    [
        ("UTC", 0),
        ("GMT", 0),
        ("Z", 0),
        ("+05:30", 5.5),
        ("-08", -8),
        ("GMT+3", 3),
        ("UTC-0330", -3.5),
        ("PST", -8),
        ("IST", 5.5),
        ("EST", -5),
        ("Etc/GMT+5", -5),
    ],
)
def test_ids_of_java_and_joda_are_known(zone_id: str, hours: float) -> None:
    assert time_zone(zone_id).offsets_at(wall("2021-01-01")).tolist() == [hours * 3_600_000]


@pytest.mark.parametrize(
    "zone_id", ["", "Mars/Base", "../etc/passwd", "America", "+25:00", "GMT+3:75", "zone.tab", "america/new_york/"]
)
def test_other_ids_are_refused(zone_id: str) -> None:
    assert find_time_zone(zone_id) is None
    with pytest.raises(InvalidQueryError, match="expected a time zone"):
        time_zone(zone_id)
