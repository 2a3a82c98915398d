"""Proves that CPC sketches hold the coupons that DataSketches' own sketches hold, that any split and order gives the
same bytes, that serialized ones go both ways between the two, and that estimates are those of the library's unions and
near the exact counts.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from datasketches import cpc_sketch, cpc_union
from hypothesis import given, settings
from hypothesis import strategies as st
from sketch_states import collected, collected_arrays, merged

from pinotpy.data_types import DataType as D
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.spec import AggregateFunction, function_named


def cpc(*parameters: Any, raw: bool = False) -> AggregateFunction:
    return function_named("distinctcountrawcpcsketch" if raw else "distinctcountcpcsketch").with_parameters(parameters)


def bytes_of(states: list[pa.Array], lg_k: int = 12) -> list[bytes]:
    return [base64.b64decode(text) for text in cpc(lg_k, raw=True).finish(states, null_handling=False).to_pylist()]


def library_union(sketches: list[Any], lg_k: int) -> Any:
    union = cpc_union(lg_k)
    for sketch in sketches:
        union.update(sketch)
    return union.get_result()


def library_sketch(values: list[Any], lg_k: int) -> Any:
    sketch = cpc_sketch(lg_k)
    for value in values:
        sketch.update(
            value % 2**64 if isinstance(value, int) else value
        )  # the library takes negative numbers for doubles
    return sketch


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
def test_bytes_and_estimates_are_those_of_datasketches(data_type: D, data: Any) -> None:
    lg_k = data.draw(st.sampled_from([4, 8, 12]))
    groups = data.draw(st.lists(st.lists(VALUES[data_type], max_size=60), min_size=1, max_size=3))
    stored = [[value.encode() if data_type is D.STRING else value for value in group] for group in groups]
    expected = [library_union([library_sketch(group, lg_k)], lg_k) for group in groups]
    assert bytes_of(collected(cpc(lg_k, raw=True), data_type, stored), lg_k) == [
        sketch.serialize() for sketch in expected
    ]
    estimates = cpc(lg_k).finish(collected(cpc(lg_k), data_type, stored), null_handling=False).to_pylist()
    assert estimates == pytest.approx(
        [sketch.get_estimate() for sketch in expected], abs=0.6, rel=0.02 if lg_k == 4 else 0.001
    )


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_split_and_order_gives_the_same_sketch(data: Any) -> None:
    values = data.draw(st.lists(st.integers(0, 2000), max_size=200))
    cuts = data.draw(st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)))
    function = cpc(5, raw=True)
    whole = collected(function, D.LONG, [values])
    parts = [
        collected(function, D.LONG, [[v for v, cut in zip(values, cuts, strict=True) if cut == which]])
        for which in range(3)
    ]
    for order in (parts, parts[::-1], [merged(function, parts[1:]), parts[0]]):
        assert [column.to_pylist() for column in merged(function, order)] == [column.to_pylist() for column in whole]
    serialized = [bytes_of(part, 5)[0] for part in parts]
    of_bytes = collected(function, D.BYTES, [[*serialized, b""]])
    assert bytes_of(of_bytes, 5) == bytes_of(whole, 5)
    estimate = cpc(5).finish(collected(cpc(5), D.BYTES, [serialized]), null_handling=False)[0].as_py()
    assert estimate == pytest.approx(cpc(5).finish(whole[:2], null_handling=False)[0].as_py(), rel=0.01, abs=1)


@pytest.mark.parametrize("size", [0, 1, 10, 1_000, 50_000, 1_000_000])
@pytest.mark.parametrize("lg_k", [4, 10, 12, 16])
def test_estimates_are_near_the_exact_counts(size: int, lg_k: int) -> None:
    values = pa.array(np.random.default_rng(size + lg_k).permutation(size).astype(np.int64))
    states = collected_arrays(cpc(lg_k), D.LONG, np.zeros(size, np.int64), values, 1)
    assert (
        abs(cpc(lg_k).finish(states, null_handling=False)[0].as_py() - size) <= 4 * 0.69 / 2 ** (lg_k / 2) * size + 0.5
    )


def test_a_sketch_of_many_values_is_that_of_the_library() -> None:
    values = pa.array(np.arange(30_000))
    states = collected_arrays(cpc(10, raw=True), D.LONG, np.zeros(30_000, np.int64), values, 1)
    expected = library_union([library_sketch(list(range(30_000)), 10)], 10)
    assert bytes_of(states, 10) == [expected.serialize()]
    assert cpc(10).finish(states[:2], null_handling=False)[0].as_py() == pytest.approx(
        expected.get_estimate(), rel=0.001
    )


def test_sketches_of_several_sizes_become_one_of_the_least() -> None:
    sketches = [library_sketch(list(range(i * 500, i * 500 + 700)), lg_k) for i, lg_k in enumerate((11, 8, 12))]
    found = collected(cpc(), D.BYTES, [[sketch.serialize() for sketch in sketches]])
    assert cpc_sketch.deserialize(found[0][0].as_py()).lg_k == 8
    assert cpc().finish(found, null_handling=False)[0].as_py() == pytest.approx(1700, rel=4 * 0.69 / 16)


@pytest.mark.parametrize(
    ("parameter", "lg_k"),
    [(8, 8), ("8", 8), ("nominalEntries=256", 8), ("nominalEntries=200; accumulatorThreshold=4", 8)],
)
def test_lg_k_is_a_number_or_nominal_entries(parameter: Any, lg_k: int) -> None:
    assert cpc(parameter).lg_k == lg_k  # type: ignore[attr-defined]


@pytest.mark.parametrize("parameter", [3, 21, "x", "nominalEntries=x", "lgk=8", -8, 8.5])
def test_sizes_that_no_sketch_has_are_refused(parameter: Any) -> None:
    with pytest.raises(InvalidQueryError, match="expected"):
        cpc(parameter)


@pytest.mark.parametrize("bad", [b"x", b"\x00" * 30, b"\x04\x01\x10\x0c\x00\x0a\xcc\x93", bytes(range(40))])
def test_bytes_that_are_no_sketch_are_refused(bad: bytes) -> None:
    with pytest.raises(QueryExecutionError, match="merging CPC sketches"):
        collected(cpc(), D.BYTES, [[bad]])
