"""Where a query would go: which servers it would ask for which segments, after pruning. Nothing is asked."""

from __future__ import annotations

from pinotpy.broker.compiling import compile_plan, parse
from pinotpy.broker.null_mode import null_mode
from pinotpy.broker.parts import Broker, Question, TableRights
from pinotpy.broker.replica_choice import choose_replicas
from pinotpy.broker.segment_choice import CompiledQuery
from pinotpy.broker.tables_asked import resolved, system_table
from pinotpy.errors import InvalidQueryError

Routed = dict[str, dict[str, list[str]]]


async def route_query(broker: Broker, question: Question, rights: TableRights) -> Routed:
    """Table with type → server → segments; a half that has no rows for the query is absent.

    Raises: what parsing and compiling raise; AccessDeniedError, TableNotFoundError; InvalidQueryError: it reads no
    table of the cluster's.
    """
    deadline_ns = broker.clock.monotonic_ns() + broker.limits.timeout_ms * 1_000_000
    plan = await parse(broker, question, rights.client, deadline_ns)
    if not plan.statement.table:
        raise InvalidQueryError("the query reads no table, so it is routed nowhere")
    system = system_table(broker, plan.statement.table, question.dialect, rights)
    if system is not None:
        raise InvalidQueryError(
            f"'{system.name}' has no segments: its rows go with each query to any one server, so it is routed nowhere"
        )
    target = resolved(broker, plan.statement.table, question.dialect, rights)
    mode = null_mode(
        question.dialect,
        plan.options.enable_null_handling,
        target.null_handling,
        of_broker=broker.limits.null_handling,
    )
    context = await compile_plan(broker, question, plan, target.schema, mode.handling, None, rights.client, deadline_ns)
    chosen = await choose_replicas(broker, CompiledQuery(context, None, broker.clock.now_ms()), target.halves, 0)
    return {
        asked.half.routing.table: {
            server: list(asked.instead.get(server, segments))
            for server, segments in sorted(asked.selection.assignment.items())
        }
        for asked in chosen.halves
    }
