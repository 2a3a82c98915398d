"""DISTINCTCOUNTRAWTHETASKETCH(x[, 'nominalEntries=…']): the theta sketch itself, compact and ordered, as base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.aggregate.distinctcountthetasketch import DistinctCountThetaSketch
from pinotpy.functions.sketches import theta
from pinotpy.functions.spec import AggregateExample


class DistinctCountRawThetaSketch(DistinctCountThetaSketch):
    """As DISTINCTCOUNTTHETASKETCH; of no rows it is an empty sketch."""

    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = "The sketch of DISTINCTCOUNTTHETASKETCH itself, compact and ordered, as base64."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountrawthetasketch": AggregateExample(
            "DISTINCTCOUNTRAWTHETASKETCH(team)", "AgMDAAAazJMDAAAAAACAP7d5Ux3zWlRzi6/v4TqelHksbOO5XkxSeg=="
        ),
    }

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return pa.array([base64.b64encode(sketch).decode("ascii") for sketch in theta.serialized(states)], pa.string())

    def order_values(self, states: Sequence[pa.Array], finished: pa.Array) -> pa.Array:
        return theta.estimates(states)


FUNCTION = DistinctCountRawThetaSketch("distinctcountrawthetasketch", "distinctCountRawThetaSketch")
