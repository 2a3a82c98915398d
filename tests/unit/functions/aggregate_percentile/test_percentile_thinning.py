"""Thinned multisets: bounded, of the same size, least and greatest kept, ranks within the stated bound, through merges
of any tree. Independent: numpy's sort of all values, ranks counted on them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from pinotpy.functions.sketches.multiset import Multisets, collect_multisets, merge_multisets, thin

BUCKETS = 64
MOVED = np.pi / 2 / BUCKETS  # of the size, one thinning
SHAPES = ["uniform", "ascending longs", "steps", "one heavy value", "wide doubles", "two heavy ends"]


def shape(name: str, size: int, random: np.random.Generator) -> NDArray[np.float64]:
    match name:
        case "uniform":
            return random.random(size)
        case "ascending longs":
            return np.arange(size, dtype=np.float64)
        case "steps":
            return random.integers(0, 1000, size).astype(np.float64)
        case "one heavy value":
            return np.where(random.random(size) < 0.7, 0.5, random.normal(size=size))
        case "wide doubles":
            return np.exp(random.normal(scale=100, size=size))
        case _:
            return np.round(np.clip(random.normal(scale=2, size=size), -1, 1), 6)


def of(values: NDArray[np.float64]) -> Multisets:
    return collect_multisets(np.zeros(len(values), np.int64), values, np.ones(len(values), np.int64), 1)


def farthest_rank(values: NDArray[np.float64], thinned: Multisets) -> float:
    """How far the farthest rank moved, as a part of the size: the thinned values against those that stand at their
    ranks.
    """
    ranked = np.sort(values)
    shown = np.repeat(thinned.values, thinned.counts)
    own = np.arange(len(ranked))
    low, high = np.searchsorted(ranked, shown, side="left"), np.searchsorted(ranked, shown, side="right") - 1
    return float(np.maximum(np.maximum(low - own, own - high), 0).max() / len(ranked))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("size", [257, 1000, 50_000])
def test_ranks_stay_within_the_bound_and_memory_within_the_limit(name: str, size: int) -> None:
    values = shape(name, size, np.random.default_rng(size))
    whole = of(values)
    thinned = thin(whole, BUCKETS)
    if len(whole.values) <= 4 * BUCKETS:
        assert thinned is whole
        return
    assert len(thinned.values) <= 2 * BUCKETS + 3
    assert thinned.sizes().tolist() == [size]
    assert (np.diff(thinned.values) > 0).all() and (thinned.counts > 0).all()
    assert set(thinned.values.tolist()) <= set(values.tolist())
    assert (thinned.values[0], thinned.values[-1]) == (values.min(), values.max())
    assert farthest_rank(values, thinned) <= MOVED


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("parts", [2, 7, 50])
def test_merges_of_thinned_parts_stay_within_the_bound_a_generation(name: str, parts: int) -> None:
    random = np.random.default_rng(parts)
    values = shape(name, 40_000, random)
    states = [thin(of(part), BUCKETS) for part in np.array_split(values, parts)]
    generations = 1
    while len(states) > 1:
        merged = []
        for i in range(0, len(states), 8):
            columns = [state.to_arrow() for state in states[i : i + 8]]
            together = [pa.concat_arrays([column[k] for column in columns]) for k in range(2)]
            merged.append(thin(merge_multisets(together, np.zeros(len(columns), np.int64), 1), BUCKETS))
        states, generations = merged, generations + 1
    assert states[0].sizes().tolist() == [len(values)]
    assert len(states[0].values) <= 4 * BUCKETS
    assert farthest_rank(values, states[0]) <= generations * MOVED


def test_ends_are_finer_than_the_middle() -> None:
    values = np.random.default_rng(3).random(100_000)
    thinned = thin(of(values), 256)
    ranked = np.sort(values)
    shown = np.repeat(thinned.values, thinned.counts)
    moved = np.abs(np.searchsorted(ranked, shown) - np.arange(len(values))) / len(values)
    assert moved[:100].max() < 4e-4
    assert moved[-100:].max() < 4e-4
    assert moved.max() <= np.pi / 2 / 256


def test_each_group_is_thinned_alone_and_small_ones_not_at_all() -> None:
    random = np.random.default_rng(1)
    values = random.random(3_000)
    groups = np.sort(random.integers(0, 3, 3_000) * 2)  # groups 1 and 3 stay empty
    few = np.concatenate([values, np.arange(5.0)])
    at = np.concatenate([groups, np.full(5, 5)])
    together = thin(collect_multisets(at, few, np.ones(len(few), np.int64), 6), BUCKETS)
    assert together.sizes().tolist() == np.bincount(at, minlength=6).tolist()
    for group in (0, 2, 4, 5):
        alone = thin(of(few[at == group]), BUCKETS)
        begin, end = together.offsets[group : group + 2]
        assert together.values[begin:end].tolist() == alone.values.tolist()
        assert together.counts[begin:end].tolist() == alone.counts.tolist()
    assert together.values[together.offsets[5] :].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_longs_stay_longs() -> None:
    values = np.arange(2**62, 2**62 + 1000)
    thinned = thin(collect_multisets(np.zeros(1000, np.int64), values, np.ones(1000, np.int64), 1), BUCKETS)
    assert thinned.values.dtype == np.int64
    assert (thinned.values[0], thinned.values[-1]) == (2**62, 2**62 + 999)
