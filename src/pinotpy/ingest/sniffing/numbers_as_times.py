"""Which times are meant by whole numbers? Counts since 1970, of which the size tells the unit, or digits of a date."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.errors import PinotError
from pinotpy.functions.time.date_parsing import parse_instants
from pinotpy.ingest.sniffing import expressions
from pinotpy.ingest.time_values import VALID_TIME_MS

_UNITS: Final = (("seconds", 1), ("milliseconds", 10**3), ("microseconds", 10**6), ("nanoseconds", 10**9))
# In seconds since 1970: 1990 to 2100; where times are asked for from 1971 on, the units still have no number in common.
_GUESSED_S: Final = (631_152_000, 4_102_444_800)
_WISHED_S: Final = (VALID_TIME_MS[0] // 1000, _GUESSED_S[1])
_DATES: Final = (("yyyyMMdd", 10_000), ("yyyyMMddHHmmss", 10_000_000_000))
_YEARS: Final = (1900, 2101)


@dataclass(frozen=True, slots=True)
class NumberTimes:
    """unit: of counts since 1970; pattern: of digits that are dates instead."""

    unit: str
    pattern: str | None
    confidence: float
    why: str
    range_ms: tuple[int, int] | None

    def expression(self, value: str) -> str | None:
        """What makes milliseconds of a number; None: the number is them."""
        if self.pattern is not None:
            return expressions.instant(f"CAST({value} AS STRING)", self.pattern)
        if self.unit == "milliseconds":
            return None
        whole = f"CAST({value} AS LONG)"
        return (
            f"{whole} * 1000"
            if self.unit == "seconds"
            else f"timeConvert({whole}, '{self.unit.upper()}', 'MILLISECONDS')"
        )


def guessed_times(numbers: pa.Array) -> NumberTimes | None:
    """Seconds or milliseconds, where all numbers are of one of them in 1990 to 2100."""
    extremes = pc.min_max(numbers).as_py()
    if extremes["min"] is None:
        return None
    for unit, per_second in _UNITS[:2]:
        if _GUESSED_S[0] * per_second <= extremes["min"] and extremes["max"] <= _GUESSED_S[1] * per_second:
            return _since_1970(unit, per_second, extremes, 0.8)
    return None


def wished_times(numbers: pa.Array) -> NumberTimes | None:
    """Numbers of a column that is said to hold times: the unit in which they are in 1971 to 2100, else that of the
    largest one, else milliseconds.
    """
    extremes = pc.min_max(numbers).as_py()
    low, high = extremes["min"], extremes["max"]
    if low is None:
        return None
    for pattern, per_year in _DATES:
        if _YEARS[0] * per_year <= low and high < _YEARS[1] * per_year:
            try:
                instants = parse_instants(pattern, numbers.drop_null().cast(pa.string()))
            except PinotError:
                continue
            return NumberTimes("", pattern, 0.8, pattern, (int(instants.min()), int(instants.max())))
    for unit, per_second in _UNITS:
        if _WISHED_S[0] * per_second <= high <= _WISHED_S[1] * per_second:
            is_sure = low >= _WISHED_S[0] * per_second
            told = "" if is_sure else f"by the largest number; the smallest one, {low}, is no such time in 1971 to 2100"
            return _since_1970(unit, per_second, extremes, 0.8 if is_sure else 0.5, told)
    return _since_1970("milliseconds", 1000, extremes, 0.5, "in no unit are they in 1971 to 2100")


def _since_1970(unit: str, per_second: int, extremes: dict[str, int], confidence: float, told: str = "") -> NumberTimes:
    low, high = (extremes[end] * 1000 // per_second for end in ("min", "max"))
    return NumberTimes(unit, None, confidence, "; ".join(filter(None, (f"{unit} since 1970", told))), (low, high))
