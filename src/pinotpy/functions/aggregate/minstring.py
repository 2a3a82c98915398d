"""MINSTRING: the least text, by its UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateExample, Argument, check_types
from pinotpy.functions.state.extremes import Extremes
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.functions.state.states import extremes_of
from pinotpy.pql.ast import Dialect


class MinString(Extremes):
    """Null where nothing was seen, under any null handling: no text stands for none (the reference then fails with
    450).
    """

    result_type: ClassVar[DataType] = DataType.STRING
    accepts_multi_value: ClassVar[bool] = False
    which: ClassVar[tuple[str, ...]] = ("min",)
    summary: ClassVar[str] = "The least text, by its UTF-8 bytes; null of no rows."
    examples: ClassVar[Mapping[str, AggregateExample]] = {"minstring": AggregateExample("MINSTRING(team)", "blue")}

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_types(self, argument, (DataType.STRING, DataType.JSON), "STRING values", dialect)

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> ValueSetPlan:
        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            return [extremes_of(rows, values, num_rows, is_min=self.which == ("min",))]

        return ValueSetPlan(collect, counted=False)

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return states[0].cast(pa.string())


FUNCTION = MinString("minstring", "minString")
