"""DISTINCTCOUNTCPCSKETCH(x[, lgK]): about how many different values, by a CPC sketch. BYTES columns hold serialized
sketches of Apache DataSketches, which are united.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.sketches import cpc
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter
from pinotpy.functions.state.plans import Hashing, Plan, SketchPlan, ValueSetPlan


class DistinctCountCpcSketch(AggregateFunction):
    """Coupons as in sketches/cpc.py."""

    result_type: ClassVar[DataType] = DataType.LONG
    summary: ClassVar[str] = (
        "About how many different values, by a CPC sketch; BYTES are serialized sketches, which are united."
    )
    parameters: ClassVar[str] = "[, lgK]"
    accuracy: ClassVar[str] = "standard error 0.69 / √(2^lgK): 1.1 % with 12, the default"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountcpcsketch": AggregateExample("DISTINCTCOUNTCPCSKETCH(points)", 5),
    }
    with_values: ClassVar[bool] = False

    def __init__(self, name: str, display_name: str, lg_k: int = cpc.LG_K_DEFAULT) -> None:
        self.name, self.display_name, self.lg_k = name, display_name, lg_k  # type: ignore[misc]

    def with_parameters(self, parameters: Sequence[Parameter]) -> Self:
        return type(self)(self.name, self.display_name, cpc.lg_k_parameter(parameters, self.display_name))

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return cpc.state_fields(argument.data_type, with_values=self.with_values)

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        data_type = argument.data_type
        assert data_type is not None

        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            if data_type is DataType.BYTES:
                return cpc.states_of_serialized(rows, values, num_rows, self.lg_k)
            return cpc.states_of_values(rows, values, num_rows, data_type, self.lg_k, with_values=self.with_values)

        if data_type.stored.is_fixed and not self.with_values:
            return SketchPlan(
                self.lg_k,
                lambda rows, entries, num_rows: cpc.states_of_coupons(rows, entries, num_rows, self.lg_k),
                Hashing.CPC,
                lambda values: cpc.coupons_of_numbers(values, data_type, self.lg_k),
            )
        return ValueSetPlan(collect, counted=False)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return cpc.merge_states(states, groups, num_groups)

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return cpc.estimates(states)


FUNCTION = DistinctCountCpcSketch("distinctcountcpcsketch", "distinctCountCPCSketch")
