"""Numbers of the distinct texts in the raw column of one segment, by appearance.

Texts are looked up by a 64-bit hash of their bytes and compared as bytes, with copies of the distinct ones that lie
close together. An index is open addressing over words: the upper half of a hash as a tag, and number + 1; at most half
full.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint32, uint64

from pinotpy.kernels.runtime.byte_words import hash_bytes, same_bytes
from pinotpy.kernels.runtime.views import view_i64, view_u8

_TAG: Final = np.uint64(0xFFFFFFFF00000000)
_NUMBER: Final = np.uint64(0xFFFFFFFF)
_LOOKAHEAD: Final = (
    256  # hashes are computed, and places of the index looked at, for so many texts before one is searched
)


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
    copies = texts.ctypes.data
    found, places = np.empty(_LOOKAHEAD, np.uint64), np.empty(_LOOKAHEAD, np.uint64)
    for base in range(0, len(docs), _LOOKAHEAD):
        n = min(_LOOKAHEAD, len(docs) - base)
        for i in range(n):
            doc = uint64(docs[base + i])
            found[i] = hash_bytes(data + starts[doc], starts[doc + uint64(1)] - starts[doc])
        for i in range(n):
            places[i] = index[(found[i] >> uint64(12)) & mask]
        for i in range(n):
            doc = docs[base + i]
            h = found[i]
            at, entry = (h >> uint64(12)) & mask, places[i]
            if entry == uint64(0):  # since then another text may have taken the place
                entry = index[at]
            while True:
                if entry == uint64(0):
                    index[at] = (h & _TAG) | uint64(count + 1)
                    hashes[count] = h
                    first, end = ends[count], ends[count] + starts[doc + 1] - starts[doc]
                    texts[first:end] = view_u8(data + starts[doc], end - first)
                    ends[count + 1] = end
                    ids[base + i] = uint32(count)
                    count += 1
                    break
                if entry & _TAG == h & _TAG:
                    number = (entry & _NUMBER) - uint64(1)
                    length = starts[doc + 1] - starts[doc]
                    if length == ends[number + uint64(1)] - ends[number] and same_bytes(
                        data + starts[doc], copies + ends[number], length
                    ):
                        ids[base + i] = uint32(number)
                        break
                at = (at + uint64(1)) & mask
                entry = index[at]
    return count


@njit(cache=True, nogil=True)
def fill_index(hashes: Any, index: Any) -> None:
    """An empty index filled with the numbers of these hashes, of distinct texts."""
    mask = uint64(len(index) - 1)
    for number in range(len(hashes)):
        at = (hashes[number] >> uint64(12)) & mask
        while index[at] != uint64(0):
            at = (at + uint64(1)) & mask
        index[at] = (hashes[number] & _TAG) | uint64(number + 1)


def warm() -> None:
    """Compile, or load from the cache, all of this."""
    starts, ids = np.array([0, 1, 2], np.int64), np.zeros(2, np.uint32)
    text, hashes, ends = np.zeros(8, np.uint8), np.zeros(2, np.uint64), np.zeros(3, np.int64)
    index, texts = np.zeros(4, np.uint64), np.zeros(8, np.uint8)
    count = code_texts(text.ctypes.data, starts.ctypes.data, 2, np.arange(2), ids, index, hashes, ends, texts, 0)
    fill_index(hashes[:count], np.zeros(4, np.uint64))
