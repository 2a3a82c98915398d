"""DISTINCTCOUNTRAWHLL(x[, log2m]), DISTINCTCOUNTRAWHLLMV: the HyperLogLog itself, serialized, as lower-case hex."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.aggregate.distinctcounthll import DistinctCountHll
from pinotpy.functions.sketches import hyperloglog
from pinotpy.functions.spec import AggregateExample


class DistinctCountRawHll(DistinctCountHll):
    """As DISTINCTCOUNTHLL; of no rows it is an empty HyperLogLog."""

    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = "The HyperLogLog of DISTINCTCOUNTHLL itself, serialized, as hex."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountrawhll": AggregateExample("DISTINCTCOUNTRAWHLL(points, 3)", "00000003000000080610040000000000"),
        "distinctcountrawhllmv": AggregateExample(
            "DISTINCTCOUNTRAWHLLMV(rounds, 3)", "00000003000000080630040000000000"
        ),
    }

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return pa.array([data.hex() for data in hyperloglog.serialized(states, self.log2m)], pa.string())

    def order_values(self, states: Sequence[pa.Array], finished: pa.Array) -> pa.Array:
        return hyperloglog.estimates(states)


FUNCTIONS = (
    DistinctCountRawHll("distinctcountrawhll", "distinctCountRawHLL"),
    DistinctCountRawHll("distinctcountrawhllmv", "distinctCountRawHLLMV", multi_value=True),
)
