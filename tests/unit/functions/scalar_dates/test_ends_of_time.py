"""Proves that times at the ends of LONG (its default null is -2^63) stay what they are in every zone: functions of
dates answer or refuse them with an error of ours, keep their order, and change no sign.
"""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.scalar.spec import Operand, bind, evaluate
from pinotpy.functions.time.civil_time import UNITS, add_units, floor_millis, units_between
from pinotpy.functions.time.time_zones import find_time_zone
from pinotpy.pql.ast import Dialect, Literal

ENDS = [-(2**63), -(2**63) + 1, -(2**63) + 10**10, -(2**62), -1, 0, 1, 2**62, 2**63 - 10**10, 2**63 - 2, 2**63 - 1]
INSTANTS = np.array(ENDS, np.int64)
ZONES = sorted(zone for zone in zoneinfo.available_timezones() if find_time_zone(zone) is not None)[::6]
ZONES += ["Asia/Kolkata", "Asia/Kathmandu", "Asia/Dubai", "Africa/Abidjan", "Europe/Berlin", "+05:30", "-18:00", "UTC"]


def computed(name: str, *arguments: Any, data_type: DataType = DataType.LONG, values: Any = None) -> list[Any]:
    """The function on the column of instants (where an argument is None) and constants."""
    column = pa.array(INSTANTS if values is None else values, data_type.arrow)
    operands = tuple(
        Operand(data_type)
        if given is None
        else Operand(DataType.STRING if isinstance(given, str) else DataType.LONG, True, Literal(given, str(given)))
        for given in arguments
    )
    given = [column if argument is None else pa.scalar(argument) for argument in arguments]
    found: list[Any] = evaluate(bind(name, operands, Dialect.PQL), given, len(column)).to_pylist()
    return found


@pytest.mark.parametrize("zone_id", ZONES)
def test_every_zone_keeps_order_and_sign(zone_id: str) -> None:
    zone = find_time_zone(zone_id)
    assert zone is not None
    for found in (zone.to_local(INSTANTS), zone.to_instants(INSTANTS), *(zone.floor(unit, INSTANTS) for unit in UNITS)):
        assert (np.diff(found) >= 0).all()
        far = np.abs(INSTANTS // 2) >= 2**60
        assert ((found < 0) == (INSTANTS < 0))[far].all()
    assert np.abs(zone.offsets_at(INSTANTS)).max() <= 86_400_000
    assert zone.names_at(INSTANTS)[0].shape == INSTANTS.shape


@pytest.mark.parametrize(
    "zone_id",
    ["UTC", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Dubai", "Africa/Abidjan", "Europe/Berlin", "America/New_York"],
)
def test_functions_answer_at_the_ends(zone_id: str) -> None:
    for part, low, high in [
        ("hour", 0, 23),
        ("minute", 0, 59),
        ("month", 1, 12),
        ("day", 1, 31),
        ("weekofyear", 1, 53),
        ("dayofyear", 1, 366),
    ]:
        assert all(low <= value <= high for value in computed(part, None, zone_id))
    years = computed("year", None, zone_id)
    assert years == sorted(years)
    assert years[0] < -292_000_000
    assert years[-1] > 292_000_000
    for unit in UNITS:
        starts = computed("datetrunc", unit, None, "MILLISECONDS", zone_id)
        assert starts == sorted(starts)
        assert starts[0] < 0 < starts[-1]
    for format_text in ("1:MILLISECONDS:EPOCH", "1:DAYS:EPOCH", "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH:mm:ss.SSS"):
        computed("datetimeconvert", None, "7:SECONDS:EPOCH", format_text, "1:HOURS", zone_id)
    computed("todatetime", None, "yyyy-MM-dd HH:mm:ss.SSS z ZZ e w x D G", zone_id)


def test_doubles_without_an_end_are_the_ends() -> None:
    doubles = [float("-inf"), -1e300, 0.0, 1e300, float("inf"), float("nan")]
    assert computed("hour", None, "Asia/Kolkata", data_type=DataType.DOUBLE, values=doubles)[2] == 5


def test_years_at_the_end_of_berlin_are_positive() -> None:
    assert computed("year", None, "Europe/Berlin", values=[2**63 - 1]) == [292_278_992]
    assert computed("datetrunc", "year", None, values=[-(2**63)])[0] < -(2**62)


@pytest.mark.parametrize(
    ("unit", "amount"),
    [("MONTH", 99_999_999_999_999), ("YEAR", -(2**63)), ("DAY", 2**62), ("MILLISECOND", 2**63 - 1), ("WEEK", -(2**50))],
)
def test_a_sum_beyond_the_range_is_refused(unit: str, amount: int) -> None:
    with pytest.raises(QueryExecutionError, match="64 bits"):
        computed("timestampadd", unit, amount, None, values=[1 if amount > 0 else -1])


def test_sums_within_the_range_are_exact_up_to_its_ends() -> None:
    low, high = -(2**63), 2**63 - 1
    assert add_units("MILLISECOND", np.array([high, low, -1]), np.array([low, high, high])).tolist() == [
        -1,
        -1,
        high - 1,
    ]
    assert add_units("DAY", np.array([1, -1]), np.array([low, high])).tolist() == [low + 86_400_000, high - 86_400_000]
    # 4800 months are 400 years of 146,097 days everywhere
    assert add_units("MONTH", np.array([4800, -4800]), np.array([low, high])).tolist() == [
        low + 146_097 * 86_400_000,
        high - 146_097 * 86_400_000,
    ]
    there = add_units("MONTH", np.array([7]), np.array([high - 40 * 10**10]))
    assert add_units("MONTH", np.array([7]), np.array([high - 40 * 10**10 - 2**50]))[0] < there[0]


def test_far_months_are_those_of_datetime() -> None:
    base = datetime(2020, 2, 29, 12, tzinfo=UTC)
    millis = int(base.timestamp() * 1000)
    far = 146_097 * 86_400_000 * 400_000  # whole eras: the calendar repeats, and 64 bits nearly end
    added = add_units("MONTH", np.array([13, 12, -1]), np.array([millis + far] * 3)) - far
    assert [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(at)) for at in added] == [
        datetime(2021, 3, 29, 12, tzinfo=UTC),
        datetime(2021, 2, 28, 12, tzinfo=UTC),
        datetime(2020, 1, 29, 12, tzinfo=UTC),
    ]


@pytest.mark.parametrize("unit", ["MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"])
def test_differences_are_those_of_integers(unit: str) -> None:
    size = int(add_units(unit, np.array([1]), np.array([0]))[0])
    starts, ends = (part.ravel() for part in np.meshgrid(INSTANTS, INSTANTS))
    exact = [
        abs(end - start) // size * (1 if end >= start else -1)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    assert units_between(unit, starts, ends).tolist() == [max(min(value, 2**63 - 1), -(2**63)) for value in exact]


def test_differences_of_calendar_units_keep_their_sign() -> None:
    for unit in ("MONTH", "QUARTER", "YEAR"):
        found = units_between(unit, np.zeros_like(INSTANTS), INSTANTS)
        assert (np.diff(found) >= 0).all()
        assert found[0] < 0 < found[-1]


def test_buckets_beyond_the_range_end_there() -> None:
    assert computed("fromepochdaysbucket", None, 2**40, values=[2**40, -(2**40)]) == [2**63 - 1, -(2**63)]
    assert computed("fromepochsecondsbucket", None, 10, values=[7]) == [70_000]
    assert floor_millis("DAY", np.array([86_400_001])).tolist() == [86_400_000]
