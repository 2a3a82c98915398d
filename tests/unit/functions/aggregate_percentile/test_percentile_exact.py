"""PERCENTILE: the reference's rule of ranks, identical for any order and split. Independent: numpy's sort of all
values.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.aggregate.percentile import FUNCTIONS
from pinotpy.functions.spec import AggregateFunction, Argument, aggregation_function
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.pql.ast import Dialect, Position
from pinotpy.pql.literals import double_literal, integer_literal

PERCENTILE = FUNCTIONS[0]
DOUBLE, LONG = Argument(DataType.DOUBLE), Argument(DataType.LONG)


def collected(
    function: AggregateFunction, argument: Argument, groups: NDArray[np.int64], values: pa.Array, num_groups: int
) -> list[pa.Array]:
    plan = function.plan(argument, sum_fits_long=False)
    assert isinstance(plan, ValueSetPlan)
    return plan.collect(groups, values, np.ones(len(values), np.int64), num_groups)


def expected(values: NDArray[np.float64], level: float) -> float:
    ranked = np.sort(values)
    return float(ranked[-1] if level == 100 else ranked[int(len(ranked) * level / 100)])


@pytest.mark.parametrize("level", [0, 5, 50, 90, 99, 99.9, 12.5, 100])
@pytest.mark.parametrize("size", [1, 2, 3, 10, 99, 100, 101, 1000])
def test_the_percentile_is_the_element_at_the_floor_of_size_times_level(level: float, size: int) -> None:
    values = np.random.default_rng(size).normal(size=size).round(1)
    states = collected(PERCENTILE, DOUBLE, np.zeros(size, np.int64), pa.array(values), 1)
    assert PERCENTILE.with_parameters([level]).finish(states, null_handling=False).to_pylist() == [
        expected(values, level)
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1.0, float("nan")]))),
        min_size=1,
    ),
    st.data(),
)
def test_any_order_and_split_gives_identical_states(pairs: list[tuple[int, float]], data: st.DataObject) -> None:
    groups, values = np.array([g for g, _ in pairs]), np.array([v for _, v in pairs])
    whole = collected(PERCENTILE, DOUBLE, groups, pa.array(values), 5)
    order = np.array(data.draw(st.permutations(range(len(pairs)))))
    cut = data.draw(st.integers(0, len(pairs)))
    rows, parts = [], []
    for piece in (order[:cut], order[cut:]):
        parts.append(collected(PERCENTILE, DOUBLE, groups[piece], pa.array(values[piece]), 5))
        rows.append(np.arange(5))
    merged = PERCENTILE.merge([pa.concat_arrays([p[i] for p in parts]) for i in range(2)], np.concatenate(rows), 5)
    for left, right in zip(whole, merged, strict=True):
        assert repr(left.to_pylist()) == repr(right.to_pylist())
    found = PERCENTILE.with_parameters([50]).finish(merged, null_handling=True).to_pylist()
    for group in range(5):
        own = values[groups == group]
        assert (found[group] is None) == (len(own) == 0)
        if len(own):
            assert np.array_equal([found[group]], [expected(own, 50)], equal_nan=True)


def test_longs_keep_their_digits_until_the_end() -> None:
    values = np.array([2**53 + 1, 2**53, 2**53 + 1])
    states = collected(PERCENTILE, LONG, np.zeros(3, np.int64), pa.array(values), 1)
    assert states[0].to_pylist() == [[2**53, 2**53 + 1]]
    assert states[1].to_pylist() == [[1, 2]]


def test_big_decimals_go_through_double() -> None:
    values = pa.array([encode_decimal(Decimal(text)) for text in ("1.5", "-2", "1E+400", "3")], pa.binary())
    argument = Argument(DataType.BIG_DECIMAL)
    states = collected(PERCENTILE, argument, np.zeros(4, np.int64), values, 1)
    assert [
        PERCENTILE.with_parameters([level]).finish(states, null_handling=False)[0].as_py() for level in (0, 50, 100)
    ] == [-2.0, 3.0, float("inf")]


def test_nan_is_above_all_and_minus_zero_is_zero() -> None:
    states = collected(PERCENTILE, DOUBLE, np.zeros(4, np.int64), pa.array([float("nan"), -0.0, 0.0, float("nan")]), 1)
    assert states[1].to_pylist() == [[2, 2]]
    assert str(PERCENTILE.with_parameters([0]).finish(states, null_handling=False)[0].as_py()) == "0.0"
    assert np.isnan(PERCENTILE.with_parameters([100]).finish(states, null_handling=False)[0].as_py())


@pytest.mark.parametrize("argument", [DOUBLE, LONG])
def test_on_nothing_it_is_minus_infinity_or_null(argument: Argument) -> None:
    nothing = PERCENTILE.nothing_seen(argument)
    assert [field.type for field in PERCENTILE.state_fields(argument)] == [state.type for state in nothing]
    assert PERCENTILE.finish(nothing, null_handling=False).to_pylist() == [float("-inf")]
    assert PERCENTILE.finish(nothing, null_handling=True).to_pylist() == [None]
    some = collected(
        PERCENTILE, argument, np.array([1]), pa.array([7], PERCENTILE.state_fields(argument)[0].type.value_type), 3
    )
    assert PERCENTILE.finish(some, null_handling=True).to_pylist() == [None, 7.0, None]
    merged = PERCENTILE.merge(
        [pa.concat_arrays([a, b]) for a, b in zip(nothing, some, strict=True)], np.array([1, 0, 1, 0]), 2
    )
    assert PERCENTILE.finish(merged, null_handling=True).to_pylist() == [None, 7.0]


def test_states_may_be_slices_of_larger_columns() -> None:
    states = collected(PERCENTILE, LONG, np.array([0, 0, 1, 2, 2]), pa.array([5, 6, 7, 8, 9]), 3)
    sliced = [state.slice(1, 2) for state in states]
    assert PERCENTILE.with_parameters([100]).finish(sliced, null_handling=False).to_pylist() == [7.0, 9.0]
    assert PERCENTILE.merge(sliced, np.array([0, 0]), 1)[0].to_pylist() == [[7, 8, 9]]


@pytest.mark.parametrize("level", [-1, 101, True, "x", None, float("nan")])
def test_a_level_outside_0_to_100_is_refused(level: object) -> None:
    with pytest.raises(InvalidQueryError, match="percentile from 0 to 100"):
        PERCENTILE.with_parameters([level])  # type: ignore[list-item]


def test_text_is_refused_as_in_sum() -> None:
    with pytest.raises(QueryExecutionError, match="no numbers"):
        PERCENTILE.check([Argument(DataType.STRING)], Dialect.PQL)
    with pytest.raises(QueryExecutionError, match="use percentileMV"):
        PERCENTILE.check([Argument(DataType.INT, single_value=False)], Dialect.PQL)


def test_calls_find_their_function_with_the_level() -> None:
    found = aggregation_function("percentilemv", [integer_literal(0, Position()), double_literal(99.5, Position())])
    assert (found.name, found.multi_value, getattr(found, "level", None)) == ("percentilemv", True, 99.5)


@pytest.mark.parametrize("num_groups", [1, 2, 300, 70_000])
def test_groups_of_any_number_are_sorted_apart(num_groups: int) -> None:
    random = np.random.default_rng(num_groups)
    groups, values = random.integers(0, num_groups, 5000), random.integers(-50, 50, 5000)
    states = collected(PERCENTILE, LONG, groups, pa.array(values), num_groups)
    found = PERCENTILE.with_parameters([75]).finish(states, null_handling=True).to_pylist()
    for group in np.unique(groups).tolist():
        assert found[group] == expected(values[groups == group], 75)
    assert sum(value is not None for value in found) == len(np.unique(groups))
