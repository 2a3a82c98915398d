"""DISTINCTAVG, DISTINCTAVGMV, AVG(DISTINCT x): the average of the different values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import ClassVar

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateExample
from pinotpy.functions.state.distinct_sums import DistinctSums
from pinotpy.functions.state.states import averages_as_doubles, double_result


class DistinctAverage(DistinctSums):
    result_type: ClassVar[DataType] = DataType.DOUBLE
    summary: ClassVar[str] = (
        "The average of the different values: their exact sum over their number; `AVG(DISTINCT x)` is the same."
    )
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "distinctavg": AggregateExample("DISTINCTAVG(points)", 4.4),
        "distinctavgmv": AggregateExample("DISTINCTAVGMV(rounds)", 3.0),
    }

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        values, seen = averages_as_doubles(*self.sums(states))
        return double_result(values, seen, nothing=nan, null_handling=null_handling)


FUNCTIONS = (
    DistinctAverage("distinctavg", "distinctAvg"),
    DistinctAverage("distinctavgmv", "distinctAvgMV", multi_value=True),
)
