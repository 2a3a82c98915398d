"""Proves that SUMPRECISION adds exactly, prints as Java's BigDecimal does and does not depend on the order of merging;
against decimal arithmetic written out and the recorded texts of the reference.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.data_types import DataType as D
from pinotpy.decimals import encode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.spec import AggregateFunction, Argument, function_named
from pinotpy.functions.state.plans import SlotPlan, ValueSetPlan
from pinotpy.pql.ast import Dialect

STORED = {D.STRING: pa.binary(), D.BYTES: pa.binary(), D.BIG_DECIMAL: pa.binary()}


def collected(data_type: D, values: list[Any], counts: list[int] | None = None) -> list[pa.Array]:
    function = function_named("sumprecision")
    plan = function.plan(Argument(data_type), sum_fits_long=False)
    assert isinstance(plan, ValueSetPlan)
    repeated = np.array(counts or [1] * len(values), np.int64)
    return plan.collect(
        np.zeros(len(values), np.int64), pa.array(values, STORED.get(data_type, data_type.arrow)), repeated, 1
    )


def text(function: AggregateFunction, states: list[pa.Array], *, null_handling: bool = False) -> Any:
    return function.finish(states, null_handling=null_handling)[0].as_py()


@pytest.mark.parametrize(
    ("data_type", "values", "wanted"),
    [
        (D.DOUBLE, [0.1, 0.2, 1e10], "10000000000.3"),
        (D.DOUBLE, [1.0, 3.0], "4.0"),
        (D.DOUBLE, [1e300, 1e-10], "1" + "0" * 300 + "." + "0" * 9 + "10"),
        (D.FLOAT, [0.1, 0.2], "0.3"),
        (D.STRING, [b"1.50", b"-1e3"], "-998.50"),
        (D.BYTES, [bytes.fromhex("0002ff38"), bytes.fromhex("000005")], "3.00"),
        (
            D.BIG_DECIMAL,
            [encode_decimal(Decimal("3333333333333333333333.5")), encode_decimal(Decimal("0.25"))],
            "3333333333333333333333.75",
        ),
        (D.BIG_DECIMAL, [], "0"),
    ],
)
def test_sums_are_exact_decimals(data_type: D, values: list[Any], wanted: str) -> None:
    function = function_named("sumprecision")
    states = collected(data_type, values) if values else function.nothing_seen(Argument(data_type))
    assert text(function, states) == wanted


def test_recorded_roundings() -> None:
    states = [pa.array([Decimal(1872387)], pa.decimal128(38, 0))]
    for parameters, wanted in ([], "1872387"), ([5], "1.8724E+6"), ([10, 2], "1872387.00"), (["0"], "1872387"):
        assert text(function_named("sumprecision").with_parameters(parameters), states) == wanted
    assert text(function_named("sumprecision"), [pa.array([None], pa.string())], null_handling=True) is None


def test_numbers_of_extreme_sizes_are_added_exactly() -> None:
    function = function_named("sumprecision").with_parameters([9_000, 10_000])
    states = collected(D.STRING, [b"1e5000", b"1e-5000", b"-1e5000", b"5"])
    assert Decimal(text(function_named("sumprecision"), states)) == Decimal("5." + "0" * 4999 + "1")
    assert text(function, states) == "5." + "0" * 4999 + "1" + "0" * 5000


def test_counts_multiply() -> None:
    assert text(function_named("sumprecision"), collected(D.DOUBLE, [0.1, 2.5], [30, 2])) == "8.0"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(
            st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**20), max_value=10**20),
            max_size=4,
        ),
        min_size=1,
    ),
    st.integers(0, 99),
)
def test_any_order_of_merging_gives_the_same_text(parts: list[list[Decimal]], seed: int) -> None:
    function, rng = function_named("sumprecision"), random.Random(seed)
    argument = Argument(D.STRING)
    rows = [
        collected(D.STRING, [str(v).encode() for v in part]) if part else function.nothing_seen(argument)
        for part in parts
    ]
    while len(rows) > 1:
        rng.shuffle(rows)
        rows = [function.merge([pa.concat_arrays([rows[0][0], rows[1][0]])], np.zeros(2, np.int64), 1), *rows[2:]]
    everything = [v for part in parts for v in part]
    assert Decimal(text(function, rows[0])) == sum(everything, Decimal(0))


def test_integers_are_added_by_slots() -> None:
    for data_type in (D.INT, D.LONG, D.BOOLEAN, D.TIMESTAMP):
        assert isinstance(function_named("sumprecision").plan(Argument(data_type), sum_fits_long=False), SlotPlan)


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (D.STRING, b"abc"),
        (D.STRING, b"NaN"),
        (D.STRING, b""),
        (D.STRING, b"1_0"),
        (D.DOUBLE, float("inf")),
        (D.BYTES, b"ab"),
        (D.STRING, b"1e10001"),
        (D.STRING, b"1e999999999"),
        (D.BYTES, b"\xff\xff\x01"),
    ],
)
def test_values_that_are_no_decimals_are_an_error(data_type: D, value: Any) -> None:
    with pytest.raises(QueryExecutionError, match="found"):
        collected(data_type, [value])


def test_pql_takes_bytes_only() -> None:
    function = function_named("sumprecision")
    with pytest.raises(QueryExecutionError, match="takes BYTES"):
        function.check([Argument(D.INT)], Dialect.PQL)
    function.check([Argument(D.BYTES)], Dialect.PQL)
    function.check([Argument(D.INT)], Dialect.SQL)


@pytest.mark.parametrize("bad", ["x", -1, 1.5, True, 10_001])
def test_parameters_that_make_no_sense_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidQueryError, match="precision of SUMPRECISION"):
        function_named("sumprecision").with_parameters([bad])
