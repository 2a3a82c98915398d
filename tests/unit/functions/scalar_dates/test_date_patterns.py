"""Proves that patterns print what datetime.strftime prints and read back what they print, on whole arrays and one by
one, with names, weeks, zones and far years; and that texts which are not of the pattern are refused in Joda's words.
"""

from __future__ import annotations

import io
import zoneinfo
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.time import date_parsing
from pinotpy.functions.time.date_parsing import parse_instants
from pinotpy.functions.time.date_patterns import format_instants
from pinotpy.functions.time.time_zones import time_zone
from pinotpy.functions.time.zone_files import read_zone_file

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANTS = st.lists(
    st.integers(-30_000_000_000_000, 250_000_000_000_000), min_size=1, max_size=20
)  # years 1019 to 9892

PATTERNS = {  # Joda → strftime; %Y is not padded below the year 1000, which lies outside
    "yyyyMMdd": "%Y%m%d",
    "yyyy-MM-dd": "%Y-%m-%d",
    "yyyy-MM-dd HH:mm:ss": "%Y-%m-%d %H:%M:%S",
    "yyyy-MM-dd'T'HH:mm:ss'Z'": "%Y-%m-%dT%H:%M:%SZ",
    "yyyyMMddHHmmss": "%Y%m%d%H%M%S",
    "dd/MM/yyyy hh:mm a": "%d/%m/%Y %I:%M %p",
    "EEE, dd MMM yyyy": "%a, %d %b %Y",
    "EEEE dd MMMM yyyy HH''mm": "%A %d %B %Y %H'%M",
    "yyyy DDD": "%Y %j",
    "xxxx-'W'ww-e": "%G-W%V-%u",
    "yyyy.MM.dd HH:mm Z": "%Y.%m.%d %H:%M %z",
    "d-M-y H:m:s": "%-d-%-m-%Y %-H:%-M:%-S",
    "日 yyyy": "日 %Y",
}


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=40, deadline=None)
@given(millis=INSTANTS, zone_id=st.sampled_from(["UTC", "America/New_York", "Asia/Kolkata", "Europe/Berlin"]))
def test_patterns_print_as_strftime(pattern: str, millis: list[int], zone_id: str) -> None:
    data = read_zone_file(zone_id)
    assert data is not None
    zone = zoneinfo.ZoneInfo.from_file(io.BytesIO(data))
    moments = [(EPOCH + timedelta(milliseconds=value)).astimezone(zone) for value in millis]
    expected = [moment.strftime(PATTERNS[pattern]) for moment in moments]
    if pattern.endswith("Z"):  # Joda leaves out the seconds of an offset
        expected = [text[:22] for text in expected]
    assert format_instants(pattern, np.array(millis), time_zone(zone_id)).to_pylist() == expected


@pytest.mark.parametrize(
    ("pattern", "size_ms"),
    [
        ("yyyyMMdd", 86_400_000),
        ("yyyy-MM-dd HH:mm:ss.SSS", 1),
        ("yyyyMMddHHmmssSSS", 1),
        ("yyyy-MM-dd HH:mm:ss.SSSSSS", 1),
        ("yyyy-MM-dd'T'HH:mm", 60_000),
        ("d/M/yyyy H:m:s", 1_000),
        ("EEE, d MMM yyyy hh:mm:ss a", 1_000),
        ("EEEE d MMMM yyyy KK:mm a", 60_000),
        ("yyyy/DDD kk", 3_600_000),
        ("xxxx-'W'ww-e", 86_400_000),
        ("yyyy-MM-dd HH:mm:ss ZZ", 1_000),
        ("yyyy-MM-dd HH:mm ZZZ", 60_000),
        ("Y-MM-dd G", 86_400_000),
    ],
)
@settings(max_examples=40, deadline=None)
@given(millis=INSTANTS)
def test_texts_are_read_as_they_are_printed(pattern: str, size_ms: int, millis: list[int]) -> None:
    instants = np.array(millis)
    assert (
        parse_instants(pattern, format_instants(pattern, instants)).tolist() == (instants // size_ms * size_ms).tolist()
    )


@settings(max_examples=60, deadline=None)
@given(millis=INSTANTS)
def test_arrays_and_single_texts_are_read_alike(millis: list[int]) -> None:
    """The text of other width sends itself, and nothing else, to the reader of single texts."""
    texts = [*format_instants("yyyy-MM-dd HH:mm", np.array(millis)).to_pylist(), "2020-1-2 3:4"]
    found = parse_instants("yyyy-MM-dd HH:mm", pa.array(texts), time_zone("+01:00")).tolist()
    one_by_one = [parse_instants("y-M-d H:m", pa.array([text]), time_zone("+01:00"))[0] for text in texts]
    assert found == one_by_one
    assert found[-1] == 1577930640000


@pytest.mark.parametrize(
    "pattern",
    ["yyyyMMdd", "yyyy-MM-dd HH:mm:ss.SSS", "d/M/yyyy H:mm", "EEE, d MMM yyyy hh:mm a", "MMMM d", "y S", "HH:mm"],
)
@settings(max_examples=60, deadline=None)
@given(
    millis=INSTANTS,
    changes=st.lists(st.tuples(st.integers(0, 30), st.sampled_from("0123456789:-/ .AJx+日")), max_size=3),
    cut=st.integers(0, 2),
)
def test_the_readers_of_arrays_and_of_single_texts_agree(
    pattern: str, millis: list[int], changes: list[tuple[int, str]], cut: int
) -> None:
    """Also on texts that were tampered with: the same instants, or the same refusal."""
    texts = format_instants(pattern, np.array(millis)).to_pylist()
    spoiled = list(texts[0])
    for place, character in changes:
        spoiled[place % len(spoiled)] = character
    texts.append("".join(spoiled)[: len(spoiled) - cut])

    def outcome() -> list[int] | str:
        try:
            return parse_instants(pattern, pa.array(texts)).tolist()
        except QueryExecutionError as error:
            return str(error)

    together = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(date_parsing, "column_reader", lambda pattern: None)
        assert outcome() == together


def test_an_array_that_is_a_slice_is_read_from_its_offset() -> None:
    texts = pa.array(["x", "20200101", "20200102", "20200103"]).slice(2)
    assert parse_instants("yyyyMMdd", texts).tolist() == [1577923200000, 1578009600000]


@pytest.mark.parametrize(
    ("millis", "pattern", "text"),
    [
        (-1, "yyyy-MM-dd HH:mm:ss.SSS", "1969-12-31 23:59:59.999"),
        (-1, "S SS SSSS SSSSSS", "9 99 9990 999000"),
        (253_402_300_800_000, "yyyy-MM-dd", "10000-01-01"),
        (-62_135_596_800_001, "yyyy Y G C", "0000 1 BC 0"),
        (-62_200_000_000_000, "yyyy", "-0002"),
        (1577934245678, "K h H k a", "3 3 3 3 AM"),
        (0, "K h H k a", "0 12 0 24 AM"),
        (43_200_000, "K h H k a", "0 12 12 12 PM"),
        (0, "yy xx YY CC", "70 70 70 19"),
        (0, "z zzzz Z ZZ ZZZ", "UTC Coordinated Universal Time +0000 +00:00 UTC"),
        (0, "yyyyy MMMM MMM EEEE", "01970 January Jan Thursday"),
        (0, "'year' y''", "year 1970'"),
        (0, "ddd e w D", "001 4 1 1"),
    ],
)
def test_letters_print_as_joda_does(millis: int, pattern: str, text: str) -> None:
    assert format_instants(pattern, np.array([millis])).to_pylist() == [text]


def test_zone_names_follow_the_season() -> None:
    times = np.array([1577934245678, 1593659045000])
    assert format_instants("HH z ZZ", times, time_zone("America/Los_Angeles")).to_pylist() == [
        "19 PST -08:00",
        "20 PDT -07:00",
    ]
    assert format_instants("z", times, time_zone("Asia/Kathmandu")).to_pylist() == ["+05:45", "+05:45"]


@pytest.mark.parametrize(
    ("pattern", "text", "instant"),
    [
        ("MM-dd", "02-29", "2000-02-29"),
        ("HH:mm", "12:30", "1970-01-01T12:30"),
        ("yyyy", "2014", "2014-01-01"),
        ("yyyyMMdd", "-20120301", "-2012-03-01"),
        ("yyyy", "-5", "-0005-01-01"),
        ("yyyy ww", "2016 05", "2016-02-01"),
        ("EEE MMM dd yyyy", "Mon Jan 01 2014", "2013-12-30"),
        ("yyyy-MM-dd'T'HH:mm:ssZ", "2020-01-01t00:00:00+05:30", "2019-12-31T18:30"),
        ("yyyy-MM-dd'T'HH:mm:ssZZ", "2020-01-01T00:00:00Z", "2020-01-01"),
        ("yyyy-MM-dd HH:mm z", "2020-07-01 00:00 PDT", "2020-07-01T07:00"),
        ("yyyy-MM-dd ZZZ", "2020-07-01 Asia/Tokyo", "2020-06-30T15:00"),
        ("d MMM yyyy", "3 MARCH 2020", "2020-03-03"),
        ("yyyy-MM-dd HH:mm:ss.SSS", "2020-01-01 00:00:00.5", "2020-01-01T00:00:00.500"),
    ],
)
def test_texts_are_read_as_joda_does(pattern: str, text: str, instant: str) -> None:
    assert str(np.datetime64(int(parse_instants(pattern, pa.array([text]))[0]), "ms")) == str(
        np.datetime64(instant, "ms")
    )


def test_two_digits_of_a_year_mean_one_near_today() -> None:
    this_year = datetime.now(UTC).year
    years = format_instants("yyyy", parse_instants("yy", pa.array([f"{year:02}" for year in range(100)]))).to_pylist()
    assert sorted(map(int, years)) == list(range(this_year - 80, this_year + 20))


@pytest.mark.parametrize(
    ("pattern", "text", "message"),
    [
        ("yyyyMMdd", "-4.5", 'Invalid format: "-4.5" is malformed at ".5"'),
        ("yyyy-MM-dd", "19691231", 'Invalid format: "19691231" is too short'),
        ("yyyyMMdd", "x", 'Invalid format: "x"'),
        ("yyyyMMdd", "", 'Invalid format: ""'),
        ("yyyyMMdd", "202001011", 'Invalid format: "202001011" is malformed at "1"'),
        ("yyyyMMdd", "20201301", "Value 13 for monthOfYear must be in the range [1,12]"),
        ("yyyyMMdd", "20210229", "Value 29 for dayOfMonth must be in the range [1,28]"),
        ("yyyy-MM-dd HH", "2021-01-01 24", "Value 24 for hourOfDay must be in the range [0,23]"),
        ("xxxx ww", "2021 53", "Value 53 for weekOfWeekyear must be in the range [1,52]"),
        ("yyyy DDD", "2021 366", "Value 366 for dayOfYear must be in the range [1,365]"),
        ("EEE", "Mun", 'Invalid format: "Mun"'),
        ("yyyy Z", "2021 +2", 'malformed at "2"'),
    ],
)
def test_other_texts_are_refused(pattern: str, text: str, message: str) -> None:
    with pytest.raises(QueryExecutionError) as refusal:
        parse_instants(pattern, pa.array(["20200101"] * 3 + [text] if pattern == "yyyyMMdd" else [text]))
    assert message in str(refusal.value)


def test_times_that_clocks_skip_are_refused() -> None:
    with pytest.raises(QueryExecutionError, match="clocks skip this time in America/New_York"):
        parse_instants(
            "yyyy-MM-dd HH:mm", pa.array(["2021-03-14 01:59", "2021-03-14 02:30"]), time_zone("America/New_York")
        )


@pytest.mark.parametrize("pattern", ["", "yyyy-bb", "YYYYT", "y" * 65])
def test_bad_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidQueryError, match="expected"):
        format_instants(pattern, np.array([0]))
