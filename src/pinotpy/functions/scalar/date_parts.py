"""year, month, hour … and EXTRACT: one field of the wall clock that an instant shows. Weeks are those of ISO 8601."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.arguments import constant_text, expect_single
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction
from pinotpy.functions.scalar.time_units import long_array
from pinotpy.functions.time.civil_time import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    day_of_week,
    day_of_year,
    week_of_year,
    year_month_day,
)
from pinotpy.functions.time.time_zones import UTC, TimeZone, time_zone
from pinotpy.pql.ast import Dialect

_Part = Callable[[Int64Array], NDArray[Any]]  # of local milliseconds


def _year(local: Int64Array) -> NDArray[Any]:
    return year_month_day(local // DAY_MS)[0]


_PARTS: Final[dict[str, _Part]] = {
    "year": _year,
    "yearofweek": lambda local: week_of_year(local // DAY_MS)[0],
    "quarter": lambda local: (year_month_day(local // DAY_MS)[1] + 2) // 3,
    "month": lambda local: year_month_day(local // DAY_MS)[1],
    "weekofyear": lambda local: week_of_year(local // DAY_MS)[1],
    "dayofyear": lambda local: day_of_year(local // DAY_MS),
    "day": lambda local: year_month_day(local // DAY_MS)[2],
    "dayofweek": lambda local: day_of_week(local // DAY_MS),
    "hour": lambda local: local // HOUR_MS - local // DAY_MS * 24,
    "minute": lambda local: local // MINUTE_MS - local // HOUR_MS * 60,
    "second": lambda local: local // SECOND_MS - local // MINUTE_MS * 60,
    "millisecond": lambda local: local - local // SECOND_MS * SECOND_MS,
}


def _bind_part(part_of: _Part, operands: Sequence[Operand], place: int, zone: TimeZone) -> Bound:
    data_type = operands[place].data_type
    return Bound(
        DataType.INT,
        lambda values: pa.array(part_of(zone.to_local(long_array(values[place], data_type))).astype(np.int32)),
    )


def _part_function(name: str, summary: str, value: int, *aliases: str) -> ScalarFunction:
    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        expect_single(operands, name)
        zone = time_zone(constant_text(operands[1], "the zone", name)) if len(operands) > 1 else UTC
        return _bind_part(_PARTS[name], operands, 0, zone)

    return ScalarFunction(
        name,
        f"{name.upper()}(millis[, zone])",
        summary,
        bind,
        (Example(f"{name}(ts)", value),),
        arguments_max=2,
        aliases=aliases,
    )


# --- EXTRACT ---------------------------------------------------------------------------------------------------------

_EXTRACTED: Final[dict[str, _Part]] = {
    "YEAR": _year,
    "QUARTER": _PARTS["quarter"],
    "MONTH": _PARTS["month"],
    "WEEK": _PARTS["weekofyear"],
    "DAY": _PARTS["day"],
    "DOY": _PARTS["dayofyear"],
    "DOW": _PARTS["dayofweek"],
    "HOUR": _PARTS["hour"],
    "MINUTE": _PARTS["minute"],
    "SECOND": _PARTS["second"],
    "MILLISECOND": _PARTS["millisecond"],
    "ISODOW": _PARTS["dayofweek"],
    "ISOYEAR": _PARTS["yearofweek"],
    "DAY_OF_WEEK": _PARTS["dayofweek"],
    "DAY_OF_YEAR": _PARTS["dayofyear"],
    "DECADE": lambda local: _year(local) // 10,
    "CENTURY": lambda local: (_year(local) + 99) // 100,
    "MILLENNIUM": lambda local: (_year(local) + 999) // 1000,
    "TIMEZONE_HOUR": np.zeros_like,  # instants have no zone of their own: UTC
    "TIMEZONE_MINUTE": np.zeros_like,
}


def _bind_extract(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, "extract")
    unit = constant_text(operands[0], "the unit", "extract").upper()
    part_of = _EXTRACTED.get(unit)
    if part_of is None:
        raise InvalidQueryError(
            f"extract: '{unit[:40]}' is not a unit that EXTRACT knows: expected one of {', '.join(_EXTRACTED)}"
        )
    return _bind_part(part_of, operands, 1, UTC)


# --- offsets of zones -------------------------------------------------------------------------------------------------


def _offset_function(name: str, summary: str, value: int, part_of: _Part) -> ScalarFunction:
    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        expect_single(operands, name)
        zone = time_zone(constant_text(operands[0], "the zone", name))

        def evaluate(values: Sequence[pa.Array | pa.Scalar]) -> pa.Array:
            instants = long_array(values[1], operands[1].data_type) if len(operands) > 1 else np.zeros(1, np.int64)
            return pa.array(part_of(zone.offsets_at(instants)).astype(np.int32))

        return Bound(DataType.INT, evaluate)

    return ScalarFunction(
        name,
        f"{name.upper()}(zone[, millis])",
        summary,
        bind,
        (Example(f"{name}('Asia/Kolkata')", value),),
        arguments_max=2,
    )


def _offset_minutes(offsets: Int64Array) -> NDArray[Any]:
    minutes: Int64Array = np.sign(offsets) * (np.abs(offsets) // MINUTE_MS % 60)
    return minutes


FUNCTIONS = (
    _part_function("year", "The year.", 2020),
    _part_function("yearofweek", "The year of the ISO week.", 2020, "yow"),
    _part_function("quarter", "The quarter of the year, 1 to 4.", 1),
    _part_function("month", "The month, 1 to 12.", 1, "monthofyear"),
    _part_function("weekofyear", "The ISO week of the year, 1 to 53.", 1, "week"),
    _part_function("dayofyear", "The day of the year, 1 to 366.", 2, "doy"),
    _part_function("day", "The day of the month, 1 to 31.", 2, "dayofmonth"),
    _part_function("dayofweek", "The day of the week, 1 (Monday) to 7.", 4, "dow"),
    _part_function("hour", "The hour of the day, 0 to 23.", 3),
    _part_function("minute", "The minute of the hour.", 4),
    _part_function("second", "The second of the minute.", 5),
    _part_function("millisecond", "The millisecond of the second.", 678),
    ScalarFunction(
        "extract",
        "EXTRACT(unit FROM millis)",
        "One field of a time: YEAR, QUARTER, MONTH, WEEK, DAY, DOY, DOW, HOUR, MINUTE, SECOND and others.",
        _bind_extract,
        (Example("EXTRACT(DOY FROM ts)", 2),),
        arguments_min=2,
        arguments_max=2,
    ),
    _offset_function(
        "timezonehour",
        "Whole hours of a zone's offset at a time, or at 1970-01-01.",
        5,
        lambda offsets: np.sign(offsets) * (np.abs(offsets) // HOUR_MS),
    ),
    _offset_function(
        "timezoneminute",
        "Minutes of a zone's offset beyond its whole hours, at a time, or at 1970-01-01.",
        30,
        _offset_minutes,
    ),
)
