"""MODE(x[, 'MIN' | 'MAX' | 'AVG']): the value seen most often; of several seen as often the least, the greatest or
their average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.sketches.multiset import (
    Multisets,
    collect_multisets,
    merge_multisets,
    multiset_fields,
    multisets_of,
    numbers_of,
)
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter, check_number
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.pql.ast import Dialect

_CHOICES: Final = ("MIN", "MAX", "AVG")


class Mode(AggregateFunction):
    """Its state is every distinct value of the group with its count."""

    name = "mode"
    display_name = "mode"
    result_type: ClassVar[DataType] = DataType.DOUBLE
    summary: ClassVar[str] = (
        "The value seen most often; of several the least (`'MIN'`), the greatest (`'MAX'`) or their average (`'AVG'`)."
    )
    parameters: ClassVar[str] = "[, choice]"
    examples: ClassVar[Mapping[str, AggregateExample]] = {"mode": AggregateExample("MODE(points)", 1.0)}

    def __init__(self, choice: str = "MIN") -> None:
        self.choice = choice

    def with_parameters(self, parameters: Sequence[Parameter]) -> Mode:
        if not parameters:
            return self
        choice = str(parameters[0]).upper()
        if choice not in _CHOICES:
            raise InvalidQueryError(
                f"expected 'MIN', 'MAX' or 'AVG' as second argument of MODE, found '{str(parameters[0])[:40]}'"
            )
        return Mode(choice)

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_number(self, argument, dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return multiset_fields(argument.data_type)

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> ValueSetPlan:
        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            return collect_multisets(rows, numbers_of(values), counts, num_rows).to_arrow()

        return ValueSetPlan(collect)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return merge_multisets(states, groups, num_groups).to_arrow()

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        multisets = multisets_of(states)
        seen = multisets.lengths > 0
        values = np.full(len(seen), -np.inf)
        if seen.any():
            values[seen] = self._modes(multisets.without_empty()) + 0.0
        return pa.array(values, mask=None if seen.all() or not null_handling else ~seen)

    def _modes(self, multisets: Multisets) -> NDArray[np.float64]:
        """The mode of every group; none is empty."""
        groups, starts = multisets.groups(), multisets.offsets[:-1]
        most = np.maximum.reduceat(multisets.counts, starts)
        most_frequent = np.flatnonzero(multisets.counts == most[groups])
        first = np.searchsorted(most_frequent, starts)  # values ascend: the first that is kept is the least
        values: NDArray[np.float64] = multisets.values[most_frequent].astype(np.float64)
        if self.choice == "MIN":
            least: NDArray[np.float64] = values[first]
            return least
        after = np.append(first[1:], len(most_frequent))
        if self.choice == "MAX":
            greatest: NDArray[np.float64] = values[after - 1]
            return greatest
        averages: NDArray[np.float64] = np.add.reduceat(values, first) / (after - first)
        return averages


FUNCTION = Mode()
