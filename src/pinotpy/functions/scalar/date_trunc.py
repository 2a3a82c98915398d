"""DATETRUNC: the start of the unit of time in which a value lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.arguments import constant_text, expect_single
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction
from pinotpy.functions.scalar.time_units import convert_units, long_function, output_unit, time_unit
from pinotpy.functions.time.civil_time import UNITS
from pinotpy.functions.time.time_zones import UTC, time_zone
from pinotpy.pql.ast import Dialect


def calendar_unit(text: str, where: str) -> str:
    """One of civil_time.UNITS, in any case; raises InvalidQueryError."""
    unit = text.strip().upper()
    if unit not in UNITS:
        raise InvalidQueryError(
            f"{where}: '{text[:40]}' is not a valid Timestamp field: expected one of {', '.join(UNITS).lower()}"
        )
    return unit


def _bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    """Without an output unit the result is in the input's. Conversions cut toward zero, the start itself is never later
    than the value. In SQL the start of a TIMESTAMP is one.
    """
    expect_single(operands, "datetrunc")
    unit = calendar_unit(constant_text(operands[0], "the unit", "datetrunc"), "datetrunc")
    texts = [
        constant_text(operand, what, "datetrunc")
        for operand, what in zip(operands[2:], ("the input unit", "the zone", "the output unit"), strict=False)
    ]
    source = time_unit(texts[0], "DATETRUNC") if texts else "MILLISECONDS"
    zone = time_zone(texts[1]) if len(texts) > 1 else UTC
    target = output_unit(texts[2], "DATETRUNC") if len(texts) > 2 else source

    def truncate(values: Int64Array) -> Int64Array:
        return convert_units(zone.floor(unit, convert_units(values, source, "MILLISECONDS")), "MILLISECONDS", target)

    bound = long_function(operands, 1, truncate)
    stays_time = dialect is Dialect.SQL and source == target == "MILLISECONDS"
    return (
        replace(bound, data_type=DataType.TIMESTAMP)
        if stays_time and operands[1].data_type is DataType.TIMESTAMP
        else bound
    )


FUNCTIONS = (
    ScalarFunction(
        "datetrunc",
        "DATETRUNC(unit, value[, inputUnit[, zone[, outputUnit]]])",
        "The start of the millisecond, second, minute, hour, day, week (Monday), month, quarter or year, on the clock "
        "of a zone.",
        _bind,
        (
            Example("dateTrunc('month', ts)", 1577836800000),
            Example("dateTrunc('week', days, 'DAYS')", 18260),
            Example("dateTrunc('day', ts, 'MILLISECONDS', 'America/New_York', 'HOURS')", 438293),
        ),
        arguments_min=2,
        arguments_max=5,
    ),
)
