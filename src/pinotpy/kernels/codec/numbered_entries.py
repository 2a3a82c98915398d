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
from pinotpy.kernels.runtime.byte_words import hash_bytes
from pinotpy.kernels.runtime.hashing import find_empty, find_number, finish, first_slot, stir
from pinotpy.kernels.runtime.views import view_i32, view_u64


class Table(NamedTuple):
    """Numbered entries, the number of each its place. `slots` (a power of two, at least twice as many) find them by
    hash: a number + 1, 0 where one is empty.
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
        np.zeros(2 * entries, np.int32),
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
    mask, view = np.uint64(slots.shape[0] - 1), view_i32(slots.ctypes.data, slots.shape[0])
    for entry in range(used):
        h = hashes[entry]
        view[find_empty(view, first_slot(h, mask), mask, view, h)] = entry + 1


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
    size = end - begin
    h = finish(stir(hash_bytes(data.ctypes.data + begin, size), np.uint64(owner) * np.uint64(4) + np.uint64(kind)))
    mask = np.uint64(slots.shape[0] - 1)
    slot_view, hash_view = view_i32(slots.ctypes.data, slots.shape[0]), view_u64(hashes.ctypes.data, hashes.shape[0])
    slot = find_number(slot_view, first_slot(h, mask), mask, hash_view, h)
    while slots[slot] != 0:
        entry = slots[slot] - 1
        if owners[entry] == owner and kinds[entry] == kind:
            first = offsets[entry]
            if offsets[entry + 1] - first == size:
                i = 0
                while i < size and known[first + i] == data[begin + i]:
                    i += 1
                if i == size:
                    return np.int64(entry)
        slot = find_number(slot_view, (slot + np.uint64(1)) & mask, mask, hash_view, h)
    used = state[word]
    first = offsets[used]
    if used >= owners.shape[0] or first + size > known.shape[0]:
        return np.int64(-1)
    owners[used], kinds[used], hashes[used] = owner, kind, h
    for i in range(size):
        known[first + i] = data[begin + i]
    offsets[used + 1] = first + size
    slots[slot] = used + 1
    state[word] = used + 1
    return np.int64(used)
