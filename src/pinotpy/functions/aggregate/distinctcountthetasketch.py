"""DISTINCTCOUNTTHETASKETCH(x[, 'nominalEntries=…']): about how many different values, by a theta sketch. BYTES columns
hold serialized sketches, which are united. The reference's further arguments (predicates and a set expression over
them) are refused: a sketch per condition is what FILTER(WHERE …) and GROUP BY give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.sketches import theta
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.functions.whole_numbers import whole_number


class DistinctCountThetaSketch(AggregateFunction):
    """Hashes and thetas as in sketches/theta.py."""

    result_type: ClassVar[DataType] = DataType.LONG
    summary: ClassVar[str] = (
        "About how many different values, by a theta sketch; BYTES are serialized sketches, which are united."
    )
    parameters: ClassVar[str] = "[, 'nominalEntries=…']"
    accuracy: ClassVar[str] = (
        "exact up to nominalEntries different values (4,096), then standard error 1 / √nominalEntries: 1.6 %"
    )
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountthetasketch": AggregateExample("DISTINCTCOUNTTHETASKETCH(points)", 5),
    }

    def __init__(self, name: str, display_name: str, nominal_entries: int = theta.NOMINAL_ENTRIES_DEFAULT) -> None:
        self.name, self.display_name, self.nominal_entries = name, display_name, nominal_entries  # type: ignore[misc]

    def with_parameters(self, parameters: Sequence[Parameter]) -> Self:
        if not parameters or (len(parameters) == 1 and parameters[0] == ""):
            return self
        if len(parameters) > 1:
            raise InvalidQueryError(
                f"{self.display_name} takes a column and 'nominalEntries=<n>', found {len(parameters)} constants: "
                "predicates and set expressions are not supported, ask one aggregation with a condition for each"
            )
        return type(self)(self.name, self.display_name, _nominal_entries(str(parameters[0]), self.display_name))

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return theta.state_fields()

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> ValueSetPlan:
        data_type = argument.data_type
        assert data_type is not None

        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            if data_type is DataType.BYTES:
                return theta.states_of_serialized(rows, values, num_rows, self.nominal_entries)
            return theta.states_of_values(rows, values, num_rows, data_type, self.nominal_entries)

        return ValueSetPlan(collect, counted=False)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return theta.merge_states(states, groups, num_groups, self.nominal_entries)

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return theta.estimates(states)


def _nominal_entries(text: str, function: str) -> int:
    """The n of nominalEntries=n, rounded up to a power of two, as the reference does."""
    key, _, value = text.replace(" ", "").partition("=")
    number = whole_number(value)
    if key.lower() != "nominalentries" or number is None:
        raise InvalidQueryError(f"expected 'nominalEntries=<n>' as second argument of {function}, found '{text[:60]}'")
    entries = 1 << max(number - 1, 0).bit_length()
    if not theta.NOMINAL_ENTRIES_MIN <= entries <= theta.NOMINAL_ENTRIES_MAX:
        raise InvalidQueryError(
            f"expected nominalEntries between {theta.NOMINAL_ENTRIES_MIN} and {theta.NOMINAL_ENTRIES_MAX}, found "
            f"{value}"
        )
    return entries


FUNCTION = DistinctCountThetaSketch("distinctcountthetasketch", "distinctCountThetaSketch")
