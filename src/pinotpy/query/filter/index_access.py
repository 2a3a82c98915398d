"""Which index answers which part of a filter, in every segment: the cheapest way by estimate, all segments at once.

What an index would give is known without reading it: its lists have known lengths. Three ways compete:

  scan   every doc of the unit is tested;
  list   the docs that one condition under AND selects become the unit, and the other conditions are tested on them only. The
         list is the index's own where it is one list, else lists are joined (also those of an OR of indexed conditions);
  bits   a condition is tested by one bit a doc, set from the index's lists: where its own test is dear (multi-values), or
         where it stands under OR. NOT flips the bit.

Prices are nanoseconds of one thread, measured on a million docs; only their ratios matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.kernels import abi, doc_sets, filters, postings
from pinotpy.kernels.legs import LEG_ALWAYS, LEG_NEVER, LEG_RUN
from pinotpy.query.columns import ColumnMetas
from pinotpy.query.control import QueryControl
from pinotpy.query.filter.computed import ComputedLeg
from pinotpy.query.filter.resolved_leg import ResolvedLeg
from pinotpy.query.filter.tree import Resolved, ResolvedAny, conjuncts, each_leg
from pinotpy.query.predicate import FixedRange

Words = NDArray[np.int64]
Prices = NDArray[np.float64]

NO_INDEX: Final = 0
INVERTED: Final = 1
RANGE: Final = 2

# A doc that is scanned, before any condition: block, mask, selection. A doc of a list: copied.
_NS_SCAN_DOC: Final = 0.10
_NS_LIST_DOC: Final = 0.4
# A doc of a range index, compared and put in order.
_NS_ORDERED_DOC: Final = 20.0
# One condition on one doc, where all are tested one after the other …
_NS_IDS: Final = {1: 0.02, 2: 0.03, 4: 0.05}
_NS_RUNS: Final = 0.08
_NS_TABLE: Final = 0.25
_NS_BITS: Final = 0.6
_NS_SET: Final = 1.5
_NS_RAW: Final = {4: 0.06, 8: 0.12}
_NS_TEXT: Final = 8.0
_NS_FLAG: Final = 0.04
_NS_ENTRY: Final = 0.4  # each value of a multi-value, and the doc that it belongs to
# … and on a doc of a list, which lies anywhere.
_NS_GATHER: Final = 1.5
# A doc of an index's list made a bit; a doc of the segment cleared before and looked through afterwards.
_NS_BIT: Final = 1.0
_NS_BITMAP_DOC: Final = 0.02
# A Roaring bitmap joined into a set, by its docs or by the words of the segment's docs; written out as a list, by its docs.
_NS_ROARING_DOC: Final = 0.6
_NS_ROARING_WORDS: Final = 0.005
_NS_ROARING_LISTED: Final = 0.8
# Joining lists or setting bits is worth it from here on: what its steps in Python cost.
_NS_OVERHEAD: Final = 30_000.0
# A doc is tested only while others of its block are left, or one by one where few are.
_FEW: Final = 1 / 16

_ENDLESS: Final = np.iinfo(np.int64).max


def short_list_prices() -> Prices:
    """Prices for kernels/short_lists.py, in the order of its P_*: of a doc that is only walked, of docs of lists, of tests."""
    of_lists = [_NS_LIST_DOC, _NS_ROARING_LISTED, _NS_ORDERED_DOC, _NS_GATHER + _NS_TABLE]
    return np.array([_NS_SCAN_DOC, *of_lists, *_NS_IDS.values(), _NS_RAW[8], _NS_OVERHEAD])


@dataclass(slots=True)
class LegIndex:
    """What indexes have for one leg, arrays of shape (num_segments,) unless said otherwise.

    index: NO_INDEX, INVERTED or RANGE; entries: docs in the lists that would be read; spans (num_segments, 3): buckets of RANGE.
    direct: the lists are one list of the index, in order, each doc once.
    bitmaps: how many Roaring bitmaps the lists are; 0: they are lists.
    """

    index: NDArray[np.int8]
    entries: Words
    spans: Words
    direct: NDArray[np.bool_]
    bitmaps: Words

    def joined_ns(self, docs: Words) -> Prices:
        """What adding the lists to a set costs in segments of so many docs."""
        entries = np.where(self.index == NO_INDEX, 0, self.entries)
        roaring = np.minimum(entries * _NS_ROARING_DOC, self.bitmaps * docs * _NS_ROARING_WORDS)
        found: Prices = np.where(self.bitmaps > 0, roaring, entries * _NS_BIT)
        return found

    def listed_ns(self, docs: Words) -> Prices:
        """What having the lists as one list costs: nothing where the index has it so."""
        joined = self.joined_ns(docs) + docs * _NS_BITMAP_DOC
        alone = np.where(self.bitmaps > 0, np.where(self.index == NO_INDEX, 0, self.entries) * _NS_ROARING_LISTED, 0.0)
        found: Prices = np.where(self.direct, alone, joined)
        return found


@dataclass(slots=True)
class Choices:
    """What was decided, for EXPLAIN: by identity of the leg, its LegIndex, and the estimated prices (ns) of reading by index and
    by scan in every segment; `bits`: the legs that are tested by bits, with the segments where they are."""

    legs: dict[int, LegIndex] = field(default_factory=dict)
    index_ns: dict[int, Prices] = field(default_factory=dict)
    scan_ns: dict[int, Prices] = field(default_factory=dict)
    bits: dict[int, NDArray[np.bool_]] = field(default_factory=dict)


def leg_index(leg: ResolvedLeg, metas: ColumnMetas) -> LegIndex | None:
    """The indexes of a leg; None if it has none in any segment."""
    words = metas.planned(leg.leg.column).metas
    has_postings = (words[:, abi.M_INVERTED_OFFSETS] != 0) & (leg.mode == LEG_RUN)
    has_range = (words[:, abi.M_RANGE_BOUNDS] != 0) & (leg.mode == LEG_RUN)
    if not has_postings.any() and not has_range.any():
        return None
    num_segments = len(words)
    lists, bitmaps, entries = np.zeros(num_segments, np.int64), np.zeros(num_segments, np.int64), np.full(num_segments, _ENDLESS)
    spans = np.zeros((num_segments, 3), np.int64)
    usable = has_postings & ~(leg.ranged & leg.sorted)
    postings.count_postings(words, usable, leg.ranged, leg.ids, leg.members, leg.spans, lists, bitmaps, entries)
    found = LegIndex((lists > 0).astype(np.int8) * INVERTED, entries, spans, leg.ranged & (lists == 1), bitmaps)
    if not has_range.any():
        return found if lists.any() else None
    by_range = np.flatnonzero(has_range & (found.index == NO_INDEX) & _is_range(leg, words))
    if len(by_range):
        buckets = np.zeros((len(by_range), 3), np.int64)
        doc_sets.range_spans(words[by_range], leg.ids[by_range], *_ends(leg), buckets)
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


# --- prices -------------------------------------------------------------------------------------------------------------------


def _test_prices(leg: ResolvedLeg | ComputedLeg, metas: ColumnMetas) -> Prices:
    """What testing one doc costs in every segment, ns."""
    if isinstance(leg, ComputedLeg):
        return np.full(len(leg.mode), _NS_FLAG)
    words = metas.planned(leg.leg.column).metas
    prices = np.full(len(words), _NS_FLAG)
    width, function = words[:, abi.M_WIDTH], leg.function
    for size, price in _NS_IDS.items():
        prices[(function == filters.ids_range.address) & (width == size)] = price
    for size, price in _NS_RAW.items():
        prices[(function == filters.raw_range.address) & (width == size)] = price
    prices[function == filters.ids_runs.address] = _NS_RUNS
    prices[function == filters.ids_lut.address] = _NS_TABLE
    prices[function == filters.ids_bits.address] = _NS_BITS
    prices[(function == filters.ids_set.address) | (function == filters.raw_set.address)] = _NS_SET
    raw_text = (words[:, abi.M_CARDINALITY] < 0) & (words[:, abi.M_STORED] == abi.T_VAR) & (leg.flags == abi.I_SCAN_LEG)
    prices[raw_text] = _NS_TEXT
    many = (words[:, abi.M_MV_OFFSETS] != 0) & (leg.flags == abi.I_SCAN_LEG)
    prices[many] += _NS_ENTRY * (words[many, abi.M_NUM_VALUES] / np.maximum(words[many, abi.M_NUM_DOCS], 1))
    prices[leg.mode != LEG_RUN] = 0.0
    return prices


def _share(leg: Resolved, indexed: LegIndex | None, docs: Words) -> Prices:
    """Estimated share of docs that pass, per segment: from the index where there is one."""
    if not isinstance(leg, ResolvedLeg | ComputedLeg):
        return np.full(len(docs), 0.5)
    share = np.full(len(docs), leg.selectivity)
    if indexed is not None and isinstance(leg, ResolvedLeg):
        known = indexed.index != NO_INDEX
        found = np.minimum(indexed.entries[known] / np.maximum(docs[known], 1), 1.0)
        share[known] = 1 - found if leg.negated else found
    share[leg.mode == LEG_ALWAYS], share[leg.mode == LEG_NEVER] = 1.0, 0.0
    return share


# --- choosing -----------------------------------------------------------------------------------------------------------------


class IndexAccess:
    """Chooses for one plan; `apply` changes units and legs. `chosen`: where short lists were chosen already (conjunction.py), the
    number of the condition in every segment; prices are asked for to be told."""

    def __init__(self, tree: Resolved, metas: ColumnMetas, control: QueryControl, *, chosen: Words | None = None) -> None:
        self._tree, self._metas, self._control, self._chosen = tree, metas, control, chosen
        self._docs = metas.segments.docs
        self.choices = Choices()
        self.keep_alive: list[Any] = []
        each_leg(tree, self._look)

    def _look(self, leg: ResolvedLeg | ComputedLeg) -> None:
        if isinstance(leg, ResolvedLeg):
            found = leg_index(leg, self._metas)
            if found is not None:
                self.choices.legs[id(leg)] = found

    def apply(self, units: Words) -> Words:
        """The units, those that became lists among them; legs that lists answer hold everywhere, others are tested by bits."""
        if not self.choices.legs or not len(units):
            return units
        return self._use_bits(self._use_lists(units))

    def _index(self, part: Resolved) -> LegIndex | None:
        return self.choices.legs.get(id(part))

    # --- lists ---------------------------------------------------------------------------------------------------------------

    def _use_lists(self, units: Words) -> Words:
        parts = conjuncts(self._tree)
        at = units[:, abi.U_SEGMENT]
        docs, run = self._docs[at], units[:, abi.U_HIGH] - units[:, abi.U_LOW]
        tests, reached, total = [], np.ones(len(at)), np.zeros(len(at))
        for part in parts:
            price = self._price(part)[at]
            tests.append(price)
            total += price * np.where(reached >= _FEW, 1.0, np.minimum(reached / _FEW, 1.0))
            reached = reached * _share(part, self._index(part), self._docs)[at]
        scan_ns = run * (_NS_SCAN_DOC + total)
        best_ns, best = scan_ns.copy(), np.full(len(at), -1)
        for number, part in enumerate(parts):
            entries, direct, made_ns = self._entries(part)
            if entries is None:
                continue
            entries, direct = entries[at], direct[at]
            others = sum((np.where(tests[i] > 0, _NS_GATHER + tests[i], 0.0) for i in range(len(parts)) if i != number), np.zeros(len(at)))
            possible = entries != _ENDLESS
            listed = np.where(possible, np.minimum(entries, docs), 0) * (run / np.maximum(docs, 1))
            list_ns = np.where(possible, listed * (_NS_LIST_DOC + others) + made_ns[at], np.inf)
            for leg in _legs_of(part):
                self._note(leg, at, list_ns, scan_ns)
            better = list_ns < best_ns
            # Joining has its price once for all segments.
            joined = better & ~direct
            if joined.any() and float((best_ns - list_ns)[joined].sum()) < _NS_OVERHEAD:
                better &= direct
            best_ns[better], best[better] = list_ns[better], number
        if self._chosen is not None:
            best = self._chosen[at]
        for number, part in enumerate(parts):
            chosen = np.flatnonzero(best == number)
            if len(chosen):
                self._make_lists(units, chosen, part)
        return units[units[:, abi.U_LOW] < units[:, abi.U_HIGH]]

    def _price(self, part: Resolved) -> Prices:
        found = np.zeros(len(self._docs))
        for leg in _legs_of(part):
            found += _test_prices(leg, self._metas)
        return found

    def _entries(self, part: Resolved) -> tuple[Words | None, NDArray[np.bool_], Prices]:
        """Docs in the lists that would give the docs of a condition under AND, in every segment (endless where it cannot),
        where that is one list of the index, and the price of making it one."""
        nowhere, made_ns = np.zeros(len(self._docs), np.bool_), np.zeros(len(self._docs))
        if isinstance(part, ResolvedLeg):
            indexed = self._index(part)
            if indexed is None or part.negated:
                return None, nowhere, made_ns
            return np.where(part.mode == LEG_RUN, indexed.entries, _ENDLESS), indexed.direct, indexed.listed_ns(self._docs)
        if not isinstance(part, ResolvedAny) or not part.children:
            return None, nowhere, made_ns
        total = np.zeros(len(self._docs), np.float64)
        for child in part.children:
            if not isinstance(child, ResolvedLeg) or child.negated:
                return None, nowhere, made_ns
            indexed = self._index(child)
            if indexed is not None:
                made_ns += indexed.joined_ns(self._docs)
            entries = np.full(len(total), np.inf) if indexed is None else np.where(indexed.entries == _ENDLESS, np.inf, indexed.entries)
            # Null docs stand in the list of the default: such a list holds more than the condition.
            entries[self._clears_nulls(child)] = np.inf
            entries[child.mode == LEG_NEVER] = 0
            entries[child.mode == LEG_ALWAYS] = np.inf
            total += entries
        entries = np.where(np.isfinite(total), np.where(np.isfinite(total), total, 0).astype(np.int64), _ENDLESS)
        return entries, nowhere, made_ns + self._docs * _NS_BITMAP_DOC

    def _clears_nulls(self, leg: ResolvedLeg) -> NDArray[np.bool_]:
        has_nulls: NDArray[np.bool_] = self._metas.planned(leg.leg.column).metas[:, abi.M_NULLS] != 0
        return has_nulls & bool(leg.nulls)

    def _make_lists(self, units: Words, chosen: Words, part: Resolved) -> None:
        segments = units[chosen, abi.U_SEGMENT]
        direct = np.zeros(len(chosen), np.bool_)
        if isinstance(part, ResolvedLeg):
            indexed = self._index(part)
            assert indexed is not None
            direct = indexed.direct[segments]
        if direct.any():
            assert isinstance(part, ResolvedLeg)
            self._take_lists(units, chosen[direct], part)
        if not direct.all():
            self._join_lists(units, chosen[~direct], part)
        for leg in _legs_of(part):
            assert isinstance(leg, ResolvedLeg)
            leg.mode[segments] = LEG_ALWAYS

    def _take_lists(self, units: Words, chosen: Words, leg: ResolvedLeg) -> None:
        """The index's own lists, in place or written out of bitmaps, cut to the runs of the units."""
        segments = units[chosen, abi.U_SEGMENT]
        words = self._metas.planned(leg.leg.column).metas
        lists = np.zeros(len(chosen), np.int64)
        packed = np.flatnonzero(words[segments, abi.M_BITMAPS])
        if len(packed):
            indexed = self._index(leg)
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
        doc_sets.list_bitmaps(words, segments, leg.ids, starts, docs)
        self.keep_alive.append(docs)
        addresses: Words = docs.ctypes.data + starts[:-1] * 4
        return addresses

    def _join_lists(self, units: Words, chosen: Words, part: Resolved) -> None:
        """Lists of several values, or of several conditions under OR, as one list a unit."""
        segments = units[chosen, abi.U_SEGMENT]
        sets, memory = self._sets(segments)
        for leg in _legs_of(part):
            assert isinstance(leg, ResolvedLeg)
            self._fill(leg, segments, sets)
        runs = np.ascontiguousarray(units[chosen][:, [abi.U_LOW, abi.U_HIGH]])
        counts = np.zeros(len(chosen), np.int64)
        doc_sets.set_sizes(sets, runs, counts)
        starts = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        self._control.reserve(int(starts[-1]) * 4)
        docs = np.empty(max(int(starts[-1]), 1), np.int32)
        doc_sets.list_sets(sets, runs, starts, docs)
        self._control.release(memory)
        self.keep_alive.append(docs)
        units[chosen, abi.U_LIST] = docs.ctypes.data + starts[:-1] * 4
        units[chosen, abi.U_LOW], units[chosen, abi.U_HIGH] = 0, counts

    # --- bits ----------------------------------------------------------------------------------------------------------------

    def _use_bits(self, units: Words) -> Words:
        at = units[:, abi.U_SEGMENT]
        run, listed = np.zeros(len(self._docs)), np.zeros(len(self._docs), np.bool_)
        np.add.at(run, at, units[:, abi.U_HIGH] - units[:, abi.U_LOW])
        listed[at[units[:, abi.U_LIST] != 0]] = True
        reached = np.ones(len(self._docs))
        for part in conjuncts(self._tree):
            tested = run * np.minimum(reached / _FEW, 1.0)
            for leg in _legs_of(part):
                indexed = self._index(leg)
                if indexed is not None:
                    assert isinstance(leg, ResolvedLeg)
                    self._choose_bits(leg, indexed, tested, listed)
            reached = reached * _share(part, self._index(part), self._docs)
        return units

    def _choose_bits(self, leg: ResolvedLeg, indexed: LegIndex, tested: Prices, listed: NDArray[np.bool_]) -> None:
        gather = np.where(listed, _NS_GATHER, 0.0)
        scan_ns = tested * (_test_prices(leg, self._metas) + gather)
        possible = (indexed.index != NO_INDEX) & (leg.mode == LEG_RUN) & (tested > 0)
        bits_ns = np.where(possible, indexed.joined_ns(self._docs) + self._docs * _NS_BITMAP_DOC + tested * (_NS_FLAG + gather), np.inf)
        if id(leg) not in self.choices.index_ns:
            self._note(leg, np.arange(len(self._docs)), bits_ns, scan_ns)
        better = bits_ns < scan_ns
        if not better.any() or float((scan_ns - bits_ns)[better].sum()) < _NS_OVERHEAD:
            return
        chosen = np.flatnonzero(better)
        sets, _ = self._sets(chosen)
        self._fill(leg, chosen, sets)
        leg.function[chosen], leg.flags[chosen] = filters.doc_bits.address, abi.I_LEG
        leg.tests[chosen, 0], leg.tests[chosen, 1] = sets, self._docs[chosen]
        self.choices.bits[id(leg)] = better

    # --- sets ----------------------------------------------------------------------------------------------------------------

    def _sets(self, segments: Words) -> tuple[Words, int]:
        """Empty sets for these segments: their addresses, and the bytes that were reserved."""
        sizes = (self._docs[segments] + 63) // 64
        starts = np.cumsum(sizes) - sizes
        memory = int(sizes.sum()) * 8
        self._control.reserve(memory)
        self._control.check()
        found = np.zeros(max(memory // 8, 1), np.uint64)
        self.keep_alive.append(found)
        return found.ctypes.data + starts * 8, memory

    def _fill(self, leg: ResolvedLeg, segments: Words, sets: Words) -> None:
        """Add the docs of the positive test of `leg`."""
        indexed = self._index(leg)
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
                doc_sets.add_ranges(words, segments[some], indexed.spans, leg.ids, *_ends(leg), sets[some])
            elif ranged:
                doc_sets.add_posting_ranges(words, segments[some], leg.ids, sets[some])
            else:
                doc_sets.add_postings_of(words, segments[some], leg.members, leg.spans, sets[some])

    def _note(self, leg: Resolved, segments: Words, index_ns: Prices, scan_ns: Prices) -> None:
        index = self.choices.index_ns.setdefault(id(leg), np.full(len(self._docs), np.inf))
        scan = self.choices.scan_ns.setdefault(id(leg), np.full(len(self._docs), np.inf))
        index[segments], scan[segments] = index_ns, scan_ns


def _legs_of(part: Resolved) -> list[ResolvedLeg | ComputedLeg]:
    found: list[ResolvedLeg | ComputedLeg] = []
    each_leg(part, found.append)
    return found
