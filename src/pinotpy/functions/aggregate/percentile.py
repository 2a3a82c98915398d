"""PERCENTILE, PERCENTILEMV: the exact percentile, an element of the sorted values, as DOUBLE.

Rank floor(size × level / 100) from 0, the last element for 100, no interpolation; so in Pinot 0.6.0 and 1.5.1 (recorded).
PERCENTILESMARTTDIGEST is exact here for any number of values; the reference is up to its threshold, a third argument that is
taken and not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.sketches.multiset import (
    collect_multisets,
    elements,
    merge_multisets,
    multiset_fields,
    multisets_of,
    numbers_of,
    percentile_ranks,
)
from pinotpy.functions.spec import AggregateFunction, Argument, DistributionPlan, Groups, Parameter, check_number
from pinotpy.functions.states import double_result
from pinotpy.pql.ast import Dialect


def percentile_level(function: AggregateFunction, parameters: Sequence[Parameter]) -> float:
    """The percentile among a call's constants, 0 to 100; raises InvalidQueryError."""
    level = parameters[0] if parameters else None
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 <= level <= 100:
        found = "none" if level is None else f"'{level}'"
        raise InvalidQueryError(f"{function.display_name} takes a percentile from 0 to 100, found {found}: write {function.display_name}(x, 95)")
    return level


class Percentile(AggregateFunction):
    """Exact for any number of values: its state is every distinct value of the group with its count. `level`: 0 to 100."""

    result_type: ClassVar[DataType] = DataType.DOUBLE

    def __init__(self, name: str, display_name: str, level: float = 50, *, multi_value: bool = False) -> None:
        self.name, self.display_name, self.multi_value = name, display_name, multi_value  # type: ignore[misc]
        self.level = level

    def with_parameters(self, parameters: Sequence[Parameter]) -> Percentile:
        return Percentile(self.name, self.display_name, percentile_level(self, parameters), multi_value=self.multi_value)

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_number(self, argument, dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return multiset_fields(argument.data_type)

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> DistributionPlan:
        return DistributionPlan(_collect)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return merge_multisets(states, groups, num_groups).to_arrow()

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        multisets = multisets_of(states)
        sizes = multisets.sizes()
        seen = sizes > 0
        values = np.zeros(len(sizes))
        if seen.any():
            values[seen] = elements(multisets.without_empty(), percentile_ranks(sizes[seen], self.level))
        return double_result(values, seen, nothing=float("-inf"), null_handling=null_handling)


def _collect(rows: NDArray[np.int64], values: pa.Array, counts: NDArray[Any], num_rows: int) -> list[pa.Array]:
    return collect_multisets(rows, numbers_of(values), counts, num_rows).to_arrow()


FUNCTIONS = (
    Percentile("percentile", "percentile"),
    Percentile("percentilemv", "percentileMV", multi_value=True),
    Percentile("percentilesmarttdigest", "percentileSmartTDigest"),
    Percentile("percentilesmarttdigestmv", "percentileSmartTDigestMV", multi_value=True),
)
