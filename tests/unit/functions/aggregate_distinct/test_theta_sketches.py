"""Proves that theta sketches hold the hashes that DataSketches' own sketches hold, that any split and order gives the
same bytes, that serialized ones go both ways between the two, and that estimates are near the exact counts.
"""

from __future__ import annotations

import base64
import math
import random
import struct
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.data_types import DataType as D
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.spec import AggregateFunction, Argument, function_named
from pinotpy.functions.state.plans import ValueSetPlan

STORED = {D.STRING: pa.binary(), D.BYTES: pa.binary(), D.BOOLEAN: pa.int32()}


def theta(entries: int | None = None, *, raw: bool = False) -> AggregateFunction:
    function = function_named("distinctcountrawthetasketch" if raw else "distinctcountthetasketch")
    return function.with_parameters([] if entries is None else [f"nominalEntries={entries}"])


def collected(function: AggregateFunction, data_type: D, groups: list[list[Any]]) -> list[pa.Array]:
    rows = np.array([row for row, group in enumerate(groups) for _ in group], np.int64)
    values = pa.array([value for group in groups for value in group], STORED.get(data_type, data_type.arrow))
    plan = function.plan(Argument(data_type), sum_fits_long=False)
    assert isinstance(plan, ValueSetPlan)
    order = np.random.default_rng(len(rows)).permutation(len(rows))
    states = plan.collect(rows[order], values.take(pa.array(order)), np.ones(len(rows), np.int64), len(groups))
    assert [column.type for column in states] == [field.type for field in function.state_fields(Argument(data_type))]
    return states


def raw_bytes(states: list[pa.Array], entries: int | None = None) -> list[bytes]:
    return [base64.b64decode(text) for text in theta(entries, raw=True).finish(states, null_handling=False).to_pylist()]


VALUES: dict[D, Any] = {
    D.INT: st.integers(-(2**31), 2**31 - 1),
    D.LONG: st.integers(-(2**63), 2**63 - 1),
    D.FLOAT: st.floats(width=32),
    D.DOUBLE: st.floats(),
    D.STRING: st.text(max_size=40),
}


@pytest.mark.parametrize("data_type", VALUES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_hashes_and_bytes_are_those_of_datasketches(data_type: D, data: Any) -> None:
    values = data.draw(st.lists(VALUES[data_type], min_size=2, max_size=30, unique=True))
    other = datasketches.update_theta_sketch(12)
    for value in values:
        other.update(value)
    stored = [value.encode() for value in values] if data_type is D.STRING else values
    states = collected(theta(), data_type, [stored, []])
    assert states[1][0].as_py() == sorted(other)
    assert theta().finish(states, null_handling=False).to_pylist() == [round(other.get_estimate()), 0]
    written = raw_bytes(states)[0]
    wanted = bytearray(other.compact(True).serialize())
    if len(wanted) > 16:
        wanted[12:16] = struct.pack("<f", 1.0)  # Java writes the sampling probability, C++ leaves the field 0
        assert written == wanted
    assert list(datasketches.compact_theta_sketch.deserialize(written)) == sorted(other)


@pytest.mark.parametrize("count", [0, 1, 2, 16, 17, 5000])
def test_datasketches_reads_what_is_written(count: int) -> None:
    states = collected(theta(16), D.LONG, [list(range(count))])
    other = datasketches.compact_theta_sketch.deserialize(raw_bytes(states)[0])
    assert other.num_retained == min(count, 16) and other.is_ordered() and other.is_empty() == (count == 0)
    assert math.floor(other.get_estimate() + 0.5) == theta(16).finish(states, null_handling=False)[0].as_py()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 200), max_size=60), min_size=1, max_size=6), st.integers(0, 1000))
def test_any_split_and_order_of_merging_gives_the_same_bytes(parts: list[list[int]], seed: int) -> None:
    function, rng = theta(16), random.Random(seed)
    rows = [collected(function, D.INT, [part]) if part else function.nothing_seen(Argument(D.INT)) for part in parts]
    while len(rows) > 1:
        rng.shuffle(rows)
        size = rng.randint(2, len(rows))
        together = [pa.concat_arrays([row[i] for row in rows[:size]]) for i in range(2)]
        rows = [function.merge(together, np.zeros(size, np.int64), 1), *rows[size:]]
    whole = collected(function, D.INT, [[value for part in parts for value in part]])
    assert [column.to_pylist() for column in rows[0]] == [column.to_pylist() for column in whole]


def test_many_groups_at_once_are_each_as_alone() -> None:
    rng = np.random.default_rng(8)
    groups = [rng.integers(0, 500, size).tolist() for size in (0, 1, 40, 900, 3)]
    together = collected(theta(32), D.LONG, groups)
    alone = [collected(theta(32), D.LONG, [group]) for group in groups]
    assert [column.to_pylist() for column in together] == [[row[i][0].as_py() for row in alone] for i in range(2)]


@pytest.mark.parametrize("entries", [16, 256, 4096])
def test_estimates_are_within_four_standard_errors(entries: int) -> None:
    rng = np.random.default_rng(entries)
    for exact in (10, 3_000, 100_000):
        values = pa.array(rng.choice(2**50, exact, replace=False))
        plan = theta(entries).plan(Argument(D.LONG), sum_fits_long=False)
        assert isinstance(plan, ValueSetPlan)
        states = plan.collect(np.zeros(exact, np.int64), values, np.ones(exact, np.int64), 1)
        found = theta(entries).finish(states, null_handling=False)[0].as_py()
        assert found == exact if exact <= entries else abs(found - exact) <= 4 / math.sqrt(entries) * exact


def test_serialized_sketches_are_united() -> None:
    def other(low: int, high: int, ordered: bool) -> bytes:
        sketch = datasketches.update_theta_sketch(5)
        for value in range(low, high):
            sketch.update(value)
        return bytes(sketch.compact(ordered).serialize())

    parts = [other(0, 3000, True), other(2000, 5000, False), other(0, 0, True), other(7, 8, False)]
    union = datasketches.theta_union(5)
    for part in parts:
        union.update(datasketches.compact_theta_sketch.deserialize(part))
    states = collected(theta(32), D.BYTES, [parts, parts[2:3], [], parts[3:]])
    assert raw_bytes(states, 32)[0][24:] == union.get_result(True).serialize()[24:]
    assert theta(32).finish(states, null_handling=False).to_pylist() == [
        round(union.get_result().get_estimate()),
        0,
        0,
        1,
    ]


GOOD = raw_bytes(collected(theta(), D.INT, [[1, 2, 3]]))[0]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"sketch",
        GOOD[:-1],
        GOOD + b"\0" * 8,
        GOOD[:1] + b"\x02" + GOOD[2:],
        GOOD[:6] + b"\0\0" + GOOD[8:],
        GOOD[:16] + b"\xff" * 24,
        b"\x05" + GOOD[1:],
    ],
)
def test_bytes_that_are_no_sketch_are_an_error(data: bytes) -> None:
    with pytest.raises(QueryExecutionError, match="Caught exception while merging Theta Sketches"):
        collected(theta(), D.BYTES, [[data]])


def test_empty_texts_are_no_values() -> None:
    assert theta().finish(collected(theta(), D.STRING, [[b"", b"a"], [b""]]), null_handling=False).to_pylist() == [1, 0]


def test_parameters_are_read_or_refused() -> None:
    function = function_named("distinctcountthetasketch")
    assert function.with_parameters([]) is function and function.with_parameters([""]) is function
    assert function.with_parameters(["NominalEntries = 1000"]).nominal_entries == 1024  # type: ignore[attr-defined]
    for bad in (["nominalEntries=x"], ["entries=5"], ["nominalEntries=3"], ["nominalEntries=999999999"], [5]):
        with pytest.raises(InvalidQueryError, match="nominalEntries"):
            function.with_parameters(bad)
    with pytest.raises(InvalidQueryError, match="predicates and set expressions are not supported"):
        function.with_parameters(["nominalEntries=1024", "x > 5", "$1"])
