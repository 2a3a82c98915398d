"""DISTINCTCOUNTRAWULL(x[, p]): the 2^p registers of the UltraLogLog itself, as base64: what hash4j's UltraLogLog.wrap
reads.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.aggregate.distinctcountull import DistinctCountUll
from pinotpy.functions.sketches import ultraloglog
from pinotpy.functions.spec import AggregateExample


class DistinctCountRawUll(DistinctCountUll):
    """As DISTINCTCOUNTULL; of no rows it is an empty sketch."""

    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = "The sketch of DISTINCTCOUNTULL itself, its 2^p registers, as base64."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountrawull": AggregateExample("DISTINCTCOUNTRAWULL(points, 3)", "AAgAFAAQCAA="),
    }

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return pa.array(
            [base64.b64encode(data).decode("ascii") for data in ultraloglog.serialized(states, self.p)], pa.string()
        )

    def order_values(self, states: Sequence[pa.Array], finished: pa.Array) -> pa.Array:
        return ultraloglog.estimates(states)


FUNCTION = DistinctCountRawUll("distinctcountrawull", "distinctCountRawULL")
