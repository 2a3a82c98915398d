"""MAXLONG: the greatest whole number as LONG, to the last digit; MAX gives a DOUBLE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pinotpy.data_types import LONG_MIN
from pinotpy.functions.aggregate.minlong import MinLong
from pinotpy.functions.spec import AggregateExample


class MaxLong(MinLong):
    which: ClassVar[tuple[str, ...]] = ("max",)
    nothing: ClassVar[int] = LONG_MIN
    summary: ClassVar[str] = "The greatest value as LONG, to the last digit."
    examples: ClassVar[Mapping[str, AggregateExample]] = {"maxlong": AggregateExample("MAXLONG(points)", 9)}


FUNCTION = MaxLong("maxlong", "maxLong")
