"""Proves that fixed-bit packing is what docs/format/forward-index.md draws, against a slow Python reading of that page,
for every width; and that search in byte strings agrees with Python's bisect.
"""

from __future__ import annotations

import bisect
import random

import numpy as np
import pytest

from pinotpy.kernels.codec.bit_packing import bit_width, pack, packed_max, packed_words, unpack
from pinotpy.kernels.codec.posting_builder import inverted_index
from pinotpy.kernels.text.ordered_bytes import bytes_lower_bound, bytes_strictly_ascend


def read_by_the_page(words: list[int], width: int, index: int) -> int:
    """One value by the text of the page, bit by bit."""
    block, inside = divmod(index, 4096)
    row, lane = divmod(inside, 128)
    value = 0
    for bit in range(width):
        word, position = divmod(row * width + bit, 32)
        value |= (words[block * width * 128 + word * 128 + lane] >> position & 1) << bit
    return value


@pytest.mark.parametrize("width", range(1, 33))
def test_packed_values_lie_where_the_page_says_and_come_back(width: int) -> None:
    rng = np.random.default_rng(width)
    for count in (1, 127, 129, 4096, 10_001):
        ids = rng.integers(0, 1 << width, count, np.uint64).astype(np.uint32)
        words = pack(ids, width)
        assert len(words) == packed_words(count, width) == -(-count // 4096) * width * 128
        plain = words.tolist()
        for index in rng.integers(0, count, 40).tolist():
            assert read_by_the_page(plain, width, index) == ids[index]
        out = np.empty(count, np.uint32)
        unpack(words, width, 0, out)
        np.testing.assert_array_equal(out, ids)
        # As a driver's block does: from any multiple of 128, of any length.
        start = int(rng.integers(0, -(-count // 128))) * 128
        part = np.empty(min(2048, count - start), np.uint32)
        unpack(words, width, start, part)
        np.testing.assert_array_equal(part, ids[start : start + 2048])
        assert packed_max(words, width, count) == ids.max()


def test_read_only_maps_are_unpacked_too() -> None:
    words = np.frombuffer(pack(np.arange(300), 9).tobytes(), np.uint32)
    out = np.empty(300, np.uint32)
    unpack(words, 9, 0, out)
    assert out.tolist() == list(range(300))
    assert packed_max(words[:0], 9, 0) == -1


def test_bit_width_is_that_of_the_largest_id() -> None:
    assert [bit_width(cardinality) for cardinality in (0, 1, 2, 3, 256, 257, 2**31)] == [1, 1, 1, 2, 8, 9, 31]


def test_byte_strings_are_searched_like_a_sorted_list() -> None:
    rng = random.Random(2)
    texts = sorted({bytes(rng.choices(b"\x00a\x7f\x80\xff", k=rng.randrange(6))) for _ in range(500)})
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    data = np.frombuffer(b"".join(texts), np.uint8)
    assert bytes_strictly_ascend(offsets, data)
    for probe in [
        *texts,
        b"",
        b"\xff" * 9,
        *(bytes(rng.choices(b"\x00ab\xff", k=rng.randrange(6))) for _ in range(300)),
    ]:
        assert bytes_lower_bound(offsets, data, np.frombuffer(probe, np.uint8)) == bisect.bisect_left(texts, probe)
    swapped = [texts[1], texts[0], *texts[2:]]
    assert not bytes_strictly_ascend(
        np.cumsum([0, *map(len, swapped)]).astype(np.int32), np.frombuffer(b"".join(swapped), np.uint8)
    )
    assert not bytes_strictly_ascend(np.array([0, 1, 2], np.int32), np.frombuffer(b"aa", np.uint8))


def test_the_inverted_index_of_read_only_ids_agrees_with_flatnonzero() -> None:
    ids = np.frombuffer(np.random.default_rng(1).integers(0, 9, 1000).astype(np.uint8).tobytes(), np.uint8)
    offsets, docs = inverted_index(ids, 9)
    for value in range(9):
        np.testing.assert_array_equal(docs[offsets[value] : offsets[value + 1]], np.flatnonzero(ids == value))
