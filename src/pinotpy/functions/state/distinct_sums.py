"""What DISTINCTSUM and DISTINCTAVG share: sets of numbers as state, and the exact sum of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.functions.spec import AggregateFunction, Argument, Groups, check_number
from pinotpy.functions.state.exact_sums import sum_doubles
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.functions.state.states import assemble_sets, decimal_sums, distinct_sets, merge_sets, set_field, wide_array
from pinotpy.pql.ast import Dialect

_LOW_HALF = np.int64(0xFFFFFFFF)


class DistinctSums(AggregateFunction):
    """Numbers in; a function adds `finish`."""

    accepts_multi_value: ClassVar[bool] = True
    dictionary_only: ClassVar[bool] = True

    def __init__(self, name: str, display_name: str, *, multi_value: bool = False) -> None:
        self.name, self.display_name, self.multi_value = name, display_name, multi_value  # type: ignore[misc]

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_number(self, argument, dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return [set_field("values", argument.data_type)]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> ValueSetPlan:
        return ValueSetPlan(_collect, counted=False, assemble=assemble_sets)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [merge_sets(states[0], groups, num_groups)]

    def from_dictionary(self, dictionary: pa.Array) -> list[pa.Array]:
        return [distinct_sets(np.zeros(len(dictionary), np.int64), dictionary, 1)]

    def sums(self, states: Sequence[pa.Array]) -> tuple[pa.Array, Int64Array]:
        """The sum of each set, as the state column of a SUM of the same type (null of none), and how many values it
        has.
        """
        sets = states[0]
        sizes = pc.fill_null(pc.list_value_length(sets), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        groups = np.repeat(np.arange(len(sets), dtype=np.int64), sizes)
        values = sets.flatten()
        if pa.types.is_binary(values.type):
            return decimal_sums(groups, values, np.ones(len(values), np.int64), len(sets)), sizes
        numbers = values.to_numpy(zero_copy_only=False)
        if pa.types.is_floating(values.type):
            return sum_doubles(groups, numbers.astype(np.float64), len(sets)), sizes
        longs = numbers.astype(np.int64)
        # Halves of 32 bits, of which any number of values adds up in 64.
        low, high = np.zeros((2, len(sets)), np.int64)
        np.add.at(low, groups, longs & _LOW_HALF)
        np.add.at(high, groups, longs >> np.int64(32))
        high += low >> np.int64(32)
        return wide_array((low & _LOW_HALF) | (high << np.int64(32)), high >> np.int64(32), sizes > 0), sizes


def _collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
    return [distinct_sets(rows, values, num_rows)]
