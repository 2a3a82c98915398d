"""MINLONG: the least whole number as LONG, to the last digit; MIN gives a DOUBLE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import LONG_MIN, DataType
from pinotpy.functions.spec import WHOLE_NUMBERS, AggregateExample, Argument, check_types
from pinotpy.functions.state.extremes import Extremes
from pinotpy.pql.ast import Dialect


class MinLong(Extremes):
    """`nothing` is what no rows give without null handling: the number that any other beats."""

    result_type: ClassVar[DataType] = DataType.LONG
    which: ClassVar[tuple[str, ...]] = ("min",)
    nothing: ClassVar[int] = -LONG_MIN - 1
    summary: ClassVar[str] = "The least value as LONG, to the last digit."
    examples: ClassVar[Mapping[str, AggregateExample]] = {"minlong": AggregateExample("MINLONG(points)", 1)}

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_types(self, argument, WHOLE_NUMBERS, "whole numbers (INT, LONG, BOOLEAN, TIMESTAMP)", dialect)

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return states[0] if null_handling else pc.fill_null(states[0], self.nothing)

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        unseen = None if null_handling else self.nothing
        return [unseen if state is None else state for state in states[0]]


FUNCTION = MinLong("minlong", "minLong")
