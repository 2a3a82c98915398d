"""Sets of docs as bitmaps: what indexes know of a predicate, for all chosen segments in one call.

A set is uint64[ceil(num_docs / 64)], doc d is bit d % 64 of word d / 64. Doc lists are written into it, so that joining
lists, dropping docs that stand in several of them and putting docs in order is one thing. `metas` is
int64[num_segments, META_WORDS] of one column; `segments` are row numbers in it, and `sets` the addresses of their
bitmaps.

**Range index**: entries are dealt to buckets by value. bounds[b] is the least value (raw column) or dict id of bucket
b, the docs of bucket b are docs[offsets[b] : offsets[b + 1]], ascending, each once. A range covers buckets [first,
end); only the docs of the first and the last of them are compared one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, njit, uint64

from pinotpy.kernels.codec.roaring import add_bitmap, list_bitmap
from pinotpy.kernels.runtime.abi import (
    M_BITMAP_OFFSETS,
    M_BITMAPS,
    M_CARDINALITY,
    M_DATA,
    M_INVERTED_DOCS,
    M_INVERTED_OFFSETS,
    M_MV_OFFSETS,
    M_NUM_DOCS,
    M_NUM_VALUES,
    M_RANGE_BOUNDS,
    M_RANGE_BUCKETS,
    M_RANGE_DOCS,
    M_RANGE_OFFSETS,
    M_STORED,
    M_WIDTH,
    T_DOUBLE,
    T_FLOAT,
    T_INT,
    T_LONG,
    inner,
)
from pinotpy.kernels.runtime.bits import lowest_bit, num_bits
from pinotpy.kernels.runtime.views import (
    mv_offsets,
    view_f32,
    view_f64,
    view_i32,
    view_i64,
    view_u8,
    view_u16,
    view_u32,
    view_u64,
)


@inner
def _words_of(meta: Any, address: int) -> Any:
    return view_u64(address, (meta[M_NUM_DOCS] + 63) >> 6)


@inner
def _add(docs: Any, bits: Any) -> None:
    for i in range(len(docs)):
        doc = np.uint32(docs[i])
        bits[doc >> np.uint32(6)] |= uint64(1) << uint64(doc & np.uint32(63))


# --- inverted index ---------------------------------------------------------------------------------------------------


@inner
def _add_postings(meta: Any, low: int, high: int, bits: Any) -> None:
    if meta[M_BITMAPS] != 0:
        begins = view_i64(meta[M_BITMAP_OFFSETS], meta[M_CARDINALITY] + 1)
        for dict_id in range(low, high):
            add_bitmap(meta[M_BITMAPS] + begins[dict_id], bits)
        return
    offsets = view_u32(meta[M_INVERTED_OFFSETS], meta[M_CARDINALITY] + 1)
    docs = view_i32(meta[M_INVERTED_DOCS], meta[M_NUM_VALUES])
    _add(docs[int64(offsets[low]) : int64(offsets[high])], bits)


@njit(cache=True, nogil=True)
def add_posting_ranges(metas: Any, segments: Any, ids: Any, sets: Any) -> None:
    """Add the docs of dict ids [ids[s, 0], ids[s, 1]) of the inverted index."""
    for i in range(len(segments)):
        s = segments[i]
        _add_postings(metas[s], ids[s, 0], ids[s, 1], _words_of(metas[s], sets[i]))


@njit(cache=True, nogil=True)
def add_postings_of(metas: Any, segments: Any, members: Any, spans: Any, sets: Any) -> None:
    """Add the docs of the dict ids members[spans[s, 0] : spans[s, 1]] (uint32)."""
    for i in range(len(segments)):
        s = segments[i]
        bits = _words_of(metas[s], sets[i])
        for dict_id in members[spans[s, 0] : spans[s, 1]]:
            _add_postings(metas[s], int64(dict_id), int64(dict_id) + 1, bits)


@njit(cache=True, nogil=True)
def list_bitmaps(metas: Any, segments: Any, ids: Any, starts: Any, out: Any) -> None:
    """out[starts[i] : starts[i + 1]] = docs of dict id ids[segments[i], 0] of an inverted index of bitmaps, ascending,
    int32.
    """
    for i in range(len(segments)):
        s = segments[i]
        begins = view_i64(metas[s, M_BITMAP_OFFSETS], metas[s, M_CARDINALITY] + 1)
        list_bitmap(metas[s, M_BITMAPS] + begins[ids[s, 0]], out[starts[i] : starts[i + 1]])


# --- range index ------------------------------------------------------------------------------------------------------


@inner
def _bucket_of(bounds: Any, value: Any) -> Any:
    # The bucket that `value` belongs to; 0 if it is less than all.
    low, high = 0, len(bounds)
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


@inner
def _span(bounds: Any, low: Any, high: Any) -> Any:
    return _bucket_of(bounds, low), _bucket_of(bounds, high) + 1


@inner
def bucket_span(meta: Any, low: int, low_real: float, high: int, high_real: float) -> Any:
    """Buckets [first, end) of a range, both ends included: of dict ids or raw whole numbers, or of raw doubles."""
    address, count, stored = meta[M_RANGE_BOUNDS], meta[M_RANGE_BUCKETS], meta[M_STORED]
    if meta[M_CARDINALITY] >= 0:
        return _span(view_u32(address, count), low, high)
    if stored == T_INT:
        return _span(view_i32(address, count), low, high)
    if stored == T_LONG:
        return _span(view_i64(address, count), low, high)
    if stored == T_FLOAT:
        return _span(view_f32(address, count), low_real, high_real)
    return _span(view_f64(address, count), low_real, high_real)


@njit(cache=True, nogil=True)
def range_spans(
    metas: Any, ids: Any, low_word: int, low_real: float, high_word: int, high_real: float, out: Any
) -> None:
    """out[s] = buckets [first, end) and number of entries that a range may select; untouched where there is no range
    index.

    Args:
        ids: int64[num_segments, 2], dict ids [low, high) of columns with a dictionary; not empty where there is an
            index.
        low_word, high_word: both ends, included, of raw INT and LONG; low_real, high_real of raw FLOAT and DOUBLE.
        out: int64[num_segments, 3].
    """
    for s in range(len(metas)):
        meta = metas[s]
        if meta[M_RANGE_BOUNDS] == 0:
            continue
        low, high = low_word, high_word
        if meta[M_CARDINALITY] >= 0:
            low, high = ids[s, 0], ids[s, 1] - 1
        first, end = bucket_span(meta, low, low_real, high, high_real)
        offsets = view_u32(meta[M_RANGE_OFFSETS], meta[M_RANGE_BUCKETS] + 1)
        out[s, 0], out[s, 1], out[s, 2] = first, end, int64(offsets[end]) - int64(offsets[first])


def _passing_with(single_only: bool) -> Any:
    # One function for single values, one for multi-values: a doc of these passes if any of its values does.

    @inner
    def passing(values: Any, low: Any, high: Any, docs: Any, bits: Any) -> None:
        for doc in docs:
            value = values[np.uint32(doc)]
            if low <= value <= high:
                bits[doc >> 6] |= uint64(1) << uint64(doc & 63)

    @inner
    def any_passing(values: Any, low: Any, high: Any, docs: Any, bits: Any, offsets: Any) -> None:
        for doc in docs:
            for value in values[int64(offsets[doc]) : int64(offsets[doc + 1])]:
                if low <= value <= high:
                    bits[doc >> 6] |= uint64(1) << uint64(doc & 63)
                    break

    return passing if single_only else any_passing


_passing = _passing_with(True)
_any_passing = _passing_with(False)


@inner
def _add_passing(values: Any, low: Any, high: Any, meta: Any, docs: Any, bits: Any) -> None:
    if meta[M_MV_OFFSETS] == 0:
        _passing(values, low, high, docs, bits)
    else:
        _any_passing(values, low, high, docs, bits, mv_offsets(meta))


@inner
def _add_edge(meta: Any, low: int, low_real: float, high: int, high_real: float, docs: Any, bits: Any) -> None:
    # Docs of a bucket that the range may cut; low and high are dict ids or raw whole numbers, both ends included.
    address, count, stored, width = meta[M_DATA], meta[M_NUM_VALUES], meta[M_STORED], meta[M_WIDTH]
    if meta[M_CARDINALITY] >= 0:
        if width == 1:
            _add_passing(view_u8(address, count), low, high, meta, docs, bits)
        elif width == 2:
            _add_passing(view_u16(address, count), low, high, meta, docs, bits)
        else:
            _add_passing(view_u32(address, count), low, high, meta, docs, bits)
    elif stored == T_INT:
        _add_passing(view_i32(address, count), low, high, meta, docs, bits)
    elif stored == T_LONG:
        _add_passing(view_i64(address, count), low, high, meta, docs, bits)
    elif stored == T_FLOAT:
        _add_passing(view_f32(address, count), low_real, high_real, meta, docs, bits)
    elif stored == T_DOUBLE:
        _add_passing(view_f64(address, count), low_real, high_real, meta, docs, bits)


@njit(cache=True, nogil=True)
def add_ranges(
    metas: Any,
    segments: Any,
    spans: Any,
    ids: Any,
    low_word: int,
    low_real: float,
    high_word: int,
    high_real: float,
    sets: Any,
) -> None:
    """Add the docs with a value in the range; arguments as of `range_spans`, `spans` its answer."""
    for i in range(len(segments)):
        s = segments[i]
        meta, bits = metas[s], _words_of(metas[s], sets[i])
        first, end = spans[s, 0], spans[s, 1]
        low, high = low_word, high_word
        if meta[M_CARDINALITY] >= 0:
            low, high = ids[s, 0], ids[s, 1] - 1
        offsets = view_u32(meta[M_RANGE_OFFSETS], meta[M_RANGE_BUCKETS] + 1)
        docs = view_i32(meta[M_RANGE_DOCS], int64(offsets[meta[M_RANGE_BUCKETS]]))
        _add_edge(meta, low, low_real, high, high_real, docs[int64(offsets[first]) : int64(offsets[first + 1])], bits)
        if end - first > 1:
            _add_edge(meta, low, low_real, high, high_real, docs[int64(offsets[end - 1]) : int64(offsets[end])], bits)
            _add(docs[int64(offsets[first + 1]) : int64(offsets[end - 1])], bits)


@njit(cache=True, nogil=True)
def assign_buckets(values: Any, bounds: Any, out: Any) -> None:
    """out[i] = bucket of values[i], none of which is less than bounds[0]."""
    count = len(bounds)
    for i in range(len(values)):
        value = values[i]
        # Halving without branches: the position grows by a power of two where its bound is not above the value.
        position, width = 0, count
        while width > 1:
            half = width >> 1
            position += half if bounds[position + half] <= value else 0
            width -= half
        out[i] = position


# --- from sets to lists -----------------------------------------------------------------------------------------------


@inner
def _masked(found: Any, word: int, low: int, high: int) -> Any:
    # The bits of a word that are docs of [low, high).
    bits = found[word]
    if word == low >> 6:
        bits &= ~uint64(0) << uint64(low & 63)
    if word == high >> 6:
        bits &= (uint64(1) << uint64(high & 63)) - uint64(1)
    return bits


@njit(cache=True, nogil=True)
def set_sizes(sets: Any, runs: Any, out: Any) -> None:
    """out[i] = docs of the set at sets[i] that lie in [runs[i, 0], runs[i, 1])."""
    for i in range(len(sets)):
        low, high = runs[i, 0], runs[i, 1]
        end = (high + 63) >> 6
        bits = view_u64(sets[i], end)
        total = uint64(0)
        for word in range(low >> 6, end):
            total += num_bits(_masked(bits, word, low, high))
        out[i] = int64(total)


@njit(cache=True, nogil=True)
def list_sets(sets: Any, runs: Any, starts: Any, out: Any) -> None:
    """out[starts[i] : starts[i + 1]] = those docs, ascending, int32."""
    for i in range(len(sets)):
        low, high = runs[i, 0], runs[i, 1]
        end = (high + 63) >> 6
        found = view_u64(sets[i], end)
        position = starts[i]
        for word in range(low >> 6, end):
            bits = _masked(found, word, low, high)
            base = word << 6
            while bits != uint64(0):
                out[position] = base + int64(lowest_bit(bits))
                bits &= bits - uint64(1)
                position += 1
