"""Docs of an index instead of a scan, where a list is so short that no other price matters: chosen and made for all
segments of a query in two calls, between `planner.select_runs` and `planner.conjunction`.

Conjuncts are theirs, all plain predicates, with more words. A predicate has a list in a segment if it is one list of an
inverted index (of docs, or a Roaring bitmap, which is written out), or a span of buckets of a range index, whose docs
are compared where a bucket may be cut, and put in order. Few docs are scanned sooner than any index is weighed: that is
seen here too.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, njit

from pinotpy.kernels.codec.roaring import list_bitmap
from pinotpy.kernels.filter.planner import C_METAS, C_NEGATED, C_TABLE, CONJUNCT_WORDS
from pinotpy.kernels.filter.posting_bitmaps import bucket_span
from pinotpy.kernels.filter.postings import first_from
from pinotpy.kernels.filter.predicate_frame import PREDICATE_RUN
from pinotpy.kernels.filter.predicate_table import (
    BY_LIST,
    L_ANSWER,
    L_IDS,
    L_MODE,
    L_RANGED,
    L_SORTED,
    flag_of,
    predicate_table,
)
from pinotpy.kernels.runtime.abi import (
    M_BITMAP_OFFSETS,
    M_BITMAPS,
    M_CARDINALITY,
    M_DATA,
    M_INVERTED_DOCS,
    M_INVERTED_OFFSETS,
    M_MV_OFFSETS,
    M_NUM_VALUES,
    M_RANGE_BOUNDS,
    M_RANGE_BUCKETS,
    M_RANGE_DOCS,
    M_RANGE_OFFSETS,
    M_STORED,
    M_WIDTH,
    META_WORDS,
    MORSEL_WORDS,
    T_DOUBLE,
    T_FLOAT,
    T_INT,
    T_LONG,
    U_HIGH,
    U_LIST,
    U_LOW,
    U_SEGMENT,
    inner,
    words,
)
from pinotpy.kernels.runtime.views import view_f32, view_f64, view_i32, view_i64, view_u8, view_u16, view_u32

# Ends of a predicate's range of raw values, both included: whole numbers, and bits of doubles. E_RAW: 1 if it is one.
E_RAW: Final = 0
E_LOW: Final = 1
E_HIGH: Final = 2
E_LOW_REAL: Final = 3
E_HIGH_REAL: Final = 4
END_WORDS: Final = 5

# Prices, ns: a doc that is scanned; a doc of a list, of one written out of a bitmap, of one compared and put in order;
# another condition on a doc of a list; a range of ids of one, two and four bytes, and of raw numbers, tested on a doc;
# what any saving must exceed to be worth weighing indexes.
P_SCAN: Final = 0
P_LIST: Final = 1
P_BITMAP: Final = 2
P_ORDERED: Final = 3
P_OTHER: Final = 4
P_IDS_1: Final = 5
P_IDS_2: Final = 6
P_IDS_4: Final = 7
P_RAW: Final = 8
P_OVERHEAD: Final = 9
NUM_PRICES: Final = 10

# What `choose_lists` finds.
WEIGH: Final = 0
LISTS: Final = 1
SCAN: Final = 2


@inner
def _meta(conjuncts: Any, number: int, s: int) -> Any:
    return words(conjuncts[number, C_METAS] + s * META_WORDS * 8, META_WORDS)


@inner
def _ends(ends: Any, ids: Any, meta: Any) -> Any:
    # Both ends, included, of dict ids or raw whole numbers, and of raw doubles.
    if meta[M_CARDINALITY] >= 0:
        return ids[0], ids[1] - 1, 0.0, 0.0
    reals = ends.view(np.float64)
    return ends[E_LOW], ends[E_HIGH], reals[E_LOW_REAL], reals[E_HIGH_REAL]


@inner
def _entries(table: Any, n: int, meta: Any, ends: Any, s: int) -> Any:
    # Docs that are read of the predicate's list in segment s, -1 if it has none; whether they are to be put in order.
    if table[L_MODE * n + s] != PREDICATE_RUN or flag_of(table, n, L_SORTED, s)[0] != 0:
        return int64(-1), False
    ranged = flag_of(table, n, L_RANGED, s)[0] != 0
    ids = table[L_IDS * n + 2 * s : L_IDS * n + 2 * s + 2]
    if meta[M_INVERTED_OFFSETS] != 0:
        if not ranged or ids[1] - ids[0] != 1:
            return int64(-1), False
        offsets = view_u32(meta[M_INVERTED_OFFSETS], meta[M_CARDINALITY] + 1)
        return int64(offsets[ids[1]]) - int64(offsets[ids[0]]), False
    is_range = ranged if meta[M_CARDINALITY] >= 0 else ends[E_RAW] != 0
    if meta[M_RANGE_BOUNDS] == 0 or meta[M_MV_OFFSETS] != 0 or not is_range:
        return int64(-1), False
    low, high, low_real, high_real = _ends(ends, ids, meta)
    first, end = bucket_span(meta, low, low_real, high, high_real)
    offsets = view_u32(meta[M_RANGE_OFFSETS], meta[M_RANGE_BUCKETS] + 1)
    return int64(offsets[end]) - int64(offsets[first]), True


@inner
def _test_price(table: Any, n: int, meta: Any, ends: Any, s: int, prices: Any) -> Any:
    # ns of a predicate's test on one doc of segment s, -1.0 of one that is more than a comparison.
    if table[L_MODE * n + s] != PREDICATE_RUN or flag_of(table, n, L_SORTED, s)[0] != 0:
        return 0.0
    if meta[M_MV_OFFSETS] != 0:
        return -1.0
    if meta[M_CARDINALITY] < 0:
        return prices[P_RAW] if ends[E_RAW] != 0 else -1.0
    if flag_of(table, n, L_RANGED, s)[0] == 0:
        return -1.0
    if meta[M_WIDTH] == 1:
        return prices[P_IDS_1]
    return prices[P_IDS_2] if meta[M_WIDTH] == 2 else prices[P_IDS_4]


@njit(cache=True, nogil=True)
def choose_lists(
    morsels: Any, num_segments: int, conjuncts: Any, ends: Any, prices: Any, chosen: Any, room: Any
) -> Any:
    """For every morsel the conjunct whose list is cheapest. Changes nothing but `chosen` and `room`.

    Args:
        morsels, conjuncts: as of `planner.select_runs`; ends: int64[num_conjuncts, END_WORDS]; prices:
            float64[NUM_PRICES].
        chosen: int64[u], conjunct of a morsel, or -1. room: int64[u], docs to be made room for.

    Returns: LISTS if for every morsel the list costs less than only walking its docs would; SCAN (and -1 for every
        morsel) if no list lies ready anywhere and all morsels are scanned sooner than indexes are weighed; else WEIGH.
    """
    n, num_conjuncts = num_segments, len(conjuncts)
    others = prices[P_OTHER] * (num_conjuncts - 1)
    verdict, scan_ns = LISTS, 0.0
    for morsel in range(len(morsels)):
        chosen[morsel], room[morsel] = -1, 0
        s, num_docs = morsels[morsel, U_SEGMENT], morsels[morsel, U_HIGH] - morsels[morsel, U_LOW]
        least = num_docs * prices[P_SCAN]
        scan_ns += least
        for number in range(num_conjuncts):
            table, meta = predicate_table(conjuncts[number, C_TABLE], n), _meta(conjuncts, number, s)
            price = _test_price(table, n, meta, ends[number], s, prices)
            scan_ns += price * num_docs if price >= 0.0 else prices[P_OVERHEAD]
            if conjuncts[number, C_NEGATED] != 0:
                continue
            entries, ordered = _entries(table, n, meta, ends[number], s)
            if entries < 0:
                continue
            if not ordered:
                scan_ns += prices[P_OVERHEAD]
            made = prices[P_ORDERED] if ordered else (prices[P_BITMAP] if meta[M_BITMAPS] != 0 else 0.0)
            price = entries * (prices[P_LIST] + others + made)
            if price <= least:
                least, chosen[morsel] = price, number
                room[morsel] = entries if ordered or meta[M_BITMAPS] != 0 else 0
        if chosen[morsel] < 0:
            verdict = WEIGH
    if verdict == WEIGH and scan_ns < prices[P_OVERHEAD]:
        chosen[:], room[:] = -1, 0
        return SCAN
    return verdict


@inner
def _passing(values: Any, low: Any, high: Any, docs: Any, out: Any) -> Any:
    count = 0
    for doc in docs:
        value = values[np.uint32(doc)]
        if low <= value <= high:
            out[count] = doc
            count += 1
    return count


@inner
def _of_edge(meta: Any, low: int, low_real: float, high: int, high_real: float, docs: Any, out: Any) -> Any:
    # Docs of a bucket that the range may cut; gives how many pass.
    address, count, stored, width = meta[M_DATA], meta[M_NUM_VALUES], meta[M_STORED], meta[M_WIDTH]
    if meta[M_CARDINALITY] >= 0:
        if width == 1:
            return _passing(view_u8(address, count), low, high, docs, out)
        if width == 2:
            return _passing(view_u16(address, count), low, high, docs, out)
        return _passing(view_u32(address, count), low, high, docs, out)
    if stored == T_INT:
        return _passing(view_i32(address, count), low, high, docs, out)
    if stored == T_LONG:
        return _passing(view_i64(address, count), low, high, docs, out)
    if stored == T_FLOAT:
        return _passing(view_f32(address, count), low_real, high_real, docs, out)
    if stored == T_DOUBLE:
        return _passing(view_f64(address, count), low_real, high_real, docs, out)
    return 0


@inner
def _of_buckets(meta: Any, ends: Any, ids: Any, out: Any) -> Any:
    # The docs of a range, ascending; gives how many.
    low, high, low_real, high_real = _ends(ends, ids, meta)
    first, end = bucket_span(meta, low, low_real, high, high_real)
    offsets = view_u32(meta[M_RANGE_OFFSETS], meta[M_RANGE_BUCKETS] + 1)
    docs = view_i32(meta[M_RANGE_DOCS], int64(offsets[meta[M_RANGE_BUCKETS]]))
    begin, inside, edge, stop = (
        int64(offsets[first]),
        int64(offsets[first + 1]),
        int64(offsets[end - 1]),
        int64(offsets[end]),
    )
    count = _of_edge(meta, low, low_real, high, high_real, docs[begin:inside], out)
    if end - first > 1:
        out[count : count + edge - inside] = docs[inside:edge]
        count += edge - inside
        count += _of_edge(meta, low, low_real, high, high_real, docs[edge:stop], out[count:])
    out[:count].sort()
    return count


@njit(cache=True, nogil=True)
def make_lists(
    docs: Any, morsels: Any, conjuncts: Any, ends: Any, chosen: Any, starts: Any, out: Any, out_address: int
) -> None:
    """The morsels become the chosen lists; their predicates are marked BY_LIST.

    Args:
        docs: int64[n], docs of every segment; morsels, chosen: as of `choose_lists`, which chose one for each.
        starts: int64[u], where a morsel's room in `out` (int32, at `out_address`) begins.
    """
    n = len(docs)
    for morsel in range(len(morsels)):
        number, row = chosen[morsel], morsels[morsel]
        s = row[U_SEGMENT]
        table, meta = predicate_table(conjuncts[number, C_TABLE], n), _meta(conjuncts, number, s)
        ids = table[L_IDS * n + 2 * s : L_IDS * n + 2 * s + 2]
        if meta[M_INVERTED_OFFSETS] != 0:
            offsets = view_u32(meta[M_INVERTED_OFFSETS], meta[M_CARDINALITY] + 1)
            first, count = int64(offsets[ids[0]]), int64(offsets[ids[1]]) - int64(offsets[ids[0]])
            if meta[M_BITMAPS] != 0:
                begins = view_i64(meta[M_BITMAP_OFFSETS], meta[M_CARDINALITY] + 1)
                list_bitmap(meta[M_BITMAPS] + begins[ids[0]], out[starts[morsel] : starts[morsel] + count])
                address = out_address + starts[morsel] * 4
            else:
                address = meta[M_INVERTED_DOCS] + first * 4
        else:
            count = int64(_of_buckets(meta, ends[number], ids, out[starts[morsel] :]))
            address = out_address + starts[morsel] * 4
        postings, low, high = view_i32(address, count), row[U_LOW], row[U_HIGH]
        row[U_LIST] = address
        row[U_LOW], row[U_HIGH] = (
            (0, count) if high - low == docs[s] else (first_from(postings, low), first_from(postings, high))
        )
        flag_of(table, n, L_ANSWER, s)[0] = BY_LIST


def warm() -> None:
    """Compile for the argument types that queries use: lists save nothing in the segments of four docs that others are
    compiled on.
    """
    none, conjuncts, ends = (
        np.zeros(0, np.int64),
        np.zeros((0, CONJUNCT_WORDS), np.int64),
        np.zeros((0, END_WORDS), np.int64),
    )
    morsels = np.zeros((0, MORSEL_WORDS), np.int64)
    choose_lists(morsels, 0, conjuncts, ends, np.zeros(NUM_PRICES), none, none)
    make_lists(none, morsels, conjuncts, ends, none, none, np.zeros(1, np.int32), 0)
