"""The one planner of filters: which segments are read, which docs of them, and by which program.

A filter is a list of conjuncts, conditions that all must hold; one that is no AND is one conjunct. Kernels plan plain
predicates for all segments at once (kernels/filter/planner.py). An OR, a predicate over an expression and one whose
flags Python computes are conjuncts with instructions of their own (tree.py): the kernel knows where they never or
always hold, and leaves a slot in the program. Steps:

    select_segments    prune, bind predicates, put them in order; a run of docs for each segment that is left
    use_indexes        runs become lists of docs where an index is cheaper: short lists at once
                       (kernels/filter/short_postings.py), others after weighing (index_choice.py)
    deal               morsels of threads, and the program

What is decided lies in arrays that the program is made of and EXPLAIN reads: `outcomes`, the order of `conjuncts`, and
`mode` and `answer` of every predicate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.filter import planner
from pinotpy.kernels.filter import short_postings as kernels
from pinotpy.kernels.filter.predicate_frame import PREDICATE_ALWAYS, PREDICATE_NEVER, PREDICATE_RUN
from pinotpy.kernels.filter.predicate_table import L_ANSWER, L_MODE, L_PRUNE, L_RULE
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter import index_choice
from pinotpy.query.filter.bound_predicate import BoundPredicate, empty_table, flags_of
from pinotpy.query.filter.index_choice import Choices, IndexAccess
from pinotpy.query.filter.interpreted import InterpretedPredicate
from pinotpy.query.filter.normal_form import EVERYWHERE, normal_form, of_visible_rows
from pinotpy.query.filter.pruning import BY_BLOOM, BY_PARTITION, RangePruning, prune_by_ranges, range_words
from pinotpy.query.filter.tree import (
    ALL_DOCS,
    RESULT,
    Resolved,
    ResolvedAll,
    conjuncts_of,
    emit_tree,
    estimated_share,
    known,
    predicates_of,
    resolve_tree,
)
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.predicate import FixedRange
from pinotpy.query.result.partial import Statistics
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.instructions import Instructions
from pinotpy.query.segments.checked_bytes import check_bytes
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.segment_set import SegmentSet

# Of more segments those that are left are taken out, so that the others cost nothing from here on; of fewer that costs
# more.
KEPT_SEGMENTS_MAX: Final = 32


@dataclass(slots=True)
class FilterPlan:
    """A filter over segments that have docs, n of them. It must live as long as its program.

    pruning: what smallest and largest values left out before; segments, metas: those that are left.
    conjuncts: in the order in which they are tested; late: what Python computes of the docs that those leave.
    outcomes: uint8[n], planner.SELECTS_* or IS_PRUNED. counts: planner.N_*.
    runs: int64[u, MORSEL_WORDS], at most one a segment: docs before any list. morsels: those to be read, after `deal`
    those of every thread.
    has_own: instructions of some conjunct are its own. is_listed: some morsels are lists of docs, which have passed the
    condition of their index.
    starts, slots: of `deal`; int64[threads + 1]; int64[num_conjuncts], place of the conjunct in the program, -1: every
    doc that is read passes it.
    """

    pruning: RangePruning
    segments: SegmentSet
    metas: ColumnMetas
    conjuncts: list[Resolved]
    late: list[InterpretedPredicate]
    words: Int64Array
    outcomes: NDArray[np.uint8]
    counts: Int64Array
    runs: Int64Array
    morsels: Int64Array
    has_own: bool
    is_listed: bool = False
    starts: Int64Array = field(init=False)
    slots: Int64Array = field(init=False)
    _kernel_program: Int64Array = field(init=False)
    _choices: Choices | None = None
    _tables: list[Int64Array] = field(default_factory=list)
    _keep_alive: list[Any] = field(default_factory=list)

    @property
    def has_filter(self) -> bool:
        return bool(self.conjuncts or self.late)

    @property
    def tree(self) -> Resolved:
        """The filter as it is tested: conjuncts in their order, then those that are late."""
        nodes = [*self.conjuncts, *self.late]
        return nodes[0] if len(nodes) == 1 else ResolvedAll(nodes)

    @property
    def num_docs(self) -> int:
        """Docs of the morsels."""
        return int(self.counts[planner.N_DOCS])

    def docs_to_read(self) -> Int64Array:
        """int64[n]: docs, or entries of a list, that are read of each segment."""
        docs = np.zeros(len(self.segments), np.int64)
        np.add.at(docs, self.morsels[:, abi.U_SEGMENT], self.morsels[:, abi.U_HIGH] - self.morsels[:, abi.U_LOW])
        return docs

    @property
    def selects_all(self) -> bool:
        """Conjuncts let every doc of the segments that are read pass."""
        return bool(self.counts[planner.N_ALL_SEGMENTS] == self.counts[planner.N_SELECTED_SEGMENTS])

    @property
    def selected(self) -> Int64Array:
        """The segments that may select something."""
        return np.flatnonzero((self.outcomes == planner.SELECTS_SOME) | (self.outcomes == planner.SELECTS_ALL))

    def share(self) -> float:
        """Estimated share of the docs that are read which conjuncts let pass."""
        return 1.0 if self.is_listed or not self._kernel_program.shape[1] else estimated_share(self.conjuncts)

    def count(self, statistics: Statistics) -> None:
        """What is pruned of the segments that `statistics` has as queried."""
        pruned = int(self.counts[planner.N_PRUNED])
        statistics.num_segments_pruned = pruned + statistics.num_segments_queried - len(self.segments)
        if self.segments.are_parts:
            left = np.flatnonzero(self.outcomes != planner.IS_PRUNED)
            statistics.processed(self.segments.counted(left.tolist()))
        else:
            statistics.num_segments_processed = len(self.segments) - pruned
        statistics.num_segments_pruned_by_bloom_filter = int(self.counts[planner.N_BY_RULE + BY_BLOOM])
        statistics.num_segments_pruned_by_partition = int(self.counts[planner.N_BY_RULE + BY_PARTITION])

    # --- steps --------------------------------------------------------------------------------------------------------

    def use_indexes(self, control: QueryControl) -> None:
        """Read lists of docs, or set bits, where that is cheaper than the scan of the runs."""
        if not self.has_filter:
            return
        if not self.late and not self.has_own:
            if not any(node.has_index for node in self.conjuncts if isinstance(node, BoundPredicate)):
                return
            lists = _ShortLists(self)
            if lists.found == kernels.LISTS:
                self._keep_alive.append(lists.make(control))
                self.is_listed = len(self.morsels) > 0
            if lists.found != kernels.WEIGH:
                return
        # What Python decides step by step takes its time too.
        control.will_read(self.segments.total_docs)
        bound = [bound for node in self.conjuncts for bound in predicates_of(node)]
        if not any(isinstance(one, BoundPredicate) and one.has_index for one in bound):
            return
        access = self._access(self.runs, control)
        self.morsels, self._choices = access.apply(), access.choices
        self.is_listed = bool(self.morsels[:, abi.U_LIST].any())
        self._keep_alive.append(access)

    def deal(self, control: QueryControl, *, threads: int, thread_docs_min: int) -> None:
        """Morsels of at most so many threads, and their program but for the instructions of `own`."""
        self.slots = np.empty(len(self.conjuncts), np.int64)
        self.morsels, self.starts, self._kernel_program = planner.conjunction(
            self.morsels, len(self.segments), self.words, threads, thread_docs_min, self.slots, self.counts
        )
        if self.has_filter:
            control.will_read(self.num_docs)
        segments = self.morsels[:, abi.U_SEGMENT]
        for bound, slot in zip(self.conjuncts, self.slots.tolist(), strict=True):
            if slot >= 0 and isinstance(bound, BoundPredicate) and not self.metas.is_ready(bound.typed.column):
                self.metas.ready(bound.typed.column, segments[bound.mode_of_test[segments] == PREDICATE_RUN])

    def own(self) -> list[tuple[int, Resolved]]:
        """(slot, conjunct) of those in the program whose instructions are their own."""
        if not self.has_own:
            return []
        numbers = np.flatnonzero((self.words[:, planner.C_OWN] != 0) & (self.slots >= 0))
        return [(int(self.slots[number]), self.conjuncts[number]) for number in numbers.tolist()]

    def program(self) -> Int64Array:
        """int64[num_morsels, k, INSTRUCTION_WORDS]; what Python computes of `own` was computed."""
        own_conjuncts = self.own()
        if not own_conjuncts:
            return self._kernel_program
        segments, sections = self.morsels[:, abi.U_SEGMENT], []
        for slot, node in own_conjuncts:
            section = Instructions()
            emit_tree(node, section, segments, self.metas, kept=ALL_DOCS if slot == 0 else RESULT)
            sections.append((slot, section))
        length = self._kernel_program.shape[1] + sum(len(section) - 1 for _, section in sections)
        program = np.zeros((len(segments), length, abi.INSTRUCTION_WORDS), np.int64)
        done, place = 0, 0
        for slot, section in sections:
            program[:, place : place + slot - done] = self._kernel_program[:, done:slot]
            place += slot - done
            section.write(program, place)
            done, place = slot + 1, place + len(section)
        program[:, place:] = self._kernel_program[:, done:]
        return program

    def narrowed(self) -> tuple[SegmentSet, ColumnMetas, Int64Array]:
        """(segments, metas, morsels) of the scan: many segments of which few are read are left out."""
        if len(self.segments) <= KEPT_SEGMENTS_MAX or self.counts[planner.N_SELECTED_SEGMENTS] * 2 >= len(
            self.segments
        ):
            return self.segments, self.metas, self.morsels
        numbers = self.morsels[:, abi.U_SEGMENT]
        rows = np.flatnonzero(np.bincount(numbers)) if len(numbers) else np.zeros(1, np.int64)
        morsels = self.morsels.copy()
        morsels[:, abi.U_SEGMENT] = rows.searchsorted(numbers)
        segments = self.segments.take(rows)
        return segments, ColumnMetas(segments), morsels

    def choices(self, control: QueryControl) -> Choices:
        """What was weighed; prices are estimated now where the plan was made without. Reads no docs."""
        if self._choices is None:
            self._choices = self._access(self.runs, control).estimate(self.morsels)
        return self._choices

    def _access(self, runs: Int64Array, control: QueryControl) -> IndexAccess:
        answers = [flags_of(table, L_ANSWER) for table in self._tables]
        return IndexAccess(self.conjuncts, answers, runs, self.metas, control)


def select_segments(context: QueryContext, asked: SegmentSet, control: QueryControl) -> FilterPlan:
    """The filter of a query over those of the segments that have docs; the other steps follow.

    Raises: UnknownColumnError; for literals and patterns what predicate.typed_predicate raises; what `control.check`
    raises.
    """
    condition = of_visible_rows(normal_form(context.filter, context), asked)
    pruning = prune_by_ranges(condition, asked.occupied)
    segments = pruning.kept
    check_bytes(segments, [column.name for column in context.columns], control)
    metas = ColumnMetas(segments)
    parts, late = list[Resolved](), list[InterpretedPredicate]()
    if condition != EVERYWHERE and segments:
        for node in conjuncts_of(resolve_tree(condition, context, metas, control, pruning.places)):
            # Python computes it on the docs that the others leave.
            if isinstance(node, InterpretedPredicate) and node.is_late:
                late.append(node)
            else:
                parts.append(node)
    tables, words, has_own = _words(parts, metas)
    outcomes, counts = np.empty(len(segments), np.uint8), np.zeros(planner.N_COUNTS, np.int64)
    runs = planner.select_runs(segments.docs, words, outcomes, counts)
    return FilterPlan(
        pruning, segments, metas, parts, late, words, outcomes, counts, runs, runs, has_own, _tables=tables
    )


def _words(conjuncts: list[Resolved], metas: ColumnMetas) -> tuple[list[Int64Array], Int64Array, bool]:
    """(tables, int64[num_conjuncts, CONJUNCT_WORDS] for kernels, whether instructions of some conjunct are its own)."""
    tables, words, has_own = [], [], False
    for node in conjuncts:
        if isinstance(node, BoundPredicate):
            address, is_own = metas.planned(node.typed.column).address, bool(node.computed.any())
            tables.append(node.table)
            words.append((node.table.ctypes.data, address, node.negated, node.nulls, is_own))
            has_own |= is_own
        else:
            table = _table_of(node, metas)
            tables.append(table)
            words.append((table.ctypes.data, 0, 0, 0, True))
            has_own = True
    return tables, np.array(words, np.int64).reshape(len(words), planner.CONJUNCT_WORDS), has_own


def _table_of(node: Resolved, metas: ColumnMetas) -> Int64Array:
    """The predicate table of a conjunct with instructions of its own: what is known of it in every segment."""
    facts = known(node, len(metas.segments), metas)
    table = empty_table(len(metas.segments))
    table[L_MODE] = np.where(facts.never, PREDICATE_NEVER, np.where(facts.always, PREDICATE_ALWAYS, PREDICATE_RUN))
    flags_of(table, L_PRUNE)[:], flags_of(table, L_RULE)[:] = facts.prune, facts.rule
    return table


class _ShortLists:
    """Lists of indexes for every morsel of a plan. found: what to do (kernels.LISTS, SCAN or WEIGH); chosen: int64[u],
    the conjunct whose list is taken, or -1.
    """

    def __init__(self, plan: FilterPlan) -> None:
        self._plan = plan
        self._ends = np.zeros((len(plan.conjuncts), kernels.END_WORDS), np.int64)
        reals = self._ends.view(np.float64)
        for row, bound in enumerate(plan.conjuncts):
            assert isinstance(bound, BoundPredicate)
            if isinstance(bound.typed.test, FixedRange):
                low, low_real, high, high_real = range_words(bound.typed.test)
                self._ends[row, kernels.E_RAW], self._ends[row, kernels.E_LOW], self._ends[row, kernels.E_HIGH] = (
                    1,
                    low,
                    high,
                )
                reals[row, kernels.E_LOW_REAL], reals[row, kernels.E_HIGH_REAL] = low_real, high_real
        self.chosen: Int64Array = np.empty(len(plan.runs), np.int64)
        self._room = np.empty(len(plan.runs), np.int64)
        self.found = int(
            kernels.choose_lists(
                plan.runs,
                len(plan.segments),
                plan.words,
                self._ends,
                index_choice.short_list_prices(),
                self.chosen,
                self._room,
            )
        )

    def make(self, control: QueryControl) -> NDArray[np.int32]:
        """The morsels become the lists. Gives what they point to beside the indexes."""
        plan = self._plan
        segments = plan.runs[:, abi.U_SEGMENT]
        for row, bound in enumerate(plan.conjuncts):
            assert isinstance(bound, BoundPredicate)
            if not plan.metas.is_ready(bound.typed.column):
                plan.metas.ready(bound.typed.column, segments[self.chosen == row])
        starts = self._room.cumsum()
        total = int(self._room.sum())
        starts -= self._room
        control.reserve(total * 4)
        docs = np.empty(max(total, 1), np.int32)
        plan.morsels = plan.runs.copy()
        kernels.make_lists(
            plan.segments.docs, plan.morsels, plan.words, self._ends, self.chosen, starts, docs, docs.ctypes.data
        )
        return docs
