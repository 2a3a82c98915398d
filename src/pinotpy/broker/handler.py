"""`answer_query`: the path of one query through a broker, top to bottom.

Refusals are answers too: HTTP 200 with `exceptions`. What servers did deliver is kept beside 305, 425 and 427; any other
fault leaves no result, because its rows could mislead.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pinotpy.broker.admission import Admission
from pinotpy.broker.catalog import Catalog, Half, Target
from pinotpy.broker.metrics import BrokerMetrics
from pinotpy.broker.plan_cache import Asked, Plan, PlanCache, TemplateCache
from pinotpy.broker.scatter import Gathered, scatter
from pinotpy.clock import Clock
from pinotpy.config.schema import Schema
from pinotpy.errors import MemoryLimitError, ParseError, PinotError, QueryTimeoutError
from pinotpy.pql.ast import Dialect, Statement
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.combine import merge_partials
from pinotpy.query.compile import compile_query, compile_without_table
from pinotpy.query.compile_sql import compile_constants
from pinotpy.query.context import QueryContext, QueryOptions
from pinotpy.query.context_codec import encode_context
from pinotpy.query.explain.answer import explain_constants, explanation
from pinotpy.query.literals import encode_literals, literals_of
from pinotpy.query.options import asks_to_explain, query_options
from pinotpy.query.partial import PartialResult, QueryException, Statistics
from pinotpy.query.reduce import constant_row, reduce_partials
from pinotpy.query.reduced import ReducedResult
from pinotpy.query.response import pql as pql_response
from pinotpy.query.response import sql as sql_response
from pinotpy.query.response.envelope import Envelope
from pinotpy.query.rewrite.pin_time import pin_time
from pinotpy.query.trace import Entry, Laps, trace_text
from pinotpy.rpc.wire import FLAG_FEW_ROWS, FLAG_TRACE, FLAG_WHOLE, LAST_WORD_S, RequestKind, ServerRequest

log = logging.getLogger(__name__)

# Codes that leave a partial answer: segments or servers that could not be reached.
KEEPS_ROWS = frozenset({305, 425, 427})
INLINE_REDUCE_BYTES_MAX = 64 << 10

# Sends one request to one server and returns its partial result; raises RemoteError at the latest after `timeout_s`.
SendToServer = Callable[[str, ServerRequest, float], Awaitable[PartialResult]]

# Turns rows into the keys of an answer that hold them, calling the given check all the while.
ResultKeys = Callable[[QueryContext, ReducedResult, Callable[[], None]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """timeout_ms: default and ceiling of a query. response_rows_max: LIMIT and TOP above it are refused, or cut to it with
    limit_override. case_insensitive: whether SQL finds columns without regard to case. memory_max_bytes: of all servers'
    answers to one query. queries_max run at once, queue_max wait."""

    timeout_ms: int = 10_000
    response_rows_max: int = 2**31 - 1
    limit_override: bool = False
    case_insensitive: bool = True
    query_text_bytes_max: int = 2 << 20
    memory_max_bytes: int = 1 << 30
    queries_max: int = 256
    queue_max: int = 1_024
    hedge_after_ms: int = 1_000


@dataclass(frozen=True, slots=True)
class Question:
    """What a client asked: text, dialect, and the options beside the text as the body has them."""

    text: str
    dialect: Dialect
    query_options: str = ""
    debug_options: str = ""
    trace: bool = False
    explain: bool = False

    @property
    def beside_text(self) -> tuple[str, str, bool, bool]:
        """All but text and dialect."""
        return self.query_options, self.debug_options, self.trace, self.explain


@dataclass(slots=True)
class Broker:
    """The parts that every query needs. `quarantine` maps a server that refused a connection to the time (monotonic ns)
    until which it is asked last, `heard` a server to when it last answered anything (scatter keeps it)."""

    broker_id: str
    catalog: Catalog
    send: SendToServer
    limits: BrokerLimits
    clock: Clock
    metrics: BrokerMetrics
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    quarantine: dict[str, int] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    plans: PlanCache = field(default_factory=PlanCache)
    templates: TemplateCache = field(default_factory=TemplateCache)
    admission: Admission = field(init=False)

    def __post_init__(self) -> None:
        self.admission = Admission(running_max=self.limits.queries_max, waiting_max=self.limits.queue_max)

    def num_quarantined(self) -> int:
        """Servers that are asked last at present."""
        now_ns = self.clock.monotonic_ns()
        return sum(until > now_ns for until in list(self.quarantine.values()))


QUARANTINE_NS = 2_000_000_000
# Above these a query is parsed, and its answer reduced and written, on another thread: the event loop serves all clients.
INLINE_TEXT_CHARACTERS_MAX = 8 << 10
INLINE_RESULT_CELLS_MAX = 5_000


async def answer_query(broker: Broker, question: Question, may_read: Callable[[str], None]) -> bytes:
    """Answer one query.

    Args:
        may_read: raises AccessDeniedError unless the client may read the table; called before anything about the table
            is looked up, so that a refusal doesn't tell whether it exists.
    """
    number = next(broker.numbers)
    envelope = Envelope(request_id=f"{broker.broker_id}_{number}", broker_id=broker.broker_id)
    start_ns = broker.clock.monotonic_ns()
    laps = Laps()
    is_traced = question.trace
    context: QueryContext | None = None
    result: ReducedResult | None = None
    shown: dict[str, Any] | None = None
    is_pql = question.dialect is Dialect.PQL
    result_keys, write = (pql_response.result_keys, pql_response.write) if is_pql else (sql_response.result_keys, sql_response.write)
    try:
        known = broker.plans.get(question)
        asked = None
        if known is None and not _is_over_limit(broker, question):
            asked = broker.templates.find(question.text, question.dialect, question.beside_text)
        if asked is not None and asked.plan is not None:
            known = asked.plan
        plan = known or await _parse(broker, question)
        statement, options = plan.statement, plan.options
        is_traced = options.trace
        deadline_ns = start_ns + (options.timeout_ms or broker.limits.timeout_ms) * 1_000_000
        laps.lap("PARSE", cached=known is not None)
        if asked is None or asked.plan is None:
            context = compile_constants(statement, options, null_handling=options.enable_null_handling)
        if context is not None and statement.explain:
            envelope.explanation = explain_constants()
        elif context is not None:
            result = constant_row(context)
        elif not statement.table:
            context = compile_without_table(statement, options)
        else:
            may_read(statement.table)
            target = broker.catalog.resolve(statement.table, question.dialect)
            envelope.tables_queried = (target.raw_table_name,)
            laps.lap("ROUTE")
            context = plan.compiled_for(target.schema)
            if context is None:
                if asked is not None and asked.plan is not None:
                    # Compiled against a schema that is no more: the template's statement has another text's literals.
                    asked.plan, plan = None, await _parse(broker, question)
                context = await _compile(broker, question, plan, target.schema, asked)
            laps.lap("COMPILE")
            await broker.admission.enter((deadline_ns - broker.clock.monotonic_ns()) / 1e9)
            try:
                laps.lap("WAIT")
                bound = asked if asked is not None and asked.plan is not None else None
                gathered = await _gather(broker, context, bound, target, number, deadline_ns)
                laps.lap(
                    "SCATTER",
                    servers=len(gathered.asked | gathered.responded | gathered.unreachable),
                    rowsOut=sum(p.num_rows for _, p in gathered.partials),
                )
                result = await _reduce(broker, context, gathered, envelope, laps, deadline_ns)
            finally:
                broker.admission.leave()
        if context is not None and result is not None:
            shown = await _show(broker, result_keys, context, result, deadline_ns)
    except PinotError as error:
        shown = None
        envelope.exceptions.append(QueryException(error.code, error.message))
    took_ms = (broker.clock.monotonic_ns() - start_ns) / 1e6
    envelope.time_used_ms = int(took_ms)
    _report(broker, question, envelope, took_ms)
    is_long = result is not None and _num_cells(result) > INLINE_RESULT_CELLS_MAX
    body = await asyncio.to_thread(write, shown, envelope) if is_long else write(shown, envelope)
    if not is_traced:
        return body
    # The time of writing can stand only in what is written after it.
    laps.lap("WRITE", bytesOut=len(body))
    envelope.trace["broker"] = trace_text(laps.stages())
    return await asyncio.to_thread(write, shown, envelope) if is_long else write(shown, envelope)


async def _parse(broker: Broker, question: Question) -> Plan:
    if _is_over_limit(broker, question):
        raise ParseError(
            f"the query text has more than {broker.limits.query_text_bytes_max} bytes: shorten its lists, "
            "make id sets smaller with IDSET(x, 'expectedInsertions=…'), or raise pinot.broker.query.maxTextBytes"
        )
    is_long = len(question.text) > INLINE_TEXT_CHARACTERS_MAX
    statement = await asyncio.to_thread(_parsed, question) if is_long else _parsed(question)
    options = _options(broker, question, statement)
    explain = statement.explain or asks_to_explain(options, requested=question.explain)
    return Plan(replace(statement, explain=explain), options)


def _is_over_limit(broker: Broker, question: Question) -> bool:
    allowed = broker.limits.query_text_bytes_max
    return len(question.text) * 4 > allowed and len(question.text.encode("utf-8", "surrogatepass")) > allowed


def _parsed(question: Question) -> Statement:
    return parse_pql(question.text) if question.dialect is Dialect.PQL else parse_sql(question.text)


def _options(broker: Broker, question: Question, statement: Statement) -> QueryOptions:
    return query_options(statement, question.query_options, question.debug_options, trace=question.trace, timeout_max_ms=broker.limits.timeout_ms)


async def _compile(broker: Broker, question: Question, plan: Plan, schema: Schema, asked: Asked | None) -> QueryContext:
    limits = broker.limits
    compile_it = functools.partial(
        compile_query,
        schema=schema,
        options=plan.options,
        null_handling=plan.options.enable_null_handling,
        case_insensitive=limits.case_insensitive and question.dialect is Dialect.SQL,
        response_rows_max=limits.response_rows_max,
        limit_override=limits.limit_override,
    )
    if len(question.text) > INLINE_TEXT_CHARACTERS_MAX:
        return await asyncio.to_thread(compile_it, plan.statement)
    plan.context, plan.schema = compile_it(plan.statement), schema
    broker.plans.put(question, plan)
    if asked is not None:

        def compiled(text: str) -> QueryContext:
            other = replace(question, text=text)
            statement, options = _parsed(other), plan.options
            if _options(broker, other, statement) != options:
                raise ParseError("the options are part of the text")
            return compile_it(replace(statement, explain=plan.statement.explain))

        broker.templates.learn(asked, plan, compiled)
    return plan.context


async def _show(broker: Broker, result_keys: ResultKeys, context: QueryContext, result: ReducedResult, deadline_ns: int) -> dict[str, Any]:
    """The rows as the answer has them; QueryTimeoutError when they are not written by the deadline."""

    def check() -> None:
        if broker.clock.monotonic_ns() > deadline_ns:
            raise QueryTimeoutError("the query's time was up while its answer was written: ask for fewer rows or columns, or raise timeoutMs")

    if _num_cells(result) <= INLINE_RESULT_CELLS_MAX:
        return result_keys(context, result, check)
    return await asyncio.to_thread(result_keys, context, result, check)


def _num_cells(result: ReducedResult) -> int:
    return result.num_rows * len(result.columns) + sum(len(groups.value.values) * (len(groups.keys) + 1) for groups in result.group_lists)


async def _gather(broker: Broker, context: QueryContext, bound: Asked | None, target: Target, number: int, deadline_ns: int) -> Gathered:
    """Scatter to the servers of every half of the table and collect. `bound`: the query by its template, whose context is given."""
    excluded = _quarantined(broker)
    whole = Gathered()
    received_bytes, allowed_bytes = 0, broker.limits.memory_max_bytes
    asked: set[str] = set()
    now_ms = broker.clock.now_ms()

    def left_s() -> float:
        return (deadline_ns - broker.clock.monotonic_ns()) / 1e9

    for half in target.halves:
        encoded, literals = _encoded(context, bound, half, now_ms)
        selection = half.routing.select(number, excluded)
        # Whoever is asked for all segments gives all of the answer, or none of it (scatter.py).
        num_segments = sum(map(len, selection.assignment.values())) if len(target.halves) == 1 and not selection.unavailable else 0

        async def ask(
            server: str,
            segments: tuple[str, ...],
            table: str = half.routing.table,
            encoded: bytes = encoded,
            literals: bytes | None = literals,
            num_segments: int = num_segments,
        ) -> PartialResult:
            timeout_s = left_s()
            if timeout_s <= 0:
                raise QueryTimeoutError("the query's time was up before the servers could be asked: raise timeoutMs or lower the load")
            # A server ends queries by their number when a call breaks off: its second call for this query has another one.
            call_number = next(broker.numbers) if server in asked else number
            asked.add(server)
            request = ServerRequest(
                RequestKind.QUERY,
                call_number,
                int(timeout_s * 1000),
                broker_id=broker.broker_id,
                table_name_with_type=table,
                segment_names=segments,
                context=encoded,
                flags=FLAG_FEW_ROWS | (FLAG_TRACE if context.options.trace else 0) | (FLAG_WHOLE if len(segments) == num_segments else 0),
                literals=literals,
            )
            partial = await broker.send(server, request, timeout_s + LAST_WORD_S)
            nonlocal received_bytes
            received_bytes += partial.num_bytes
            if received_bytes > allowed_bytes:
                raise MemoryLimitError(
                    f"the servers' answers have more than {allowed_bytes} bytes: ask for fewer rows or groups, or raise pinot.broker.query.memory.maxBytes"
                )
            return partial

        hedge_after_s = broker.limits.hedge_after_ms / 1000
        whole.add(await scatter(half.routing, selection, ask, hedge_after_s=hedge_after_s, heard=broker.heard, time_is_up=lambda: left_s() <= 0))
    for server in whole.unreachable - whole.responded:
        broker.quarantine[server] = broker.clock.monotonic_ns() + QUARANTINE_NS
    return whole


def _encoded(context: QueryContext, bound: Asked | None, half: Half, now_ms: int) -> tuple[bytes, bytes | None]:
    """What servers of one half get: the context, or that of the template and the literals."""

    def of_half() -> QueryContext:
        return replace(context, table=half.routing.table, filter=half.with_time_boundary(context.filter))

    if bound is None or bound.plan is None or bound.literals is None:
        return encode_context(pin_time(of_half(), now_ms)), None
    literals = bound.literals + literals_of(half.time_predicate)
    encoded = bound.plan.blank_context((half.routing.table, half.time_predicate), of_half)
    return encoded, encode_literals(literals)


def _quarantined(broker: Broker) -> frozenset[str]:
    if not broker.quarantine:
        return frozenset()
    now_ns = broker.clock.monotonic_ns()
    broker.quarantine = {server: until for server, until in broker.quarantine.items() if until > now_ns}
    return frozenset(broker.quarantine)


async def _reduce(broker: Broker, context: QueryContext, gathered: Gathered, envelope: Envelope, laps: Laps, deadline_ns: int) -> ReducedResult | None:
    """Merge what came back; fill the envelope; None if a fault forbids showing rows.

    Raises: QueryTimeoutError when a large answer is not reduced by the deadline; what functions raise.
    """
    envelope.num_servers_queried = len(gathered.asked)
    envelope.num_servers_responded = len(gathered.responded & gathered.asked)
    envelope.missing_segments = tuple(sorted(gathered.missing))
    partials = [partial for _, partial in sorted(gathered.partials, key=lambda item: item[0])]
    for partial in partials:
        envelope.statistics.add(partial.statistics)
        envelope.exceptions += [e for e in partial.exceptions if e not in envelope.exceptions]
    for server, error in gathered.failures:
        entry = QueryException(error.code, f"{error.message} (server '{server}')" if server not in error.message else error.message)
        envelope.exceptions += [] if entry in envelope.exceptions else [entry]
    if gathered.missing:
        shown = ", ".join(envelope.missing_segments[:10]) + (" …" if len(gathered.missing) > 10 else "")
        envelope.exceptions.append(QueryException(305, f"{len(gathered.missing)} segments unavailable: [{shown}]: no replica of them answered"))
    traces: dict[str, list[Entry]] = {}
    for server, partial in gathered.partials:
        if partial.trace:
            traces.setdefault(server, []).extend(partial.trace)
    envelope.trace = {server: trace_text(stages) for server, stages in traces.items()}
    if any(e.code not in KEEPS_ROWS for e in envelope.exceptions):
        return None
    if context.explain:
        envelope.explanation = explanation(context, [partial.explain for partial in partials])
        return None

    start_ns = broker.clock.monotonic_ns()

    def reduced() -> tuple[ReducedResult, Statistics]:
        merged = merge_partials(context, partials)
        laps.lap("MERGE", rowsOut=merged.num_rows)
        found = reduce_partials(context, merged)
        laps.lap("REDUCE", rowsOut=max([found.num_rows, *(len(groups.value.values) for groups in found.group_lists)]))
        return found, merged.statistics

    if sum(partial.num_bytes for partial in partials) <= INLINE_REDUCE_BYTES_MAX:
        result, counted = reduced()
    else:
        try:
            # A thread cannot be stopped: past the deadline it ends on its own, for nobody.
            result, counted = await asyncio.wait_for(asyncio.to_thread(reduced), max((deadline_ns - start_ns) / 1e9, 0))
        except TimeoutError as error:
            raise QueryTimeoutError("the query's time was up while answers were merged: ask for fewer groups or rows, or raise timeoutMs") from error
    envelope.reduce_time_ms = int((broker.clock.monotonic_ns() - start_ns) / 1e6)
    # Several servers together may have more groups than the limit: what was left out here is told as what a server leaves out.
    envelope.statistics.num_groups_limit_reached = counted.num_groups_limit_reached
    envelope.statistics.num_rows_of_cut_groups = counted.num_rows_of_cut_groups
    return result


def _report(broker: Broker, question: Question, envelope: Envelope, took_ms: float) -> None:
    table = envelope.tables_queried[0] if envelope.tables_queried else ""
    broker.metrics.query_done(table, took_ms, envelope)
    if envelope.exceptions:
        log.info(
            "query answered request_id=%s dialect=%s table=%s took_ms=%.1f servers=%d/%d docs_scanned=%d exceptions=%s",
            envelope.request_id, question.dialect.value, table, took_ms, envelope.num_servers_responded, envelope.num_servers_queried,
            envelope.statistics.num_docs_scanned, [e.code for e in envelope.exceptions],
        )  # fmt: skip


def parse_key_values(values: Mapping[str, object]) -> str:
    """Options given as an object (as SQL clients do) in the text form `k=v;k=v`."""
    return ";".join(f"{key}={value}" for key, value in values.items())
