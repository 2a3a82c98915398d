"""One query on a server: bytes in, bytes out.

decode → wait for a slot → hold the segments and execute (query_runs.py) → encode. A fault of the query (a bad literal,
a limit) comes back inside the partial result, with the counters of what ran; only a fault of the server itself is an
RPC error.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from pinotpy.clock import Clock
from pinotpy.errors import OutOfCapacityError, QueryCancelledError, QueryExecutionError, QueryTimeoutError
from pinotpy.kernels.demand import KernelMissingError
from pinotpy.memory.budget import ProcessBudget
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.context_codec import decode_context
from pinotpy.query.model.deadline import SERVER_TIMEOUT_SETTING
from pinotpy.query.model.user_functions import check_user_functions
from pinotpy.query.result.partial import PartialResult, QueryException
from pinotpy.query.runtime.control import QueryControl, TooManyDocsError
from pinotpy.query.runtime.trace import Trace
from pinotpy.rpc.wire import (
    FLAG_COMPACT_ROWS,
    FLAG_TRACE,
    KIND_OFFSET,
    UNKNOWN_TEMPLATE,
    RequestKind,
    ServerRequest,
    bound_digest,
    decode_bound,
    decode_request,
)
from pinotpy.segment.shared_codes.cache import SharedDictionaries
from pinotpy.server.idle_memory import IdleMemory
from pinotpy.server.inline_queries import is_counted, is_plain
from pinotpy.server.kernel_waits import KernelWaits
from pinotpy.server.memory_turns import MemoryTurns
from pinotpy.server.metrics import ServerMetrics
from pinotpy.server.query_runs import OnDamage, QueryRuns
from pinotpy.server.query_templates import FEW_SEGMENTS_MAX, LONG_CPU_NS, QueryTemplate, QueryTemplates
from pinotpy.server.scheduler import QueryScheduler
from pinotpy.server.tables.registry import SegmentRegistry

T = TypeVar("T")
log = logging.getLogger(__name__)
SLOW_QUERY_MS = 1000
# A query over at most this much takes a few milliseconds whatever it computes, so it need not queue behind large ones.
SMALL_DOCS_MAX = 100_000
SMALL_SEGMENTS_MAX = 64
# Scanned in about 0.1 ms: less than a hand-over to another thread and back.
QUICK_DOCS_MAX = 250_000
# … and for a sorted selection, whose rows are compared key by key.
QUICK_SORTED_DOCS_MAX = 30_000
_BOUND = bytes([RequestKind.BOUND])
# A template that comes with its first query is decoded on the connection's thread up to this size: a COUNT(*) that
# nobody asked before would else wait behind large queries.
READ_HERE_MAX_BYTES = 4 << 10
# Decoded contexts up to this size are cached: dashboards repeat their queries. Contexts are immutable.
SHORT_CONTEXT_BYTES = 4 << 10
SHORT_CONTEXTS_MAX = 256
# A cancel may arrive before its query has started here, during a thread hand-over: it is kept for this long, and at
# most this many are.
EARLY_CANCEL_NS = 1_000_000_000
EARLY_CANCELS_MAX = 1_024


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Ceilings of this server; a query may lower them.

    timeout_ms: longest a query may run here. memory_max_bytes: budget of one query (setting query_memory_max_bytes).
    threads: kernel threads one query may use. groups_max: groups of one query, 0 = no limit. response_bytes_max:
    longest answer, as bytes on the wire.
    """

    timeout_ms: int
    memory_max_bytes: int
    threads: int
    groups_max: int = 0
    response_bytes_max: int = 256 << 20


class QueryService:
    """Answers queries over the segments of `registry`. Shared by RPC threads; the lock guards `_running` and
    `_cancelled`. `on_damage`: see `QueryRuns`. `memory`: the budget of the process. `kernels`: waits for those that are
    not compiled; None: their callers compile.
    """

    def __init__(
        self,
        registry: SegmentRegistry,
        scheduler: QueryScheduler,
        limits: QueryLimits,
        clock: Clock,
        metrics: ServerMetrics,
        kernel_threads: Executor | None,
        host: str = "localhost",
        dictionaries: SharedDictionaries | None = None,
        on_damage: OnDamage = lambda table, segment, damage: None,
        memory: ProcessBudget | None = None,
        kernels: KernelWaits | None = None,
    ) -> None:
        self._registry = registry
        self._scheduler = scheduler
        self._limits = limits
        self._clock = clock
        self._metrics = metrics
        self._runs = QueryRuns(
            registry,
            clock,
            threads_max=limits.threads,
            executor=kernel_threads,
            host=host,
            dictionaries=dictionaries,
            on_damage=on_damage,
        )
        self._kernels = kernels
        self._memory = ProcessBudget(0) if memory is None else memory
        self._turns = MemoryTurns(self._memory, limits.memory_max_bytes)
        self._idle_memory = IdleMemory()
        self._templates = QueryTemplates(self._decode)
        self._decode_short = lru_cache(SHORT_CONTEXTS_MAX)(self._decode)
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], QueryControl] = {}
        # Queries that did not run when they were cancelled, and when.
        self._cancelled = OrderedDict[tuple[str, int], int]()

    def handle(self, content: bytes, deadline_s: float, peer: str) -> bytes:
        """The handler of the RPC server; `deadline_s` is how long the caller waits at most, in seconds."""
        if content[KIND_OFFSET] == RequestKind.BOUND:
            bound = decode_bound(content)
            template = self._templates.find(bound)
            if template is None:
                return UNKNOWN_TEMPLATE
            request = template.request_of(bound)
            is_quick = template.is_counted or (template.expectation.last_was_quick and self._has_few_docs(template))
            return self.answer(
                request,
                deadline_s,
                template.context_of(bound),
                is_quick=is_quick,
                finish=lambda partial: self._encoded(request, partial, template),
            )
        request = decode_request(content)
        return self.answer(request, deadline_s, finish=lambda partial: self._encoded(request, partial))

    def handle_quickly(self, content: bytes, deadline_s: float, peer: str) -> bytes | None:
        """As `handle`, but inline on the connection's reader thread, for cheap queries only: of a known template that
        kernels alone answer (server/query_templates.py), over few docs, whose last query took little CPU, since docs
        say nothing about the number of groups or the length of texts.

        None if the query is of another kind; then nothing has been done. On a large table, it is abandoned here if its
        plan reads too many docs.
        """
        if content[KIND_OFFSET : KIND_OFFSET + 1] != _BOUND:
            return self._counted(content, deadline_s)
        template = self._templates.peek(bound_digest(content))
        if template is None and len(content) <= READ_HERE_MAX_BYTES:
            template = self._templates.find(decode_bound(content))
        if template is None:
            return None
        if not template.is_plain or not (template.is_counted or template.expectation.is_quick()):
            return None
        bound = decode_bound(content)
        if self._templates.find(bound) is None:  # keeps it among those used last
            return None
        request = template.request_of(bound)
        docs_max = (
            None
            if template.is_counted or self._has_few_docs(template)
            else QUICK_SORTED_DOCS_MAX
            if template.is_sorted
            else QUICK_DOCS_MAX
        )
        try:
            return self.answer(
                request,
                deadline_s,
                template.context_of(bound),
                is_quick=True,
                docs_max=docs_max,
                may_wait=False,
                finish=lambda partial: self._encoded(request, partial, template, is_quick=True),
            )
        except TooManyDocsError:
            template.expectation.failed()
            return None
        except KernelMissingError:
            return None  # waited for elsewhere: other queries of this connection are behind this one

    def _counted(self, content: bytes, deadline_s: float) -> bytes | None:
        """As `handle_quickly`, of a query that comes whole, as the first ones of a template do; only COUNT(*)."""
        if content[KIND_OFFSET] != RequestKind.QUERY or len(content) > READ_HERE_MAX_BYTES:
            return None
        request = decode_request(content)
        context = self._decode_short(request.context)
        if len(request.segment_names) > FEW_SEGMENTS_MAX or not (is_plain(context) and is_counted(context)):
            return None
        return self.answer(
            request,
            deadline_s,
            context,
            is_quick=True,
            may_wait=False,
            finish=lambda partial: self._encoded(request, partial),
        )

    def _encoded(
        self,
        request: ServerRequest,
        partial: PartialResult,
        template: QueryTemplate | None = None,
        *,
        is_quick: bool = False,
    ) -> bytes:
        if template is not None:
            template.expectation.took(partial.statistics.cpu_ns)
            if is_quick and partial.statistics.cpu_ns >= LONG_CPU_NS:
                template.expectation.failed()
        answer = partial.to_bytes(few=bool(request.flags & FLAG_COMPACT_ROWS))
        allowed = self._limits.response_bytes_max
        if len(answer) > allowed:
            raise QueryExecutionError(
                f"the answer of one server has {len(answer)} bytes, at most {allowed} are sent: "
                "ask for fewer rows or groups, or raise pinot.server.grpc.maxResponseBytes"
            )
        return answer

    def _has_few_docs(self, template: QueryTemplate) -> bool:
        if not template.is_plain or template.is_sorted or not template.has_few_segments:
            return False
        request = template.request
        return self._registry.num_docs(request.table_name_with_type, request.segment_names) <= QUICK_DOCS_MAX

    def answer(
        self,
        request: ServerRequest,
        deadline_s: float,
        context: QueryContext | None = None,
        *,
        is_quick: bool = False,
        docs_max: int | None = None,
        may_wait: bool = True,
        finish: Callable[[PartialResult], T],
    ) -> T:
        """Execute one request: what `finish` makes of its result, while the query has its memory.

        Args:
            context: already decoded, if the caller has it.
            is_quick: run on the calling thread without a scheduler slot.
            docs_max: raise TooManyDocsError if the plan would read more.
            may_wait: for kernels that are not compiled yet; if not, KernelMissingError is raised.
        """
        start_ns = self._clock.monotonic_ns()
        # The request names the query's own time; brokers wait LAST_WORD_S longer than that, to be told that it was up.
        own_timeout_s = self._limits.timeout_ms / 1000
        timeout_s = max(min(request.timeout_ms / 1000, deadline_s, own_timeout_s), 0)
        deadline_ns = start_ns + int(timeout_s * 1e9)
        trace = Trace() if request.flags & FLAG_TRACE else None
        is_small = is_quick or self._is_small(request)
        control = QueryControl(
            deadline_ns,
            self._limits.memory_max_bytes,
            trace=trace,
            docs_max=docs_max,
            process=self._memory,
            is_small=is_small,
            name=_name(request),
        )
        key = (request.broker_id, request.request_id)

        def finished(partial: PartialResult) -> T:
            if timeout_s >= own_timeout_s and partial.exceptions:
                late = QueryTimeoutError.code
                partial.exceptions = [
                    replace(fault, message=self._with_limit(fault.message)) if fault.code == late else fault
                    for fault in partial.exceptions
                ]
            took_ms = (self._clock.monotonic_ns() - start_ns) / 1e6
            self._report(request, partial, control.grouping_methods, took_ms)
            return finish(partial)

        self._memory.running[control.name] = control
        with self._lock:
            self._running[key] = control
            if self._cancelled and start_ns - self._cancelled.pop(key, -EARLY_CANCEL_NS) < EARLY_CANCEL_NS:
                control.cancel()
        try:
            with self._place(deadline_ns, control, is_quick=is_quick, is_small=is_small):
                if trace is not None:
                    trace.current.add("WAIT", self._clock.monotonic_ns() - start_ns)
                return self._turns.run(
                    control,
                    deadline_ns,
                    lambda: self._execute(request, context, control, deadline_ns, may_wait=may_wait),
                    finished,
                    is_small=is_small,
                )
        except OutOfCapacityError:
            self._metrics.refused()
            raise
        except QueryTimeoutError as error:
            self._metrics.waited_too_long()  # one that ran into its deadline is a partial result
            if timeout_s < own_timeout_s:
                raise
            raise QueryTimeoutError(self._with_limit(error.message)) from error
        finally:
            control.close()  # it may not have run
            self._memory.running.pop(control.name, None)
            with self._lock:
                self._running.pop(key, None)
            self._idle_memory.query_done((self._clock.monotonic_ns() - start_ns) / 1e9)

    def _with_limit(self, message: str) -> str:
        """A timeout message for when this server's own limit applied, not the query's: options and settings of the
        broker would not help.
        """
        return f"{message}, or raise the setting {SERVER_TIMEOUT_SETTING} of the server ({self._limits.timeout_ms} ms)"

    def _place(
        self, deadline_ns: int, control: QueryControl, *, is_quick: bool, is_small: bool
    ) -> AbstractContextManager[None]:
        if is_quick:
            return nullcontext()
        return self._scheduler.slot(deadline_ns, is_small=is_small, is_cancelled=lambda: control.is_cancelled)

    def is_small(self, content: bytes) -> bool:
        """Whether a query (by its bytes) reads so little that it need not queue behind large ones. Raises DataError."""
        if content[KIND_OFFSET : KIND_OFFSET + 1] != _BOUND:
            return self._is_small(decode_request(content))
        bound = decode_bound(content)
        template = self._templates.peek(bound.digest)
        if template is not None:
            return self._is_small(template.request)
        # Without its template it costs nothing: the broker is told to bring it.
        return not bound.template or self._is_small(decode_request(bound.template))

    def _is_small(self, request: ServerRequest) -> bool:
        names = request.segment_names
        return (
            len(names) <= SMALL_SEGMENTS_MAX
            and self._registry.num_docs(request.table_name_with_type, names) <= SMALL_DOCS_MAX
        )

    def cancel(self, broker_id: str, request_id: int) -> None:
        """Stop a query that runs or waits here, or is about to."""
        key = (broker_id, request_id)
        with self._lock:
            control = self._running.get(key)
            if control is None:
                self._cancelled[key] = self._clock.monotonic_ns()
                if len(self._cancelled) > EARLY_CANCELS_MAX:
                    self._cancelled.popitem(last=False)
        if control is not None:
            control.cancel()
            self._scheduler.wake()

    def cancel_all(self) -> None:
        """Stop everything (at shutdown, when draining took too long)."""
        with self._lock:
            controls = list(self._running.values())
        for control in controls:
            control.cancel()
        self._scheduler.wake()

    @property
    def num_running(self) -> int:
        return len(self._running)

    def _execute(
        self,
        request: ServerRequest,
        context: QueryContext | None,
        control: QueryControl,
        deadline_ns: int,
        *,
        may_wait: bool,
    ) -> PartialResult:
        if context is None:
            is_short = len(request.context) <= SHORT_CONTEXT_BYTES
            context = self._decode_short(request.context) if is_short else self._decode(request.context)
        check_user_functions(context)
        if self._kernels is None:
            return self._runs.run(request, context, control)
        waited = dict[str, int]()
        decoded = context
        try:
            partial = self._kernels.run(
                control,
                deadline_ns,
                lambda: self._runs.run(request, decoded, control),
                waited,
                may_wait=may_wait,
            )
        except (QueryTimeoutError, QueryCancelledError) as error:
            partial = PartialResult(exceptions=[QueryException(error.code, error.message)])
        partial.kernels_waited = waited
        return partial

    def _decode(self, content: bytes) -> QueryContext:
        """The query, under this server's own ceilings."""
        context = decode_context(content)
        limit, asked = self._limits.groups_max, context.options.num_groups_limit
        if not limit or (asked is not None and asked <= limit):
            return context
        return replace(context, options=replace(context.options, num_groups_limit=limit))

    def _report(self, request: ServerRequest, partial: PartialResult, methods: Sequence[str], took_ms: float) -> None:
        statistics = partial.statistics
        self._metrics.segments_missing(request.table_name_with_type, len(partial.missing_segments))
        failed = bool(partial.exceptions)
        self._metrics.query_done(request.table_name_with_type, took_ms, statistics, methods, failed=failed)
        if partial.exceptions or took_ms >= SLOW_QUERY_MS:
            log.info(
                "query executed request_id=%s table=%s took_ms=%.1f segments=%d "
                "docs_scanned=%d missing=%d exceptions=%s",
                request.request_id, request.table_name_with_type, took_ms, statistics.num_segments_queried,
                statistics.num_docs_scanned, len(partial.missing_segments), [e.code for e in partial.exceptions],
            )  # fmt: skip


def _name(request: ServerRequest) -> str:
    """As the answer of its broker names the query (requestId), with the table: a hybrid table's are two here."""
    return f"{request.broker_id}_{request.request_id} on {request.table_name_with_type}"
