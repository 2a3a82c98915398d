"""DISTINCTCOUNTHLL(x[, log2m]), DISTINCTCOUNTHLLMV: about how many different values, by HyperLogLog. BYTES columns hold
serialized HyperLogLogs, which are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.sketches import hyperloglog
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter
from pinotpy.functions.state.plans import Plan, SketchPlan, ValueSetPlan


class DistinctCountHll(AggregateFunction):
    """Registers as in sketches/hyperloglog.py."""

    result_type: ClassVar[DataType] = DataType.LONG
    summary: ClassVar[str] = (
        "About how many different values, by HyperLogLog; BYTES are serialized HyperLogLogs, which are merged."
    )
    parameters: ClassVar[str] = "[, log2m]"
    accuracy: ClassVar[str] = "standard error 1.04 / √(2^log2m): 6.5 % with 8, the default"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcounthll": AggregateExample("DISTINCTCOUNTHLL(points)", 5),
        "distinctcounthllmv": AggregateExample("DISTINCTCOUNTHLLMV(rounds)", 5),
    }

    def __init__(
        self, name: str, display_name: str, *, multi_value: bool = False, log2m: int = hyperloglog.LOG2M_DEFAULT
    ) -> None:
        self.name, self.display_name, self.multi_value, self.log2m = name, display_name, multi_value, log2m  # type: ignore[misc]

    def with_parameters(self, parameters: Sequence[Parameter]) -> DistinctCountHll:
        if not parameters:
            return self
        return type(self)(
            self.name,
            self.display_name,
            multi_value=self.multi_value,
            log2m=hyperloglog.log2m_parameter(parameters[0], self.display_name),
        )

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return hyperloglog.state_fields()

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        data_type = argument.data_type
        assert data_type is not None
        if data_type.is_text or (data_type.stored.is_fixed and data_type is not DataType.BOOLEAN):
            return SketchPlan(
                self.log2m,
                lambda rows, entries, num_rows: hyperloglog.states_of_entries(rows, entries, num_rows, self.log2m),
            )

        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            if data_type is DataType.BYTES:
                return hyperloglog.states_of_serialized(rows, values, num_rows)
            return hyperloglog.states_of_values(rows, values, num_rows, data_type, self.log2m)

        return ValueSetPlan(collect, counted=False)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return hyperloglog.merge_states(states, groups, num_groups)

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return hyperloglog.estimates(states)


FUNCTIONS = (
    DistinctCountHll("distinctcounthll", "distinctCountHLL"),
    DistinctCountHll("distinctcounthllmv", "distinctCountHLLMV", multi_value=True),
)
