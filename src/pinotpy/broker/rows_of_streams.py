"""Answers of segments that consume: whether their records tile, and whether another replica has more of them."""

from __future__ import annotations

import logging
from typing import Final

from pinotpy.broker.catalog import Target
from pinotpy.broker.gathering import gather
from pinotpy.broker.parts import Broker
from pinotpy.broker.plan_cache import BoundQuery
from pinotpy.broker.query_memory import QueryMemory
from pinotpy.broker.routing.lagging_replicas import lagging_warnings
from pinotpy.broker.routing.offset_check import offset_faults
from pinotpy.broker.scatter import Gathered
from pinotpy.query.model.context import QueryContext
from pinotpy.query.result.partial import QueryException
from pinotpy.query.result.response.envelope import Envelope

log = logging.getLogger(__name__)

SEGMENTS_MISSING: Final = 305
# How often the rows of a stream are asked for: of a replica that lags, of each that does not, and of those that do not
# tile.
ASKED_MAX: Final = 4


def name_boundary(envelope: Envelope, target: Target) -> None:
    """Say what divides the halves of the table as they are asked."""
    envelope.time_boundary = None if target.boundary is None else target.boundary.as_json()
    envelope.boundary_fault = target.fault


async def tiled(
    broker: Broker,
    table: str,
    context: QueryContext,
    bound: BoundQuery | None,
    gathered: Gathered,
    envelope: Envelope,
    deadline_ns: int,
    memory: QueryMemory,
) -> Gathered:
    """The answers of segments that consume. Their records have to tile, else they are asked for once more; and where a
    server still reads what others may have, those are asked. What is still wrong then is told with the answer.
    """
    is_asked_again = False
    for _ in range(ASKED_MAX):
        offsets, now_ns = gathered.offsets(), broker.clock.monotonic_ns()
        faults = offset_faults(offsets)
        lags = broker.lagging.note(envelope.tables_queried[0], offsets, now_ns)
        if now_ns >= deadline_ns or not (lags or (faults and not is_asked_again)):
            break
        if faults:
            log.info("records of a stream do not tile, asking again table=%s %s", table, faults[0])
            is_asked_again = True
        target = broker.catalog.resolve(table, context.dialect)
        name_boundary(envelope, target)
        memory.give_back()
        gathered = await gather(broker, context, bound, target, next(broker.numbers), deadline_ns, memory)
    offsets = envelope.partition_offsets = gathered.offsets()
    envelope.exceptions += [QueryException(SEGMENTS_MISSING, fault) for fault in offset_faults(offsets)]
    envelope.warnings += lagging_warnings(table, offsets)
    return gathered
