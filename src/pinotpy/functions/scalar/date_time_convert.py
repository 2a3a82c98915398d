"""DATETIMECONVERT: values of one time format in another, cut down to a granularity.

Formats are size:UNIT:EPOCH, size:UNIT:SIMPLE_DATE_FORMAT:pattern [tz(zone)], size:UNIT:TIMESTAMP, and the newer
spellings EPOCH|UNIT|size, SIMPLE_DATE_FORMAT|pattern|zone, TIMESTAMP. A granularity is size:UNIT or UNIT|size.

Buckets of EPOCH and TIMESTAMP results are counted from 1970, toward zero. With a pattern, or where a bucketing zone is
given, the field of the granularity's unit is cut instead, on the clock of that zone (7:DAYS: day of the month ÷ 7 × 7,
which fails for days 1 to 6: there is no day 0; as in Pinot).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import constant_text, expect_single, spread, texts
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.functions.scalar.time_units import NANOS, convert_units, long_array, saturating_multiply, time_unit
from pinotpy.functions.time.civil_time import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, truncating_divide, year_month_day
from pinotpy.functions.time.date_parsing import parse_instants
from pinotpy.functions.time.date_patterns import format_local, pattern_pieces
from pinotpy.functions.time.time_zones import UTC, TimeZone, time_zone
from pinotpy.pql.ast import Dialect

_ZONE = re.compile(r"\stz\s*+\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """A value v is v × size units since 1970, or, where there is a pattern, text on the clock of a zone."""

    unit: str = "MILLISECONDS"
    size: int = 1
    pattern: str | None = None
    zone: TimeZone = UTC

    def to_millis(self, value: Value, data_type: DataType | None) -> Int64Array:
        """Raises QueryExecutionError for text that is not of the pattern."""
        if self.pattern is not None:
            return parse_instants(self.pattern, spread(texts(value, data_type), 1), self.zone)
        values = long_array(value, data_type)
        return convert_units(saturating_multiply(values, self.size), self.unit, "MILLISECONDS")


def parse_time_format(text: str) -> TimeFormat:
    """Either spelling; raises InvalidQueryError."""
    upper = text.strip().upper()
    if upper == "TIMESTAMP":
        return TimeFormat()
    if upper == "EPOCH" or upper.startswith("EPOCH|"):
        parts = [token for token in upper.split("|")[1:] if token]
        if len(parts) > 2:
            raise _invalid(text)
        return TimeFormat(
            time_unit(parts[0], f"format: {text}") if parts else "MILLISECONDS",
            _size(parts[1], text) if len(parts) > 1 else 1,
        )
    if upper.startswith("SIMPLE_DATE_FORMAT|"):
        parts = text.strip().split("|")[1:]
        if len(parts) > 2 or not parts[0]:
            raise _invalid(text)
        return _by_pattern(parts[0], parts[1] if len(parts) > 1 else "UTC", 1, "MILLISECONDS")
    parts = text.split(":", 3)
    if len(parts) < 3:
        raise _invalid(text)
    size, unit, kind = _size(parts[0], text), time_unit(parts[1], f"format: {text}"), parts[2].strip().upper()
    if kind == "SIMPLE_DATE_FORMAT" and len(parts) == 4:
        written = parts[3].rstrip()
        zoned = _ZONE.search(written, 0, len(written) - 1) if written.endswith(")") else None
        if zoned is None:
            return _by_pattern(parts[3], "UTC", size, unit)
        return _by_pattern(written[: zoned.start()].rstrip(), written[zoned.end() : -1].strip(), size, unit)
    if len(parts) == 4 or kind not in ("EPOCH", "TIMESTAMP"):
        raise _invalid(text)
    return TimeFormat(unit, size) if kind == "EPOCH" else TimeFormat()


def _by_pattern(pattern: str, zone_id: str, size: int, unit: str) -> TimeFormat:
    pattern_pieces(pattern)
    return TimeFormat(unit, size, pattern, time_zone(zone_id))


def _size(text: str, where: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text.strip()):
        raise InvalidQueryError(f"Invalid time size: {text[:40]} in: {where[:80]}: expected a whole number from 1 on")
    return int(text)


def _invalid(text: str) -> InvalidQueryError:
    return InvalidQueryError(
        f"Invalid time format: {text[:80]} in format: {text[:80]}: expected size:UNIT:EPOCH, "
        "size:UNIT:SIMPLE_DATE_FORMAT:pattern, "
        "EPOCH|UNIT|size, SIMPLE_DATE_FORMAT|pattern|zone or TIMESTAMP"
    )


@dataclass(frozen=True, slots=True)
class Granularity:
    """Times are cut down to a multiple of size units."""

    size: int
    unit: str

    @property
    def millis(self) -> int:
        return self.size * NANOS[self.unit] // NANOS["MILLISECONDS"]

    def cut_instants(self, millis: Int64Array) -> Int64Array:
        """To whole buckets since 1970, toward zero."""
        return millis if self.millis <= 1 else truncating_divide(millis, self.millis) * self.millis

    def cut_local(self, local: Int64Array) -> Int64Array:
        """The unit's own field of a wall clock to a multiple of size, smaller fields to 0.

        Raises: QueryExecutionError for DAYS, where a day of the month is smaller than size.
        """
        if self.unit == "DAYS":
            return self._cut_days(local)
        if self.unit not in _FIELDS:
            return local
        size_ms, range_ms = _FIELDS[self.unit]
        start = local // range_ms * range_ms
        step = size_ms * self.size
        return start + (local - start) // step * step

    def _cut_days(self, local: Int64Array) -> Int64Array:
        days = local // DAY_MS
        if self.size > 1:
            day = year_month_day(days)[2]
            cut = day // self.size * self.size
            if cut.size and cut.min() == 0:
                raise QueryExecutionError(
                    f"Value 0 for dayOfMonth must be in the range [1,31]: with a pattern, {self.size}:DAYS has no "
                    "bucket for days before it"
                )
            days = days + (cut - day)
        return days * DAY_MS


# unit → (its milliseconds, milliseconds of the unit within which its field counts)
_FIELDS: Final = {
    "MILLISECONDS": (1, SECOND_MS),
    "SECONDS": (SECOND_MS, MINUTE_MS),
    "MINUTES": (MINUTE_MS, HOUR_MS),
    "HOURS": (HOUR_MS, DAY_MS),
}


def parse_granularity(text: str) -> Granularity:
    """size:UNIT or UNIT|size; raises InvalidQueryError."""
    first, bar, last = text.strip().partition("|")
    if bar or ":" not in text:
        size, unit = last or "1", first
    else:
        size, _, unit = text.partition(":")
    bucket_unit = time_unit(unit, f"granularity: {text[:80]}")
    return Granularity(_size(size, f"granularity: {text}"), bucket_unit)


def _bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, "datetimeconvert")
    labels = ("the input format", "the output format", "the granularity", "the bucketing zone")
    constants = [
        constant_text(operand, what, "datetimeconvert") for operand, what in zip(operands[1:], labels, strict=False)
    ]
    source, target, granularity = (
        parse_time_format(constants[0]),
        parse_time_format(constants[1]),
        parse_granularity(constants[2]),
    )
    bucket_zone = time_zone(constants[3]) if len(constants) > 3 else None
    if target.pattern is None and bucket_zone is None and granularity.millis == 0:
        raise InvalidQueryError(f"expected a granularity of at least 1:MILLISECONDS, found '{constants[2]}'")
    data_type = operands[0].data_type
    convert = (
        _to_text(target, granularity, bucket_zone)
        if target.pattern is not None
        else _to_count(target, granularity, bucket_zone)
    )
    return Bound(
        DataType.LONG if target.pattern is None else DataType.STRING,
        lambda values: convert(source.to_millis(values[0], data_type)),
    )


def _to_count(
    target: TimeFormat, granularity: Granularity, bucket_zone: TimeZone | None
) -> Callable[[Int64Array], pa.Array]:
    def convert(millis: Int64Array) -> pa.Array:
        if bucket_zone is None:
            cut = granularity.cut_instants(millis)
        else:
            cut = bucket_zone.to_instants(granularity.cut_local(bucket_zone.to_local(millis)))
        return pa.array(truncating_divide(convert_units(cut, "MILLISECONDS", target.unit), target.size))

    return convert


def _to_text(
    target: TimeFormat, granularity: Granularity, bucket_zone: TimeZone | None
) -> Callable[[Int64Array], pa.Array]:
    pattern, zone = str(target.pattern), target.zone

    def convert(millis: Int64Array) -> pa.Array:
        if bucket_zone is not None and bucket_zone is not zone:
            millis = bucket_zone.to_instants(granularity.cut_local(bucket_zone.to_local(millis)))
            return format_local(pattern, zone.to_local(millis), zone.offsets_at(millis), zone)
        local = granularity.cut_local(zone.to_local(millis))
        return format_local(pattern, local, zone.offsets_at(zone.to_instants(local)), zone)

    return convert


FUNCTIONS = (
    ScalarFunction(
        "datetimeconvert",
        "DATETIMECONVERT(value, inputFormat, outputFormat, granularity[, bucketingZone])",
        "A time of one format in another, cut down to a granularity: counts of a unit since 1970, or text by a "
        "pattern.",
        _bind,
        (
            Example("dateTimeConvert(ts, '1:MILLISECONDS:EPOCH', '1:SECONDS:EPOCH', '15:MINUTES')", 1577934000),
            Example(
                "dateTimeConvert(ts, '1:MILLISECONDS:EPOCH', '1:HOURS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH:mm "
                "tz(Asia/Kolkata)', '1:HOURS')",
                "2020-01-02 08:00",
            ),
            Example(
                "dateTimeConvert('20200102', '1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd', '1:DAYS:EPOCH', '1:DAYS')", 18263
            ),
        ),
        arguments_min=4,
        arguments_max=5,
    ),
)
