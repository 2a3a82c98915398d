"""Proves that frequent items are counted as a Counter counts them, that DataSketches reads our sketches and we read its
own, that any split and order gives the same bytes while values are few, and that of many values the bounds hold.
"""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from datasketches import PyLongsSerDe, PyStringsSerDe, frequent_items_error_type, frequent_items_sketch
from hypothesis import given, settings
from hypothesis import strategies as st
from sketch_states import collected, collected_arrays, merged

from pinotpy.data_types import DataType as D
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.spec import AggregateFunction, Argument, function_named
from pinotpy.pql.ast import Dialect


def frequent(data_type: D, *parameters: Any) -> AggregateFunction:
    return function_named("frequentstringssketch" if data_type is D.STRING else "frequentlongssketch").with_parameters(
        parameters
    )


def sketches(function: AggregateFunction, states: list[pa.Array]) -> list[bytes]:
    return [base64.b64decode(text) for text in function.finish(states, null_handling=False).to_pylist()]


def read(data: bytes, data_type: D) -> tuple[int, dict[Any, tuple[int, int]]]:
    """(total, bounds of the count of each item) as the library reads them."""
    sketch = frequent_items_sketch.deserialize(data, PyStringsSerDe() if data_type is D.STRING else PyLongsSerDe())
    if sketch.is_empty():
        return 0, {}
    return sketch.total_weight, {
        item: (lower, upper)
        for item, _, lower, upper in sketch.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES, 0)
    }


VALUES: dict[D, Any] = {
    D.LONG: st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5),
    D.INT: st.integers(-9, 9),
    D.STRING: st.text(max_size=3),
}


@pytest.mark.parametrize("data_type", VALUES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_counts_are_those_of_a_counter_and_read_by_datasketches(data_type: D, data: Any) -> None:
    groups = data.draw(st.lists(st.lists(VALUES[data_type], max_size=40), min_size=1, max_size=3))
    stored = [[value.encode() if data_type is D.STRING else value for value in group] for group in groups]
    function = frequent(data_type)
    for sketch, group in zip(sketches(function, collected(function, data_type, stored)), groups, strict=True):
        assert read(sketch, data_type) == (len(group), {item: (count, count) for item, count in Counter(group).items()})


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=200), st.lists(st.integers(0, 2), min_size=200, max_size=200))
def test_any_split_and_order_gives_the_same_bytes(values: list[int], cuts: list[int]) -> None:
    function = frequent(D.LONG, 64)
    whole = sketches(function, collected(function, D.LONG, [values]))
    parts = [
        collected(function, D.LONG, [[v for v, cut in zip(values, cuts, strict=False) if cut == which]])
        for which in range(3)
    ]
    assert (
        sketches(function, merged(function, parts))
        == sketches(function, merged(function, [merged(function, parts[1:]), parts[0]]))
        == whole
    )
    of_bytes = collected(function, D.BYTES, [[*(sketches(function, part)[0] for part in parts), b""]])
    assert read(sketches(function, of_bytes)[0], D.LONG) == read(whole[0], D.LONG)


@pytest.mark.parametrize("size", [0, 1, 10, 1_000, 1_000_000])
@pytest.mark.parametrize("map_size", [8, 256])
def test_bounds_hold_of_many_values(size: int, map_size: int) -> None:
    values = np.minimum(np.random.default_rng(size).zipf(1.2, size), 1 << 40)
    function = frequent(D.LONG, map_size)
    cuts = np.arange(size) % 3
    parts = [
        collected_arrays(function, D.LONG, np.zeros((cuts == i).sum(), np.int64), pa.array(values[cuts == i]), 1)
        for i in range(3)
    ]
    (sketch,) = sketches(function, merged(function, parts))
    total, bounds = read(sketch, D.LONG)
    exact = Counter(values.tolist())
    assert total == size and len(bounds) <= map_size * 3 // 4
    slack = max((upper - lower for lower, upper in bounds.values()), default=0)
    assert all(lower <= exact[item] <= upper for item, (lower, upper) in bounds.items())
    # What is left out is no more frequent than the error, which is within DataSketches' own promise.
    assert all(item in bounds for item, count in exact.items() if count > slack)
    assert slack <= 3.5 / map_size * size + 1


def test_sketches_of_datasketches_are_merged() -> None:
    one, other = (frequent_items_sketch(8) for _ in range(2))
    for value in [1, 1, 2, 3]:
        one.update(value)
    for value in [1, 3, 3]:
        other.update(value, 10)
    function = frequent(D.LONG)
    serialized = [sketch.serialize(PyLongsSerDe()) for sketch in (one, other, frequent_items_sketch(8))]
    states = collected(function, D.BYTES, [[*serialized, b""]])
    assert read(sketches(function, states)[0], D.LONG) == (34, {3: (21, 21), 1: (12, 12), 2: (1, 1)})
    texts = frequent_items_sketch(8)
    texts.update("ab", 3)
    function = frequent(D.STRING)
    states = collected(function, D.BYTES, [[texts.serialize(PyStringsSerDe())]])
    assert read(sketches(function, states)[0], D.STRING) == (3, {"ab": (3, 3)})


@pytest.mark.parametrize(
    "bad", [b"x", b"\x00" * 40, b"\x04\x01\x0a\x08\x03\x00\x00\x00\x05\x00\x00\x00" + b"\x00" * 20]
)
def test_bytes_that_are_no_sketch_are_refused(bad: bytes) -> None:
    for data_type in (D.LONG, D.STRING):
        with pytest.raises(QueryExecutionError, match="merging frequent items"):
            collected(frequent(data_type), D.BYTES, [[bad]])


@pytest.mark.parametrize("size", [7, 12, "x", 1 << 27])
def test_a_map_size_that_is_no_power_of_two_is_refused(size: Any) -> None:
    with pytest.raises(InvalidQueryError, match="power of two"):
        frequent(D.LONG, size)


def test_other_types_are_refused() -> None:
    with pytest.raises(InvalidQueryError, match=r"takes INT, LONG, TIMESTAMP, BYTES, found STRING"):
        frequent(D.LONG).check([Argument(D.STRING)], Dialect.SQL)
