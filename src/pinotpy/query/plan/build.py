"""From a query and its segments to a ScanPlan: plan the filter, compute what only Python can, assemble the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final

from pinotpy.arrays import Int64Array
from pinotpy.kernels.filter import filter_clause
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.bound_predicate import BoundPredicate
from pinotpy.query.filter.interpreted import InterpretedPredicate
from pinotpy.query.filter.normal_form import normal_form
from pinotpy.query.filter.planner import FilterPlan, select_segments
from pinotpy.query.filter.tree import RESULT, emit_tree, predicates_of, resolve_tree
from pinotpy.query.model.context import Filter, QueryContext, QueryKind
from pinotpy.query.plan.scan_plan import ScanPlan, Shape
from pinotpy.query.plan.selection_list import materialize_selection
from pinotpy.query.result.partial import Statistics
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.instructions import Instructions
from pinotpy.query.runtime.parallel import Workers, run_pieces
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
    dictionaries: SharedDictionaries | None = None,
    is_final: bool = False,
) -> ScanPlan:
    """The plan of a query over `segments`.

    Raises: UnknownColumnError; for literals and patterns what predicate.typed_predicate raises; what `control.check`
    raises; for conditions that Python computes what their functions raise.
    """
    asked = SegmentSet.of(segments)
    chosen = plan_filter(context, asked, control, threads=threads if executor is not None else 1)
    statistics = Statistics(num_segments_queried=len(asked), total_docs=asked.total_docs)
    chosen.count(statistics)
    own_conjuncts = chosen.own()
    if own_conjuncts:
        computed = [bound for _, node in own_conjuncts for bound in predicates_of(node)]
        statistics.num_entries_scanned_in_filter += _compute(
            computed, chosen.morsels, chosen.metas, control, len(chosen.starts) - 1, executor
        )
    plan = scan_of(
        context, chosen, control, statistics, executor=executor, dictionaries=dictionaries, is_final=is_final
    )
    if not chosen.late or not plan.num_morsels:
        return plan
    enough = context.offset + context.limit if context.kind is QueryKind.SELECTION and not context.order_by else None
    return materialize_selection(plan, [bound.on_docs for bound in chosen.late], wanted=enough)


def plan_filter(context: QueryContext, asked: SegmentSet, control: QueryControl, *, threads: int = 1) -> FilterPlan:
    """All that is decided on the filter of a query before docs are read. Raises what `build_scan` raises."""
    chosen = select_segments(context, asked, control)
    chosen.use_indexes(control)
    chosen.deal(control, threads=threads, thread_docs_min=DOCS_PER_THREAD_MIN)
    return chosen


def scan_of(
    context: QueryContext,
    chosen: FilterPlan,
    control: QueryControl,
    statistics: Statistics,
    *,
    executor: Executor | None = None,
    dictionaries: SharedDictionaries | None = None,
    is_final: bool = False,
) -> ScanPlan:
    """The scan that a filter plan decided on, without what is late in it. It can be run if Python computed what its
    own instructions read.
    """
    program = chosen.program()
    segments, metas, morsels = chosen.narrowed()
    return ScanPlan(
        context=context,
        segments=segments,
        control=control,
        metas=metas,
        morsels=morsels,
        starts=chosen.starts,
        filter_program=program,
        statistics=statistics,
        emit_filter=emit_filter,
        reads_all_rows=not (program.shape[1] or chosen.late or chosen.is_listed)
        and chosen.num_docs == statistics.total_docs,
        executor=executor,
        keep_alive=[chosen, metas],
        dictionaries=dictionaries,
        is_final=is_final,
        share=chosen.share(),
    )


def _compute(
    predicates: Iterable[BoundPredicate | InterpretedPredicate],
    morsels: Int64Array,
    metas: ColumnMetas,
    control: QueryControl,
    threads: int,
    executor: Executor | None,
) -> int:
    """Let those of the predicates that need Python compute their flags, a segment a job; gives the number of values
    read.
    """
    needed = [bound for bound in predicates if isinstance(bound, InterpretedPredicate) or bound.computed.any()]
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
    run_pieces(Workers(control, threads, executor), jobs)
    return sum(entries)


def emit_filter(condition: Filter, shape: Shape, register: int) -> None:
    """Instructions of a FILTER (WHERE …): its predicates over the selected docs, the outcome as flags in a register."""
    plan = shape.plan
    tree = resolve_tree(normal_form(condition, plan.context), plan.context, plan.metas, plan.control)
    plan.keep_alive.append(tree)
    plan.statistics.num_entries_scanned_in_filter += _compute(
        predicates_of(tree), plan.morsels[shape.morsels], plan.metas, plan.control, plan.num_threads, plan.executor
    )
    program = Instructions()
    written = emit_tree(tree, program, shape.segments, plan.metas)
    shape.emit(filter_clause.enter.address)
    shape.extend(program)
    shape.emit(filter_clause.leave.address, register, RESULT if written else -1)
