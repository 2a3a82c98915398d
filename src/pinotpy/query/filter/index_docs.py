"""The docs that indexes have for the conditions of a filter: how many is known without reading them, and they are read
as lists of docs, which become units of the scan, or as sets with one bit a doc.

Which of them are worth reading is decided in index_choice.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels.filter import posting_bitmaps, postings
from pinotpy.kernels.filter.predicate_frame import LEG_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.bound_predicate import ResolvedLeg
from pinotpy.query.filter.tree import Resolved, legs_of
from pinotpy.query.model.predicate import FixedRange
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.column_metas import ColumnMetas

Words = NDArray[np.int64]

NO_INDEX: Final = 0
INVERTED: Final = 1
RANGE: Final = 2

# In LegIndex.entries where no index has the leg's docs.
ENDLESS: Final = np.iinfo(np.int64).max


@dataclass(slots=True)
class LegIndex:
    """What indexes have for one leg, arrays of shape (num_segments,) unless said otherwise.

    index: NO_INDEX, INVERTED or RANGE; entries: docs in the lists that would be read; spans (num_segments, 3): buckets
    of RANGE.
    direct: the lists are one list of the index, in order, each doc once.
    bitmaps: how many Roaring bitmaps the lists are; 0: they are lists.
    """

    index: NDArray[np.int8]
    entries: Words
    spans: Words
    direct: NDArray[np.bool_]
    bitmaps: Words


def leg_index(leg: ResolvedLeg, metas: ColumnMetas) -> LegIndex | None:
    """The indexes of a leg; None if it has none in any segment."""
    words = metas.planned(leg.leg.column).metas
    has_postings = (words[:, abi.M_INVERTED_OFFSETS] != 0) & (leg.mode == LEG_RUN)
    has_range = (words[:, abi.M_RANGE_BOUNDS] != 0) & (leg.mode == LEG_RUN)
    if not has_postings.any() and not has_range.any():
        return None
    num_segments = len(words)
    lists, bitmaps, entries = (
        np.zeros(num_segments, np.int64),
        np.zeros(num_segments, np.int64),
        np.full(num_segments, ENDLESS),
    )
    spans = np.zeros((num_segments, 3), np.int64)
    usable = has_postings & ~(leg.ranged & leg.sorted)
    postings.count_postings(words, usable, leg.ranged, leg.ids, leg.members, leg.spans, lists, bitmaps, entries)
    found = LegIndex((lists > 0).astype(np.int8) * INVERTED, entries, spans, leg.ranged & (lists == 1), bitmaps)
    if not has_range.any():
        return found if lists.any() else None
    by_range = np.flatnonzero(has_range & (found.index == NO_INDEX) & _is_range(leg, words))
    if len(by_range):
        buckets = np.zeros((len(by_range), 3), np.int64)
        posting_bitmaps.range_spans(words[by_range], leg.ids[by_range], *_ends(leg), buckets)
        found.spans[by_range], found.entries[by_range], found.index[by_range] = buckets, buckets[:, 2], RANGE
    return found if found.index.any() else None


def _is_range(leg: ResolvedLeg, words: Words) -> NDArray[np.bool_]:
    raw = words[:, abi.M_CARDINALITY] < 0
    found: NDArray[np.bool_] = (leg.ranged & ~leg.sorted) | (raw & isinstance(leg.leg.test, FixedRange))
    return found


def _ends(leg: ResolvedLeg) -> tuple[int, float, int, float]:
    test = leg.leg.test
    if not isinstance(test, FixedRange):
        return 0, 0.0, 0, 0.0
    whole = isinstance(test.low, int) and isinstance(test.high, int)
    return int(test.low) if whole else 0, float(test.low), int(test.high) if whole else 0, float(test.high)


class IndexedDocs:
    """Reads indexes for one plan. What it gives are addresses of memory that is kept as long as this object.

    legs: by identity of the leg, its LegIndex.
    """

    def __init__(self, metas: ColumnMetas, control: QueryControl) -> None:
        self.legs: dict[int, LegIndex] = {}
        self._metas, self._control = metas, control
        self._docs = metas.segments.docs
        self._keep_alive: list[Any] = []

    def look(self, leg: ResolvedLeg) -> None:
        """Find out what indexes have for a leg."""
        found = leg_index(leg, self._metas)
        if found is not None:
            self.legs[id(leg)] = found

    def of(self, part: Resolved) -> LegIndex | None:
        """What indexes have for it; None if it is no leg, or one without index in every segment."""
        return self.legs.get(id(part))

    # --- lists
    # ---------------------------------------------------------------------------------------------------------------

    def make_lists(self, units: Words, chosen: Words, part: Resolved) -> None:
        """The units at `chosen` become the docs of a leg, or of an OR of legs, within their runs."""
        direct = np.zeros(len(chosen), np.bool_)
        if isinstance(part, ResolvedLeg):
            direct = self.legs[id(part)].direct[units[chosen, abi.U_SEGMENT]]
            if direct.any():
                self._take_lists(units, chosen[direct], part)
        if not direct.all():
            self._join_lists(units, chosen[~direct], part)

    def _take_lists(self, units: Words, chosen: Words, leg: ResolvedLeg) -> None:
        """The index's own lists, in place or written out of bitmaps, cut to the runs of the units."""
        segments = units[chosen, abi.U_SEGMENT]
        words = self._metas.planned(leg.leg.column).metas
        lists = np.zeros(len(chosen), np.int64)
        packed = np.flatnonzero(words[segments, abi.M_BITMAPS])
        if len(packed):
            indexed = self.of(leg)
            assert indexed is not None
            lists[packed] = self._written_out(words, segments[packed], leg, indexed.entries[segments[packed]])
        runs = units[chosen][:, [abi.U_LOW, abi.U_HIGH]]
        postings.own_lists(words, segments, leg.ids, runs, lists)
        units[chosen, abi.U_LIST], units[chosen, abi.U_LOW], units[chosen, abi.U_HIGH] = lists, runs[:, 0], runs[:, 1]

    def _written_out(self, words: Words, segments: Words, leg: ResolvedLeg, lengths: Words) -> Words:
        """Addresses of the docs of one bitmap in each of these segments."""
        starts = np.zeros(len(segments) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        self._control.reserve(int(starts[-1]) * 4)
        docs = np.empty(max(int(starts[-1]), 1), np.int32)
        posting_bitmaps.list_bitmaps(words, segments, leg.ids, starts, docs)
        self._keep_alive.append(docs)
        addresses: Words = docs.ctypes.data + starts[:-1] * 4
        return addresses

    def _join_lists(self, units: Words, chosen: Words, part: Resolved) -> None:
        """Lists of several values, or of several conditions under OR, as one list a unit."""
        segments = units[chosen, abi.U_SEGMENT]
        words, sets = self._sets(segments)
        for leg in legs_of(part):
            assert isinstance(leg, ResolvedLeg)
            self._fill(leg, segments, sets)
        runs = np.ascontiguousarray(units[chosen][:, [abi.U_LOW, abi.U_HIGH]])
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
        units[chosen, abi.U_LIST] = docs.ctypes.data + starts[:-1] * 4
        units[chosen, abi.U_LOW], units[chosen, abi.U_HIGH] = 0, counts

    # --- sets
    # ----------------------------------------------------------------------------------------------------------------

    def bits(self, leg: ResolvedLeg, segments: Words) -> Words:
        """Addresses of sets of the docs of the positive test of `leg` in these segments: uint64, bit d % 64 of word d
        // 64 is doc d.
        """
        words, sets = self._sets(segments)
        self._keep_alive.append(words)
        self._fill(leg, segments, sets)
        return sets

    def _sets(self, segments: Words) -> tuple[NDArray[np.uint64], Words]:
        """Empty sets for these segments, on the query's account, to be kept by the caller; and their addresses."""
        sizes = (self._docs[segments] + 63) // 64
        starts = np.cumsum(sizes) - sizes
        memory = int(sizes.sum()) * 8
        self._control.reserve(memory)
        self._control.check()
        found = np.zeros(memory // 8, np.uint64)
        return found, found.ctypes.data + starts * 8

    def _fill(self, leg: ResolvedLeg, segments: Words, sets: Words) -> None:
        """Add the docs of the positive test of `leg`."""
        indexed = self.of(leg)
        if indexed is None:
            return
        words = self._metas.planned(leg.leg.column).metas
        usable = leg.mode[segments] == LEG_RUN
        for index, ranged in ((INVERTED, True), (INVERTED, False), (RANGE, True)):
            some = usable & (indexed.index[segments] == index)
            if index == INVERTED:
                some &= leg.ranged[segments] == ranged
            if not some.any():
                continue
            if index == RANGE:
                self._metas.ready(leg.leg.column, segments[some])
                posting_bitmaps.add_ranges(words, segments[some], indexed.spans, leg.ids, *_ends(leg), sets[some])
            elif ranged:
                posting_bitmaps.add_posting_ranges(words, segments[some], leg.ids, sets[some])
            else:
                posting_bitmaps.add_postings_of(words, segments[some], leg.members, leg.spans, sets[some])
