"""Proves that rows of any number of words come to partitions whole, each once, in the order of threads and rows, and
that equal keys meet in one: against numpy, on random and hostile rows.
"""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from pinotpy.kernels.runtime.abi import words
from pinotpy.kernels.runtime.partitioning import count_rows, partition_of, places_of, scatter_rows, take_place

Longs = NDArray[np.int64]
LONG = np.iinfo(np.int64)
MULTIPLIER, MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
NUM_ROWS = 4000


def _hashes(rows: Longs, key_shift: int) -> NDArray[np.uint64]:
    h = (rows[:, 0] >> key_shift).astype(np.uint64) * MULTIPLIER
    for k in range(1, rows.shape[1]):
        h = (h ^ rows[:, k].view(np.uint64)) * MIX
        h ^= h >> np.uint64(32)
    return np.asarray((h ^ (h >> np.uint64(29))) * MULTIPLIER)


def _unmixed(hashes: NDArray[np.uint64]) -> Longs:
    """Keys of one word that have these hashes."""
    inverse = np.uint64(pow(int(MULTIPLIER), -1, 1 << 64))
    h = hashes * inverse
    for shift in (29, 58):
        h ^= h >> np.uint64(shift)
    return (h * inverse).view(np.int64)


def _rows(kind: str, width: int) -> Longs:
    random = np.random.default_rng([len(kind), width])
    shape = NUM_ROWS, width
    if kind == "none":
        return np.empty((0, width), np.int64)
    if kind == "one":
        return np.full((1, width), LONG.min)
    if kind == "all equal":
        return np.full(shape, -77)
    if kind == "all different":
        return random.permutation(NUM_ROWS * width).reshape(shape)
    if kind == "few":
        return random.integers(-2, 3, shape)
    if kind == "equal in the top bits of the hash":
        top = np.uint64(0x5A5) << np.uint64(52)
        rows = np.zeros(shape, np.int64)
        rows[:, 0] = _unmixed(top | random.integers(0, 1 << 52, NUM_ROWS).astype(np.uint64))
        return rows
    return random.integers(LONG.min, LONG.max, shape)


KINDS = ["none", "one", "all equal", "all different", "few", "random", "equal in the top bits of the hash"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "key_shift"), [(1, 0), (2, 0), (2, 32), (3, 0), (5, 0)])
@pytest.mark.parametrize(("bits", "threads"), [(1, 1), (4, 2), (11, 3)])
def test_rows_come_to_their_partitions_in_order(kind: str, width: int, key_shift: int, bits: int, threads: int) -> None:
    rows = _rows(kind, width)
    pieces = [np.ascontiguousarray(piece) for piece in np.array_split(rows, threads)]
    sizes = np.zeros((threads, 1 << bits), np.int64)
    for piece, own in zip(pieces, sizes, strict=True):
        count_rows(piece, key_shift, bits, own)
    partitions = (_hashes(rows, key_shift) >> np.uint64(64 - bits)).astype(np.int64)
    assert sizes.sum(axis=0).tolist() == np.bincount(partitions, minlength=1 << bits).tolist()
    starts, places = places_of(sizes)
    assert starts.tolist() == [0, *np.cumsum(sizes.sum(axis=0)).tolist()]
    out = np.full_like(rows, 123)
    for piece, own in reversed(list(zip(pieces, places, strict=True))):  # threads come in any order
        scatter_rows(piece, key_shift, bits, own, out)
    assert out.tolist() == rows[np.argsort(partitions, kind="stable")].tolist()
    assert places[-1].tolist() == starts[1:].tolist()
    if kind == "equal in the top bits of the hash" and width == 1:
        assert np.count_nonzero(sizes.sum(axis=0)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_low_bits_of_a_first_word_that_are_no_key_do_not_part_rows(kind: str) -> None:
    rows = _rows(kind, 2)
    others = rows.copy()
    others[:, 0] ^= 0xABCDEF
    sizes = np.zeros((2, 64), np.int64)
    count_rows(rows, 32, 6, sizes[0])
    count_rows(others, 32, 6, sizes[1])
    assert sizes[0].tolist() == sizes[1].tolist()


@njit
def _places(hashes: NDArray[np.uint64], shift: int, next_places: Longs, out: Longs, partitions: Longs) -> None:
    own = words(next_places.ctypes.data, len(next_places))
    for i in range(len(hashes)):
        partitions[i] = partition_of(hashes[i], shift, len(own))
        out[i] = take_place(own, hashes[i], shift)


@pytest.mark.parametrize(("shift", "num_partitions"), [(54, 1), (54, 4), (54, 1024), (60, 16), (0, 8)])
def test_partitions_are_named_by_the_bits_from_a_shift_on(shift: int, num_partitions: int) -> None:
    hashes = np.random.default_rng(shift).integers(0, 1 << 63, NUM_ROWS).astype(np.uint64) << np.uint64(1)
    wanted = ((hashes >> np.uint64(shift)) & np.uint64(num_partitions - 1)).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(np.bincount(wanted, minlength=num_partitions))])
    out, partitions = np.empty(NUM_ROWS, np.int64), np.empty(NUM_ROWS, np.int64)
    _places(hashes, shift, starts[:-1].copy(), out, partitions)
    assert partitions.tolist() == wanted.tolist()
    assert out[np.argsort(wanted, kind="stable")].tolist() == list(range(NUM_ROWS))
