"""Whom a query asks: the segments that may have rows for it, then, where the broker prefers servers by what it has
measured, the best of their replicas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pinotpy.broker.catalog import Half
from pinotpy.broker.parts import Broker
from pinotpy.broker.routing.turns import fair_turn
from pinotpy.broker.segment_choice import CompiledQuery, SegmentChoice, choose_segments

_NOBODY: frozenset[str] = frozenset()


async def choose_replicas(
    broker: Broker,
    query: CompiledQuery,
    halves: Sequence[Half],
    number: int,
    excluded: frozenset[str] = _NOBODY,
    lagging: frozenset[str] = _NOBODY,
) -> SegmentChoice:
    """Whom to ask. `number`, `excluded`, `lagging`: see TableRouting.select."""
    chosen = await choose_segments(broker, query, halves, number, excluded, lagging)
    if not broker.servers.chooses:
        return chosen

    def rank(servers: Collection[str]) -> Mapping[str, int]:
        now_ns = broker.clock.monotonic_ns()
        return broker.servers.ranks(servers, fair_turn(number, len(servers)), now_ns)

    chosen.halves = [
        replace(one, selection=one.routing.prefer(one.selection, rank, number, excluded, lagging))
        for one in chosen.halves
    ]
    return chosen
