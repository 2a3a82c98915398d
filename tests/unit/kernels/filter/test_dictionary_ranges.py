"""Proves that a range's ids in the dictionaries of many segments are what bisection in each alone finds (Python's
bisect): every type, dictionaries alike, alike but for some values, and different; of no, one and many values; ranges of
one value, open, empty.
"""

from __future__ import annotations

import bisect
import random
from typing import Any

import numpy as np
import pytest

from pinotpy.kernels.filter import dictionary_ranges, predicate_table
from pinotpy.kernels.runtime import abi

FUNCTIONS = np.array([1, 2, 3], np.int64)
NO_BYTES = np.zeros(0, np.uint8)
TYPES = {abi.T_INT: np.int32, abi.T_LONG: np.int64, abi.T_FLOAT: np.float32, abi.T_DOUBLE: np.float64}
NUMBERS_OF_SEGMENTS = [1, 2, dictionary_ranges.LANES + 1, 2 * dictionary_ranges.LANES + 7]


def some_of(values: list[Any], rng: random.Random, way: str) -> list[Any]:
    """A segment's dictionary out of all values of its table."""
    if way == "alike":
        return values
    if way == "nearly alike":
        return [value for value in values if rng.random() < 0.97]
    return sorted(rng.sample(values, rng.choice((0, 1, 2, len(values) // 3, len(values)))))


def found(metas: np.ndarray, literals: tuple[Any, ...]) -> list[tuple[int, int]]:
    table = np.zeros((predicate_table.PREDICATE_ROWS, len(metas)), np.int64)
    predicate_table.range_predicate(metas, table.reshape(-1), *literals, NO_BYTES, 0, 0, 0, False, FUNCTIONS)
    return [tuple(ids) for ids in table[predicate_table.L_IDS : predicate_table.L_IDS + 2].reshape(-1, 2).tolist()]


def texts_meta(values: list[bytes], keep: list[Any]) -> np.ndarray:
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int32)
    data = np.frombuffer(b"".join(values) + b"\0" * 8, np.uint8).copy()
    keep += [offsets, data]
    meta = np.zeros(abi.META_WORDS, np.int64)
    meta[abi.M_STORED], meta[abi.M_CARDINALITY] = abi.T_VAR, len(values)
    meta[abi.M_DICTIONARY], meta[abi.M_DICTIONARY_OFFSETS] = data.ctypes.data, offsets.ctypes.data
    return meta


@pytest.mark.parametrize("way", ["alike", "nearly alike", "different"])
@pytest.mark.parametrize("num_segments", NUMBERS_OF_SEGMENTS)
def test_texts(num_segments: int, way: str) -> None:
    rng = random.Random(f"{num_segments} {way}")
    made = {b"https://shop.example/item/%05d" % rng.randrange(3000) for _ in range(700)}
    everything = sorted(made | {b"", b"a", b"a\0", b"https", "ä".encode(), b"\xff" * 40})
    keep: list[Any] = []
    segments = [some_of(everything, rng, way) for _ in range(num_segments)]
    metas = np.array([texts_meta(values, keep) for values in segments])
    for _ in range(60):
        low = rng.choice([*everything, b"https://shop.example/item/%05d" % rng.randrange(3000), b"b", b"\xff" * 50])
        end = rng.choice([low + b"\0", low + b"zz", max(low + b"\0", rng.choice(everything)), None])
        literals = (
            0,
            0.0,
            0,
            0.0,
            np.array(bytearray(low), np.uint8),
            np.array(bytearray(end or b""), np.uint8),
            end is not None,
        )
        expected = [
            (bisect.bisect_left(values, low), len(values) if end is None else bisect.bisect_left(values, end))
            for values in segments
        ]
        assert found(metas, literals) == expected, (low, end)


@pytest.mark.parametrize("way", ["alike", "nearly alike", "different"])
@pytest.mark.parametrize("num_segments", NUMBERS_OF_SEGMENTS)
@pytest.mark.parametrize("stored", list(TYPES))
def test_numbers(num_segments: int, way: str, stored: int) -> None:
    rng = random.Random(f"{num_segments} {way} {stored}")
    is_final = stored <= abi.T_LONG
    limits = (-(2**31), 2**31 - 1) if stored == abi.T_INT else (-(2**63), 2**63 - 1)
    made = (
        {rng.randrange(10**6) for _ in range(900)} | set(limits)
        if is_final
        else {float(np.float32(rng.gauss(0, 9))) for _ in range(900)} | {float("inf")}
    )
    everything = sorted(made)
    keep, metas, segments = [], np.zeros((num_segments, abi.META_WORDS), np.int64), []
    for meta in metas:
        values = some_of(everything, rng, way)
        keep.append(np.array([*values, 0], TYPES[stored]))
        meta[abi.M_STORED], meta[abi.M_CARDINALITY], meta[abi.M_DICTIONARY] = stored, len(values), keep[-1].ctypes.data
        segments.append(values)
    for _ in range(60):
        low = (
            rng.choice([*everything, *(rng.randrange(10**6) for _ in range(300))])
            if is_final
            else rng.choice([*everything, rng.gauss(0, 9)])
        )
        high = rng.choice([low, max(low, rng.choice(everything)), everything[-1]])
        words = (int(low), float(low), int(high), float(high)) if is_final else (0, low, 0, high)
        expected = [(bisect.bisect_left(values, low), bisect.bisect_right(values, high)) for values in segments]
        assert found(metas, (*words, NO_BYTES, NO_BYTES, False)) == expected, (low, high)


def test_segments_that_are_excluded_are_not_looked_at() -> None:
    keep: list[Any] = []
    metas = np.array([texts_meta([b"a", b"b", b"c"], keep) for _ in range(5)])
    metas[[1, 3], abi.M_DICTIONARY] = metas[[1, 3], abi.M_DICTIONARY_OFFSETS] = 0  # nobody may read there
    table = np.zeros((predicate_table.PREDICATE_ROWS, 5), np.int64)
    table[predicate_table.L_RULE].view(np.int8)[[1, 3]] = 1
    literals = (0, 0.0, 0, 0.0, np.array(bytearray(b"b"), np.uint8), np.array(bytearray(b"b\0"), np.uint8), True)
    predicate_table.range_predicate(metas, table.reshape(-1), *literals, NO_BYTES, 0, 0, 0, False, FUNCTIONS)
    assert table[predicate_table.L_IDS : predicate_table.L_IDS + 2].reshape(-1, 2)[[0, 2, 4]].tolist() == [[1, 2]] * 3
    assert table[predicate_table.L_RANGED].view(np.int8)[:5].tolist() == [1, 0, 1, 0, 1]
