"""`answer_query`: the path of one query through a broker, top to bottom.

Refusals are answers too: HTTP 200 with `exceptions`. Rows that servers delivered are kept beside 305, 425 and 427; any
other error leaves no result, because its rows could mislead.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from pinotpy.broker.analyze import analyzed_question, with_measurements
from pinotpy.broker.answer_warnings import limit_warnings, option_warnings
from pinotpy.broker.cast_warnings import cast_warnings
from pinotpy.broker.catalog import Target
from pinotpy.broker.compiling import answer_constants, compile_plan, is_over_limit, parse
from pinotpy.broker.date_warnings import date_warnings
from pinotpy.broker.execution import INLINE_RESULT_CELLS_MAX, Execution, execute_query, num_cells
from pinotpy.broker.log_entry import LogEntry
from pinotpy.broker.null_mode import null_mode
from pinotpy.broker.other_dialect import other_dialect_hint
from pinotpy.broker.parts import Broker, BrokerLimits, Question, SendToServer, TableRights
from pinotpy.broker.plan_cache import Asked, BoundQuery, Plan
from pinotpy.broker.query_memory import QueryMemory
from pinotpy.broker.reducing import written_too_late
from pinotpy.broker.rows_of_streams import name_boundary
from pinotpy.broker.tables_asked import catalog_question, table_asked
from pinotpy.broker.time_limit import TimeLimit, time_limit
from pinotpy.broker.type_warnings import type_warnings
from pinotpy.errors import PinotError, QueryTimeoutError, ServerNotRespondingError
from pinotpy.pql.ast import Dialect
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.deadline import Check
from pinotpy.query.model.literals import with_literals
from pinotpy.query.result.explained_answer import Explanation, explain_constants
from pinotpy.query.result.partial import QueryException
from pinotpy.query.result.reduced import ReducedResult
from pinotpy.query.result.response import arrow
from pinotpy.query.result.response import pql as pql_response
from pinotpy.query.result.response import sql as sql_response
from pinotpy.query.result.response.envelope import Envelope
from pinotpy.query.runtime.trace import UNTIMED, Laps, trace_text

__all__ = ["Broker", "BrokerLimits", "Question", "SendToServer", "answer_query", "parse_key_values"]

log = logging.getLogger(__name__)

_T = TypeVar("_T")


async def answer_query(
    broker: Broker, question: Question, rights: TableRights, *, wants_arrow: bool = False
) -> bytes | pa.Table:
    """Answer one query: the JSON text, or with `wants_arrow` a table (query/result/response/arrow.py) where there is
    one to show.

    Args:
        rights: asked of the table's true name before anything else about the table is looked up, so that a refusal does
            not tell whether it exists.
    """
    entry = LogEntry(broker, question, rights.client)
    try:
        plain = analyzed_question(question)
        if plain is None:
            return await _answer(broker, question, rights, entry, wants_arrow=wants_arrow)
        # Planned first, so that what cannot be planned is not run.
        explained = await _answer(broker, replace(plain, explain=True), rights, entry, wants_arrow=wants_arrow)
        planned = entry.envelope
        if planned is None or planned.explanation is None:
            return explained
        return await _answer(
            broker, replace(plain, trace=True), rights, entry, wants_arrow=wants_arrow, analyzed=planned.explanation
        )
    finally:
        entry.close()


async def _answer(
    broker: Broker,
    question: Question,
    rights: TableRights,
    entry: LogEntry,
    *,
    wants_arrow: bool,
    analyzed: Explanation | None = None,
) -> bytes | pa.Table:
    """analyzed: show this plan and what was measured, instead of the rows."""
    number = next(broker.numbers)
    memory = QueryMemory(broker.memory, f"{broker.broker_id}_{number}", broker.limits.memory_max_bytes, broker.large)
    try:
        run = await _run(broker, question, rights, number, memory, entry, wants_arrow=wants_arrow and analyzed is None)
        if analyzed is not None and not run.envelope.exceptions:
            run.envelope.explanation = with_measurements(analyzed, run.envelope, run.laps, entry)
            run.result = run.shown = None
            if wants_arrow:
                run.table = arrow.table_of_explanation(run.envelope.explanation)
        return await _written(run, entry)
    finally:
        memory.close()


@dataclass(slots=True)
class _Run:
    """A query that ran, before its answer is written."""

    is_pql: bool
    is_traced: bool
    laps: Laps
    envelope: Envelope
    result: ReducedResult | None = None
    shown: dict[str, Any] | None = None
    table: pa.Table | None = None


async def _run(
    broker: Broker,
    question: Question,
    rights: TableRights,
    number: int,
    memory: QueryMemory,
    entry: LogEntry,
    *,
    wants_arrow: bool,
) -> _Run:
    envelope = entry.envelope = Envelope(request_id=memory.name, broker_id=broker.broker_id)
    start_ns = broker.clock.monotonic_ns()
    laps = Laps()
    is_traced = question.trace
    limit: TimeLimit | None = None
    target: Target | None = None
    context: QueryContext | None = None
    result: ReducedResult | None = None
    shown: dict[str, Any] | None = None
    table: pa.Table | None = None
    is_pql = question.dialect is Dialect.PQL
    result_keys = pql_response.result_keys if is_pql else sql_response.result_keys
    try:
        question = catalog_question(broker, question, rights)
        known = broker.plans.get(question)
        asked = None
        if known is None and not is_over_limit(broker, question):
            asked = broker.templates.find(question.text, question.dialect, question.beside_text)
        if asked is not None and asked.plan is not None:
            known = asked.plan
        latest_ns = start_ns + broker.limits.timeout_ms * 1_000_000
        plan = known or await parse(broker, question, rights.client, latest_ns)
        statement, options = plan.statement, plan.options
        is_traced = options.trace
        if not is_traced:
            laps = UNTIMED
        limit = time_limit(options.timeout_ms, broker.limits.timeout_ms)
        deadline_ns = start_ns + limit.timeout_ms * 1_000_000
        laps.lap("PARSE", cached=known is not None)
        if not statement.table:
            context, result = await answer_constants(broker, plan, rights.client, deadline_ns)
            if statement.explain:
                envelope.explanation = explain_constants()
        else:
            target = await table_asked(broker, statement.table, question.dialect, rights)
            envelope.tables_queried = (target.raw_table_name,)
            name_boundary(envelope, target)
            if target.timeout_ms is not None:
                limit = time_limit(options.timeout_ms, broker.limits.timeout_ms, target.timeout_ms)
                deadline_ns = start_ns + limit.timeout_ms * 1_000_000
            laps.lap("ROUTE")
            mode = null_mode(
                question.dialect,
                options.enable_null_handling,
                target.null_handling,
                of_broker=broker.limits.null_handling,
            )
            envelope.warnings += [*mode.warnings, *option_warnings(options)]
            context = plan.compiled_for(target.schema, null_handling=mode.handling)
            if context is None:
                if asked is not None and asked.plan is not None:
                    # Compiled against a schema that is no more: the template's statement has another text's literals.
                    asked.plan, plan = None, await parse(broker, question, rights.client, deadline_ns)
                context = await compile_plan(
                    broker, question, plan, target.schema, mode.handling, asked, rights.client, deadline_ns
                )
            # A server keeps nothing of a query that brings its rows.
            bound = None if target.given_rows else _bound(plan, known, asked, context)
            if asked is not None and asked.plan is plan and asked.literals is not None:
                context = with_literals(context, asked.literals)  # not those of the text that the template came from
            laps.lap("COMPILE")
            await broker.admission.enter((deadline_ns - broker.clock.monotonic_ns()) / 1e9)
            try:
                execution = Execution(
                    broker, statement.table, plan, context, bound, target, deadline_ns, memory, wants_arrow
                )
                executed = await execute_query(execution, number, envelope, laps)
                result, shown = executed.result, executed.shown
            finally:
                broker.admission.leave()
        if wants_arrow:
            table = await _table(broker, result, envelope, is_pql, deadline_ns)
        if context is not None and result is not None and table is None:
            shown = await _show(broker, functools.partial(result_keys, context, result), result, deadline_ns)
    except (PinotError, asyncio.CancelledError) as problem:
        error = memory.fault(problem)
        shown = table = None
        # Past a server that did not answer in time, the time is up for all that the broker does.
        if not isinstance(error, QueryTimeoutError) or all(
            exception.code != ServerNotRespondingError.code for exception in envelope.exceptions
        ):
            hint = ""
            if context is None:  # refused before a server was asked
                schema = None if target is None else target.schema
                hint = other_dialect_hint(error, question.text, question.dialect, schema, broker.limits)
            envelope.exceptions.append(QueryException(error.code, error.message + hint))
    memory.cannot_end()
    if context is not None:
        dates = [] if target is None else date_warnings(context, target.schema)
        rows = limit_warnings(statement, context, table, result, shown)
        envelope.warnings += [*type_warnings(context), *cast_warnings(context, question.text), *dates, *rows]
    if limit is not None:
        envelope.warnings += limit.warnings()
        envelope.exceptions = limit.named_in(envelope.exceptions) if envelope.exceptions else []
    took_ms = (broker.clock.monotonic_ns() - start_ns) / 1e6
    envelope.time_used_ms = int(took_ms)
    _report(broker, question, envelope, took_ms)
    entry.ran(took_ms, table, result, shown)
    return _Run(is_pql, is_traced, laps, envelope, result, shown, table)


async def _written(run: _Run, entry: LogEntry) -> bytes | pa.Table:
    """The answer in the form that the client takes."""
    envelope, table, laps = run.envelope, run.table, run.laps
    write = pql_response.write if run.is_pql else sql_response.write
    if table is not None:
        if run.is_traced:
            envelope.trace["broker"] = trace_text(laps.stages())
        entry.wrote(table.nbytes)
        return arrow.with_response(table, write({} if run.is_pql else {"numRowsResultSet": table.num_rows}, envelope))
    is_long = run.result is not None and num_cells(run.result) > INLINE_RESULT_CELLS_MAX
    body = await asyncio.to_thread(write, run.shown, envelope) if is_long else write(run.shown, envelope)
    if run.is_traced:
        # The time of writing is known only afterwards, so the answer is written again with it.
        laps.lap("WRITE", bytesOut=len(body))
        envelope.trace["broker"] = trace_text(laps.stages())
        body = await asyncio.to_thread(write, run.shown, envelope) if is_long else write(run.shown, envelope)
    entry.wrote(len(body))
    return body


def _bound(plan: Plan, known: Plan | None, asked: Asked | None, context: QueryContext) -> BoundQuery | None:
    """What to send to servers if the query's text or template was seen before; None for a new one: servers then get its
    whole context.
    """
    if plan is not known or plan.context is not context:
        return None
    if asked is None or asked.plan is None:
        return plan.bound()
    return None if asked.literals is None else BoundQuery(plan.blanks, asked.literals)


async def _show(broker: Broker, show: Callable[[Check], _T], result: ReducedResult, deadline_ns: int) -> _T:
    """The rows in the form of the answer. Raises QueryTimeoutError if that is not done by the deadline."""

    def check() -> None:
        if broker.clock.monotonic_ns() > deadline_ns:
            raise written_too_late()

    if num_cells(result) <= INLINE_RESULT_CELLS_MAX:
        return show(check)
    return await asyncio.to_thread(show, check)


async def _table(
    broker: Broker, result: ReducedResult | None, envelope: Envelope, is_pql: bool, deadline_ns: int
) -> pa.Table | None:
    """The answer as a table; None if it is not one: an error without rows, PQL's several lists of groups, PQL's
    EXPLAIN.
    """
    if result is not None:
        columns = arrow.one_table(result)
        return (
            None
            if columns is None
            else await _show(broker, functools.partial(arrow.table_of, columns), result, deadline_ns)
        )
    return None if is_pql or envelope.explanation is None else arrow.table_of_explanation(envelope.explanation)


def _report(broker: Broker, question: Question, envelope: Envelope, took_ms: float) -> None:
    table = envelope.tables_queried[0] if envelope.tables_queried else ""
    broker.metrics.query_done(table, took_ms, envelope)
    if envelope.exceptions:
        log.info(
            "query answered request_id=%s dialect=%s table=%s took_ms=%.1f servers=%d/%d docs_scanned=%d exceptions=%s",
            envelope.request_id, question.dialect.value, table, took_ms, envelope.num_servers_responded,
            envelope.num_servers_queried,
            envelope.statistics.num_docs_scanned, [e.code for e in envelope.exceptions],
        )  # fmt: skip


def parse_key_values(values: Mapping[str, object]) -> str:
    """Options given as an object (as SQL clients do) in the text form `k=v;k=v`."""
    return ";".join(f"{key}={value}" for key, value in values.items())
