"""Which servers a query asks for which segments: for all that may have rows for it, in every half of the table.

Where no segment may, one server is asked for one all the same: the answer then has the types, the empty aggregates and
the refusals that it would have over all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pinotpy.broker.catalog import Half
from pinotpy.broker.parts import Broker
from pinotpy.broker.plan_cache import BoundQuery
from pinotpy.broker.routing.segment_pruner import ExplainedPruning, Kept, SegmentPruner
from pinotpy.broker.routing.table_routing import Selection, TableRouting
from pinotpy.query.compile.rewrite.pin_time import pin_time
from pinotpy.query.model.context import LiteralValue, QueryContext
from pinotpy.query.model.context_codec import encode_context
from pinotpy.query.model.literals import encode_literals, literals_of
from pinotpy.query.model.options import skips_broker_pruning

# Above this a query is written on another thread.
INLINE_COLUMNS_MAX = 500
_NOBODY: frozenset[str] = frozenset()
# What a prune of a large table counts as among the work of threads: it takes milliseconds.
_PRUNE_BYTES = 0
_NO_SEGMENTS = Selection({}, ())

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query, at its moment. bound: what servers get of the context where they know the rest."""

    context: QueryContext
    bound: BoundQuery | None
    now_ms: int

    def filter_of(self, half: Half) -> QueryContext:
        """With the filter that the servers of a half get."""
        context = self.context if half.time_predicate is None else half.of_half(self.context)
        return pin_time(context, self.now_ms) if self.bound is None else context

    def encoded(self, half: Half) -> tuple[bytes, bytes | None]:
        """What the servers of a half get: the whole context, or what many queries share of it, and the literals."""
        if self.bound is None:
            return encode_context(pin_time(half.of_half(self.context), self.now_ms)), None
        key = half.routing.table, half.time_predicate
        blank = self.bound.blanks.get(key, lambda: half.of_half(self.context))
        return blank, encode_literals(_literals(self.bound, half))


@dataclass(frozen=True, slots=True)
class HalfAsked:
    """What is asked of one half: the bytes of the query, its literals where these are beside them, and of whom.

    routing: of the half, with those of its chains that are asked for. kept: what the filter leaves of its segments;
    None: all.
    """

    half: Half
    encoded: bytes
    literals: bytes | None
    routing: TableRouting
    selection: Selection
    kept: Kept | None = None


@dataclass(slots=True)
class SegmentChoice:
    """The halves that are asked; of how many segments nobody is, and their docs. explained: of EXPLAIN, by halves.
    is_for_types: no segment may have rows; whoever is asked, it is for all that an answer has besides.
    """

    halves: list[HalfAsked]
    num_pruned: int = 0
    num_docs_pruned: int = 0
    explained: list[ExplainedPruning] = field(default_factory=list)
    is_for_types: bool = False


async def choose_segments(
    broker: Broker,
    query: CompiledQuery,
    halves: Sequence[Half],
    number: int,
    excluded: frozenset[str] = _NOBODY,
    lagging: frozenset[str] = _NOBODY,
) -> SegmentChoice:
    """Whom to ask. `number`, `excluded`, `lagging`: see TableRouting.select."""
    skips = skips_broker_pruning(query.context.options)
    chosen: list[HalfAsked] = []
    explained: list[ExplainedPruning] = []
    is_anything_pruned, num_pruned, num_docs = False, 0, 0
    for half in halves:
        if len(query.context.output) > INLINE_COLUMNS_MAX:
            encoded, literals = await asyncio.to_thread(query.encoded, half)
        else:
            encoded, literals = query.encoded(half)
        is_pruned = not skips and (query.context.filter is not None or half.time_predicate is not None)
        kept = await _kept(broker, query, half, (encoded, literals)) if is_pruned else None
        if kept is None:
            selection = half.routing.select(number, excluded, lagging)
        else:
            is_anything_pruned = True
            num_pruned, num_docs = num_pruned + kept.num_pruned, num_docs + kept.num_docs
            selection = (
                kept.routing.select_some(kept.names, kept.selections, number, excluded, lagging)
                if kept.names or kept.routing.chains
                else _NO_SEGMENTS
            )
        routing = half.routing if kept is None else kept.routing
        chosen.append(HalfAsked(half, encoded, literals, routing, selection, kept))
        if query.context.explain and is_pruned and half.pruner is not None:
            explained.append(await _explained(broker, query, half, half.pruner))
    if not is_anything_pruned:
        return SegmentChoice(chosen, explained=explained)
    asked = [one for one in chosen if one.selection.assignment or one.selection.unavailable]
    if asked:
        return SegmentChoice(asked, num_pruned, num_docs, explained)
    for one in chosen:
        half, routing = one.half, one.half.routing
        living = _living(routing, excluded) or _living(routing, _NOBODY)
        if living and half.pruner is not None and one.kept is not None:
            members = living if routing.is_in_chain(living[0]) else ()
            if routing.chains:
                routing = routing.with_chains((members,) if members else ())
            selection = routing.select_some(() if members else living, {}, number, excluded, lagging)
            docs = sum([half.pruner.docs_of(name) for name in living])
            alone = HalfAsked(half, one.encoded, one.literals, routing, selection, one.kept)
            return SegmentChoice([alone], num_pruned - len(living), num_docs - docs, explained, is_for_types=True)
    # Nobody lives: that is told as it is without pruning.
    whole = [
        replace(one, routing=routing, selection=routing.select(number, excluded, lagging), kept=None)
        for one in chosen
        for routing in (one.half.routing,)
    ]
    return SegmentChoice(whole, explained=explained)


def _living(routing: TableRouting, excluded: frozenset[str]) -> tuple[str, ...]:
    """One segment that another server serves than those excluded, or the members of one chain; empty: none does."""
    for name, servers in routing.replicas.items():
        if not excluded.issuperset(servers) and not routing.is_in_chain(name):
            return (name,)
    chains = (chain for chain in routing.chains if any(not excluded.issuperset(routing.replicas[n]) for n in chain))
    return next(chains, ())


async def _kept(broker: Broker, query: CompiledQuery, half: Half, key: tuple[bytes, bytes | None]) -> Kept | None:
    """The segments of a half that pass its filter; None: all. `key`: the bytes of the query."""
    pruner = half.pruner
    if pruner is None:
        return None
    found = pruner.found(key)
    if found is not None:
        return found[0]
    kept = await _on(broker, pruner.is_large, lambda: pruner.prune(query.filter_of(half)))
    pruner.keep(key, kept)
    return kept


async def _explained(broker: Broker, query: CompiledQuery, half: Half, pruner: SegmentPruner) -> ExplainedPruning:
    return await _on(broker, pruner.is_large, lambda: pruner.explain(query.filter_of(half)))


async def _on(broker: Broker, is_long: bool, work: Callable[[], T]) -> T:
    return await broker.run_apart(work, _PRUNE_BYTES) if is_long else work()


def _literals(bound: BoundQuery, half: Half) -> list[LiteralValue]:
    predicate = half.time_predicate
    return bound.literals if predicate is None else bound.literals + literals_of(predicate)
