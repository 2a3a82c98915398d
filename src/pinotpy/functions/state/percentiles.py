"""What the percentile functions share: the level, and a multiset of the values as state (sketches/multiset.py).

A function adds how values become numbers (`numbers`), how much of them it keeps (`keep`) and what it reads off
(`read`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

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
from pinotpy.functions.spec import AggregateFunction, Argument, Groups, Parameter, check_number
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.pql.ast import Dialect


class PercentileFunction(AggregateFunction):
    """A percentile; `level` from 0 to 100, `nothing` what it says of no values without null handling."""

    result_type: ClassVar[DataType] = DataType.DOUBLE
    nothing: ClassVar[float] = float("-inf")
    level: float = 50

    def __init__(self, name: str, display_name: str, *, multi_value: bool = False) -> None:
        self.name, self.display_name, self.multi_value = name, display_name, multi_value  # type: ignore[misc]

    def with_parameters(self, parameters: Sequence[Parameter]) -> Self:
        function = copy.copy(self)
        function.level = self._level(parameters)
        return function

    @classmethod
    def of_level(cls, level: float) -> Self:
        """This function for a level: what orders groups by their sketches."""
        function = cls(cls.__name__.lower(), cls.__name__)
        function.level = level
        return function

    def _level(self, parameters: Sequence[Parameter]) -> float:
        level = parameters[0] if parameters else None
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 <= level <= 100:
            shown = "none" if level is None else f"'{level}'"
            raise InvalidQueryError(
                f"{self.display_name} takes a percentile from 0 to 100, found {shown}: write {self.display_name}(x, 95)"
            )
        return level

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_number(self, argument, dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return multiset_fields(argument.data_type)

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> ValueSetPlan:
        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            rows, numbers, counts = self.numbers(argument, rows, values, counts)
            return self.keep(collect_multisets(rows, numbers, counts, num_rows)).to_arrow()

        rank_of = self.rank_of(argument)
        as_longs = rank_of is not None and self.result_type is DataType.LONG
        return ValueSetPlan(collect, rank_of=rank_of, as_longs=as_longs, means_of=self.means_of(argument))

    def rank_of(self, argument: Argument) -> Callable[[Int64Array], Int64Array] | None:
        """The rank of the one value that `read` needs, by the number of values (ValueSetPlan.rank_of); None: it
        needs more.
        """
        return None

    def means_of(self, argument: Argument) -> Callable[[Int64Array], tuple[Int64Array, Int64Array, Int64Array]] | None:
        """The ranks of the two means that `read` needs, by the number of values (ValueSetPlan.means_of); None: it
        needs more.
        """
        return None

    def numbers(
        self, argument: Argument, rows: Int64Array, values: pa.Array, counts: Int64Array
    ) -> tuple[Int64Array, NDArray[Any], Int64Array]:
        """Rows, numbers (of the state's type) and counts of what the scan saw (see ValueSetPlan)."""
        return rows, numbers_of(values), counts

    def keep(self, multisets: Multisets) -> Multisets:
        """What of the multisets is kept as state."""
        return multisets

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return self.keep(merge_multisets(states, groups, num_groups)).to_arrow()

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        multisets = multisets_of(states)
        seen = multisets.lengths > 0
        kind: Any = np.int64 if self.result_type is DataType.LONG else np.float64
        values = np.full(len(seen), self.nothing, kind)
        if seen.any():
            values[seen] = self.read(multisets.without_empty()).astype(kind) + kind(0)  # never −0.0
        return pa.array(values, mask=None if seen.all() or not null_handling else ~seen)

    def read(self, multisets: Multisets) -> NDArray[Any]:
        """The percentile of every group; none is empty."""
        raise NotImplementedError
