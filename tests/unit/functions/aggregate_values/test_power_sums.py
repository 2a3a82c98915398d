"""Proves that states of variances and higher moments give the same bits in any order of merging, as columns and as
single values, that quotients and roots are rounded once, and that the scan's sums of powers are right at the ends of
LONG and DOUBLE, where it keeps them elsewhere. The oracle is Python's fractions.
"""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from group_harness import same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.functions.spec import function_named
from pinotpy.functions.state.power_sums import PowerSums, quotient, root
from pinotpy.functions.state.states import EXACT

NAMES = ("varpop", "varsamp", "stddevpop", "stddevsamp", "skewness", "kurtosis")
DOUBLES = st.floats(-1e6, 1e6) | st.floats(allow_nan=False, allow_infinity=False)


def _encoded(total: int) -> list[int]:
    """An exact sum as it travels: a header, digits of 32 bits, the last one signed."""
    digits = []
    while not -(2**31) <= total < 2**31:
        digits.append(total & 0xFFFFFFFF)
        total >>= 32
    return [0, *digits, total]


def _state(function: PowerSums, values: list[float]) -> list[pa.Array]:
    """One state row of these values."""
    if not values:
        return function.nothing_seen(None)  # type: ignore[arg-type]
    sums = [
        sum(int(Fraction(value) ** power * 2 ** (1076 * power)) for value in values)
        for power in range(1, function.power + 1)
    ]
    return [pa.array([len(values)]), *(pa.array([_encoded(total)], EXACT) for total in sums)]


def _variance(values: list[float], less: int) -> Fraction:
    exact = list(map(Fraction, values))
    average = sum(exact, Fraction(0)) / len(exact)
    return sum(((value - average) ** 2 for value in exact), Fraction(0)) / (len(exact) - less)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(
    parts=st.lists(
        st.lists(st.floats(-1e6, 1e6) | st.floats(allow_nan=False, allow_infinity=False), max_size=4),
        min_size=1,
        max_size=6,
    ),
    seed=st.integers(0, 99),
)
def test_any_order_of_merging_gives_the_same_bits(name: str, parts: list[list[float]], seed: int) -> None:
    function = function_named(name)
    assert isinstance(function, PowerSums)
    rows = [_state(function, part) for part in parts]
    rng = random.Random(seed)
    while len(rows) > 1:
        rng.shuffle(rows)
        size = rng.randint(2, len(rows))
        together = [pa.concat_arrays([row[i] for row in rows[:size]]) for i in range(len(rows[0]))]
        rows = [function.merge(together, np.zeros(size, np.int64), 1), *rows[size:]]
    everything = [value for part in parts for value in part]
    for null_handling in (False, True):
        found = function.finish(rows[0], null_handling=null_handling)[0].as_py()
        assert same(found, function.finish(_state(function, everything), null_handling=null_handling)[0].as_py())
        assert same(
            found, function.finish_values([state.to_pylist() for state in rows[0]], null_handling=null_handling)[0]
        )
    if name == "varpop" and everything:
        exact = _variance(everything, 0)
        assert found == (float(exact) if exact < 2**1024 - 2**970 else math.inf)


@settings(max_examples=300, deadline=None)
@given(numerator=st.integers(-(2**300), 2**300), denominator=st.integers(1, 2**200), exponent=st.integers(-1500, 1200))
@example(numerator=1, denominator=2**200 - 1, exponent=-900)
@example(numerator=(2**53 + 1) << 30, denominator=2**1100 + 1, exponent=1000)
@example(numerator=-3, denominator=1, exponent=1023)
def test_quotients_are_rounded_once(numerator: int, denominator: int, exponent: int) -> None:
    exact = Fraction(numerator, denominator) * Fraction(2) ** exponent
    try:
        wanted = float(exact)
    except OverflowError:
        wanted = math.inf if exact > 0 else -math.inf
    assert quotient(numerator, denominator, exponent) == wanted


@settings(max_examples=200, deadline=None)
@given(numerator=st.integers(0, 2**900), denominator=st.integers(1, 2**700), exponent=st.integers(-300, 300))
def test_roots_reach_as_far_as_their_results(numerator: int, denominator: int, exponent: int) -> None:
    with localcontext() as context:
        context.prec = 60
        wanted = (Decimal(numerator) / Decimal(denominator)).sqrt() * Decimal(2) ** exponent
    assert math.isclose(root(numerator, denominator, exponent), float(wanted), rel_tol=4e-16)


EDGES: dict[str, tuple[str, list[Any]]] = {
    "l": ("LONG", [-(2**63), 2**63 - 1, 2**60, 2**60 - 1, -(2**60) - 1, -(2**30), 2**30 - 1, 0, -1, 7]),
    "small": ("DOUBLE", [5e-324, -5e-324, 2.2e-308, -1e-300, 1e-200, 3e-5, -2.9e-5, 0.0, 1e-310, 4e-324]),
    "large": ("DOUBLE", [1.7e308, -1.7e308, 8.6e9, -8.7e9, 1e300, 1e-300, 0.5, -3e77, 1e154, 2.0**34]),
    "shifted": ("DOUBLE", [1e15 + 0.125 * k for k in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)]),
    "infinite": ("DOUBLE", [1.0, math.inf, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]),
}


def test_the_ends_of_long_and_double_are_added_up_exactly(tmp_path: Path) -> None:
    cluster = InProcessCluster(tmp_path, num_servers=2)
    fields = [{"name": name, "dataType": kind} for name, (kind, _) in EDGES.items()] + [
        {"name": "k", "dataType": "INT"}
    ]
    config = {
        "tableName": "edges",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {},
    }
    batch = pa.RecordBatch.from_pydict(
        {**{name: pa.array(values) for name, (_, values) in EDGES.items()}, "k": pa.array([1, 2] * 5, pa.int32())}
    )
    try:
        schema = Schema.from_json({"schemaName": "edges", "dimensionFieldSpecs": fields})
        cluster.add_table(
            schema, TableConfig.from_json(config), [[batch.slice(0, 3)], [batch.slice(3, 4)], [batch.slice(7)]]
        )
        for column, (_, values) in EDGES.items():
            for where, kept in (("", values), (" GROUP BY k ORDER BY k LIMIT 1", values[::2])):
                answer = cluster.sql(
                    f"SELECT VAR_POP({column}), STDDEV_SAMP({column}), SKEWNESS({column}), KURTOSIS({column}) FROM "
                    f"edges{where}"
                )
                assert answer["exceptions"] == []
                found = answer["resultTable"]["rows"][0]
                if column == "infinite" and not where:
                    assert found == ["NaN"] * 4
                    continue
                for cell, wanted in zip(found, _moments(kept), strict=True):
                    shown = {"Infinity": math.inf}.get(cell, cell)
                    assert shown == wanted or math.isclose(shown, wanted, rel_tol=1e-15), (
                        column,
                        where,
                        found,
                        _moments(kept),
                    )
    finally:
        cluster.close()


def _moments(values: list[Any]) -> list[float]:
    """Variance, deviation of a sample, skewness, kurtosis."""
    exact, n = [Fraction(value) for value in values], len(values)
    average = sum(exact, Fraction(0)) / n
    m2, m3, m4 = (sum(((value - average) ** power for value in exact), Fraction(0)) for power in (2, 3, 4))
    squared = (Fraction(n, (n - 1) * (n - 2)) * m3) ** 2 / (m2 / (n - 1)) ** 3
    kurtosis = Fraction(n * (n + 1), (n - 1) * (n - 2) * (n - 3)) * m4 / (m2 / (n - 1)) ** 2 - Fraction(
        3 * (n - 1) ** 2, (n - 2) * (n - 3)
    )
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 60, -10_000, 10_000
        deviation, skewness = (
            float((Decimal(part.numerator) / Decimal(part.denominator)).sqrt()) for part in (m2 / (n - 1), squared)
        )
    try:
        variance = float(m2 / n)
    except OverflowError:
        variance = math.inf
    return [variance, deviation, skewness if m3 > 0 else -skewness, float(kurtosis)]
