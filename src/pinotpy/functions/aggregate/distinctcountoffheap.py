"""DISTINCTCOUNTOFFHEAP: DISTINCTCOUNT under the name by which the reference keeps the values outside Java's heap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pinotpy.functions.aggregate.distinctcount import DistinctCount
from pinotpy.functions.spec import AggregateExample


class DistinctCountOffHeap(DistinctCount):
    summary: ClassVar[str] = "DISTINCTCOUNT; there is no heap to spare."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountoffheap": AggregateExample("DISTINCTCOUNTOFFHEAP(team)", 3)
    }


FUNCTION = DistinctCountOffHeap("distinctcountoffheap", "distinctCountOffHeap")
