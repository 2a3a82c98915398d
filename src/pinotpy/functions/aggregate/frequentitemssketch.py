"""FREQUENTLONGSSKETCH(x[, maxMapSize]), FREQUENTSTRINGSSKETCH: the values that are seen most often, as a sketch of
Apache DataSketches, as base64. BYTES columns hold serialized sketches, which are merged.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.sketches import frequent_items
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.pql.ast import Dialect

_TYPES = {
    "frequentlongssketch": (DataType.INT, DataType.LONG, DataType.TIMESTAMP, DataType.BYTES),
    "frequentstringssketch": (DataType.STRING, DataType.BYTES),
}


class FrequentItemsSketch(AggregateFunction):
    """Counts as in sketches/frequent_items.py."""

    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = (
        "The values seen most often and their counts, as a base64 sketch of Apache DataSketches; BYTES are such "
        "sketches, merged."
    )
    parameters: ClassVar[str] = "[, maxMapSize]"
    accuracy: ClassVar[str] = (
        "exact up to 3/4 × maxMapSize (256) different values a group; beyond, counts are too low by at most the "
        "sketch's offset"
    )
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "frequentlongssketch": AggregateExample(
            "FREQUENTLONGSSKETCH(points)",
            "BAEKCAMAAAAFAAAAAAAAAAYAAAAAAAAAAAAAAAAAAAACAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAADAAAAAAAAAAQA"
            "AAAAAAAABQAAAAAAAAAJAAAAAAAAAA==",
        ),
        "frequentstringssketch": AggregateExample(
            "FREQUENTSTRINGSSKETCH(team)",
            "BAEKCAMAAAADAAAAAAAAAAYAAAAAAAAAAAAAAAAAAAADAAAAAAAAAAIAAAAAAAAAAQAAAAAAAAAEAAAAYmx1ZQMAAAByZWQFAAAAZ3JlZW4=",
        ),
    }

    def __init__(self, name: str, display_name: str, map_size: int = frequent_items.MAP_SIZE_DEFAULT) -> None:
        self.name, self.display_name, self.map_size = name, display_name, map_size  # type: ignore[misc]

    @property
    def _item(self) -> pa.DataType:
        return pa.int64() if self.name == "frequentlongssketch" else pa.binary()

    def with_parameters(self, parameters: Sequence[Parameter]) -> Self:
        return type(self)(
            self.name, self.display_name, frequent_items.map_size_parameter(parameters, self.display_name)
        )

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        if argument.data_type not in _TYPES[self.name]:
            known = ", ".join(data_type.value for data_type in _TYPES[self.name])
            raise InvalidQueryError(
                f"{self.display_name} takes {known}, found {argument.name}: use CAST or another column",
                function=self.name,
            )

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return frequent_items.state_fields(self._item)

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> ValueSetPlan:
        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            if argument.data_type is DataType.BYTES:
                return frequent_items.states_of_serialized(rows, values, counts, num_rows, self.map_size, self._item)
            return frequent_items.states_of_values(rows, values.cast(self._item), counts, num_rows, self.map_size)

        return ValueSetPlan(collect)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return frequent_items.merge_states(states, groups, num_groups, self.map_size)

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return pa.array(
            [base64.b64encode(data).decode("ascii") for data in frequent_items.serialized(states, self.map_size)],
            pa.string(),
        )


FUNCTIONS = (
    FrequentItemsSketch("frequentlongssketch", "frequentLongsSketch"),
    FrequentItemsSketch("frequentstringssketch", "frequentStringsSketch"),
)
