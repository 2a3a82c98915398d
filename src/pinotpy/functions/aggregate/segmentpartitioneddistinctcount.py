"""SEGMENTPARTITIONEDDISTINCTCOUNT(x): the number of different values of each segment, added up. It is the distinct
count of a column by which the table is partitioned into segments, and merges numbers instead of sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.functions.state.states import distinct_sets, merge_counts, set_sizes


class SegmentPartitionedDistinctCount(AggregateFunction):
    """The state is a count."""

    name = "segmentpartitioneddistinctcount"
    display_name = "segmentPartitionedDistinctCount"
    result_type: ClassVar[DataType] = DataType.LONG
    dictionary_only: ClassVar[bool] = True
    summary: ClassVar[str] = "The number of different values of each segment, added up."
    accuracy: ClassVar[str] = "exact where no value lies in two segments"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "segmentpartitioneddistinctcount": AggregateExample("SEGMENTPARTITIONEDDISTINCTCOUNT(team)", 3),
    }

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return [pa.field("count", pa.int64())]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> ValueSetPlan:
        def assemble(offsets: Int64Array, values: pa.Array, counts: Int64Array) -> list[pa.Array]:
            return [pa.array(np.diff(offsets))]

        return ValueSetPlan(_collect, by_segment=True, counted=False, assemble=assemble)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [merge_counts(states[0], groups, num_groups)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return states[0]

    def from_dictionary(self, dictionary: pa.Array) -> list[pa.Array]:
        return _collect(np.zeros(len(dictionary), np.int64), dictionary, np.ones(len(dictionary), np.int64), 1)


def _collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
    return [set_sizes(distinct_sets(rows, values, num_rows)).cast(pa.int64())]


FUNCTION = SegmentPartitionedDistinctCount()
