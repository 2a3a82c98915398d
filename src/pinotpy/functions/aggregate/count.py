"""COUNT(*), COUNT(column): rows; under null handling the values that are not null. COUNTMV: values of multi-value
columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups
from pinotpy.functions.state.plans import Overflow, RankKind, SlotPlan, StateForm
from pinotpy.functions.state.states import merge_counts


class Count(AggregateFunction):
    result_type: ClassVar[DataType] = DataType.LONG
    accepts_multi_value: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "The number of rows; of COUNTMV the number of values. COUNT(x) leaves out nulls under null handling."
    )
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "count": AggregateExample("COUNT(*)", 6),
        "countmv": AggregateExample("COUNTMV(rounds)", 9),
    }

    def __init__(self, name: str, display_name: str, *, multi_value: bool = False) -> None:
        self.name, self.display_name, self.multi_value = name, display_name, multi_value  # type: ignore[misc]

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return [pa.field("count", pa.int64())]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> SlotPlan:
        return SlotPlan((), (), _collect, RankKind.COUNT, (StateForm.SEEN,))

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [merge_counts(states[0], groups, num_groups)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return states[0]

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        return list(states[0])


def _collect(slots: Int64Array, seen: Int64Array, overflow: Overflow) -> list[pa.Array]:
    return [pa.array(seen)]


FUNCTIONS = (Count("count", "count"), Count("countmv", "countMV", multi_value=True))
