"""Proves for every aggregation that merging its state columns is associative and commutative, that null states and
empty parts change nothing, and that the catalogue is what it should be; results against Python's own arithmetic."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from group_harness import Column, _aggregate, same
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.data_types import DataType as D
from pinotpy.decimals import encode_decimal
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.spec import Argument, function_named, functions, is_aggregation
from pinotpy.functions.state.plans import Overflow, SlotPlan, ValueSetPlan

VALUES: dict[D, Any] = {
    D.INT: st.integers(-(2**31), 2**31 - 1),
    D.LONG: st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1]) | st.integers(-(2**63), 2**63 - 1),
    D.BIG_DECIMAL: st.decimals(allow_nan=False, allow_infinity=False, places=5, min_value=-(10**30), max_value=10**30),
}
NUMERIC = ("sum", "min", "max", "avg", "minmaxrange")


def _states(name: str, data_type: D, values: list[Any]) -> list[pa.Array]:
    """One state row over these values, by the function's own collect."""
    function = function_named(name)
    argument = Argument(data_type)
    if not values:
        return function.nothing_seen(argument)
    plan = function.plan(argument, sum_fits_long=False)
    if isinstance(plan, ValueSetPlan):
        stored = [encode_decimal(v) for v in values] if data_type is D.BIG_DECIMAL else values
        kind = pa.binary() if data_type is D.BIG_DECIMAL else data_type.arrow
        return plan.collect(np.zeros(len(values), np.int64), pa.array(stored, kind), np.ones(len(values), np.int64), 1)
    assert isinstance(plan, SlotPlan)
    words: list[int] = []
    if name in ("sum", "avg"):
        total = sum(values)
        words = [_signed(total), total >> 64]
    elif name != "count":
        low, high = min(values), max(values)
        biased = {"min": _signed(~(low + 2**63)), "max": _signed(high + 2**63)}
        words = {"min": [biased["min"]], "max": [biased["max"]], "minmaxrange": list(biased.values())}.get(name, [])
    empty = np.empty(0, np.int64)
    return plan.collect(
        np.array([words], np.int64).reshape(1, -1), np.array([len(values)]), Overflow(empty, empty, empty, empty, empty)
    )


def _signed(word: int) -> int:
    word &= (1 << 64) - 1
    return word - (1 << 64) if word >= 1 << 63 else word


@pytest.mark.parametrize("null_handling", [False, True])
@pytest.mark.parametrize("data_type", VALUES)
@pytest.mark.parametrize("name", [*NUMERIC, "count", "distinctcount"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_order_of_merging_gives_the_value_of_all_rows(
    name: str, data_type: D, null_handling: bool, data: Any
) -> None:
    parts = data.draw(st.lists(st.lists(VALUES[data_type], max_size=4), min_size=1, max_size=6))
    function = function_named(name)
    rows = [_states(name, data_type, part) for part in parts]
    rng = random.Random(data.draw(st.integers(0, 1000)))
    while len(rows) > 1:
        rng.shuffle(rows)
        size = rng.randint(2, len(rows))
        together = [pa.concat_arrays([row[i] for row in rows[:size]]) for i in range(len(rows[0]))]
        rows = [function.merge(together, np.zeros(size, np.int64), 1), *rows[size:]]
    everything = [value for part in parts for value in part]
    wanted = _aggregate(name, Column("x", data_type), {"x": everything}, list(range(len(everything))), null_handling)
    assert same(function.finish(rows[0], null_handling=null_handling)[0].as_py(), wanted), (parts, wanted)


@pytest.mark.parametrize("data_type", [D.INT, D.LONG, D.DOUBLE, D.BIG_DECIMAL])
def test_states_have_the_types_that_the_fields_say(data_type: D) -> None:
    for function in set(functions().values()):
        further = (Argument(data_type),) if function.num_expressions > 1 else ()
        argument = Argument(data_type, single_value=not function.multi_value, further=further)
        fields = function.state_fields(argument)
        nothing = function.nothing_seen(argument)
        assert [column.type for column in nothing] == [field.type for field in fields]
        merged = function.merge([pa.concat_arrays([c, c]) for c in nothing], np.zeros(2, np.int64), 1)
        assert [column.type for column in merged] == [field.type for field in fields]
        assert len({field.name for field in fields}) == len(fields)


def test_extremes_order_doubles_totally() -> None:
    doubles = pa.array([1.0, math.nan, -0.0, math.inf, None, math.nan])
    groups = np.array([0, 0, 1, 1, 2, 3])
    for name, wanted in (("min", [1.0, 0.0, math.inf, math.nan]), ("max", [math.nan, math.inf, -math.inf, math.nan])):
        function = function_named(name)
        found = function.finish(function.merge([doubles], groups, 4), null_handling=False).to_pylist()
        assert all(same(a, b) for a, b in zip(found, wanted, strict=True)), found
        assert math.copysign(1.0, found[1]) == 1.0


def test_distinct_counts_take_all_nan_as_one_value_and_zeros_as_one() -> None:
    function = function_named("distinctcount")
    states = pa.array([[0.0, math.nan], [-0.0], [math.nan, 1.0]], pa.list_(pa.float64()))
    assert function.finish(function.merge([states], np.zeros(3, np.int64), 1), null_handling=False).to_pylist() == [3]


def test_sums_beyond_64_bits_are_rounded_once() -> None:
    function = function_named("sum")
    total = 3 * (2**63 - 1) + 2**11 + 1
    states = [pa.array([Decimal(total), Decimal(-total), None], pa.decimal128(38, 0))]
    assert function.finish(states, null_handling=True).to_pylist() == [float(total), -float(total), None]


def test_the_catalogue_answers_to_every_spelling() -> None:
    assert {"count", "sum", "min", "max", "avg", "minmaxrange", "distinctcount", "countmv", "distinctcountmv"} <= set(
        functions()
    )
    assert function_named("MIN_MAX_RANGE") is function_named("minmaxrange")
    assert is_aggregation("DISTINCT_COUNT") and not is_aggregation("upper")
    with pytest.raises(InvalidQueryError, match="no aggregation is called 'median'"):
        function_named("median")


def test_averages_of_exact_types_are_rounded_once() -> None:
    function = function_named("avg")
    longs = [
        pa.array([Decimal(2**53 + 1), Decimal(3 * (2**63 - 1)), Decimal(7), None], pa.decimal128(38, 0)),
        pa.array([1, 2, 2, 0]),
    ]
    assert function.finish(longs, null_handling=True).to_pylist() == [float(2**53 + 1), 3 * (2**63 - 1) / 2, 3.5, None]
    decimals = [pa.array([encode_decimal(Decimal("1e400")), encode_decimal(Decimal("-0.3"))]), pa.array([2, 3])]
    assert function.finish(decimals, null_handling=False).to_pylist() == [math.inf, -0.1]
