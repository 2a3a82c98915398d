"""DISTINCTSUM, DISTINCTSUMMV, SUM(DISTINCT x): the sum of the different values, exact and rounded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateExample
from pinotpy.functions.state.distinct_sums import DistinctSums
from pinotpy.functions.state.states import double_result, sums_as_doubles


class DistinctSum(DistinctSums):
    result_type: ClassVar[DataType] = DataType.DOUBLE
    summary: ClassVar[str] = (
        "The sum of the different values, computed exactly and rounded once; `SUM(DISTINCT x)` is the same."
    )
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctsum": AggregateExample("DISTINCTSUM(points)", 22.0),
        "distinctsummv": AggregateExample("DISTINCTSUMMV(rounds)", 15.0),
    }

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        values, seen = sums_as_doubles(self.sums(states)[0])
        return double_result(values, seen, nothing=0.0, null_handling=null_handling)


FUNCTIONS = (DistinctSum("distinctsum", "distinctSum"), DistinctSum("distinctsummv", "distinctSumMV", multi_value=True))
