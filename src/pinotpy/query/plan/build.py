"""From a query and its segments to a ScanPlan: prune, fold what is known, use indexes, deal morsels to threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.kernels.filter import filter_clause, planner
from pinotpy.kernels.filter.predicate_frame import PREDICATE_ALWAYS
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.bound_predicate import BoundPredicate
from pinotpy.query.filter.decisions import BY_LIST, BY_RUN, ScanNotes
from pinotpy.query.filter.early_pruning import within_ranges
from pinotpy.query.filter.index_choice import IndexAccess
from pinotpy.query.filter.interpreted import InterpretedPredicate
from pinotpy.query.filter.normal_form import EVERYWHERE, normal_form, of_visible_rows
from pinotpy.query.filter.planner import is_plain, plan_conjunction, short_lists
from pinotpy.query.filter.pruning import BY_BLOOM, BY_PARTITION
from pinotpy.query.filter.tree import (
    RESULT,
    Known,
    Resolved,
    ResolvedAll,
    conjuncts,
    emit_tree,
    estimated_share,
    known,
    predicates_of,
    resolve_tree,
    take_segments,
)
from pinotpy.query.model.context import Filter, QueryContext, QueryKind
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.plan.selection_list import materialize_selection
from pinotpy.query.result.partial import Statistics
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.instructions import Instructions
from pinotpy.query.runtime.jobs import run_jobs
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.data_source import Segment
from pinotpy.segment.shared_codes.cache import SharedDictionaries

# Fewer docs than this are scanned by one thread: waking another costs 40 µs, as much as a thread needs for them.
DOCS_PER_THREAD_MIN: Final = 200_000


def build_scan(
    context: QueryContext,
    segments: Sequence[Segment],
    control: QueryControl,
    *,
    threads: int = 1,
    executor: Executor | None = None,
    notes: ScanNotes | None = None,
    dictionaries: SharedDictionaries | None = None,
    is_final: bool = False,
) -> ScanPlan:
    """The plan of a query over `segments`. With `notes` (EXPLAIN) the decisions are kept there, and the plan cannot be
    run.

    Raises: UnknownColumnError; for literals and patterns what predicate.typed_predicate raises; what `control.check`
    raises.
    """
    asked = SegmentSet.of(segments)
    statistics = Statistics(num_segments_queried=len(asked), total_docs=asked.total_docs)
    condition = of_visible_rows(normal_form(context.filter, context), asked)
    kept = asked.occupied
    if notes is None and condition != EVERYWHERE:
        kept = within_ranges(condition, kept)
    metas = ColumnMetas(kept)
    tree: Resolved | None = None
    selects = np.ones(len(kept), np.bool_)
    facts: Known | None = None
    if condition != EVERYWHERE and kept:
        tree = resolve_tree(condition, context, metas, control)
        allowed = threads if executor is not None else 1
        is_asked = notes is None and is_plain(tree)
        found = (
            plan_conjunction(
                tree, kept, metas, statistics, control, threads=allowed, thread_docs_min=DOCS_PER_THREAD_MIN
            )
            if is_asked
            else None
        )
        if found is not None:
            return ScanPlan(
                context=context,
                segments=found.segments,
                control=control,
                metas=found.metas,
                morsels=found.morsels,
                starts=found.starts,
                filter_program=found.program,
                statistics=statistics,
                emit_filter=emit_filter,
                reads_all_rows=not found.program.shape[1] and found.num_docs == asked.total_docs,
                executor=executor,
                keep_alive=[tree, metas, found.keep_alive],
                dictionaries=dictionaries,
                is_final=is_final,
                share=1.0 if found.is_listed else estimated_share(tree),
            )
        # What Python decides step by step takes its time too.
        control.will_read(kept.total_docs)
        facts = known(tree, len(kept), metas)
        count_pruned(statistics, facts)
        selects = ~facts.never & ~facts.prune
    if notes is not None:
        notes.resolved(metas, tree, facts, selects)
    if facts is not None and bool(facts.always[selects].all()):
        tree = None
    statistics.num_segments_pruned += len(asked) - len(kept)
    statistics.num_segments_processed = statistics.num_segments_queried - statistics.num_segments_pruned
    late: list[InterpretedPredicate] = []
    if tree is not None and notes is None:
        tree, late = _split_late(tree)
    keep_alive: list[Any] = [tree, metas]
    if notes is None and not selects.all():
        # From here on only segments that may select something cost anything; one is left for the types of its columns.
        rows = np.flatnonzero(selects) if selects.any() else np.zeros(1, np.int64)
        selects, kept = selects[rows], kept.take(rows)
        metas, tree = ColumnMetas(kept), None if tree is None else take_segments(tree, rows)
    morsels = _morsels(np.flatnonzero(selects), kept.docs)
    if tree is not None:
        chosen = None if notes is None else short_lists(tree, kept, metas)
        morsels = _clip_to_sorted(morsels, tree)
        if notes is not None:
            notes.used(BY_RUN)
        access = IndexAccess(tree, metas, control, chosen=chosen)
        morsels = access.apply(morsels)
        keep_alive.append(access)
        if notes is not None:
            notes.used(BY_LIST)
            notes.choices = access.choices
    morsels, starts = deal(morsels, threads if executor is not None else 1)
    program = Instructions()
    if notes is not None:
        notes.dealt(morsels)
    if tree is not None and len(morsels):
        if notes is None:
            statistics.num_entries_scanned_in_filter += _compute(
                tree, morsels, metas, control, len(starts) - 1, executor
            )
        emit_tree(tree, program, morsels[:, abi.U_SEGMENT], metas)
    plan = ScanPlan(
        context=context,
        segments=kept,
        control=control,
        metas=metas,
        morsels=morsels,
        starts=starts,
        filter_program=program.assemble(len(morsels)),
        statistics=statistics,
        emit_filter=emit_filter,
        reads_all_rows=len(program) == 0
        and not morsels[:, abi.U_LIST].any()
        and int((morsels[:, abi.U_HIGH] - morsels[:, abi.U_LOW]).sum()) == asked.total_docs,
        executor=executor,
        keep_alive=keep_alive,
        dictionaries=dictionaries,
        is_final=is_final,
        # Docs of lists have passed the condition of their index.
        share=1.0 if morsels[:, abi.U_LIST].any() else estimated_share(tree),
    )
    if not late or not len(morsels):
        return plan
    enough = context.offset + context.limit if context.kind is QueryKind.SELECTION and not context.order_by else None
    return materialize_selection(plan, [bound.on_docs for bound in late], wanted=enough)


def count_pruned(statistics: Statistics, facts: Known) -> None:
    statistics.num_segments_pruned = int(facts.prune.sum())
    statistics.num_segments_pruned_by_bloom_filter = int((facts.rule == BY_BLOOM).sum())
    statistics.num_segments_pruned_by_partition = int((facts.rule == BY_PARTITION).sum())


def _split_late(tree: Resolved) -> tuple[Resolved | None, list[InterpretedPredicate]]:
    """The filter without the conditions under AND that Python computes, and those: they see only docs that the rest
    keeps.
    """
    bound_predicates = conjuncts(tree)
    late = [bound for bound in bound_predicates if isinstance(bound, InterpretedPredicate) and bound.is_late]
    rest: list[Resolved] = [
        bound for bound in bound_predicates if not isinstance(bound, InterpretedPredicate) or not bound.is_late
    ]
    if not late:
        return tree, []
    return (ResolvedAll(rest) if rest else None), late


def _morsels(segments: Int64Array, docs: Int64Array) -> Int64Array:
    morsels = np.zeros((len(segments), abi.MORSEL_WORDS), np.int64)
    morsels[:, abi.U_SEGMENT] = segments
    morsels[:, abi.U_HIGH] = docs[segments]
    return morsels


def _clip_to_sorted(morsels: Int64Array, tree: Resolved) -> Int64Array:
    """A predicate on a sorted column under AND is a run of docs: the morsel shrinks to it and the predicate holds
    everywhere.
    """
    for bound in conjuncts(tree):
        if not isinstance(bound, BoundPredicate) or bound.negated or not bound.sorted.any():
            continue
        at = morsels[:, abi.U_SEGMENT]
        usable = bound.sorted[at]
        runs = bound.docs[at[usable]]
        morsels[usable, abi.U_LOW] = np.maximum(morsels[usable, abi.U_LOW], runs[:, 0])
        morsels[usable, abi.U_HIGH] = np.minimum(morsels[usable, abi.U_HIGH], runs[:, 1])
        bound.mode[at[usable]] = PREDICATE_ALWAYS
    return morsels[morsels[:, abi.U_LOW] < morsels[:, abi.U_HIGH]]


def deal(morsels: Int64Array, threads: int) -> tuple[Int64Array, Int64Array]:
    """Contiguous slices of about equal numbers of docs; a morsel at a border is cut. Gives morsels and starts (threads
    + 1).
    """
    dealt: tuple[Int64Array, Int64Array] = planner.deal(morsels, threads, DOCS_PER_THREAD_MIN)
    return dealt


def _compute(
    tree: Resolved,
    morsels: Int64Array,
    metas: ColumnMetas,
    control: QueryControl,
    threads: int,
    executor: Executor | None,
) -> int:
    """Let the predicates that need Python compute their flags, a segment a job; gives the number of values read."""
    needed = [bound for bound in predicates_of(tree) if isinstance(bound, InterpretedPredicate) or bound.computed.any()]
    if not needed:
        return 0
    entries: list[int] = []
    ranges: dict[int, tuple[int, int]] = {}
    for segment, low, high, listed in morsels[:, [abi.U_SEGMENT, abi.U_LOW, abi.U_HIGH, abi.U_LIST]].tolist():
        # The low and high of a list are positions in it.
        first, end = (0, metas.segments[segment].num_docs) if listed else (low, high)
        known_first, known_end = ranges.get(segment, (first, end))
        ranges[segment] = min(first, known_first), max(end, known_end)

    def run(bound: BoundPredicate | InterpretedPredicate, segment: int, first: int, end: int) -> None:
        entries.append(bound.compute(segment, metas, control, first, end))

    jobs: list[Callable[[], None]] = [
        partial(run, bound, segment, first, end) for bound in needed for segment, (first, end) in ranges.items()
    ]
    run_jobs(jobs, threads=threads, executor=executor)
    return sum(entries)


def emit_filter(condition: Filter, shape: Shape, register: int) -> None:
    """Instructions of a FILTER (WHERE …): its predicates over the selected docs, the outcome as flags in a register."""
    plan = shape.plan
    tree = resolve_tree(normal_form(condition, plan.context), plan.context, plan.metas, plan.control)
    plan.keep_alive.append(tree)
    plan.statistics.num_entries_scanned_in_filter += _compute(
        tree, plan.morsels[shape.morsels], plan.metas, plan.control, plan.num_threads, plan.executor
    )
    program = Instructions()
    written = emit_tree(tree, program, shape.segments, plan.metas)
    shape.emit(filter_clause.enter.address)
    shape.extend(program)
    shape.emit(filter_clause.leave.address, register, RESULT if written else -1)
