"""MAXSTRING: the greatest text, by its UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pinotpy.functions.aggregate.minstring import MinString
from pinotpy.functions.spec import AggregateExample


class MaxString(MinString):
    which: ClassVar[tuple[str, ...]] = ("max",)
    summary: ClassVar[str] = "The greatest text, by its UTF-8 bytes; null of no rows."
    examples: ClassVar[Mapping[str, AggregateExample]] = {"maxstring": AggregateExample("MAXSTRING(team)", "red")}


FUNCTION = MaxString("maxstring", "maxString")
