"""PERCENTILEEST and PERCENTILEKLL: LONG values as Java casts them, exact up to the limit, within the stated rank error
beyond it, serialized quantile digests. Independent: numpy's sort, and a tree of nodes written out in the test.
"""

from __future__ import annotations

import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.aggregate.percentileest import FUNCTIONS
from pinotpy.functions.aggregate.percentilekll import FUNCTIONS as KLL_FUNCTIONS
from pinotpy.functions.spec import AggregateFunction, Argument
from pinotpy.functions.state.plans import ValueSetPlan

EST, KLL = FUNCTIONS[0], KLL_FUNCTIONS[0]
LEVELS = [0, 1, 29, 50, 90, 99, 99.9, 100]


def collected(function: AggregateFunction, values: pa.Array, data_type: DataType) -> list[pa.Array]:
    plan = function.plan(Argument(data_type), sum_fits_long=False)
    assert isinstance(plan, ValueSetPlan)
    return plan.collect(np.zeros(len(values), np.int64), values, np.ones(len(values), np.int64), 1)


def answer(function: AggregateFunction, states: list[pa.Array], level: float) -> float:
    value: float = function.with_parameters([level]).finish(states, null_handling=False)[0].as_py()
    return value


@pytest.mark.parametrize("size", [1, 2, 99, 100, 101, 5000])
def test_est_is_an_element_of_the_values_without_fractions(size: int) -> None:
    values = np.random.default_rng(size).normal(scale=1e4, size=size)
    states = collected(EST, pa.array(values), DataType.DOUBLE)
    ranked = np.sort(np.trunc(values)).astype(np.int64)
    for level in LEVELS:
        assert answer(EST, states, level) == ranked[min(int(level / 100.0 * size), size - 1)]


def test_doubles_become_longs_as_java_casts_them() -> None:
    values = [float("nan"), 1e300, -1e300, 2.0**63, -(2.0**63), 1.9, -1.9, float("inf")]
    states = collected(EST, pa.array(values), DataType.DOUBLE)
    assert states[0].to_pylist() == [[-(2**63), -1, 0, 1, 2**63 - 1]]
    assert states[1].to_pylist() == [[2, 1, 1, 1, 3]]


def test_longs_keep_their_digits() -> None:
    states = collected(EST, pa.array([2**53 + 1]), DataType.LONG)
    assert EST.finish(states, null_handling=False).to_pylist() == [2**53 + 1]


def test_on_nothing_est_is_the_least_long_or_null_and_kll_is_nan_or_null() -> None:
    nothing = EST.nothing_seen(Argument(DataType.INT))
    assert EST.finish(nothing, null_handling=False) == pa.array([-(2**63)])
    assert EST.finish(nothing, null_handling=True) == pa.array([None], pa.int64())
    nothing = KLL.nothing_seen(Argument(DataType.INT))
    assert math.isnan(KLL.finish(nothing, null_handling=False)[0].as_py())
    assert KLL.finish(nothing, null_handling=True).to_pylist() == [None]


def test_kll_is_the_smallest_value_that_covers_the_level() -> None:
    states = collected(KLL, pa.array([1.5, 2.5, 3.5, 4.5]), DataType.DOUBLE)
    assert [answer(KLL, states, level) for level in (0, 25, 26, 50, 75, 100)] == [1.5, 1.5, 2.5, 2.5, 3.5, 4.5]


@pytest.mark.parametrize("function", [EST, KLL], ids=["est", "kll"])
@pytest.mark.parametrize("parts", [1, 3, 40])
def test_beyond_the_limit_ranks_are_within_the_bound_and_states_stay_small(
    function: AggregateFunction, parts: int
) -> None:
    random = np.random.default_rng(parts)
    values: NDArray[np.int64] = random.permutation(np.exp(random.uniform(0, 43, 200_000)).astype(np.int64))
    states = [collected(function, pa.array(part), DataType.LONG) for part in np.array_split(values, parts)]
    merged = function.merge(
        [pa.concat_arrays([state[i] for state in states]) for i in range(2)], np.zeros(parts, np.int64), 1
    )
    assert len(merged[0].flatten()) <= 8192
    ranked = np.sort(values)
    for level in LEVELS:
        found = answer(function, merged, level)
        low, high = np.searchsorted(ranked, found, side="left"), np.searchsorted(ranked, found, side="right")
        wanted = level / 100 * len(values)
        assert max(low - wanted, wanted - high) / len(values) <= 2 * math.pi / 2 / 2048 + 1e-5


@pytest.mark.parametrize("parts", [2, 9])
def test_up_to_the_limit_any_order_and_split_gives_the_same_state(parts: int) -> None:
    values = np.random.default_rng(parts).permutation(np.arange(8192) * 3)
    states = [collected(EST, pa.array(part), DataType.LONG) for part in np.array_split(values, parts)]
    merged = EST.merge(
        [pa.concat_arrays([state[i] for state in states]) for i in range(2)], np.zeros(parts, np.int64), 1
    )
    assert merged == collected(EST, pa.array(np.sort(values)), DataType.LONG)


# --- serialized digests --------------------------------------------------------------------------------------------

LEFT, RIGHT = 1, 2


def digest(least: int, greatest: int, nodes: list[tuple[int, int, int, float]], decay: float = 0.0) -> bytes:
    """Nodes (flags, level, value with free bits 0, weight) in post-order."""
    body = b"".join(struct.pack(">BBQd", flags, level, value + 2**63, weight) for flags, level, value, weight in nodes)
    return struct.pack(">ddqqqi", 0.05, decay, 0, least, greatest, len(nodes)) + body


def test_serialized_digests_merge() -> None:
    # Leaves 4 and 7 under a node over 4 … 7; a root over 0 … 15 with 2 rows somewhere in it, none above 12.
    one = digest(4, 12, [(0, 0, 4, 3.0), (0, 0, 7, 1.0), (LEFT | RIGHT, 2, 4, 0.0), (LEFT, 4, 0, 2.0)])
    two = digest(-5, -5, [(0, 0, -5, 2.0)])
    states = collected(EST, pa.array([one, two, b"", one], pa.binary()), DataType.BYTES)
    assert states[0].to_pylist() == [[-5, 4, 7, 12]]
    assert states[1].to_pylist() == [[2, 6, 2, 4]]
    assert [answer(EST, states, level) for level in (0, 50, 60, 100)] == [-5, 4, 7, 12]


@pytest.mark.parametrize(
    "data",
    [b"abc", digest(0, 0, [(0, 0, 0, 1.0)])[:-1], digest(0, 0, [(0, 65, 0, 1.0)]), digest(0, 0, [(0, 0, 0, math.nan)]),
    digest(0, 0, [], decay=0.5),
             struct.pack(">ddqqqi", 0.05, 0.0, 0, 0, 0, -1)],
)  # fmt: skip
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(QueryExecutionError, match="quantile digest"):
        collected(EST, pa.array([data], pa.binary()), DataType.BYTES)
