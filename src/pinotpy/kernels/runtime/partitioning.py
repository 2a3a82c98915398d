"""Rows scattered by the hash of their key: equal keys meet in one partition, which is small enough for a cache and is
worked on by one thread, so that nothing has to be merged afterwards (radix partitioning).

    sizes    count_rows, one row of sizes a thread
    places   places_of: where each thread writes the next row of each partition
    rows     scatter_rows, or take_place row by row

A partition is named by the bits of the hash from `shift` on. Rows are contiguous int64[n, width]; all words are the
key, but for the lowest `key_shift` bits of the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit, uint64

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime.abi import inner, words
from pinotpy.kernels.runtime.hashing import absorb, finish, start


@inner
def partition_of(h: Any, shift: Any, num_partitions: Any) -> Any:
    """The partition of a hash; num_partitions: a power of two."""
    return (h >> uint64(shift)) & uint64(num_partitions - 1)


@inner
def take_place(places: Any, h: Any, shift: Any) -> Any:
    """Where the next row with this hash goes; `places` (int64[partitions]) moves on."""
    partition = partition_of(h, shift, len(places))
    place = places[partition]
    places[partition] = place + 1
    return uint64(place)


@inner
def hash_row(rows: Any, position: Any, width: Any, key_shift: Any) -> Any:
    """The hash of the row of `width` words at word `position` (all uint64 but for the view of rows)."""
    h = start(rows[position] >> int64(key_shift))
    for k in range(uint64(1), width):
        h = absorb(h, rows[position + k])
    return finish(h)


@inner
def _hash_pair(first: Any, second: Any, key_shift: Any) -> Any:
    # `hash_row` of two words. Loops over them make scattering four times as slow.
    return finish(absorb(start(first >> key_shift), second))


@inner
def _count(rows: Any, width: Any, key_shift: Any, shift: Any, sizes: Any) -> None:
    for i in range(uint64(len(rows)) // width):
        sizes[partition_of(hash_row(rows, i * width, width, key_shift), shift, len(sizes))] += 1


@inner
def _scatter(rows: Any, width: Any, key_shift: Any, shift: Any, places: Any, out: Any) -> None:
    for i in range(uint64(len(rows)) // width):
        position = i * width
        to = take_place(places, hash_row(rows, position, width, key_shift), shift) * width
        for k in range(width):
            out[to + k] = rows[position + k]


@njit(cache=True, nogil=True)
def count_rows(rows: Any, key_shift: int, bits: int, sizes: Any) -> None:
    """Add the rows of each of 2^bits partitions to `sizes` (int64[2^bits])."""
    view, counts = words(rows.ctypes.data, rows.size), words(sizes.ctypes.data, len(sizes))
    shift = 64 - bits
    if rows.shape[1] != 2:
        _count(view, uint64(rows.shape[1]), key_shift, shift, counts)
        return
    for i in range(len(rows)):
        counts[partition_of(_hash_pair(rows[i, 0], rows[i, 1], key_shift), shift, len(counts))] += 1


@njit(cache=True, nogil=True)
def scatter_rows(rows: Any, key_shift: int, bits: int, places: Any, out: Any) -> None:
    """Copy each row to the next place of its partition in `out`, as wide as the rows; `places` (int64[2^bits]) moves
    on.
    """
    view, target = words(rows.ctypes.data, rows.size), words(out.ctypes.data, out.size)
    next_places, shift = words(places.ctypes.data, len(places)), 64 - bits
    if rows.shape[1] != 2:
        _scatter(view, uint64(rows.shape[1]), key_shift, shift, next_places, target)
        return
    for i in range(len(rows)):
        first, second = rows[i, 0], rows[i, 1]
        position = take_place(next_places, _hash_pair(first, second, key_shift), shift)
        out[position, 0], out[position, 1] = first, second


def places_of(sizes: Int64Array) -> tuple[Int64Array, Int64Array]:
    """(starts, places): where each partition begins and, one on, ends, and where each thread writes first.

    Args:
        sizes: int64[threads, partitions]. Rows of a partition stand in the order of the threads.
    """
    starts = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))])
    return starts, starts[:-1] + np.cumsum(sizes, axis=0) - sizes


def warm() -> None:
    """Compile for the argument types that queries use."""
    rows: Int64Array = np.zeros((1, 3), np.int64)
    sizes = np.zeros(2, np.int64)
    count_rows(rows, 0, 1, sizes)
    scatter_rows(rows, 0, 1, places_of(sizes[None])[1][0], np.empty_like(rows))
