"""SUMINT: the sum of whole numbers as LONG; the reference's is a quicker SUMLONG for INT, here both are as quick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pinotpy.functions.aggregate.sumlong import SumLong
from pinotpy.functions.spec import AggregateExample


class SumInt(SumLong):
    summary: ClassVar[str] = "SUMLONG under its name for INT columns."
    examples: ClassVar[Mapping[str, AggregateExample]] = {"sumint": AggregateExample("SUMINT(points)", 23)}


FUNCTION = SumInt("sumint", "sumInt")
