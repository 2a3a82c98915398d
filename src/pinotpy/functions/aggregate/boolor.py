"""BOOL_OR: whether a condition holds in any row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pinotpy.functions.aggregate.booland import BoolAnd
from pinotpy.functions.spec import AggregateExample


class BoolOr(BoolAnd):
    which: ClassVar[tuple[str, ...]] = ("max",)
    nothing: ClassVar[bool] = False
    summary: ClassVar[str] = "Whether the condition holds in any row; false of none."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "boolor": AggregateExample("BOOL_OR(points > 8)", True),
    }


FUNCTION = BoolOr("boolor", "boolOr")
