"""PERCENTILETDIGEST: the digits of a t-digest built value by value, the stated error of ranks, order and split,
serialized digests.
Independent: a scalar digest below that adds one value after the other as the published algorithm says, and numpy's
sort.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from counted_steps import python_lines_of
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.aggregate.percentiletdigest import COMPRESSION_MAX, FUNCTIONS, PercentileTDigest
from pinotpy.functions.sketches import tdigest
from pinotpy.functions.sketches.multiset import collect_multisets
from pinotpy.functions.sketches.tdigest import centroids_around, centroids_of_sizes, quantiles, write_digests
from pinotpy.functions.spec import Argument
from pinotpy.functions.state.plans import ValueSetPlan

TDIGEST = FUNCTIONS[0]
LEVELS = [0, 0.1, 1, 5, 25, 37.5, 50, 75, 90, 95, 99, 99.9, 100]


def value_by_value(values: NDArray[np.float64], quantile: float, compression: float) -> float:
    """One digest over sorted values, centroids grown one value at a time."""
    ranked, n = np.sort(values).tolist(), len(values)
    centroids, done, width = [], 0, 1
    for i in range(1, n + 1):
        if i < n:
            limit = (compression * (width + 1) / (math.pi * n)) ** 2
            low, high = done / n, (done + width + 1) / n
            if limit <= low * (1 - low) and limit <= high * (1 - high):
                width += 1
                continue
        centroids.append((math.fsum(ranked[done : done + width]) / width, width))
        done, width = done + width, 1
    rank, middle = quantile * n, centroids[0][1] / 2
    if rank < middle:
        return ranked[0]
    for (mean, weight), (next_mean, next_weight) in pairwise(centroids):
        step = (weight + next_weight) / 2
        if middle + step > rank:
            return mean + (next_mean - mean) * (rank - middle) / step
        middle += step
    return ranked[-1]


def collected(
    function: PercentileTDigest,
    groups: NDArray[np.int64],
    values: pa.Array,
    num_groups: int,
    data_type: DataType = DataType.DOUBLE,
) -> list[pa.Array]:
    plan = function.plan(Argument(data_type), sum_fits_long=False)
    assert isinstance(plan, ValueSetPlan)
    return plan.collect(groups, values, np.ones(len(values), np.int64), num_groups)


@pytest.mark.parametrize("compression", [1, 20, 100, 200, 1000])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 80, 240, 500, 3000])
def test_digits_are_those_of_a_digest_built_value_by_value(size: int, compression: float) -> None:
    random = np.random.default_rng(size)
    for values in (
        random.normal(scale=1e6, size=size),
        random.integers(0, 20, size).astype(np.float64),
        np.exp(random.normal(scale=20, size=size)),
    ):
        states = collected(TDIGEST, np.zeros(size, np.int64), pa.array(values), 1)
        for level in LEVELS:
            found = TDIGEST.with_parameters([level, compression]).finish(states, null_handling=False)[0].as_py()
            assert found == pytest.approx(value_by_value(values, level / 100, compression), rel=1e-12, abs=1e-300), (
                size,
                level,
            )


def test_groups_of_different_sizes_are_answered_at_once() -> None:
    random = np.random.default_rng(0)
    groups = random.choice(40, 20_000, p=random.dirichlet(np.full(40, 0.3)))
    values = random.normal(size=20_000)
    states = collected(TDIGEST, groups, pa.array(values), 41)
    found = TDIGEST.with_parameters([90]).finish(states, null_handling=True).to_pylist()
    for group in range(41):
        own = values[groups == group]
        if len(own) == 0:
            assert math.isnan(found[group])
        else:
            assert found[group] == pytest.approx(value_by_value(own, 0.9, 100), rel=1e-12)


@pytest.mark.parametrize("scale", [0.1, 1, 100])
def test_the_error_of_ranks_is_within_the_bound(scale: float) -> None:
    values = np.exp(np.random.default_rng(5).normal(scale=scale, size=100_000))
    ranked = np.sort(values)
    states = collected(TDIGEST, np.zeros(len(values), np.int64), pa.array(values), 1)
    assert len(states[0].flatten()) <= 8192
    for level in LEVELS:
        found = TDIGEST.with_parameters([level]).finish(states, null_handling=False)[0].as_py()
        assert (
            abs(np.searchsorted(ranked, found) / len(ranked) - level / 100)
            <= 3 * math.pi / 4 / 100 + math.pi / 2 / 2048
        )
    assert TDIGEST.with_parameters([0]).finish(states, null_handling=False)[0].as_py() == ranked[0]
    assert TDIGEST.with_parameters([100]).finish(states, null_handling=False)[0].as_py() == ranked[-1]


@pytest.mark.parametrize("parts", [1, 2, 13])
def test_any_order_and_split_gives_the_same_bits(parts: int) -> None:
    random = np.random.default_rng(parts)
    values = np.arange(8000) * 0.1
    states = [
        collected(TDIGEST, np.zeros(len(part), np.int64), pa.array(part), 1)
        for part in np.array_split(random.permutation(values), parts)
    ]
    merged = TDIGEST.merge(
        [pa.concat_arrays([state[i] for state in states]) for i in range(2)], np.zeros(parts, np.int64), 1
    )
    assert merged[0].to_pylist() == [values.tolist()]
    whole = collected(TDIGEST, np.zeros(len(values), np.int64), pa.array(values), 1)
    for level in LEVELS:
        function = TDIGEST.with_parameters([level])
        assert (
            function.finish(merged, null_handling=False).to_pylist()
            == function.finish(whole, null_handling=False).to_pylist()
        )


def test_infinities_and_huge_values_do_not_spread() -> None:
    values = np.array([-np.inf, *np.arange(300.0), 1.7e308, 1.7e308, np.inf])
    multisets = collect_multisets(np.zeros(len(values), np.int64), values, np.ones(len(values), np.int64), 1)
    assert quantiles(multisets, 0.5, 100)[0] == pytest.approx(value_by_value(values, 0.5, 100))
    assert quantiles(multisets, 0.0, 100)[0] == -np.inf
    assert quantiles(multisets, 1.0, 100)[0] == np.inf
    twice = collect_multisets(np.zeros(400, np.int64), np.linspace(1.0e308, 1.7e308, 400), np.ones(400, np.int64), 1)
    assert 1.0e308 < quantiles(twice, 0.5, 100)[0] < 1.7e308


def test_on_nothing_it_is_nan_under_null_handling_too() -> None:
    nothing = TDIGEST.nothing_seen(Argument(DataType.INT))
    assert math.isnan(TDIGEST.finish(nothing, null_handling=False)[0].as_py())
    assert math.isnan(TDIGEST.finish(nothing, null_handling=True)[0].as_py())


def test_the_compression_is_the_third_argument() -> None:
    assert TDIGEST.with_parameters([50]).compression == 100
    assert TDIGEST.with_parameters([50, 200]).compression == 200
    assert TDIGEST.with_parameters([50, Decimal("20.5")]).compression == 20.5


def test_few_sizes_and_many_have_the_same_centroids() -> None:
    rng = np.random.default_rng(8)
    sizes = np.unique(np.concatenate([np.arange(1, 12), rng.integers(1, 5_000, 40), rng.integers(1, 10**12, 40)]))
    for compression in (1, 1.5, 50, 100, 400):
        for quantile in (0.0, 0.001, 0.25, 0.5, 0.75, 0.99, 1.0, *rng.random(3).tolist()):
            together = np.column_stack(centroids_around(sizes, quantile * sizes.astype(np.float64), compression))
            alone = np.concatenate(
                [np.column_stack(centroids_of_sizes(part, quantile, compression)) for part in np.array_split(sizes, 8)]
            )
            assert (together == alone).all(), (compression, quantile)


def test_the_largest_compression_takes_no_array_for_each_centroid(monkeypatch: pytest.MonkeyPatch) -> None:
    """No deadline ends it; with 100,000, and numpy for each centroid, it took three seconds."""
    sizes = np.array([10**7, 2 * 10**7])
    expected = centroids_around(sizes, 0.99 * sizes.astype(np.float64), COMPRESSION_MAX)
    widths = tdigest._widths
    num_calls = 0

    def counted(*arguments: Any) -> Any:
        nonlocal num_calls
        num_calls += 1
        return widths(*arguments)

    monkeypatch.setattr(tdigest, "_widths", counted)
    found: Any = None

    def find() -> None:
        nonlocal found
        found = centroids_of_sizes(sizes, 0.99, COMPRESSION_MAX)

    num_lines = python_lines_of(find)
    assert np.array_equal(found, expected) and num_calls < 10
    assert num_lines < 2 * 20 * COMPRESSION_MAX, "some lines for each of about as many centroids"


@pytest.mark.parametrize("compression", [0, -5, True, "x", float("nan"), 1e9, 100_000, 10_001])
def test_a_compression_out_of_range_is_refused(compression: object) -> None:
    with pytest.raises(InvalidQueryError, match="compression from 1 to"):
        TDIGEST.with_parameters([50, compression])  # type: ignore[list-item]


# --- serialized digests --------------------------------------------------------------------------------------------


def verbose(least: float, greatest: float, centroids: list[tuple[float, float]]) -> bytes:
    return struct.pack(">idddi", 1, least, greatest, 100.0, len(centroids)) + b"".join(
        struct.pack(">dd", weight, mean) for mean, weight in centroids
    )


def small(least: float, greatest: float, centroids: list[tuple[float, float]]) -> bytes:
    return struct.pack(">iddfhhh", 2, least, greatest, 100.0, 210, 500, len(centroids)) + b"".join(
        struct.pack(">ff", weight, mean) for mean, weight in centroids
    )


@pytest.mark.parametrize("encode", [verbose, small])
def test_serialized_digests_merge(encode: object) -> None:
    assert callable(encode)
    one, two = encode(1.0, 9.0, [(1.0, 1), (4.5, 8), (9.0, 1)]), encode(0.0, 20.0, [(2.5, 2), (20.0, 1)])
    states = collected(TDIGEST, np.array([0, 0, 1, 0]), pa.array([one, two, one, b""], pa.binary()), 2, DataType.BYTES)
    assert states[0].to_pylist() == [[0.0, 1.0, 2.5, 4.5, 9.0, 20.0], [1.0, 4.5, 9.0]]
    assert states[1].to_pylist() == [[1, 1, 1, 8, 1, 1], [1, 8, 1]]
    assert TDIGEST.with_parameters([50]).finish(states, null_handling=False).to_pylist() == [4.5, 4.5]


@pytest.mark.parametrize(
    "data",
    [b"\x00", b"\x00\x00\x00\x07" + bytes(40), verbose(0, 1, [(0.0, 1), (1.0, 1)])[:-1], verbose(0, 1, [(math.nan, 1)]),
    verbose(0, 1, [(0.0, 0)]),
     struct.pack(">idddi", 1, 0.0, 1.0, 100.0, -1)],
)  # fmt: skip
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(QueryExecutionError, match="t-digest"):
        collected(TDIGEST, np.array([0]), pa.array([data], pa.binary()), 1, DataType.BYTES)


def test_digests_of_many_groups_are_those_of_each_alone_in_the_steps_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each centroid went over the values of all groups: seconds for a million, minutes for ten."""
    rng, sizes = np.random.default_rng(2), np.array([1, 0, 1_700, *[1_000] * 900])
    groups = np.repeat(np.arange(len(sizes)), sizes)
    values = rng.normal(size=len(groups))
    together = collect_multisets(groups, values, np.ones(len(groups), np.int64), len(sizes))
    widths, means = tdigest._widths, tdigest._means
    num_widths = num_means = 0

    def counted_widths(sizes: Any, *arguments: Any) -> Any:
        nonlocal num_widths
        num_widths += len(sizes)
        return widths(sizes, *arguments)

    def counted_means(*arguments: Any) -> Any:
        nonlocal num_means
        num_means += 1
        return means(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(tdigest, "_widths", counted_widths)
        patched.setattr(tdigest, "_means", counted_means)
        found = write_digests(together, 1_000.0)
    assert num_widths < len(values), "one for each centroid, of which a group has no more than values"
    assert num_means == 1, "over all values once"
    for group in (0, 1, 2, 3, 450, 902):
        own = values[groups == group]
        alone = collect_multisets(np.zeros(len(own), np.int64), own, np.ones(len(own), np.int64), 1)
        assert write_digests(alone, 1_000.0) == [found[group]], group
