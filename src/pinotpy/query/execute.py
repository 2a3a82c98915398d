"""What a server does with a query: plan the scan of its segments, run the operator of its kind, give a
PartialResult.

A query runs over one or more sets of segments (ADR 18). Each has plans of its own, so that what one set keeps for later
queries does not depend on the others; what the plans give is merged by value, as the answers of servers are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Dialect
from pinotpy.query.explain.plans import explain_sets
from pinotpy.query.filter.nulls_as_values import NullsRead, columns_read_as_values
from pinotpy.query.filter.planner import FilterPlan
from pinotpy.query.group.distinct import run_distinct
from pinotpy.query.group.group_by import run_group_by
from pinotpy.query.group.top_n_groups import pays_off_to_choose
from pinotpy.query.group.ungrouped import run_aggregation
from pinotpy.query.model.context import QueryContext, QueryKind
from pinotpy.query.model.options import columns_without_nulls
from pinotpy.query.order.segment_order import in_order_of_values
from pinotpy.query.order.select import run_selection
from pinotpy.query.plan.build import build_scan, plan_filter, scan_of
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.plan.star_tree.plans import plans_of
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.merge_memory import plan_merge
from pinotpy.query.result.partial import PartialResult, Statistics
from pinotpy.query.result.reduce import without_hidden_groups
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.trace import stage
from pinotpy.query.segments.column_kinds import check_kinds
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.query.segments.segment_sets import SegmentSets
from pinotpy.segment.data_source import Column, Segment
from pinotpy.segment.shared_codes.cache import SharedDictionaries
from pinotpy.segment.virtual import CompletedSegment, ConstantColumn, virtual_column


def execute(
    context: QueryContext,
    segments: Sequence[Segment],
    control: QueryControl,
    *,
    threads: int = 1,
    executor: Executor | None = None,
    host: str = "localhost",
    dictionaries: SharedDictionaries | None = None,
    is_final: bool = False,
) -> PartialResult:
    """The answer of these segments to the query, with its statistics.

    Args:
        segments: one set, or several (SegmentSets), which are read in their order.
        threads: at most so many scan at once, the calling one among them; the others come from `executor` (None: one
            thread).
        host: what $hostName reads.
        is_final: the answer is made of this result alone, so that groups that it cannot show may be left out,
            and states keep no more than `finish` reads (functions/state/plans.py).
        dictionaries: shared dictionaries of the tables' values that make merging cheap; None: everything is merged by
            value.

    Raises:
        UnknownColumnError, InvalidQueryError, QueryExecutionError: the query does not fit the segments.
        QueryTimeoutError, QueryCancelledError, MemoryLimitError: the control ended it.
    """
    wall, cpu = time.monotonic_ns(), time.thread_time_ns()
    control.check()
    asked = SegmentSets.of(segments)
    names = [column.name for column in context.columns]
    check_kinds(context, asked)
    wanted = asked
    if not all(all(map(one.has_column, names)) for one in asked.sets):
        wanted = SegmentSets([_with_all_columns(context, one, host) for one in asked.sets])
    if context.kind is QueryKind.SELECTION and not context.order_by and context.filter is None and not asked.hides_rows:
        wanted = _enough(wanted, context.offset + context.limit)
    allowed = threads if context.options.max_threads is None else min(threads, max(context.options.max_threads, 1))
    if context.explain:

        def planned(query: QueryContext, some: SegmentSet) -> tuple[FilterPlan, ScanPlan]:
            chosen = plan_filter(query, some, control, threads=allowed if executor is not None else 1)
            counts = Statistics(num_segments_queried=len(some), total_docs=some.total_docs)
            final = is_final and len(asked.sets) == 1
            return chosen, scan_of(
                query, chosen, control, counts, executor=executor, dictionaries=dictionaries, is_final=final
            )

        return explain_sets(context, asked, wanted, control, planned)
    if context.limit == 0 and (
        context.dialect is Dialect.SQL or context.kind in (QueryKind.SELECTION, QueryKind.DISTINCT)
    ):
        # Only the names and types are asked for, and the broker knows them.
        counters = Statistics(num_segments_queried=len(asked), total_docs=asked.total_docs)
        counters.processed(asked.counted())
        return PartialResult(statistics=counters)

    read_as_values = columns_read_as_values(context, wanted.sets)
    nulls = NullsRead(read_as_values)

    def run(some: SegmentSets) -> PartialResult:
        # What one of several sets gives is no answer yet.
        alone = is_final and len(some.sets) == 1

        def scan(segments: SegmentSet, is_alone: bool) -> ScanPlan:
            whole = alone and is_alone
            return build_scan(
                context,
                segments,
                control,
                threads=allowed,
                executor=executor,
                dictionaries=dictionaries,
                is_final=whole,
            )

        with stage(control.trace, "PLAN") as planning:
            plans = [
                plan
                for one in some.sets
                for plan in plans_of(
                    context,
                    one,
                    control,
                    scan,
                    threads=allowed,
                    executor=executor,
                    dictionaries=dictionaries,
                    is_final=alone,
                )
            ]
            if read_as_values:
                for one, read in _read_by(plans, some):
                    nulls.read(one, read)
            if control.docs_max is not None:
                control.will_read(sum(plan.docs_to_read for plan in plans))
            pruned, used = (
                sum(plan.statistics.num_segments_pruned for plan in plans),
                max(plan.num_threads for plan in plans),
            )
            # Of segments that consume these are pieces.
            planning.note(segmentsIn=len(some), segmentsOut=len(some) - pruned, threads=used)
        with stage(control.trace, context.kind.value) as operating:
            partials = _run_all(context, plans)
            partial = partials[0] if len(partials) == 1 else _merged(context, partials, control)
            if is_final and context.kind is QueryKind.GROUP_BY and pays_off_to_choose(context, partial.num_rows):
                assert partial.rows is not None
                partial.rows = without_hidden_groups(context, partial.rows)
            docs, rows = partial.statistics.num_docs_scanned, partial.num_rows
            operating.note(docsIn=docs, rowsOut=rows)
            operating.rest("COMBINE", rowsOut=rows)
            return partial

    partial = None
    if context.kind is QueryKind.SELECTION and context.order_by:
        partial = in_order_of_values(context, wanted, run)
    if partial is None:
        partial = run(wanted)
    for check in control.checks:
        check(control)
    control.check()
    partial.nulls_as_values = nulls.counts()
    statistics = partial.statistics
    statistics.num_segments_queried, statistics.total_docs = len(asked), asked.total_docs
    statistics.num_segments_pruned += len(asked) - len(wanted)
    statistics.execution_ns += time.monotonic_ns() - wall
    statistics.cpu_ns += time.thread_time_ns() - cpu
    return partial


def _merged(context: QueryContext, partials: list[PartialResult], control: QueryControl) -> PartialResult:
    """What all plans gave; the merge is charged to the query while it lasts. Raises MemoryLimitError."""
    size_bytes = plan_merge(context, partials, at_once=True).size_bytes
    try:
        control.reserve(size_bytes)
        return merge_partials(context, partials)
    finally:
        control.release(size_bytes)


def _read_by(plans: list[ScanPlan], some: SegmentSets) -> list[tuple[SegmentSet, Int64Array]]:
    """The segments that plans read, as rows of sets; star-trees stand for segments of a set, here for all of it."""
    if any(plan.pre_aggregated for plan in plans):
        return [(one, np.arange(len(one))) for one in some.sets]
    return [(plan.segments, np.unique(plan.morsels[:, abi.U_SEGMENT])) for plan in plans]


def _run_all(context: QueryContext, plans: list[ScanPlan]) -> list[PartialResult]:
    """What each plan gives. Of a selection without order every plan is asked only for the rows that those before it
    lack.
    """
    operator = _OPERATORS[context.kind]
    if len(plans) == 1 or context.kind is not QueryKind.SELECTION or context.order_by:
        return [operator(plan) for plan in plans]
    partials = list[PartialResult]()
    num_missing = context.offset + context.limit
    for plan in plans:
        plan.context = replace(context, offset=0, limit=num_missing)
        partials.append(operator(plan) if num_missing else PartialResult(statistics=plan.statistics))
        num_missing -= partials[-1].num_rows
    return partials


_OPERATORS: Final = {
    QueryKind.SELECTION: run_selection,
    QueryKind.DISTINCT: run_distinct,
    QueryKind.AGGREGATION: run_aggregation,
    QueryKind.GROUP_BY: run_group_by,
}


def _with_all_columns(context: QueryContext, segments: SegmentSet, host: str) -> SegmentSet:
    """The segments, each with all columns of the query."""
    names = [column.name for column in context.columns]
    if all(map(segments.has_column, names)):
        return segments
    without_nulls = frozenset(columns_without_nulls(context.options))
    return SegmentSet(
        [
            segment if all(map(segment.has_column, names)) else _completed(segment, context, host, without_nulls)
            for segment in segments
        ],
        are_parts=segments.are_parts,
    )


def _completed(segment: Segment, context: QueryContext, host: str, without_nulls: frozenset[str]) -> Segment:
    """The segment with the columns of the query that it does not store: virtual ones, and those that the table got
    later. These are as a segment of today would have them of rows without a value: null where the table keeps the nulls
    of the column, else the default.
    """
    added: dict[str, Column] = {}
    for column in context.columns:
        if segment.has_column(column.name):
            continue
        if column.name.startswith("$"):
            added[column.name] = virtual_column(column.name, segment, host)
        elif column.default_null is not None:
            added[column.name] = ConstantColumn(
                column.name,
                column.data_type,
                column.default_null,
                segment.num_docs,
                single_value=column.single_value,
                is_default=True,
                all_null=column.name not in without_nulls,
            )
    return CompletedSegment(segment, added) if added else segment


def _enough(segments: SegmentSets, num_docs: int) -> SegmentSets:
    """The first segments that hold `num_docs` docs together; at least one, for the types of its columns."""
    taken = int(np.searchsorted(np.cumsum(segments.docs), num_docs)) + 1
    return segments if taken >= len(segments) else segments.take(np.arange(taken))
