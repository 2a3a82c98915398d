"""TOISO8601 and FROMISO8601: instants as text of ISO 8601, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.arguments import constant_text, expect_single, map_distinct, texts
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction
from pinotpy.functions.scalar.time_units import long_array
from pinotpy.functions.time.date_patterns import format_instants
from pinotpy.functions.time.time_zones import UTC as NO_ZONE
from pinotpy.functions.time.time_zones import time_zone
from pinotpy.pql.ast import Dialect

_LOCAL: Final = "yyyy-MM-dd'T'HH:mm:ss.SSS"
_ISO: Final = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?(?:T([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?)?(?:(Z)|([+-])([0-9]{2}):?([0-9]{2})?)?)?"
)


def _bind_to_iso8601(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, "toiso8601")
    zone = time_zone(constant_text(operands[1], "the zone", "toiso8601")) if len(operands) > 1 else NO_ZONE
    pattern = f"{_LOCAL}'Z'" if zone is NO_ZONE else f"{_LOCAL}ZZ"
    data_type = operands[0].data_type
    return Bound(DataType.STRING, lambda values: format_instants(pattern, long_array(values[0], data_type), zone))


def _bind_from_iso8601(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, "fromiso8601")
    data_type = operands[0].data_type
    return Bound(DataType.LONG, lambda values: map_distinct(texts(values[0], data_type), _instant, pa.int64()))


def _instant(text: str) -> int:
    match = _ISO.fullmatch(text)
    if match is None:
        raise QueryExecutionError(
            f"expected a time of ISO 8601 such as 2020-02-29T23:59:59.500Z, found the text '{text[:40]}'"
        )
    year, month, day, hour, minute, second, fraction, _, sign, zone_hour, zone_minute = match.groups()
    try:
        moment = datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=UTC
        )
    except ValueError as error:
        raise QueryExecutionError(f"expected a time of ISO 8601, found the text '{text[:40]}': {error}") from error
    offset = (int(zone_hour or 0) * 60 + int(zone_minute or 0)) * 60_000 * (-1 if sign == "-" else 1)
    return round(moment.timestamp()) * 1000 + int((fraction or "")[:3].ljust(3, "0")) - offset


FUNCTIONS = (
    ScalarFunction(
        "toiso8601",
        "TOISO8601(millis[, zone])",
        "A time as text of ISO 8601, in UTC or a zone.",
        _bind_to_iso8601,
        (
            Example("toIso8601(ts)", "2020-01-02T03:04:05.678Z"),
            Example("toIso8601(ts, 'Asia/Tokyo')", "2020-01-02T12:04:05.678+09:00"),
        ),
        arguments_max=2,
    ),
    ScalarFunction(
        "fromiso8601",
        "FROMISO8601(text)",
        "Milliseconds since 1970 of a text of ISO 8601; what it leaves out is the first of its kind, a zone UTC.",
        _bind_from_iso8601,
        (
            Example("fromIso8601('2020-01-01T00:00:00Z')", 1577836800000),
            Example("fromIso8601('2020-01-01T00:30:00.5+01:00')", 1577835000500),
        ),
    ),
)
