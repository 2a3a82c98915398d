"""AVG, AVGMV: the exact sum over the number of values, as DOUBLE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, check_number
from pinotpy.functions.state.plans import Plan
from pinotpy.functions.state.slots import sum_plan
from pinotpy.functions.state.state_values import average_of, doubles
from pinotpy.functions.state.states import averages_as_doubles, double_result, merge_counts, merge_sums, sum_field
from pinotpy.pql.ast import Dialect


class Average(AggregateFunction):
    result_type: ClassVar[DataType] = DataType.DOUBLE
    summary: ClassVar[str] = "The average of the values: their exact sum over their number."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "avg": AggregateExample("AVG(points)", 3.8333333333333335),
        "avgmv": AggregateExample("AVGMV(rounds)", 2.5555555555555554),
    }

    def __init__(self, name: str, display_name: str, *, multi_value: bool = False) -> None:
        self.name, self.display_name, self.multi_value = name, display_name, multi_value  # type: ignore[misc]

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_number(self, argument, dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return [sum_field(argument.data_type), pa.field("count", pa.int64())]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        return sum_plan(argument, sum_fits_long=sum_fits_long, with_count=True)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [merge_sums(states[0], groups, num_groups), merge_counts(states[1], groups, num_groups)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        values, seen = averages_as_doubles(states[0], states[1].to_numpy(zero_copy_only=False))
        return double_result(values, seen, nothing=float("-inf"), null_handling=null_handling)

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        averages = [
            None if state is None else average_of(state, max(count, 1)) for state, count in zip(*states, strict=True)
        ]
        return doubles(averages, nothing=float("-inf"), null_handling=null_handling)


FUNCTIONS = (Average("avg", "avg"), Average("avgmv", "avgMV", multi_value=True))
