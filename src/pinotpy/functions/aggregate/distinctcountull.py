"""DISTINCTCOUNTULL(x[, p]): about how many different values, by UltraLogLog. BYTES columns hold serialized ones, which
are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.sketches import ultraloglog
from pinotpy.functions.sketches.hash64 import wyhash_of_values
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter
from pinotpy.functions.state.plans import Hashing, Plan, SketchPlan, ValueSetPlan


class DistinctCountUll(AggregateFunction):
    """Registers as in sketches/ultraloglog.py."""

    result_type: ClassVar[DataType] = DataType.LONG
    summary: ClassVar[str] = (
        "About how many different values, by UltraLogLog; BYTES are serialized UltraLogLogs, which are merged."
    )
    parameters: ClassVar[str] = "[, p]"
    accuracy: ClassVar[str] = "standard error 0.78 / √(2^p): 1.2 % with 12, the default"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountull": AggregateExample("DISTINCTCOUNTULL(points)", 5),
    }

    def __init__(self, name: str, display_name: str, p: int = ultraloglog.P_DEFAULT) -> None:
        self.name, self.display_name, self.p = name, display_name, p  # type: ignore[misc]

    def with_parameters(self, parameters: Sequence[Parameter]) -> Self:
        return type(self)(self.name, self.display_name, ultraloglog.precision(parameters, self.display_name))

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return ultraloglog.state_fields()

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        data_type = argument.data_type
        assert data_type is not None

        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            if data_type is DataType.BYTES:
                return ultraloglog.states_of_serialized(rows, values, num_rows)
            return ultraloglog.states_of_ranks(
                rows, ultraloglog.register_ranks(wyhash_of_values(values, data_type), self.p), num_rows, self.p
            )

        if data_type.stored.is_fixed:
            return SketchPlan(
                self.p,
                lambda rows, entries, num_rows: ultraloglog.states_of_ranks(rows, entries, num_rows, self.p),
                Hashing.ULTRALOGLOG,
                lambda values: ultraloglog.register_ranks(wyhash_of_values(values, data_type), self.p),
            )
        return ValueSetPlan(collect, counted=False)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return ultraloglog.merge_states(states, groups, num_groups)

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return ultraloglog.estimates(states)


FUNCTION = DistinctCountUll("distinctcountull", "distinctCountULL")
