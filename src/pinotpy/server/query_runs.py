"""Running a query over the segments that a server holds for it: while they are held, with what it met told.

A segment that is found damaged is not served any more, and the query runs again without it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor

from pinotpy.clock import Clock
from pinotpy.errors import PinotError, QueryExecutionError, SegmentCorruptError, hide_paths
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryContext
from pinotpy.query.result.partial import PartialResult, QueryException
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.trace import stage
from pinotpy.rpc.wire import FLAG_FINAL, ServerRequest
from pinotpy.segment.data_source import Segment
from pinotpy.segment.immutable import ImmutableSegment
from pinotpy.segment.shared_codes.cache import SharedDictionaries
from pinotpy.server.given_rows import given_segment
from pinotpy.server.tables.registry import SegmentRegistry

log = logging.getLogger(__name__)
OnDamage = Callable[[str, ImmutableSegment | None, SegmentCorruptError], None]
# A query that finds so many damaged segments, one after the other, ends with the last of them.
DAMAGED_MAX = 16


class _WithdrawnError(Exception):
    """A segment that the query read is damaged and not served any more: the query can be run again without it."""


class QueryRuns:
    """Runs queries over the segments of `registry`; any thread."""

    def __init__(
        self,
        registry: SegmentRegistry,
        clock: Clock,
        *,
        threads_max: int,
        executor: Executor | None,
        host: str,
        dictionaries: SharedDictionaries | None,
        on_damage: OnDamage,
    ) -> None:
        """threads_max, executor: of kernels, for one query. on_damage: told when a query met damaged bytes: the table,
        the segment that is not served any more because of them (None where it is not known which), and what was found.
        """
        self._registry = registry
        self._clock = clock
        self._threads_max = threads_max
        self._executor = executor
        self._host = host
        self._dictionaries = dictionaries
        self._on_damage = on_damage

    def run(self, request: ServerRequest, context: QueryContext, control: QueryControl) -> PartialResult:
        """The partial result; a fault of the query is in it. Without segments that turned out damaged meanwhile, which
        are named as missing. Raises QueryExecutionError if that happens too often.
        """
        for _ in range(DAMAGED_MAX):
            try:
                return self._run_once(request, context, control)
            except _WithdrawnError:
                pass  # the answer lacks the segment, so that the broker asks another replica for it
            # Here the error is gone, and with it the tables of the run that it ended.
            control.run_again()
        raise QueryExecutionError(
            f"more than {DAMAGED_MAX} segments of '{request.table_name_with_type}' that the query reads are damaged; "
            "they are being replaced: ask again"
        )

    def _run_once(self, request: ServerRequest, context: QueryContext, control: QueryControl) -> PartialResult:
        """Raises _WithdrawnError if a segment was found damaged and is not served any more."""
        table = request.table_name_with_type
        held = (
            given_segment(request)
            if request.given_rows
            else self._registry.acquire(table, request.segment_names, request.num_consuming)
        )
        with held as acquired:
            cpu_start_ns = time.thread_time_ns()
            start_ns = self._clock.monotonic_ns()
            threads = min(self._threads_max, context.options.max_threads or self._threads_max)
            try:
                with stage(control.trace, "EXECUTE") as executing, control.on_this_thread():
                    executing.note(segments=len(acquired.segments), totalDocs=acquired.segments.total_docs)
                    partial = execute(
                        context,
                        acquired.segments,
                        control,
                        threads=threads,
                        executor=self._executor,
                        host=self._host,
                        # What codes of a system table's values are kept for serves no later query.
                        dictionaries=None if request.given_rows else self._dictionaries,
                        is_final=bool(request.flags & FLAG_FINAL) and not acquired.missing,
                    )
            except PinotError as error:
                if isinstance(error, SegmentCorruptError):
                    self._damaged(table, acquired.segments, error)
                partial = PartialResult(exceptions=[QueryException(error.code, _shown(error))])
                partial.statistics.num_segments_queried = len(acquired.segments)
                # What ran is counted by `execute`; of what failed, this is all that is known.
                partial.statistics.cpu_ns = time.thread_time_ns() - cpu_start_ns
                partial.statistics.execution_ns = self._clock.monotonic_ns() - start_ns
        partial.missing_segments = list(acquired.missing)
        if acquired.offsets:
            partial.partition_offsets = list(acquired.offsets)
            acquired.in_segments(partial, is_explained=context.explain)
        if control.trace is not None:
            partial.trace = control.trace.stages()
        return partial

    def _damaged(self, table: str, segments: Iterable[Segment], damage: SegmentCorruptError) -> None:
        log.error("a query found damaged bytes table=%s reason=%s", table, damage.message)
        name = damage.context.get("segment")
        segment = next((one for one in segments if one.name == name and isinstance(one, ImmutableSegment)), None)
        if segment is not None and self._registry.withdraw(table, segment):
            self._on_damage(table, segment, damage)
            raise _WithdrawnError
        if segment is None or self._registry.segment(table, segment.name) is segment:
            self._on_damage(table, None, damage)
            return
        raise _WithdrawnError  # another query was faster, or there is a new version


def _shown(error: PinotError) -> str:
    """The text of an error for clients: internal errors are logged in full and shown without local paths."""
    if error.http_status < 500:
        return error.message
    log.warning("query failed error=%s code=%d context=%s", error, error.code, error.context)
    return hide_paths(error.message)
