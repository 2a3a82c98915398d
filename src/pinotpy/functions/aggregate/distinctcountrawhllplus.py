"""DISTINCTCOUNTRAWHLLPLUS(x[, p[, sp]]), DISTINCTCOUNTRAWHLLPLUSMV: the HyperLogLog++ itself, as stream-lib writes it,
as hex.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.aggregate.distinctcounthllplus import DistinctCountHllPlus
from pinotpy.functions.sketches import hyperloglog_plus
from pinotpy.functions.spec import AggregateExample


class DistinctCountRawHllPlus(DistinctCountHllPlus):
    """As DISTINCTCOUNTHLLPLUS; of no rows it is an empty sketch."""

    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = "The sketch of DISTINCTCOUNTHLLPLUS itself, as stream-lib writes it, as hex."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountrawhllplus": AggregateExample(
            "DISTINCTCOUNTRAWHLLPLUS(points, 4)", "fffffffe0400000c000000000430000500000400"
        ),
        "distinctcountrawhllplusmv": AggregateExample(
            "DISTINCTCOUNTRAWHLLPLUSMV(rounds, 4)", "fffffffe0400000c020000000430000500000400"
        ),
    }

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return pa.array([data.hex() for data in hyperloglog_plus.serialized(states, self.p, self.sp)], pa.string())

    def order_values(self, states: Sequence[pa.Array], finished: pa.Array) -> pa.Array:
        return hyperloglog_plus.estimates(states)


FUNCTIONS = (
    DistinctCountRawHllPlus("distinctcountrawhllplus", "distinctCountRawHLLPlus"),
    DistinctCountRawHllPlus("distinctcountrawhllplusmv", "distinctCountRawHLLPlusMV", multi_value=True),
)
