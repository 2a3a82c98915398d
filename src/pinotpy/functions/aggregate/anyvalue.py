"""ANYVALUE(x): one of the values, in the type of the argument; always the least, so that equal questions have equal
answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups
from pinotpy.functions.state.plans import Plan, SlotPlan, ValueSetPlan
from pinotpy.functions.state.slots import extremes_plan
from pinotpy.functions.state.states import extremes_of, merge_extremes


class AnyValue(AggregateFunction):
    """Its state is the least value in the argument's own Arrow type. Null where nothing was seen, under any null
    handling (the reference then fails with 450).
    """

    name = "anyvalue"
    display_name = "anyValue"
    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = "One of the values, always the least; null of no rows."
    examples: ClassVar[Mapping[str, AggregateExample]] = {"anyvalue": AggregateExample("ANYVALUE(team)", "blue")}

    def result_of(self, argument: Argument) -> Argument:
        return Argument(argument.data_type)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return [pa.field("value", argument.data_type.arrow)]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        assert argument.data_type is not None
        kind = argument.data_type.arrow
        if argument.data_type.stored is not StoredType.VAR:
            plan = extremes_plan(argument, ("min",))
            assert isinstance(plan, SlotPlan)
            least = plan.collect
            return replace(plan, collect=lambda slots, seen, overflow: [least(slots, seen, overflow)[0].cast(kind)])

        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            return [extremes_of(rows, values, num_rows, is_min=True).cast(kind)]

        return ValueSetPlan(collect, counted=False)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        kind = states[0].type
        wide = (
            pa.binary()
            if pa.types.is_string(kind) or pa.types.is_binary(kind)
            else pa.float64()
            if pa.types.is_floating(kind)
            else pa.int64()
        )
        return [merge_extremes(states[0].cast(wide), groups, num_groups, is_min=True).cast(kind)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return states[0]


FUNCTION = AnyValue()
