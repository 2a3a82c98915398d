"""Proves that the sketches that PERCENTILERAWEST, PERCENTILERAWTDIGEST and PERCENTILERAWKLL show are read again: by our
own readers as the multiset they were made of, and by DataSketches as sketches whose ranks are off by no more than they
say; at all sizes.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from datasketches import kll_doubles_sketch
from hypothesis import given, settings
from hypothesis import strategies as st
from sketch_states import collected, collected_arrays, merged

from pinotpy.data_types import DataType as D
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.sketches import quantile_digest, tdigest
from pinotpy.functions.spec import AggregateFunction, function_named

SIZES = [0, 1, 2, 10, 199, 200, 201, 1_000, 100_000, 1_000_000]


def function(name: str, *parameters: Any) -> AggregateFunction:
    return function_named(name).with_parameters(parameters or [50])


def raw(name: str, states: list[pa.Array], *parameters: Any) -> list[bytes]:
    texts = function(name, *parameters).finish(states, null_handling=False).to_pylist()
    return [base64.b64decode(text) if name == "percentilerawkll" else bytes.fromhex(text) for text in texts]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9), max_size=30), min_size=1, max_size=3))
def test_a_quantile_digest_holds_the_multiset(groups: list[list[int]]) -> None:
    states = collected(function("percentilerawest"), D.LONG, groups)
    for data, group in zip(raw("percentilerawest", states), groups, strict=True):
        values, weights = quantile_digest.read_digest(data)
        assert dict(zip(values.tolist(), weights.tolist(), strict=True)) == {
            value: group.count(value) for value in group
        }
        num_nodes = int.from_bytes(data[40:44], "big")
        assert num_nodes == max(2 * len(set(group)) - 1, 0)  # a leaf each, and what joins two
    # As a column of BYTES it gives the percentiles of the values.
    texts = raw("percentilerawest", states)
    for level in (0, 25, 50, 99, 100):
        est = function("percentileest", level)
        of_bytes = est.finish(collected(est, D.BYTES, [[text] for text in texts]), null_handling=False)
        assert of_bytes.to_pylist() == est.finish(states, null_handling=False).to_pylist()


def test_the_nodes_of_a_quantile_digest_are_a_tree_in_post_order() -> None:
    values = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 500)
    (data,) = raw("percentilerawest", collected(function("percentilerawest"), D.LONG, [values.tolist()]))
    stack: list[tuple[int, int]] = []  # (level, bits)
    for at in range(44, len(data), 18):
        flags, level, bits = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 10], "big")
        if flags & 2:
            right_level, right = stack.pop()
            assert right_level < level and right >> level == bits >> level and right >> level - 1 & 1
        if flags & 1:
            left_level, left = stack.pop()
            assert left_level < level and left >> level == bits >> level and not left >> level - 1 & 1
        stack.append((level, bits))
    assert len(stack) == 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("compression", [20, 100, 500])
def test_a_t_digest_has_the_percentiles_of_the_values(size: int, compression: int) -> None:
    values = np.random.default_rng(size).normal(size=size)
    tdigest_function = function("percentilerawtdigest", 50, compression)
    states = collected_arrays(tdigest_function, D.DOUBLE, np.zeros(size, np.int64), pa.array(values), 1)
    (data,) = raw("percentilerawtdigest", states, 50, compression)
    means, weights = tdigest.read_digest(data)
    assert weights.sum() == size and len(means) <= max(2 * compression, 40) and (np.diff(means) >= 0).all()
    if size:
        assert (means[0], means[-1]) == (values.min(), values.max())
        middle = np.cumsum(weights) - weights / 2
        exact = np.sort(values)
        ranks = np.searchsorted(exact, means)
        assert np.abs(ranks - middle).max() <= 3 * np.pi / (4 * compression) * size + 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("k", [8, 200, 1000])
def test_a_kll_sketch_is_read_by_datasketches(size: int, k: int) -> None:
    values = np.random.default_rng(size).permutation(size).astype(np.float64)
    kll = function("percentilerawkll", 50, k)
    states = collected_arrays(kll, D.DOUBLE, np.zeros(size, np.int64), pa.array(values), 1)
    sketch = kll_doubles_sketch.deserialize(raw("percentilerawkll", states, 50, k)[0])
    assert sketch.n == size and sketch.k == k
    if size:
        assert (sketch.get_min_value(), sketch.get_max_value()) == (0, size - 1)
        for part in np.linspace(0, 1, 41):
            assert abs(sketch.get_rank(part * size) - part) <= 2 / k + 0.003 + 2 / size
    # It is merged like any other.
    other = kll_doubles_sketch(k)
    other.update(np.arange(500.0))
    other.merge(sketch)
    assert other.n == size + 500


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-50, 50), max_size=100), st.lists(st.integers(0, 2), min_size=100, max_size=100))
def test_any_split_and_order_gives_the_same_bytes(values: list[int], cuts: list[int]) -> None:
    for name in ("percentilerawest", "percentilerawtdigest", "percentilerawkll"):
        one = function(name)
        whole = raw(name, collected(one, D.INT, [values]))
        parts = [
            collected(one, D.INT, [[v for v, cut in zip(values, cuts, strict=False) if cut == which]])
            for which in range(3)
        ]
        assert raw(name, merged(one, parts)) == raw(name, merged(one, [merged(one, parts[1:]), parts[0]])) == whole


def test_groups_are_ordered_by_the_percentile() -> None:
    groups = [[5, 6, 7], [1, 2, 3], [100]]
    for name in ("percentilerawest", "percentilerawtdigest", "percentilerawkll"):
        one = function(name)
        states = collected(one, D.INT, groups)
        assert one.order_values(states, one.finish(states, null_handling=False)).to_pylist() == [6, 2, 100]


@pytest.mark.parametrize("k", [7, 65_536, "x", 200.5])
def test_a_k_that_no_sketch_has_is_refused(k: Any) -> None:
    with pytest.raises(InvalidQueryError, match="K from 8 to 65535"):
        function("percentilerawkll", 50, k)
