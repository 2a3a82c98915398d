"""BOOL_AND: whether a condition holds in all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateExample, Argument, check_types
from pinotpy.functions.state.extremes import Extremes
from pinotpy.pql.ast import Dialect


class BoolAnd(Extremes):
    """The least of the values 0 and 1; `nothing` is what no rows give without null handling."""

    result_type: ClassVar[DataType] = DataType.BOOLEAN
    accepts_multi_value: ClassVar[bool] = False
    which: ClassVar[tuple[str, ...]] = ("min",)
    nothing: ClassVar[bool] = True
    summary: ClassVar[str] = "Whether the condition holds in all rows; true of none."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "booland": AggregateExample("BOOL_AND(points > 0)", True),
    }

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_types(self, argument, (DataType.BOOLEAN,), "BOOLEAN values or a condition", dialect)

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        results = states[0].cast(pa.bool_())
        return results if null_handling else pc.fill_null(results, self.nothing)

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        unseen = None if null_handling else self.nothing
        return [unseen if state is None else bool(state) for state in states[0]]


FUNCTION = BoolAnd("booland", "boolAnd")
