"""Which index answers which part of a filter, in every segment: the cheapest way by estimate, all segments at once.

What an index would give is known without reading it: its lists have known lengths. Three ways compete:

  scan   every doc of the morsel is tested;
  list   the docs that one condition under AND selects become the morsel, and the other conditions are tested on them
         only. The list is the index's own where it is one list, else lists are joined (also those of an OR of indexed
         conditions);
  bits   a condition is tested by one bit a doc, set from the index's lists: where its own test is dear (multi-values),
         or where it stands under OR. NOT flips the bit.

Prices are nanoseconds of one thread, measured on a million docs; only their ratios matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.filter import predicates
from pinotpy.kernels.filter.predicate_frame import PREDICATE_ALWAYS, PREDICATE_NEVER, PREDICATE_RUN
from pinotpy.kernels.filter.predicate_table import BY_BITS, BY_LIST, BY_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.bound_predicate import BoundPredicate
from pinotpy.query.filter.index_docs import ENDLESS, NO_INDEX, IndexedDocs, PredicateIndex
from pinotpy.query.filter.interpreted import InterpretedPredicate
from pinotpy.query.filter.tree import Resolved, ResolvedAny, predicates_of
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.column_metas import ColumnMetas

Prices = NDArray[np.float64]

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
# A Roaring bitmap joined into a set, by its docs or by the words of the segment's docs; written out as a list, by its
# docs.
_NS_ROARING_DOC: Final = 0.6
_NS_ROARING_WORDS: Final = 0.005
_NS_ROARING_LISTED: Final = 0.8
# Joining lists or setting bits is worth it from here on: what its steps in Python cost.
_NS_OVERHEAD: Final = 30_000.0
OVERHEAD_US: Final = round(_NS_OVERHEAD / 1000)  # for EXPLAIN
# A doc is tested only while others of its block are left, or one by one where few are.
_FEW: Final = 1 / 16


def short_list_prices() -> Prices:
    """Prices for kernels/filter/short_postings.py, in the order of its P_*: of a doc that is only walked, of docs of
    lists, of tests.
    """
    of_lists = [_NS_LIST_DOC, _NS_ROARING_LISTED, _NS_ORDERED_DOC, _NS_GATHER + _NS_TABLE]
    return np.array([_NS_SCAN_DOC, *of_lists, *_NS_IDS.values(), _NS_RAW[8], _NS_OVERHEAD])


@dataclass(slots=True)
class Choices:
    """What was weighed: by identity of the predicate, its PredicateIndex, and the estimated prices (ns) of reading by
    index and by scan in every segment.
    """

    bound_predicates: dict[int, PredicateIndex] = field(default_factory=dict)
    index_ns: dict[int, Prices] = field(default_factory=dict)
    scan_ns: dict[int, Prices] = field(default_factory=dict)


# --- prices -----------------------------------------------------------------------------------------------------------


def _joined_ns(indexed: PredicateIndex, docs: Int64Array) -> Prices:
    """What adding the lists to a set costs in segments of so many docs."""
    entries = np.where(indexed.index == NO_INDEX, 0, indexed.entries)
    roaring = np.minimum(entries * _NS_ROARING_DOC, indexed.bitmaps * docs * _NS_ROARING_WORDS)
    prices: Prices = np.where(indexed.bitmaps > 0, roaring, entries * _NS_BIT)
    return prices


def _listed_ns(indexed: PredicateIndex, docs: Int64Array) -> Prices:
    """What having the lists as one list costs: nothing where the index has it so."""
    joined = _joined_ns(indexed, docs) + docs * _NS_BITMAP_DOC
    alone = np.where(
        indexed.bitmaps > 0, np.where(indexed.index == NO_INDEX, 0, indexed.entries) * _NS_ROARING_LISTED, 0.0
    )
    prices: Prices = np.where(indexed.direct, alone, joined)
    return prices


def _mode_in_run(bound: BoundPredicate | InterpretedPredicate) -> Int64Array:
    """PREDICATE_* in the runs of docs that sorted columns leave, before any list or bits."""
    if isinstance(bound, InterpretedPredicate):
        return bound.mode
    return np.where(bound.answer == BY_RUN, PREDICATE_ALWAYS, bound.mode)


def _address(function: abi.BlockFunction) -> int:
    """Of a block function; -1 where it is not loaded: it is in no plan."""
    return function.address if function.is_loaded else -1


def _test_prices(bound: BoundPredicate | InterpretedPredicate, metas: ColumnMetas, mode: Int64Array) -> Prices:
    """What testing one doc costs in every segment, ns; `mode`: what is known there."""
    if isinstance(bound, InterpretedPredicate):
        return np.full(len(bound.mode), _NS_FLAG)
    words = metas.planned(bound.typed.column).metas
    prices = np.full(len(words), _NS_FLAG)
    width, function = words[:, abi.M_WIDTH], bound.function
    for size, price in _NS_IDS.items():
        prices[(function == _address(predicates.ids_range)) & (width == size)] = price
    for size, price in _NS_RAW.items():
        prices[(function == _address(predicates.raw_range)) & (width == size)] = price
    prices[function == _address(predicates.ids_runs)] = _NS_RUNS
    prices[function == _address(predicates.ids_lut)] = _NS_TABLE
    prices[function == _address(predicates.ids_bits)] = _NS_BITS
    prices[(function == _address(predicates.ids_set)) | (function == _address(predicates.raw_set))] = _NS_SET
    raw_text = (
        (words[:, abi.M_CARDINALITY] < 0)
        & (words[:, abi.M_STORED] == abi.T_VAR)
        & (bound.flags == abi.I_SCAN_PREDICATE)
    )
    prices[raw_text] = _NS_TEXT
    many = (words[:, abi.M_MV_OFFSETS] != 0) & (bound.flags == abi.I_SCAN_PREDICATE)
    prices[many] += _NS_ENTRY * (words[many, abi.M_NUM_VALUES] / np.maximum(words[many, abi.M_NUM_DOCS], 1))
    prices[mode != PREDICATE_RUN] = 0.0
    return prices


def _share(bound: Resolved, indexed: PredicateIndex | None, docs: Int64Array, *, in_runs: bool) -> Prices:
    """Estimated share of docs that pass, per segment: from the index where there is one. in_runs: before any list."""
    if not isinstance(bound, BoundPredicate | InterpretedPredicate):
        return np.full(len(docs), 0.5)
    mode = _mode_in_run(bound) if in_runs else bound.mode_of_test
    share = np.full(len(docs), bound.selectivity)
    if indexed is not None and isinstance(bound, BoundPredicate):
        known = indexed.index != NO_INDEX
        shares = np.minimum(indexed.entries[known] / np.maximum(docs[known], 1), 1.0)
        share[known] = 1 - shares if bound.negated else shares
    share[mode == PREDICATE_ALWAYS], share[mode == PREDICATE_NEVER] = 1.0, 0.0
    return share


# --- choosing ---------------------------------------------------------------------------------------------------------


class IndexAccess:
    """Chooses for one plan, whose parts all must hold.

    Args:
        answers: of every part, who answers it in each segment (predicate_table.BY_*): filled where lists do.
        morsels: one a segment at most, the runs of docs that sorted columns leave.
    """

    def __init__(
        self,
        parts: Sequence[Resolved],
        answers: Sequence[NDArray[np.int8]],
        morsels: Int64Array,
        metas: ColumnMetas,
        control: QueryControl,
    ) -> None:
        self._parts, self._answers, self._morsels, self._metas = parts, answers, morsels, metas
        self._docs = metas.segments.docs
        self._indexed = IndexedDocs(metas, control)
        is_read = np.zeros(len(self._docs), np.bool_)
        is_read[morsels[:, abi.U_SEGMENT]] = True
        for part in parts:
            for bound in predicates_of(part):
                if isinstance(bound, BoundPredicate) and bound.has_index:
                    self._indexed.look(bound, is_read)
        self.choices = Choices(self._indexed.bound_predicates)

    def apply(self) -> Int64Array:
        """The morsels, those that became lists among them; predicates are marked that lists or bits answer."""
        if not self.choices.bound_predicates:
            return self._morsels
        morsels = self._make_lists(self._morsels.copy(), self._cheapest(self._morsels))
        for bound, is_better in self._worth_bits(morsels):
            chosen = np.flatnonzero(is_better)
            bound.function[chosen], bound.flags[chosen] = predicates.doc_bits.address, abi.I_PREDICATE
            bound.tests[chosen, 0], bound.tests[chosen, 1] = self._indexed.bits(bound, chosen), self._docs[chosen]
            bound.answer[chosen] = BY_BITS
        return morsels

    def estimate(self, runs_left: Int64Array) -> Choices:
        """The prices of a plan that was made without weighing them, for EXPLAIN. Changes nothing.

        runs_left: its morsels.
        """
        if self.choices.bound_predicates:
            self._cheapest(self._morsels)
            self._worth_bits(runs_left)
        return self.choices

    # --- lists --------------------------------------------------------------------------------------------------------

    def _cheapest(self, morsels: Int64Array) -> Int64Array:
        """For every morsel the part whose list is read, or -1."""
        parts = self._parts
        segments = morsels[:, abi.U_SEGMENT]
        docs, run = self._docs[segments], morsels[:, abi.U_HIGH] - morsels[:, abi.U_LOW]
        tests, reached, total = [], np.ones(len(segments)), np.zeros(len(segments))
        for part in parts:
            price = self._price(part)[segments]
            tests.append(price)
            total += price * np.where(reached >= _FEW, 1.0, np.minimum(reached / _FEW, 1.0))
            reached = reached * _share(part, self._indexed.of(part), self._docs, in_runs=True)[segments]
        scan_ns = run * (_NS_SCAN_DOC + total)
        best_ns, best = scan_ns.copy(), np.full(len(segments), -1)
        for number, part in enumerate(parts):
            entries, direct, made_ns = self._entries(part)
            if entries is None:
                continue
            entries, direct = entries[segments], direct[segments]
            others = sum(
                (np.where(tests[i] > 0, _NS_GATHER + tests[i], 0.0) for i in range(len(parts)) if i != number),
                np.zeros(len(segments)),
            )
            possible = entries != ENDLESS
            listed = np.where(possible, np.minimum(entries, docs), 0) * (run / np.maximum(docs, 1))
            list_ns = np.where(possible, listed * (_NS_LIST_DOC + others) + made_ns[segments], np.inf)
            for bound in predicates_of(part):
                self._note(bound, segments, list_ns, scan_ns)
            better = list_ns < best_ns
            # Joining has its price once for all segments.
            joined = better & ~direct
            if joined.any() and float((best_ns - list_ns)[joined].sum()) < _NS_OVERHEAD:
                better &= direct
            best_ns[better], best[better] = list_ns[better], number
        return best

    def _make_lists(self, morsels: Int64Array, best: Int64Array) -> Int64Array:
        for number, part in enumerate(self._parts):
            chosen = np.flatnonzero(best == number)
            if len(chosen):
                self._indexed.make_lists(morsels, chosen, part)
                segments = morsels[chosen, abi.U_SEGMENT]
                self._answers[number][segments] = BY_LIST
                for bound in predicates_of(part):
                    assert isinstance(bound, BoundPredicate)
                    bound.answer[segments] = BY_LIST
        return morsels[morsels[:, abi.U_LOW] < morsels[:, abi.U_HIGH]]

    def _price(self, part: Resolved) -> Prices:
        prices = np.zeros(len(self._docs))
        for bound in predicates_of(part):
            prices += _test_prices(bound, self._metas, _mode_in_run(bound))
        return prices

    def _entries(self, part: Resolved) -> tuple[Int64Array | None, NDArray[np.bool_], Prices]:
        """Docs in the lists that would give the docs of a condition under AND, in every segment (endless where it
        cannot), where that is one list of the index, and the price of making it one.
        """
        nowhere, made_ns = np.zeros(len(self._docs), np.bool_), np.zeros(len(self._docs))
        if isinstance(part, BoundPredicate):
            indexed = self._indexed.of(part)
            if indexed is None or part.negated:
                return None, nowhere, made_ns
            return (
                np.where(_mode_in_run(part) == PREDICATE_RUN, indexed.entries, ENDLESS),
                indexed.direct,
                _listed_ns(indexed, self._docs),
            )
        if not isinstance(part, ResolvedAny) or not part.children:
            return None, nowhere, made_ns
        total = np.zeros(len(self._docs), np.float64)
        for child in part.children:
            if not isinstance(child, BoundPredicate) or child.negated:
                return None, nowhere, made_ns
            indexed = self._indexed.of(child)
            if indexed is not None:
                made_ns += _joined_ns(indexed, self._docs)
            entries = (
                np.full(len(total), np.inf)
                if indexed is None
                else np.where(indexed.entries == ENDLESS, np.inf, indexed.entries)
            )
            # Null docs stand in the list of the default: such a list holds more than the condition.
            entries[self._clears_nulls(child)] = np.inf
            entries[child.mode == PREDICATE_NEVER] = 0
            entries[child.mode == PREDICATE_ALWAYS] = np.inf
            total += entries
        entries = np.where(np.isfinite(total), np.where(np.isfinite(total), total, 0).astype(np.int64), ENDLESS)
        return entries, nowhere, made_ns + self._docs * _NS_BITMAP_DOC

    def _clears_nulls(self, bound: BoundPredicate) -> NDArray[np.bool_]:
        has_nulls: NDArray[np.bool_] = self._metas.planned(bound.typed.column).metas[:, abi.M_NULLS] != 0
        return has_nulls & bool(bound.nulls)

    # --- bits ---------------------------------------------------------------------------------------------------------

    def _worth_bits(self, morsels: Int64Array) -> list[tuple[BoundPredicate, NDArray[np.bool_]]]:
        """Predicates that are better tested by bits, and in which segments."""
        segments = morsels[:, abi.U_SEGMENT]
        run, listed = np.zeros(len(self._docs)), np.zeros(len(self._docs), np.bool_)
        np.add.at(run, segments, morsels[:, abi.U_HIGH] - morsels[:, abi.U_LOW])
        listed[segments[morsels[:, abi.U_LIST] != 0]] = True
        reached, chosen = np.ones(len(self._docs)), []
        for part in self._parts:
            tested = run * np.minimum(reached / _FEW, 1.0)
            for bound in predicates_of(part):
                indexed = self._indexed.of(bound)
                if indexed is not None:
                    assert isinstance(bound, BoundPredicate)
                    is_better = self._better_by_bits(bound, indexed, tested, listed)
                    if is_better is not None:
                        chosen.append((bound, is_better))
            reached = reached * _share(part, self._indexed.of(part), self._docs, in_runs=False)
        return chosen

    def _better_by_bits(
        self, bound: BoundPredicate, indexed: PredicateIndex, tested: Prices, listed: NDArray[np.bool_]
    ) -> NDArray[np.bool_] | None:
        """The segments where bits are cheaper; None if that saves too little in all of them."""
        gather, mode = np.where(listed, _NS_GATHER, 0.0), bound.mode_of_test
        scan_ns = tested * (_test_prices(bound, self._metas, mode) + gather)
        possible = (indexed.index != NO_INDEX) & (mode == PREDICATE_RUN) & (tested > 0)
        bits_ns = np.where(
            possible,
            _joined_ns(indexed, self._docs) + self._docs * _NS_BITMAP_DOC + tested * (_NS_FLAG + gather),
            np.inf,
        )
        if id(bound) not in self.choices.index_ns:
            self._note(bound, np.arange(len(self._docs)), bits_ns, scan_ns)
        better = bits_ns < scan_ns
        is_worth = better.any() and float((scan_ns - bits_ns)[better].sum()) >= _NS_OVERHEAD
        return better if is_worth else None

    def _note(self, bound: Resolved, segments: Int64Array, index_ns: Prices, scan_ns: Prices) -> None:
        index = self.choices.index_ns.setdefault(id(bound), np.full(len(self._docs), np.inf))
        scan = self.choices.scan_ns.setdefault(id(bound), np.full(len(self._docs), np.inf))
        index[segments], scan[segments] = index_ns, scan_ns
