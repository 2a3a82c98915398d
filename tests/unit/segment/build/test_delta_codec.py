"""Proves that whole numbers come back from DELTA chunks as they went in, whatever their range, that numbers of a small
range or small steps shrink to it, and that a damaged chunk is refused.
"""

from __future__ import annotations

import numpy as np
import pytest

from pinotpy.segment.build.delta_codec import compress_numbers, decompress_numbers

_LONG = np.iinfo(np.int64)
_RNG = np.random.default_rng(3)
HOSTILE = {
    "one": np.array([7]),
    "two extremes": np.array([_LONG.min, _LONG.max]),
    "all equal": np.full(8192, -5),
    "least": np.full(3, _LONG.min),
    "ascending": np.arange(10_000) * 3 + 10**17,
    "descending": 10**17 - np.arange(10_000) * 3,
    "range of 32 bits": np.array([0, 2**32 - 1, 5]),
    "range of 33 bits": np.array([0, 2**32, 5, 2**32 - 1]),
    "steps that wrap": np.array([_LONG.max - 1, _LONG.max, _LONG.min, _LONG.min + 1]),
    "random bits": _RNG.integers(0, 2**20, 8192),
    "a block and one": _RNG.integers(-9, 9, 4097),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_numbers_come_back_as_they_went_in(name: str, dtype: type) -> None:
    values = HOSTILE[name].astype(np.int64)
    if dtype is np.int32:
        values = np.clip(values, -(2**31), 2**31 - 1)
    values = values.astype(dtype)
    packed = compress_numbers(values)
    if packed is None:
        wide = values.astype(object)
        assert max(wide) - min(wide) >= 2**32 and (len(wide) < 2 or max(np.diff(wide)) - min(np.diff(wide)) >= 2**32)
        return
    out = np.zeros(len(values), dtype)
    decompress_numbers(np.frombuffer(packed, np.uint8), out)
    assert np.array_equal(out, values)


def test_small_steps_and_small_ranges_shrink_to_their_bits() -> None:
    for bits, values in (
        (1, 10**17 + np.arange(8192)),
        (20, _RNG.integers(0, 2**20, 8192)),
        (3, np.cumsum(_RNG.integers(0, 8, 8192))),
    ):
        packed = compress_numbers(values)
        assert packed is not None and len(packed) <= 24 + bits * 8192 // 8


def test_a_chunk_that_is_none_is_refused() -> None:
    packed = np.frombuffer(compress_numbers(np.arange(5000)) or b"", np.uint8).copy()
    out = np.zeros(5000, np.int64)
    for damaged in (
        packed[:20],
        packed[:-4],
        np.append(packed, packed[:4]),
        np.concatenate([[9], packed[1:]]),
        np.concatenate([packed[:1], [77], packed[2:]]),
    ):
        with pytest.raises(ValueError, match=r"\d+ bytes"):
            decompress_numbers(damaged.astype(np.uint8), out)
    with pytest.raises(ValueError, match="bytes"):
        decompress_numbers(packed, np.zeros(9000, np.int64))
