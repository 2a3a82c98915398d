"""DISTINCTCOUNTRAWCPCSKETCH(x[, lgK]): the CPC sketch itself, as Apache DataSketches writes it, as base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.aggregate.distinctcountcpcsketch import DistinctCountCpcSketch
from pinotpy.functions.sketches import cpc
from pinotpy.functions.spec import AggregateExample


class DistinctCountRawCpcSketch(DistinctCountCpcSketch):
    """As DISTINCTCOUNTCPCSKETCH; of no rows it is an empty sketch. The state keeps a value for each coupon: the library
    makes the sketch of them.
    """

    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = "The sketch of DISTINCTCOUNTCPCSKETCH itself, as Apache DataSketches writes it, as base64."
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctcountrawcpcsketch": AggregateExample(
            "DISTINCTCOUNTRAWCPCSKETCH(team)", "BAEQDAAKzJMDAAAAAgAAAH37W3XoKwAA"
        ),
    }
    with_values: ClassVar[bool] = True

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return pa.array(
            [base64.b64encode(data).decode("ascii") for data in cpc.serialized(states, self.lg_k)], pa.string()
        )

    def order_values(self, states: Sequence[pa.Array], finished: pa.Array) -> pa.Array:
        return cpc.estimates(states)


FUNCTION = DistinctCountRawCpcSketch("distinctcountrawcpcsketch", "distinctCountRawCPCSketch")
