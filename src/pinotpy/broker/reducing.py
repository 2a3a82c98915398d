"""Merging what servers answered: on the event loop where it is little, else on a thread, in the query's memory."""

from __future__ import annotations

import asyncio
import functools
from typing import Any, Final

from pinotpy.broker.parts import Broker
from pinotpy.broker.plan_cache import Plan
from pinotpy.broker.query_memory import QueryMemory
from pinotpy.broker.rows_of_streams import SEGMENTS_MISSING
from pinotpy.broker.scatter import Gathered
from pinotpy.errors import QueryCancelledError, QueryTimeoutError
from pinotpy.query.model.context import QueryContext, QueryOptions
from pinotpy.query.model.options import response_bytes_max
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.explained_answer import explanation
from pinotpy.query.result.merge_memory import MergePlan, plan_merge
from pinotpy.query.result.partial import PartialResult, QueryException, Statistics
from pinotpy.query.result.partitioned_merge import merge_by_partitions
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.result.reduced import ReducedResult
from pinotpy.query.result.response.envelope import Envelope
from pinotpy.query.result.small_answers import shown_small
from pinotpy.query.runtime.trace import Entry, Laps, trace_text

# Codes that leave a partial answer: segments or servers that could not be reached.
KEEPS_ROWS: Final = frozenset({SEGMENTS_MISSING, 425, 427})
INLINE_REDUCE_BYTES_MAX: Final = 64 << 10


def check_size(options: QueryOptions, gathered: Gathered) -> None:
    """Raise QueryCancelledError if servers returned more bytes than the query allows."""
    allowed = response_bytes_max(options)
    if allowed is None:
        return
    num_bytes = sum(partial.num_bytes for _, partial in gathered.partials)
    if num_bytes > allowed:
        raise QueryCancelledError(
            f"Serialized query response size {num_bytes} exceeds threshold {allowed}: ask for fewer rows, or raise "
            "maxQueryResponseSizeBytes"
        )


def reduced_small(
    broker: Broker, plan: Plan, gathered: Gathered, envelope: Envelope, deadline_ns: int
) -> dict[str, Any] | None:
    """The rows in the form of the answer, if one server gave all of it, without errors, and the result is small;
    otherwise None, and nothing is done.
    """
    if len(gathered.partials) != 1 or gathered.failures or gathered.missing or len(gathered.asked) != 1:
        return None
    partial = gathered.partials[0][1]
    if partial.exceptions or partial.trace:
        return None
    short = plan.short_answer()
    start_ns = broker.clock.monotonic_ns()
    shown = None if short is None else shown_small(short, partial)
    if shown is not None:
        envelope.num_servers_queried = envelope.num_servers_responded = 1
        envelope.statistics = partial.statistics
        end_ns = broker.clock.monotonic_ns()
        envelope.reduce_time_ms = (end_ns - start_ns) // 1_000_000
        if end_ns > deadline_ns:
            raise written_too_late()
    return shown


def written_too_late() -> QueryTimeoutError:
    return QueryTimeoutError(
        "the query's time was up while its answer was written: raise timeoutMs, or ask for fewer rows or columns"
    )


async def reduce_answers(
    broker: Broker,
    context: QueryContext,
    gathered: Gathered,
    envelope: Envelope,
    laps: Laps,
    deadline_ns: int,
    memory: QueryMemory,
) -> ReducedResult | None:
    """Merge the partial results; fill the envelope; None if an error forbids showing rows.

    Raises: QueryTimeoutError when a large answer is not reduced by the deadline; MemoryLimitError; what functions
    raise.
    """
    envelope.num_servers_queried = len(gathered.asked)
    envelope.num_servers_responded = len(gathered.responded & gathered.asked)
    envelope.missing_segments = tuple(sorted(gathered.missing))
    partials = [partial for _, partial in sorted(gathered.partials, key=lambda item: item[0])]
    for partial in partials:
        envelope.statistics.add(partial.statistics)
        envelope.exceptions += [e for e in partial.exceptions if e not in envelope.exceptions]
    for server, error in gathered.failures:
        entry = QueryException(
            error.code, f"{error.message} (server '{server}')" if server not in error.message else error.message
        )
        envelope.exceptions += [] if entry in envelope.exceptions else [entry]
    if gathered.missing:
        shown = ", ".join(envelope.missing_segments[:10]) + (" …" if len(gathered.missing) > 10 else "")
        envelope.exceptions.append(
            QueryException(
                SEGMENTS_MISSING,
                f"{len(gathered.missing)} segments unavailable: [{shown}]: no replica of them answered",
            )
        )
    traces: dict[str, list[Entry]] = {}
    for server, partial in gathered.partials:
        if partial.trace:
            traces.setdefault(server, []).extend(partial.trace)
    envelope.trace = {server: trace_text(stages) for server, stages in traces.items()}
    if any(e.code not in KEEPS_ROWS for e in envelope.exceptions):
        return None  # servers that refuse count no docs, so those of pruned segments do not count either
    envelope.statistics.total_docs += gathered.num_docs_pruned
    if context.explain:
        envelope.explanation = explanation(context, [partial.explain for partial in partials])
        return None

    start_ns = broker.clock.monotonic_ns()
    result, counted = await _merged(broker, context, partials, laps, deadline_ns, memory)
    envelope.reduce_time_ms = int((broker.clock.monotonic_ns() - start_ns) / 1e6)
    # Several servers together may have more groups than the limit: what was left out here is told as what a server
    # leaves out.
    envelope.statistics.num_groups_limit_reached = counted.num_groups_limit_reached
    envelope.statistics.num_rows_of_cut_groups = counted.num_rows_of_cut_groups
    return result


async def _merged(
    broker: Broker,
    context: QueryContext,
    partials: list[PartialResult],
    laps: Laps,
    deadline_ns: int,
    memory: QueryMemory,
) -> tuple[ReducedResult, Statistics]:
    """The answer, and the counters of the merge. Raises as `reduce_answers`."""

    def check() -> None:
        if broker.clock.monotonic_ns() > deadline_ns:
            raise _merged_too_late()

    def reduced(plan: MergePlan) -> tuple[ReducedResult, Statistics]:
        merged = (
            merge_by_partitions(context, partials, plan.num_partitions, check)
            if plan.is_partitioned
            else merge_partials(context, partials)
        )
        laps.lap("MERGE", rowsOut=merged.num_rows)
        result = reduce_partials(context, merged)
        laps.lap("REDUCE", rowsOut=max([result.num_rows, *(len(groups.value.values) for groups in result.group_lists)]))
        return result, merged.statistics

    if sum(partial.num_bytes for partial in partials) <= INLINE_REDUCE_BYTES_MAX:
        return reduced(MergePlan(0))
    left_s = max((deadline_ns - broker.clock.monotonic_ns()) / 1e9, 0)
    plan = plan_merge(context, partials)
    await memory.take(plan.size_bytes, "the merge of its servers' answers", left_s)
    work = memory.lent(plan.size_bytes, functools.partial(reduced, plan))
    try:
        # A thread cannot be stopped: past the deadline it ends on its own, for nobody.
        return await asyncio.wait_for(broker.run_apart(work, plan.size_bytes), left_s)
    except TimeoutError as error:
        raise _merged_too_late() from error


def _merged_too_late() -> QueryTimeoutError:
    return QueryTimeoutError(
        "the query's time was up while answers were merged: raise timeoutMs, or ask for fewer groups or rows"
    )
