"""PERCENTILERAWTDIGEST, PERCENTILERAWTDIGESTMV: the t-digest of PERCENTILETDIGEST itself, serialized, as lower-case
hex.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.aggregate.percentiletdigest import PercentileTDigest
from pinotpy.functions.sketches.multiset import multisets_of
from pinotpy.functions.sketches.tdigest import write_digests
from pinotpy.functions.spec import AggregateExample, Argument


class PercentileRawTDigest(PercentileTDigest):
    """As PERCENTILETDIGEST; of no rows it is an empty digest."""

    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = "The t-digest of PERCENTILETDIGEST itself, serialized, as hex; the level orders groups."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "percentilerawtdigest": AggregateExample(
            "PERCENTILERAWTDIGEST(points, 50)",
            "000000013ff000000000000040220000000000004059000000000000000000063ff00000000000003ff00000000000003ff00000000000003ff00000"
            "000000003ff000000000000040080000000000003ff000000000000040100000000000003ff000000000000040140000000000003ff0000000000000"
            "4022000000000000",
        ),
        "percentilerawtdigestmv": AggregateExample(
            "PERCENTILERAWTDIGESTMV(rounds, 50)",
            "000000013ff000000000000040140000000000004059000000000000000000093ff00000000000003ff00000000000003ff00000000000003ff00000"
            "000000003ff000000000000040000000000000003ff000000000000040000000000000003ff000000000000040000000000000003ff0000000000000"
            "40080000000000003ff000000000000040080000000000003ff000000000000040100000000000003ff00000000000004014000000000000",
        ),
    }

    def means_of(self, argument: Argument) -> Callable[[Int64Array], tuple[Int64Array, Int64Array, Int64Array]] | None:
        return None  # the digest is all of the centroids

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return pa.array([data.hex() for data in write_digests(multisets_of(states), self.compression)], pa.string())

    def order_values(self, states: Sequence[pa.Array], finished: pa.Array) -> pa.Array:
        estimate = PercentileTDigest.of_level(self.level)
        estimate.compression = self.compression
        return estimate.finish(states, null_handling=False)


FUNCTIONS = (
    PercentileRawTDigest("percentilerawtdigest", "percentileRawTDigest"),
    PercentileRawTDigest("percentilerawtdigestmv", "percentileRawTDigestMV", multi_value=True),
)
