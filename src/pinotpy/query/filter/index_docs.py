"""The docs that indexes have for the conditions of a filter: how many is known without reading them, and they are read
as lists of docs, which become morsels of the scan, or as sets with one bit a doc.

Which of them are worth reading is decided in index_choice.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.filter import posting_bitmaps, postings
from pinotpy.kernels.filter.predicate_frame import PREDICATE_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.bound_predicate import BoundPredicate
from pinotpy.query.filter.pruning import range_words
from pinotpy.query.filter.tree import Resolved, predicates_of
from pinotpy.query.model.predicate import FixedRange
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.column_metas import ColumnMetas

NO_INDEX: Final = 0
INVERTED: Final = 1
RANGE: Final = 2

# In PredicateIndex.entries where no index has the predicate's docs.
ENDLESS: Final = np.iinfo(np.int64).max


@dataclass(slots=True)
class PredicateIndex:
    """What indexes have for one predicate, arrays of shape (num_segments,) unless said otherwise.

    index: NO_INDEX, INVERTED or RANGE; entries: docs in the lists that would be read; spans (num_segments, 3): buckets
    of RANGE.
    direct: the lists are one list of the index, in order, each doc once.
    bitmaps: how many Roaring bitmaps the lists are; 0: they are lists.
    """

    index: NDArray[np.int8]
    entries: Int64Array
    spans: Int64Array
    direct: NDArray[np.bool_]
    bitmaps: Int64Array


def predicate_index(bound: BoundPredicate, metas: ColumnMetas, is_read: NDArray[np.bool_]) -> PredicateIndex | None:
    """The indexes of a predicate in segments that are read; None if it has none in any of them."""
    words, usable = metas.planned(bound.typed.column).metas, (bound.mode == PREDICATE_RUN) & is_read
    has_postings = (words[:, abi.M_INVERTED_OFFSETS] != 0) & usable
    has_range = (words[:, abi.M_RANGE_BOUNDS] != 0) & usable
    if not has_postings.any() and not has_range.any():
        return None
    num_segments = len(words)
    lists, bitmaps, entries = (
        np.zeros(num_segments, np.int64),
        np.zeros(num_segments, np.int64),
        np.full(num_segments, ENDLESS),
    )
    spans = np.zeros((num_segments, 3), np.int64)
    has_postings &= ~(bound.ranged & bound.sorted)
    postings.count_postings(
        words, has_postings, bound.ranged, bound.ids, bound.members, bound.spans, lists, bitmaps, entries
    )
    index = PredicateIndex((lists > 0).astype(np.int8) * INVERTED, entries, spans, bound.ranged & (lists == 1), bitmaps)
    if not has_range.any():
        return index if lists.any() else None
    by_range = np.flatnonzero(has_range & (index.index == NO_INDEX) & _is_range(bound, words))
    if len(by_range):
        buckets = np.zeros((len(by_range), 3), np.int64)
        posting_bitmaps.range_spans(words[by_range], bound.ids[by_range], *_ends(bound), buckets)
        index.spans[by_range], index.entries[by_range], index.index[by_range] = buckets, buckets[:, 2], RANGE
    return index if index.index.any() else None


def _is_range(bound: BoundPredicate, words: Int64Array) -> NDArray[np.bool_]:
    raw = words[:, abi.M_CARDINALITY] < 0
    is_range: NDArray[np.bool_] = (bound.ranged & ~bound.sorted) | (raw & isinstance(bound.typed.test, FixedRange))
    return is_range


def _ends(bound: BoundPredicate) -> tuple[int, float, int, float]:
    test = bound.typed.test
    return range_words(test) if isinstance(test, FixedRange) else (0, 0.0, 0, 0.0)


class IndexedDocs:
    """Reads indexes for one plan. What it gives are addresses of memory that is kept as long as this object.

    bound_predicates: by identity of the predicate, its PredicateIndex.
    """

    def __init__(self, metas: ColumnMetas, control: QueryControl) -> None:
        self.bound_predicates: dict[int, PredicateIndex] = {}
        self._metas, self._control = metas, control
        self._docs = metas.segments.docs
        self._keep_alive: list[Any] = []

    def look(self, bound: BoundPredicate, is_read: NDArray[np.bool_]) -> None:
        """Find out what indexes have for a predicate in the segments that are read."""
        index = predicate_index(bound, self._metas, is_read)
        if index is not None:
            self.bound_predicates[id(bound)] = index

    def of(self, part: Resolved) -> PredicateIndex | None:
        """What indexes have for it; None if it is no predicate, or one without index in every segment."""
        return self.bound_predicates.get(id(part))

    # --- lists --------------------------------------------------------------------------------------------------------

    def make_lists(self, morsels: Int64Array, chosen: Int64Array, part: Resolved) -> None:
        """The morsels at `chosen` become the docs of a predicate, or of an OR of predicates, within their runs."""
        direct = np.zeros(len(chosen), np.bool_)
        if isinstance(part, BoundPredicate):
            direct = self.bound_predicates[id(part)].direct[morsels[chosen, abi.U_SEGMENT]]
            if direct.any():
                self._take_lists(morsels, chosen[direct], part)
        if not direct.all():
            self._join_lists(morsels, chosen[~direct], part)

    def _take_lists(self, morsels: Int64Array, chosen: Int64Array, bound: BoundPredicate) -> None:
        """The index's own lists, in place or written out of bitmaps, cut to the runs of the morsels."""
        segments = morsels[chosen, abi.U_SEGMENT]
        words = self._metas.planned(bound.typed.column).metas
        lists = np.zeros(len(chosen), np.int64)
        packed = np.flatnonzero(words[segments, abi.M_BITMAPS])
        if len(packed):
            indexed = self.of(bound)
            assert indexed is not None
            lists[packed] = self._written_out(words, segments[packed], bound, indexed.entries[segments[packed]])
        runs = morsels[chosen][:, [abi.U_LOW, abi.U_HIGH]]
        postings.own_lists(words, segments, bound.ids, runs, lists)
        morsels[chosen, abi.U_LIST], morsels[chosen, abi.U_LOW], morsels[chosen, abi.U_HIGH] = (
            lists,
            runs[:, 0],
            runs[:, 1],
        )

    def _written_out(
        self, words: Int64Array, segments: Int64Array, bound: BoundPredicate, lengths: Int64Array
    ) -> Int64Array:
        """Addresses of the docs of one bitmap in each of these segments."""
        starts = np.zeros(len(segments) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        self._control.reserve(int(starts[-1]) * 4)
        docs = np.empty(max(int(starts[-1]), 1), np.int32)
        posting_bitmaps.list_bitmaps(words, segments, bound.ids, starts, docs)
        self._keep_alive.append(docs)
        addresses: Int64Array = docs.ctypes.data + starts[:-1] * 4
        return addresses

    def _join_lists(self, morsels: Int64Array, chosen: Int64Array, part: Resolved) -> None:
        """Lists of several values, or of several conditions under OR, as one list a morsel."""
        segments = morsels[chosen, abi.U_SEGMENT]
        words, sets = self._sets(segments)
        for bound in predicates_of(part):
            assert isinstance(bound, BoundPredicate)
            self._fill(bound, segments, sets)
        runs = np.ascontiguousarray(morsels[chosen][:, [abi.U_LOW, abi.U_HIGH]])
        counts = np.zeros(len(chosen), np.int64)
        posting_bitmaps.set_sizes(sets, runs, counts)
        starts = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        self._control.reserve(int(starts[-1]) * 4)
        docs = np.empty(max(int(starts[-1]), 1), np.int32)
        posting_bitmaps.list_sets(sets, runs, starts, docs)
        # The sets were a step on the way: they go before the account says so.
        memory = words.nbytes
        del words
        self._control.release(memory)
        self._keep_alive.append(docs)
        morsels[chosen, abi.U_LIST] = docs.ctypes.data + starts[:-1] * 4
        morsels[chosen, abi.U_LOW], morsels[chosen, abi.U_HIGH] = 0, counts

    # --- sets ---------------------------------------------------------------------------------------------------------

    def bits(self, bound: BoundPredicate, segments: Int64Array) -> Int64Array:
        """Addresses of sets of the docs of the positive test of `bound` in these segments: uint64, bit d % 64 of word d
        // 64 is doc d.
        """
        words, sets = self._sets(segments)
        self._keep_alive.append(words)
        self._fill(bound, segments, sets)
        return sets

    def _sets(self, segments: Int64Array) -> tuple[NDArray[np.uint64], Int64Array]:
        """Empty sets for these segments, on the query's account, to be kept by the caller; and their addresses."""
        sizes = (self._docs[segments] + 63) // 64
        starts = np.cumsum(sizes) - sizes
        memory = int(sizes.sum()) * 8
        self._control.reserve(memory)
        self._control.check()
        bits = np.zeros(memory // 8, np.uint64)
        return bits, bits.ctypes.data + starts * 8

    def _fill(self, bound: BoundPredicate, segments: Int64Array, sets: Int64Array) -> None:
        """Add the docs of the positive test of `bound`."""
        indexed = self.of(bound)
        if indexed is None:
            return
        words = self._metas.planned(bound.typed.column).metas
        usable = bound.mode[segments] == PREDICATE_RUN
        for index, ranged in ((INVERTED, True), (INVERTED, False), (RANGE, True)):
            some = usable & (indexed.index[segments] == index)
            if index == INVERTED:
                some &= bound.ranged[segments] == ranged
            if not some.any():
                continue
            if index == RANGE:
                self._metas.ready(bound.typed.column, segments[some])
                posting_bitmaps.add_ranges(words, segments[some], indexed.spans, bound.ids, *_ends(bound), sets[some])
            elif ranged:
                posting_bitmaps.add_posting_ranges(words, segments[some], bound.ids, sets[some])
            else:
                posting_bitmaps.add_postings_of(words, segments[some], bound.members, bound.spans, sets[some])
