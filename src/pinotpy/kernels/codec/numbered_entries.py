"""Numbers for entries (owner, kind, bytes), in the order in which they come: a hash table that its caller makes
larger.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime.abi import inner


class Table(NamedTuple):
    """Numbered entries, the number of each its place. `slots` (a power of two, at least twice as many) find them by
    hash; -1 = free.
    """

    owners: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    hashes: NDArray[np.uint64]
    offsets: Int64Array
    data: NDArray[np.uint8]
    slots: NDArray[np.int32]
    seen: Int64Array  # of paths: the object that had the key last


def new_table(entries: int, size_bytes: int) -> Table:
    """An empty table for `entries` (a power of two) and their bytes."""
    return Table(
        np.zeros(entries, np.int32),
        np.zeros(entries, np.uint8),
        np.zeros(entries, np.uint64),
        np.zeros(entries + 1, np.int64),
        np.zeros(size_bytes, np.uint8),
        np.full(2 * entries, -1, np.int32),
        np.zeros(entries, np.int64),
    )


def grown(table: Table, used: int, extra_bytes: int) -> Table:
    """The same entries, `used` in number, in a table of twice the size and with room for `extra_bytes` more."""
    larger = new_table(2 * len(table.owners), 2 * len(table.data) + extra_bytes)
    larger.owners[:used] = table.owners[:used]
    larger.kinds[:used] = table.kinds[:used]
    larger.hashes[:used] = table.hashes[:used]
    larger.offsets[: used + 1] = table.offsets[: used + 1]
    larger.data[: len(table.data)] = table.data
    larger.seen[:used] = table.seen[:used]
    _fill_slots(larger.hashes, used, larger.slots)
    return larger


@njit(cache=True, nogil=True)
def _fill_slots(hashes: Any, used: Any, slots: Any) -> None:
    mask = np.uint64(slots.shape[0] - 1)
    for entry in range(used):
        at = hashes[entry] & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = entry


@inner
def number_of(table: Any, state: Any, word: Any, owner: Any, kind: Any, data: Any, begin: Any, end: Any) -> Any:
    # The number of an entry, which is made if there is none; -1: the table is full.
    # Taken out of the tuple once: each time counts references.
    slots, hashes, owners, kinds, offsets, known = (
        table.slots,
        table.hashes,
        table.owners,
        table.kinds,
        table.offsets,
        table.data,
    )
    h = (np.uint64(owner) * np.uint64(4) + np.uint64(kind) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for i in range(begin, end):
        h = (h ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(32)
    mask = np.uint64(slots.shape[0] - 1)
    at = h & mask
    size = end - begin
    while True:
        entry = slots[at]
        if entry < 0:
            break
        if hashes[entry] == h and owners[entry] == owner and kinds[entry] == kind:
            first = offsets[entry]
            if offsets[entry + 1] - first == size:
                i = 0
                while i < size and known[first + i] == data[begin + i]:
                    i += 1
                if i == size:
                    return np.int64(entry)
        at = (at + np.uint64(1)) & mask
    used = state[word]
    first = offsets[used]
    if used >= owners.shape[0] or first + size > known.shape[0]:
        return np.int64(-1)
    owners[used], kinds[used], hashes[used] = owner, kind, h
    for i in range(size):
        known[first + i] = data[begin + i]
    offsets[used + 1] = first + size
    slots[at] = used
    state[word] = used + 1
    return np.int64(used)
