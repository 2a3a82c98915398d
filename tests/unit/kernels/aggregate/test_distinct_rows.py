"""Proves that different rows are counted by group for any number of words, parts and shares: against Python's sets."""

from __future__ import annotations

import numpy as np
import pytest

from pinotpy.kernels.aggregate import distinct_rows
from pinotpy.kernels.runtime import partitioning


@pytest.mark.parametrize(("num_words", "num_values", "num_groups"), [(1, 3, 1), (2, 50, 7), (3, 4, 1), (4, 1000, 40)])
def test_rows_are_told_apart_by_all_their_words(num_words: int, num_values: int, num_groups: int) -> None:
    random = np.random.default_rng(num_values)
    rows = random.integers(-num_values, num_values, (5_000, 1 + num_words))
    rows[:, 0] = random.integers(0, num_groups, len(rows))
    rows[::3, -1] += 1 << 40  # words that differ in high bits alone
    bits = 4
    sizes = np.zeros((2, 1 << bits), np.int64)
    halves = [rows[:2_000], rows[2_000:]]
    for half, size in zip(halves, sizes, strict=True):
        partitioning.count_rows(half, 0, bits, size)
    starts, places = partitioning.places_of(sizes)
    scattered = np.empty_like(rows)
    for half, place in zip(halves, places, strict=True):
        partitioning.scatter_rows(half, 0, bits, place, scattered)
    counts = np.zeros(num_groups, np.int64)
    for first in range(0, 1 << bits, 5):
        distinct_rows.count_different(scattered, starts, first, min(first + 5, 1 << bits), counts)
    expected = np.zeros(num_groups, np.int64)
    for group, *_ in {tuple(row) for row in rows.tolist()}:
        expected[group] += 1
    assert counts.tolist() == expected.tolist()
    assert sorted(map(tuple, scattered.tolist())) == sorted(map(tuple, rows.tolist()))
