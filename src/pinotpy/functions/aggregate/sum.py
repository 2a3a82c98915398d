"""SUM, SUMMV: exact over integers (128 bits), doubles and BIG_DECIMAL, rounded to DOUBLE once. SUM0 is SUM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, check_number
from pinotpy.functions.state.plans import Plan
from pinotpy.functions.state.slots import sum_plan
from pinotpy.functions.state.state_values import doubles, sum_of
from pinotpy.functions.state.states import double_result, merge_sums, sum_field, sums_as_doubles
from pinotpy.pql.ast import Dialect


class Sum(AggregateFunction):
    result_type: ClassVar[DataType] = DataType.DOUBLE
    summary: ClassVar[str] = "The sum of the values, computed exactly and rounded once."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "sum": AggregateExample("SUM(points)", 23.0),
        "summv": AggregateExample("SUMMV(rounds)", 23.0),
    }

    def __init__(
        self, name: str, display_name: str, *, multi_value: bool = False, aliases: tuple[str, ...] = ()
    ) -> None:
        self.name, self.display_name, self.multi_value, self.aliases = name, display_name, multi_value, aliases  # type: ignore[misc]

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_number(self, argument, dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return [sum_field(argument.data_type)]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        return sum_plan(argument, sum_fits_long=sum_fits_long, with_count=False)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [merge_sums(states[0], groups, num_groups)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        values, seen = sums_as_doubles(states[0])
        return double_result(values, seen, nothing=0.0, null_handling=null_handling)

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        return doubles(
            [None if state is None else sum_of(state) for state in states[0]], nothing=0.0, null_handling=null_handling
        )


FUNCTIONS = (Sum("sum", "sum", aliases=("sum0",)), Sum("summv", "sumMV", multi_value=True))
