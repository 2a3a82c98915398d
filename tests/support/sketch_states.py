"""States of aggregations made from lists of values, for the tests of sketches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pinotpy.data_types import DataType as D
from pinotpy.functions.spec import AggregateFunction, Argument
from pinotpy.functions.state.plans import SketchPlan, ValueSetPlan

STORED = {
    D.STRING: pa.binary(),
    D.JSON: pa.binary(),
    D.BYTES: pa.binary(),
    D.BOOLEAN: pa.int32(),
    D.BIG_DECIMAL: pa.binary(),
}


def collected(function: AggregateFunction, data_type: D, groups: Sequence[Sequence[Any]]) -> list[pa.Array]:
    """State columns, a row each group, from values in any order, as a scan gives them to the function."""
    rows = np.array([row for row, group in enumerate(groups) for _ in group], np.int64)
    values = pa.array([value for group in groups for value in group], STORED.get(data_type, data_type.arrow))
    order = np.random.default_rng(len(rows)).permutation(len(rows))
    return collected_arrays(function, data_type, rows[order], values.take(pa.array(order)), len(groups))


def collected_arrays(
    function: AggregateFunction, data_type: D, rows: np.ndarray[Any, Any], values: pa.Array, num_rows: int
) -> list[pa.Array]:
    """The same from arrays."""
    plan = function.plan(Argument(data_type), sum_fits_long=False)
    if isinstance(plan, SketchPlan):  # what a scan leaves, hashed by numpy
        assert plan.entries_of_values is not None
        states = plan.collect(rows, plan.entries_of_values(values), num_rows)
    else:
        assert isinstance(plan, ValueSetPlan)
        states = plan.collect(rows, values, np.ones(len(rows), np.int64), num_rows)
    assert [column.type for column in states] == [field.type for field in function.state_fields(Argument(data_type))]
    return states


def joined(parts: Sequence[list[pa.Array]]) -> list[pa.Array]:
    """State rows of several threads or servers below each other."""
    return [pa.concat_arrays([part[i] for part in parts]) for i in range(len(parts[0]))]


def merged(function: AggregateFunction, parts: Sequence[list[pa.Array]]) -> list[pa.Array]:
    """States of the same groups made one."""
    num_groups = len(parts[0][0])
    return function.merge(joined(parts), np.tile(np.arange(num_groups), len(parts)), num_groups)
