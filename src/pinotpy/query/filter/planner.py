"""The morsels and the filter program of conditions that all must hold: planned by kernels for all segments at once.

Most queries ask nothing else. Where indexes have lists so short that no other price matters
(kernels/filter/short_postings.py), those become the morsels; where a scan is over before indexes are weighed, it is a
scan. Indexes that are worth weighing, OR, and what Python computes take the longer way (plan/star_tree/walk.py), which
decides the same step by step and tells EXPLAIN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.kernels.filter import planner
from pinotpy.kernels.filter import short_postings as kernels
from pinotpy.kernels.filter.predicate_frame import PREDICATE_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter import index_choice
from pinotpy.query.filter.bound_predicate import BoundPredicate
from pinotpy.query.filter.pruning import BY_BLOOM, BY_PARTITION
from pinotpy.query.filter.tree import Resolved, conjuncts
from pinotpy.query.model.predicate import FixedRange
from pinotpy.query.result.partial import Statistics
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.segment_set import SegmentSet

# Of more segments those that are left are taken out, so that the others cost nothing from here on; of fewer that costs
# more.
KEPT_SEGMENTS_MAX: Final = 32
_NOT_LISTED: Final = np.zeros((0, planner.LIST_WORDS), np.int64)


@dataclass(frozen=True, slots=True)
class PlannedFilter:
    """Parts of a ScanPlan; num_docs: of all morsels. is_listed: morsels are docs of lists, which `keep_alive` has."""

    segments: SegmentSet
    metas: ColumnMetas
    morsels: Int64Array
    starts: Int64Array
    program: Int64Array
    num_docs: int
    is_listed: bool
    keep_alive: list[Any]


def is_plain(tree: Resolved) -> bool:
    """Whether `plan_conjunction` may plan the filter."""
    return all(isinstance(bound, BoundPredicate) and not bound.computed.any() for bound in conjuncts(tree))


def plan_conjunction(
    tree: Resolved,
    segments: SegmentSet,
    metas: ColumnMetas,
    statistics: Statistics,
    control: QueryControl,
    *,
    threads: int,
    thread_docs_min: int,
) -> PlannedFilter | None:
    """Plan a filter that `is_plain` over `segments`, all of which have docs; counts what is pruned. None, and nothing
    is changed, where indexes are to be weighed. The tree must live as long as the program.
    """
    bound_predicates, words = _predicates(tree, metas)
    listed, keep_alive = _NOT_LISTED, list[Any]()
    if any(bound.has_index for bound in bound_predicates):
        chosen = _ShortLists(bound_predicates, words, segments)
        if chosen.found == kernels.WEIGH:
            return None
        if chosen.found == kernels.LISTS:
            listed, keep_alive = chosen.make(metas, control)
    counts = np.zeros(planner.N_COUNTS, np.int64)
    morsels, starts, program = planner.conjunction(segments.docs, words, listed, threads, thread_docs_min, counts)
    control.will_read(int(counts[planner.N_DOCS]))
    if program.shape[1]:
        at = morsels[:, abi.U_SEGMENT]
        for bound in bound_predicates:
            metas.ready(bound.typed.column, at[bound.mode[at] == PREDICATE_RUN])
    pruned, num_docs = int(counts[planner.N_PRUNED]), int(counts[planner.N_DOCS])
    statistics.num_segments_pruned = pruned + statistics.num_segments_queried - len(segments)
    statistics.num_segments_processed = len(segments) - pruned
    statistics.num_segments_pruned_by_bloom_filter = int(counts[planner.N_BY_RULE + BY_BLOOM])
    statistics.num_segments_pruned_by_partition = int(counts[planner.N_BY_RULE + BY_PARTITION])
    if len(segments) > KEPT_SEGMENTS_MAX and counts[planner.N_SELECTED_SEGMENTS] * 2 < len(segments):
        at = morsels[:, abi.U_SEGMENT]
        rows = np.flatnonzero(np.bincount(at)) if len(at) else np.zeros(1, np.int64)
        morsels[:, abi.U_SEGMENT] = rows.searchsorted(at)
        segments = segments.take(rows)
        metas = ColumnMetas(segments)
    return PlannedFilter(segments, metas, morsels, starts, program, num_docs, len(listed) > 0, keep_alive)


def short_lists(tree: Resolved, segments: SegmentSet, metas: ColumnMetas) -> Int64Array | None:
    """For EXPLAIN: the condition, by its number under AND, whose list `plan_conjunction` would take in every segment
    (-1: none is read there); None where it would weigh indexes or not plan the filter.
    """
    if not is_plain(tree):
        return None
    bound_predicates, words = _predicates(tree, metas)
    chosen = (
        _ShortLists(bound_predicates, words, segments) if any(bound.has_index for bound in bound_predicates) else None
    )
    return chosen.predicates_of_segments if chosen is not None and chosen.found != kernels.WEIGH else None


def _predicates(tree: Resolved, metas: ColumnMetas) -> tuple[list[BoundPredicate], Int64Array]:
    """The predicates, and their words for kernels."""
    bound_predicates = [bound for bound in conjuncts(tree) if isinstance(bound, BoundPredicate)]
    words = np.array(
        [
            (bound.table.ctypes.data, metas.planned(bound.typed.column).address, bound.negated, bound.nulls)
            for bound in bound_predicates
        ],
        np.int64,
    )
    return bound_predicates, words.reshape(len(bound_predicates), planner.CONJUNCT_WORDS)


class _ShortLists:
    """Lists of indexes for every segment. found: what to do (kernels.LISTS, SCAN or WEIGH); predicates_of_segments:
    int64[n], the predicate whose list is taken, or -1.
    """

    def __init__(self, bound_predicates: list[BoundPredicate], words: Int64Array, segments: SegmentSet) -> None:
        self._predicates, self._words, self._docs = bound_predicates, words, segments.docs
        self._ends = np.zeros((len(bound_predicates), kernels.END_WORDS), np.int64)
        reals = self._ends.view(np.float64)
        for row, bound in enumerate(bound_predicates):
            test = bound.typed.test
            if isinstance(test, FixedRange):
                self._ends[row, kernels.E_RAW] = 1
                if isinstance(test.low, int) and isinstance(test.high, int):
                    self._ends[row, kernels.E_LOW], self._ends[row, kernels.E_HIGH] = test.low, test.high
                reals[row, kernels.E_LOW_REAL], reals[row, kernels.E_HIGH_REAL] = test.low, test.high
        self.predicates_of_segments: Int64Array = np.empty(len(segments), np.int64)
        self._room = np.empty(len(segments), np.int64)
        self.found = int(
            kernels.choose_lists(
                self._docs, words, self._ends, index_choice.short_list_prices(), self.predicates_of_segments, self._room
            )
        )

    def make(self, metas: ColumnMetas, control: QueryControl) -> tuple[Int64Array, list[Any]]:
        """(int64[n, LIST_WORDS], what it points to). The predicates hold where their lists are."""
        for row, bound in enumerate(self._predicates):
            if not metas.is_ready(bound.typed.column):
                metas.ready(bound.typed.column, np.flatnonzero(self.predicates_of_segments == row))
        starts = self._room.cumsum()
        total = int(starts[-1])
        starts -= self._room
        control.reserve(total * 4)
        docs = np.empty(max(total, 1), np.int32)
        listed = np.zeros((len(self._docs), planner.LIST_WORDS), np.int64)
        kernels.make_lists(
            self._docs, self._words, self._ends, self.predicates_of_segments, starts, docs, docs.ctypes.data, listed
        )
        return listed, [docs]
