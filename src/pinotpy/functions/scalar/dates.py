"""Dates as text, now and ago, and arithmetic with units of time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.clock import SystemClock
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.arguments import constant_text, expect_single, texts
from pinotpy.functions.scalar.date_trunc import calendar_unit
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction
from pinotpy.functions.scalar.time_units import long_array, long_function
from pinotpy.functions.time.civil_time import DAY_MS, add_units, units_between
from pinotpy.functions.time.date_parsing import parse_instants
from pinotpy.functions.time.date_patterns import format_instants, pattern_pieces
from pinotpy.functions.time.time_zones import UTC, TimeZone, time_zone
from pinotpy.pql.ast import Dialect

_clock: Final = SystemClock()
_AGO_MAX_MS: Final = 100_000_000 * 366 * DAY_MS


# --- text -------------------------------------------------------------------------------------------------------------


def _pattern_and_zone(operands: Sequence[Operand], function: str) -> tuple[str, TimeZone]:
    expect_single(operands, function)
    pattern = constant_text(operands[1], "the pattern", function)
    pattern_pieces(pattern)
    return pattern, time_zone(constant_text(operands[2], "the zone", function)) if len(operands) > 2 else UTC


def _bind_to_date_time(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    pattern, zone = _pattern_and_zone(operands, "todatetime")
    data_type = operands[0].data_type
    return Bound(DataType.STRING, lambda values: format_instants(pattern, long_array(values[0], data_type), zone))


def _bind_from_date_time(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    pattern, zone = _pattern_and_zone(operands, "fromdatetime")
    data_type = operands[0].data_type
    return Bound(DataType.LONG, lambda values: pa.array(parse_instants(pattern, texts(values[0], data_type), zone)))


# --- now --------------------------------------------------------------------------------------------------------------

_DURATION = re.compile(
    r"([+-]?)P(?:([+-]?\d{1,12})D)?(?:T(?=[+\-\d])(?:([+-]?\d{1,12})H)?(?:([+-]?\d{1,12})M)?(?:([+-]?)(\d{1,15})(?:[.,](\d{1,9}))?S)?)?",
    re.IGNORECASE,
)


def duration_ms(text: str) -> int:
    """Milliseconds of a java.time.Duration: PT1H, P1D, P2DT3H4M5.5S, -PT10M; raises InvalidQueryError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or text.strip()[-1:].upper() in ("P", "T"):
        raise InvalidQueryError(f"expected a duration such as PT1H or P1DT12H30M, found '{text[:40]}'")
    sign, days, hours, minutes, second_sign, seconds, fraction = match.groups()
    millis = sum(int(count or 0) * size for count, size in ((days, 86_400_000), (hours, 3_600_000), (minutes, 60_000)))
    second_ms = int(seconds or 0) * 1_000 + int((fraction or "")[:3].ljust(3, "0"))
    millis += -second_ms if second_sign == "-" else second_ms
    return -millis if sign == "-" else millis


def _bind_now(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    return Bound(DataType.LONG, lambda values: pa.array([_clock.now_ms()], pa.int64()))


def _bind_ago(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    text = constant_text(operands[0], "the duration", "ago")
    before = duration_ms(text)
    if abs(before) > _AGO_MAX_MS:
        raise InvalidQueryError(f"expected a duration of at most 100 million years in AGO, found '{text[:40]}'")
    return Bound(DataType.LONG, lambda values: pa.array([_clock.now_ms() - before], pa.int64()))


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _bind_with_unit(
    function: str, compute: Callable[[str, Int64Array, Int64Array], Int64Array]
) -> Callable[[Sequence[Operand], Dialect], Bound]:
    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        expect_single(operands, function)
        unit = calendar_unit(constant_text(operands[0], "the unit", function), function)
        first, second = operands[1].data_type, operands[2].data_type
        return Bound(
            DataType.LONG,
            lambda values: pa.array(
                compute(unit, *np.broadcast_arrays(long_array(values[1], first), long_array(values[2], second)))
            ),
        )

    return bind


def _bind_add(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    """In SQL a TIMESTAMP stays one, as in DATETRUNC."""
    bound = _bind_with_unit("timestampadd", add_units)(operands, dialect)
    stays_time = dialect is Dialect.SQL and operands[2].data_type is DataType.TIMESTAMP
    return replace(bound, data_type=DataType.TIMESTAMP) if stays_time else bound


def _bind_same(data_type: DataType) -> Callable[[Sequence[Operand], Dialect], Bound]:
    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        expect_single(operands, "the function")
        return Bound(data_type, long_function(operands, 0, lambda values: values).evaluate)

    return bind


FUNCTIONS = (
    ScalarFunction(
        "todatetime",
        "TODATETIME(millis, pattern[, zone])",
        "A time as text by a pattern of dates.",
        _bind_to_date_time,
        (
            Example("toDateTime(ts, 'yyyy-MM-dd HH:mm')", "2020-01-02 03:04"),
            Example("toDateTime(ts, 'EEE, d MMM yyyy', 'Asia/Tokyo')", "Thu, 2 Jan 2020"),
        ),
        arguments_min=2,
        arguments_max=3,
    ),
    ScalarFunction(
        "fromdatetime",
        "FROMDATETIME(text, pattern[, zone])",
        "Milliseconds since 1970 of text by a pattern of dates.",
        _bind_from_date_time,
        (Example("fromDateTime('2020-01-02', 'yyyy-MM-dd')", 1577923200000),),
        arguments_min=2,
        arguments_max=3,
    ),
    ScalarFunction(
        "now",
        "NOW()",
        "Milliseconds since 1970 of the moment.",
        _bind_now,
        (),
        arguments_min=0,
        arguments_max=0,
        constant=False,
    ),
    ScalarFunction(
        "ago",
        "AGO(duration)",
        "Milliseconds since 1970 of the moment a duration ago: PT1H, P1D, P2DT3H4M5.5S.",
        _bind_ago,
        (),
        constant=False,
    ),
    ScalarFunction(
        "timestampadd",
        "TIMESTAMPADD(unit, amount, millis)",
        "A time later by an amount of milliseconds, seconds, minutes, hours, days, weeks, months, quarters or years.",
        _bind_add,
        (Example("TIMESTAMPADD(MONTH, 1, ts)", 1580612645678), Example("dateAdd('DAY', -1, 86400000)", 0)),
        arguments_min=3,
        arguments_max=3,
        aliases=("dateadd",),
    ),
    ScalarFunction(
        "timestampdiff",
        "TIMESTAMPDIFF(unit, start, end)",
        "Whole units of time from start to end, negative if end comes first.",
        _bind_with_unit("timestampdiff", units_between),
        (Example("TIMESTAMPDIFF(YEAR, 0, ts)", 50), Example("dateDiff('DAY', ts, 0)", -18263)),
        arguments_min=3,
        arguments_max=3,
        aliases=("datediff",),
    ),
    ScalarFunction(
        "totimestamp",
        "TOTIMESTAMP(millis)",
        "Milliseconds since 1970 as a TIMESTAMP.",
        _bind_same(DataType.TIMESTAMP),
        (Example("fromTimestamp(toTimestamp(ts))", 1577934245678),),
    ),
    ScalarFunction(
        "fromtimestamp",
        "FROMTIMESTAMP(timestamp)",
        "Milliseconds since 1970 of a TIMESTAMP.",
        _bind_same(DataType.LONG),
        (Example("fromTimestamp(ts)", 1577934245678),),
    ),
)
