"""Numbers of distinct texts: within the raw column of one segment, and of the distinct texts of many segments together.

Texts are looked up by a 64-bit hash of their bytes and compared as bytes, with copies of the distinct ones that lie close
together. An index is open addressing over words: the upper half of a hash as a tag, and number + 1; at most half full.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint32, uint64

from pinotpy.kernels.abi import inner
from pinotpy.kernels.byte_words import hash_bytes, same_bytes
from pinotpy.kernels.views import view_i64, view_u8

_TAG: Final = np.uint64(0xFFFFFFFF00000000)
_NUMBER: Final = np.uint64(0xFFFFFFFF)
_LOOKAHEAD: Final = 256  # hashes are computed, and places of the index looked at, for so many texts before one is searched


@njit(cache=True, nogil=True)
def number_texts(data: int, starts_address: int, num_texts: int, docs: Any, ids: Any, index: Any, hashes: Any, ends: Any, texts: Any, count: int) -> Any:
    """Numbers of the texts of `docs` into uint32 `ids`; new ones get the numbers from `count` on. Gives the new count.

    Args:
        data, starts_address: addresses of the column's bytes and of its int64 offsets, num_texts + 1 of them.
        index: uint64, a power of two, at least 2 * (count + len(docs)). hashes: uint64, of each number, with room for count +
            len(docs). texts: uint8, the distinct texts by number; ends: int64, where each begins and, one on, ends.
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
                    if length == ends[number + uint64(1)] - ends[number] and same_bytes(data + starts[doc], copies + ends[number], length):
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


@inner
def _length(ends: int, number: int) -> Any:
    two = view_i64(ends + number * 8, 2)
    return two[1] - two[0]


@inner
def _address(texts: int, ends: int, number: int) -> Any:
    return texts + view_i64(ends + number * 8, 1)[0]


@njit(cache=True, nogil=True)
def unite_texts(segments: Any, bounds: Any, hashes: Any, part: int, parts: int, index: Any, numbers: Any, entries: Any) -> Any:
    """Numbers, equal for equal texts, of the distinct texts of several segments: of one part of them, chosen by hash.

    Args:
        segments: int64[segments, 2], addresses of the distinct texts and of their ends. bounds: int64[segments + 1]: the
            texts of segment s are the entries bounds[s] .. bounds[s + 1] of hashes (uint64).
        index: zeros, uint64, a power of two. numbers: uint32, written for the entries of this part: count * parts + part.
        entries: int64, the first entry of each count.

    Returns the count of distinct texts; -1: the index or `entries` is too small.
    """
    mask = uint64(len(index) - 1)
    count = 0
    for segment in range(len(segments)):
        texts, ends = segments[segment, 0], segments[segment, 1]
        for i in range(bounds[segment], bounds[segment + 1]):
            h = hashes[i]
            if int((h >> uint64(52)) % uint64(parts)) != part:
                continue
            if count * 2 >= len(index) or count >= len(entries):
                return -1
            own = i - bounds[segment]
            at = (h >> uint64(12)) & mask
            while True:
                entry = index[at]
                if entry == uint64(0):
                    index[at] = (h & _TAG) | uint64(count + 1)
                    entries[count] = i
                    numbers[i] = uint32(count * parts + part)
                    count += 1
                    break
                if entry & _TAG == h & _TAG:
                    number = int((entry & _NUMBER) - uint64(1))
                    other = entries[number]
                    if hashes[other] == h and _same(segments, bounds, other, texts, ends, own):
                        numbers[i] = uint32(number * parts + part)
                        break
                at = (at + uint64(1)) & mask
    return count


@inner
def _same(segments: Any, bounds: Any, entry: int, texts: int, ends: int, own: int) -> Any:
    segment = _segment_of(bounds, entry)
    other_texts, other_ends, other = segments[segment, 0], segments[segment, 1], entry - bounds[segment]
    length = _length(ends, own)
    return length == _length(other_ends, other) and same_bytes(_address(texts, ends, own), _address(other_texts, other_ends, other), length)


@inner
def _segment_of(bounds: Any, entry: int) -> Any:
    # The s with bounds[s] <= entry < bounds[s + 1].
    low, high = 0, len(bounds) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if bounds[middle] <= entry:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def text_lengths(segments: Any, bounds: Any, entries: Any, offsets: Any) -> None:
    """Ends of the texts of `entries` laid one behind another, into int64 offsets[len(entries) + 1]."""
    offsets[0] = 0
    for i in range(len(entries)):
        segment = _segment_of(bounds, entries[i])
        offsets[i + 1] = offsets[i] + _length(segments[segment, 1], entries[i] - bounds[segment])


@njit(cache=True, nogil=True)
def copy_texts(segments: Any, bounds: Any, entries: Any, offsets: Any, out: Any) -> None:
    """The bytes of the texts of `entries` into uint8 `out`."""
    for i in range(len(entries)):
        segment = _segment_of(bounds, entries[i])
        source = _address(segments[segment, 0], segments[segment, 1], entries[i] - bounds[segment])
        out[offsets[i] : offsets[i + 1]] = view_u8(source, offsets[i + 1] - offsets[i])


def warm() -> None:
    """Compile, or load from the cache, all of this."""
    starts, ids, one = np.array([0, 1, 2], np.int64), np.zeros(2, np.uint32), np.zeros(1, np.int64)
    text, hashes, ends = np.zeros(8, np.uint8), np.zeros(2, np.uint64), np.zeros(3, np.int64)
    index, texts = np.zeros(4, np.uint64), np.zeros(8, np.uint8)
    count = number_texts(text.ctypes.data, starts.ctypes.data, 2, np.arange(2), ids, index, hashes, ends, texts, 0)
    fill_index(hashes[:count], np.zeros(4, np.uint64))
    segments, bounds = np.array([[texts.ctypes.data, ends.ctypes.data]], np.int64), np.array([0, count], np.int64)
    unite_texts(segments, bounds, hashes[:count], 0, 1, np.zeros(4, np.uint64), np.zeros(count, np.uint32), np.zeros(2, np.int64))
    offsets = np.zeros(2, np.int64)
    text_lengths(segments, bounds, one, offsets)
    copy_texts(segments, bounds, one, offsets, texts)
