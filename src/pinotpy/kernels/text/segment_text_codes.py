"""Numbers of the distinct texts in the raw column of one segment, by appearance.

Texts are looked up by a 64-bit hash of their bytes and compared as bytes, with copies of the distinct ones that lie
close together. An index is open addressing over words: the upper half of a hash as a tag, and number + 1; at most half
full.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit, uint32, uint64

from pinotpy.kernels.runtime.abi import inner
from pinotpy.kernels.runtime.byte_words import hash_bytes, same_bytes
from pinotpy.kernels.runtime.hashing import NUMBER_MASK, TAG_MASK, find_empty, first_slot, probe
from pinotpy.kernels.runtime.prefetch import prefetch
from pinotpy.kernels.runtime.views import view_i64, view_u8, view_u64

# So many texts are hashed, and the slots of their hashes fetched, before one is searched.
_LOOKAHEAD: Final = 256


@inner
def _holds_text(slots: Any, slot: Any, ends: Any, text: Any) -> Any:
    entry = slots[slot]
    tag, address, length, copies = text
    if entry & TAG_MASK != tag:
        return False
    number = (entry & NUMBER_MASK) - uint64(1)
    if length != ends[number + uint64(1)] - ends[number]:
        return False
    return same_bytes(address, copies + ends[number], length)


_find_text = probe(_holds_text)


@njit(cache=True, nogil=True)
def code_texts(
    data: int,
    starts_address: int,
    num_texts: int,
    docs: Any,
    ids: Any,
    index: Any,
    hashes: Any,
    ends: Any,
    texts: Any,
    count: int,
) -> Any:
    """Numbers of the texts of `docs` into uint32 `ids`; new ones get the numbers from `count` on. Gives the new count.

    Args:
        data, starts_address: addresses of the column's bytes and of its int64 offsets, num_texts + 1 of them.
        index: uint64, a power of two, at least 2 * (count + len(docs)). hashes: uint64, of each number, with room for
            count + len(docs). texts: uint8, the distinct texts by number; ends: int64, where each begins and, one on,
            ends.
    """
    starts = view_i64(starts_address, num_texts + 1)
    mask = uint64(len(index) - 1)
    copies, index_address = texts.ctypes.data, index.ctypes.data
    slots, known = view_u64(index_address, len(index)), view_i64(ends.ctypes.data, len(ends))
    ahead = np.empty(_LOOKAHEAD, np.uint64)
    for base in range(0, len(docs), _LOOKAHEAD):
        n = min(_LOOKAHEAD, len(docs) - base)
        for i in range(n):
            doc = uint64(docs[base + i])
            ahead[i] = hash_bytes(data + starts[doc], starts[doc + uint64(1)] - starts[doc])
            prefetch(index_address + int64(first_slot(ahead[i], mask)) * 8)
        for i in range(n):
            doc = docs[base + i]
            h, address, length = ahead[i], data + starts[doc], starts[doc + 1] - starts[doc]
            text = (h & TAG_MASK, address, length, copies)
            slot = _find_text(slots, first_slot(h, mask), mask, known, text)
            if slots[slot] == uint64(0):
                hashes[count] = h
                first, end = known[count], known[count] + length
                texts[first:end] = view_u8(address, length)
                count += 1
                known[count] = end
                slots[slot] = (h & TAG_MASK) | uint64(count)
            ids[base + i] = uint32((slots[slot] & NUMBER_MASK) - uint64(1))
    return count


@njit(cache=True, nogil=True)
def fill_index(hashes: Any, index: Any) -> None:
    """An empty index filled with the numbers of these hashes, of distinct texts."""
    slots, mask = view_u64(index.ctypes.data, len(index)), uint64(len(index) - 1)
    for number in range(len(hashes)):
        h = hashes[number]
        slots[find_empty(slots, first_slot(h, mask), mask, slots, h)] = (h & TAG_MASK) | uint64(number + 1)


def warm() -> None:
    """Compile, or load from the cache, all of this."""
    starts, ids = np.array([0, 1, 2], np.int64), np.zeros(2, np.uint32)
    text, hashes, ends = np.zeros(8, np.uint8), np.zeros(2, np.uint64), np.zeros(3, np.int64)
    index, texts = np.zeros(4, np.uint64), np.zeros(8, np.uint8)
    count = code_texts(text.ctypes.data, starts.ctypes.data, 2, np.arange(2), ids, index, hashes, ends, texts, 0)
    fill_index(hashes[:count], np.zeros(4, np.uint64))
