"""Times of whole columns: between formats, from Arrow's dates and timestamps, from text."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.config.date_time import DateTimeFormat, TimeFormat
from pinotpy.config.field_spec import millis_from_json
from pinotpy.ingest.conversion import Bad, Converted, by_unique

_DAY_MS: Final = 86_400_000
_UNITS_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
# 1971-01-01 to 2071-01-01: the range of a main time column (Pinot: TimeUtils.VALID_MIN/MAX_TIME_MILLIS).
VALID_TIME_MS: Final = (31_536_000_000, 3_187_296_000_000)


def scaled(values: pa.Array, numerator: int, denominator: int) -> Converted:
    """floor(v * numerator / denominator) of an int64 array, nulls kept. Values that leave 64 bits are bad."""
    divisor = math.gcd(numerator, denominator)
    numerator, denominator = numerator // divisor, denominator // divisor
    if (numerator, denominator) == (1, 1):
        return Converted(values)
    plain: Int64Array = np.array(pc.fill_null(values, 0), dtype=np.int64)
    limit = (2**63 - 1) // numerator
    over = np.flatnonzero((plain > limit) | (plain < -limit))
    if over.size:
        plain[over] = 0
    scaled_values = plain * numerator // denominator
    bad = [Bad(int(row), f"{values[int(row)].as_py()} leaves the range of LONG when converted") for row in over]
    return Converted(pa.array(scaled_values, pa.int64(), mask=np.asarray(values.is_null())), bad)


def millis_from_temporal(values: pa.Array) -> pa.Array:
    """int64 milliseconds of an Arrow date or timestamp array, rounding down."""
    if pa.types.is_date32(values.type):
        return pc.multiply(values.cast(pa.int32()).cast(pa.int64()), _DAY_MS)
    if pa.types.is_date64(values.type):
        return values.cast(pa.int64())
    per_second = _UNITS_PER_SECOND[values.type.unit]
    return scaled(values.cast(pa.int64()), 1_000, per_second).array


def iso_texts(values: pa.Array) -> Converted:
    """ISO 8601 texts of an Arrow date, time, timestamp or duration array; what lies beyond the years 1 to 9999, or a
    day, is bad.
    """
    kind = values.type
    if pa.types.is_duration(kind):
        return by_unique(
            values.cast(pa.int64()), lambda count: _duration(count, _UNITS_PER_SECOND[kind.unit]), pa.string()
        )
    if pa.types.is_date64(kind):
        values, kind = values.cast(pa.date32()), pa.date32()
    elif pa.types.is_timestamp(kind) and kind.unit == "ns":
        values, kind = pc.floor_temporal(values, unit="microsecond"), pa.timestamp("us", kind.tz)
        values = values.cast(kind)
    elif pa.types.is_time64(kind) and kind.unit == "ns":
        kind = pa.time64("us")
        values = scaled(values.cast(pa.int64()), 1, 1_000).array.cast(kind)
    # Python's times of day go round the clock instead of ending.
    day = 86_400 * _UNITS_PER_SECOND[kind.unit] if pa.types.is_time(kind) else None
    narrow = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()

    def text(count: int) -> str:
        try:
            if day is not None and not 0 <= count < day:
                raise ValueError
            return str(pa.scalar(count, narrow).cast(kind).as_py().isoformat())
        except (ValueError, OverflowError):
            raise ValueError(f"{count}, as {kind}, is no time that ISO 8601 can write") from None

    return by_unique(values.cast(narrow), text, pa.string())


def _duration(count: int, per_second: int) -> str:
    seconds, rest = divmod(abs(count), per_second)
    fraction = f".{rest:0{len(str(per_second)) - 1}d}" if per_second > 1 else ""
    return f"{'-' if count < 0 else ''}PT{seconds}{fraction}S"


def from_millis(millis: pa.Array, time_format: DateTimeFormat) -> Converted:
    """Values of a time format from int64 milliseconds: int64, or text for a pattern."""
    if time_format.kind is TimeFormat.SIMPLE_DATE_FORMAT:
        return by_unique(millis, lambda value: str(time_format.value_from_millis(value)), pa.string())
    return scaled(millis, 1_000_000, time_format.unit.nanos * time_format.size)


def to_millis(values: pa.Array, time_format: DateTimeFormat) -> Converted:
    """int64 milliseconds of a column's values (numbers, or text of a pattern)."""
    if time_format.kind is TimeFormat.SIMPLE_DATE_FORMAT:
        return by_unique(values, time_format.millis_from_value, pa.int64())
    if not pa.types.is_integer(values.type):
        values = values.cast(pa.int64())
    return scaled(values.cast(pa.int64()), time_format.unit.nanos * time_format.size, 1_000_000)


def between_formats(values: pa.Array, source: DateTimeFormat, target: DateTimeFormat) -> Converted:
    """Time column of the old manual: incoming → outgoing granularity, rounding down."""
    if source == target:
        return Converted(values)
    if TimeFormat.SIMPLE_DATE_FORMAT not in (source.kind, target.kind):
        return scaled(values.cast(pa.int64()), source.unit.nanos * source.size, target.unit.nanos * target.size)
    millis = to_millis(values, source)
    return from_millis(millis.array, target).after(millis)


def timestamps_from_text(values: pa.Array, time_format: DateTimeFormat | None) -> Converted:
    """int64 milliseconds of texts: milliseconds as digits, JDBC or ISO 8601 (UTC unless they name a zone), or the
    column's pattern.
    """
    if (
        time_format is not None
        and time_format.kind is TimeFormat.SIMPLE_DATE_FORMAT
        and time_format.pattern is not None
    ):
        return by_unique(values, lambda text: _by_pattern(text, time_format), pa.int64())
    try:
        return Converted(_iso_texts(values))
    except pa.ArrowInvalid:
        return by_unique(values, _text_millis, pa.int64())


def _text_millis(text: str) -> int:
    try:
        return millis_from_json(text)
    except ValueError as error:
        raise ValueError(f"'{text[:60]}' is no time, expected {error}") from None


def _by_pattern(text: str, time_format: DateTimeFormat) -> int:
    try:
        return time_format.millis_from_value(text)
    except ValueError:
        return _text_millis(text)


def _iso_texts(values: pa.Array) -> pa.Array:
    """All of one shape, as data is: with an offset, or without."""
    first = next((value.as_py() for value in values if value.is_valid), "")
    zoned = first.endswith("Z") or "+" in first[10:] or "-" in first[10:]
    micros = values.cast(pa.timestamp("us", "UTC" if zoned else None)).cast(pa.int64())
    return scaled(micros, 1, 1_000).array
