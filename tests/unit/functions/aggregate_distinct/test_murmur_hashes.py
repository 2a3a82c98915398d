"""Proves the 128-bit hash against published vectors, against a slow implementation and against the theta sketches of
DataSketches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from slow_hashes import slow_murmur3

from pinotpy.functions.sketches.murmur import murmur3_bytes, murmur3_ints, murmur3_words


def of_bytes(texts: list[bytes], seed: int) -> list[tuple[int, int]]:
    first, second = murmur3_bytes(pa.array(texts, pa.binary()), seed)
    return list(zip(first.tolist(), second.tolist(), strict=True))


def test_published_vectors() -> None:
    found = of_bytes([b"", b"hello", b"The quick brown fox jumps over the lazy dog"], 0)
    assert [f"{a:016x}{b:016x}" for a, b in found] == [
        "0" * 32,
        "cbd8a7b341bd9b025b1e906a48ae1d19",
        "e34bbc7bbc071b6c7a433ca9c49a9347",
    ]


@given(
    st.lists(st.binary(max_size=50) | st.binary(min_size=200, max_size=230), max_size=20),
    st.sampled_from([0, 9001]),
    st.data(),
)
def test_every_length_hashes_as_slowly_computed(texts: list[bytes], seed: int, data: Any) -> None:
    begin = data.draw(st.integers(0, len(texts)))
    first, second = murmur3_bytes(pa.array(texts, pa.binary())[begin:], seed)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [
        slow_murmur3(text, seed) for text in texts[begin:]
    ]


def test_words_hash_as_their_bytes() -> None:
    rng = np.random.default_rng(4)
    longs, ints = rng.integers(0, 2**64, 50, np.uint64), rng.integers(0, 2**32, 50, np.uint32)
    for seed in (0, 9001):
        assert [a.tolist() for a in murmur3_words(longs, seed)] == [
            list(x) for x in zip(*(slow_murmur3(v.tobytes(), seed) for v in longs), strict=True)
        ]
        assert [a.tolist() for a in murmur3_ints(ints, seed)] == [
            list(x) for x in zip(*(slow_murmur3(v.tobytes(), seed) for v in ints), strict=True)
        ]
