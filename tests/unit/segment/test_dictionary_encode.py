"""Proves that fixed values get the sorted distinct values and ids that numpy finds, whether they are hashed or sorted,
and that the choice between the two follows how many distinct values there are.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from pinotpy.segment import dictionary_encode
from pinotpy.segment.dictionary_encode import encode_fixed, has_many_distinct


@pytest.mark.parametrize("dtype", ["<i4", "<i8", "<f4", "<f8"])
@pytest.mark.parametrize("num_values", [0, 1, 2, 3, 1_000, 20_000])
@pytest.mark.parametrize("cardinality", [1, 2, 128, 255, 257, 5_000, 2**31 - 1])
def test_ids_and_values_are_those_of_numpy(dtype: str, num_values: int, cardinality: int) -> None:
    values = (
        np.random.default_rng(cardinality + num_values).integers(-cardinality, cardinality, num_values).astype(dtype)
    )
    for given in (values, np.sort(values), np.sort(values)[::-1].copy()):
        expected, ids = np.unique(given, return_inverse=True)
        encoded = encode_fixed(given)
        np.testing.assert_array_equal(encoded.dictionary, expected)
        np.testing.assert_array_equal(encoded.ids, ids)
        assert encoded.dictionary.dtype == values.dtype and encoded.ids.dtype == dictionary_encode.id_dtype(
            len(expected)
        )


@pytest.mark.parametrize("cardinality", [256, 257, 65_536, 65_537])
def test_ids_of_ascending_values_fill_their_type(cardinality: int) -> None:
    encoded = encode_fixed(np.arange(cardinality).repeat(2))
    np.testing.assert_array_equal(encoded.ids, np.arange(cardinality).repeat(2))
    np.testing.assert_array_equal(encoded.dictionary, np.arange(cardinality))
    assert encoded.ids.dtype == dictionary_encode.id_dtype(cardinality)


def test_ascending_values_take_little_more_memory_than_what_they_become() -> None:
    """Times and sequence numbers of a stream: dictionary and ids are 12 bytes a row. It was 40."""
    values = np.arange(200_000)
    tracemalloc.start()
    try:
        encode_fixed(values)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 12 * len(values) <= most_bytes <= 24 * len(values)


@pytest.mark.parametrize(
    ("cardinality", "is_sorted"), [(1, False), (1_000, False), (20_000, False), (200_000, True), (10**9, True)]
)
def test_many_distinct_values_are_sorted_and_few_are_hashed(
    cardinality: int, is_sorted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(3).integers(0, cardinality, 200_000)
    called: list[Any] = []
    by_sorting = dictionary_encode._sorted_fixed
    monkeypatch.setattr(dictionary_encode, "_sorted_fixed", lambda given: called.append(given) or by_sorting(given))
    assert encode_fixed(values).cardinality == len(np.unique(values))
    assert bool(called) is is_sorted


@pytest.mark.parametrize("size", [100, 8_192, 9_000, 16_384, 20_000, 65_536, 1_000_000])
def test_values_of_which_many_are_distinct_are_told_from_others_at_any_size(size: int) -> None:
    dice = np.random.default_rng(size)
    for share, expected in ((1 / 16, False), (1.0, True), (4.0, True)):
        assert has_many_distinct(dice.integers(0, int(size * share), size)) is expected
    assert not has_many_distinct(np.arange(size) % 2)
    assert has_many_distinct(np.arange(size))
