"""DISTINCTCOUNT, DISTINCTCOUNTMV: the number of different values, exact (the reference counted hashes until 0.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.functions.state.states import assemble_sets, count_states, distinct_sets, merge_sets, set_field, set_sizes


class DistinctCount(AggregateFunction):
    result_type: ClassVar[DataType] = DataType.INT
    accepts_multi_value: ClassVar[bool] = True
    dictionary_only: ClassVar[bool] = True
    counts_values: ClassVar[bool] = True
    summary: ClassVar[str] = "The number of different values."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcount": AggregateExample("DISTINCTCOUNT(team)", 3),
        "distinctcountmv": AggregateExample("DISTINCTCOUNTMV(rounds)", 5),
    }

    def __init__(self, name: str, display_name: str, *, multi_value: bool = False) -> None:
        self.name, self.display_name, self.multi_value = name, display_name, multi_value  # type: ignore[misc]

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return [set_field("values", argument.data_type)]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> ValueSetPlan:
        return ValueSetPlan(_collect, counted=False, assemble=assemble_sets, count_state=count_states)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [merge_sets(states[0], groups, num_groups)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return set_sizes(states[0])

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        sizes = [len(state) if isinstance(state, list) else state or 0 for state in states[0]]
        return sizes if max(sizes, default=0) < 2**31 else None

    def from_dictionary(self, dictionary: pa.Array) -> list[pa.Array]:
        return [distinct_sets(np.zeros(len(dictionary), np.int64), dictionary, 1)]


def _collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
    return [distinct_sets(rows, values, num_rows)]


FUNCTIONS = (
    DistinctCount("distinctcount", "distinctCount"),
    DistinctCount("distinctcountmv", "distinctCountMV", multi_value=True),
)
