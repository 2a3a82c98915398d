"""PERCENTILERAWEST, PERCENTILERAWESTMV: the quantile digest of PERCENTILEEST itself, serialized, as lower-case hex."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.aggregate.percentileest import PercentileEst
from pinotpy.functions.sketches.multiset import multisets_of
from pinotpy.functions.sketches.quantile_digest import write_digests
from pinotpy.functions.spec import AggregateExample, Argument


class PercentileRawEst(PercentileEst):
    """As PERCENTILEEST; of no rows it is an empty digest."""

    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = "The quantile digest of PERCENTILEEST itself, serialized, as hex; the level orders groups."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "percentilerawest": AggregateExample(
            "PERCENTILERAWEST(points, 50)",
            "3fa999999999999a00000000000000000000000000000000000000000000000100000000000000090000000900008000000000000001400000000000"
            "0000000080000000000000033ff0000000000000030280000000000000000000000000000000000080000000000000043ff000000000000000008000"
            "0000000000053ff000000000000003018000000000000004000000000000000003038000000000000000000000000000000000008000000000000009"
            "3ff0000000000000030480000000000000000000000000000000",
        ),
        "percentilerawestmv": AggregateExample(
            "PERCENTILERAWESTMV(rounds, 50)",
            "3fa999999999999a00000000000000000000000000000000000000000000000100000000000000050000000900008000000000000001400000000000"
            "000000008000000000000002400800000000000000008000000000000003400000000000000003018000000000000002000000000000000003028000"
            "0000000000000000000000000000000080000000000000043ff0000000000000000080000000000000053ff000000000000003018000000000000004"
            "0000000000000000030380000000000000000000000000000000",
        ),
    }

    def rank_of(self, argument: Argument) -> Callable[[Int64Array], Int64Array] | None:
        return None  # the digest is all of the values

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return pa.array([data.hex() for data in write_digests(multisets_of(states))], pa.string())

    def order_values(self, states: Sequence[pa.Array], finished: pa.Array) -> pa.Array:
        return PercentileEst.of_level(self.level).finish(states, null_handling=False)


FUNCTIONS = (
    PercentileRawEst("percentilerawest", "percentileRawEst"),
    PercentileRawEst("percentilerawestmv", "percentileRawEstMV", multi_value=True),
)
