"""MAX, MAXMV: the greatest value as DOUBLE. Doubles are ordered totally: −0.0 = 0.0, NaN above all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.slots import extremes_plan
from pinotpy.functions.spec import AggregateFunction, Argument, Groups, Plan, check_number
from pinotpy.functions.states import double_result, extreme_field, extremes_as_doubles, extremes_of_dictionary, merge_extremes
from pinotpy.pql.ast import Dialect


class Max(AggregateFunction):
    result_type: ClassVar[DataType] = DataType.DOUBLE
    accepts_multi_value: ClassVar[bool] = True
    dictionary_only: ClassVar[bool] = True

    def __init__(self, name: str, display_name: str, *, multi_value: bool = False) -> None:
        self.name, self.display_name, self.multi_value = name, display_name, multi_value  # type: ignore[misc]

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_number(self, argument, dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return [extreme_field("max", argument.data_type)]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        return extremes_plan(argument, ("max",))

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [merge_extremes(states[0], groups, num_groups, is_min=False)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        values, seen = extremes_as_doubles(states[0])
        return double_result(values, seen, nothing=float("-inf"), null_handling=null_handling)

    def from_dictionary(self, dictionary: pa.Array) -> list[pa.Array]:
        return extremes_of_dictionary(dictionary, ("max",))


FUNCTIONS = (Max("max", "max"), Max("maxmv", "maxMV", multi_value=True))
