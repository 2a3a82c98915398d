"""Which servers a query asks for which segments: for all that may have rows for it, in every half of the table.

Where no segment may, one server is asked for one of its own all the same: the answer then has the types, the empty
aggregates and the refusals that it would have over all. Servers take turns, and another one is asked where that one
fails or hangs (scatter.py), as none of them has rows of the query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TypeVar

from pinotpy.broker.catalog import Half
from pinotpy.broker.parts import Broker
from pinotpy.broker.plan_cache import BoundQuery
from pinotpy.broker.routing.segment_pruner import ExplainedPruning, Kept, SegmentPruner
from pinotpy.broker.routing.table_routing import Selection, TableRouting, owned_chains
from pinotpy.broker.routing.turns import fair_turn
from pinotpy.query.compile.rewrite.pin_time import pin_time
from pinotpy.query.model.context import LiteralValue, QueryContext
from pinotpy.query.model.context_codec import encode_context
from pinotpy.query.model.literals import encode_literals, literals_of
from pinotpy.query.model.options import skips_broker_pruning

# Above this a query is written on another thread.
INLINE_COLUMNS_MAX = 500
# How many servers are asked at most, one after the other, where any of them would do.
ANYBODY_MAX = 3
_NOBODY: frozenset[str] = frozenset()
# What a prune of a large table counts as among the work of threads: it takes milliseconds.
_PRUNE_BYTES = 0
_NO_SEGMENTS = Selection({}, ())

T = TypeVar("T")


@dataclass(frozen=True)
class CompiledQuery:
    """A query, at its moment. bound: what servers get of the context where they know the rest: then it reads no clock.
    What is made of it is kept.
    """

    context: QueryContext
    bound: BoundQuery | None
    now_ms: int

    def filter_of(self, half: Half) -> QueryContext:
        """With the filter that the servers of a half get."""
        context = self._pinned if self.bound is None else self.context
        return context if half.time_predicate is None else half.of_half(context)

    def encoded(self, half: Half) -> tuple[bytes, bytes | None]:
        """What the servers of a half get: the whole context, or what many queries share of it, and the literals."""
        if self.bound is None:
            return encode_context(half.of_half(self._pinned)), None
        key = half.routing.table, half.time_predicate, half.without_nulls
        blank = self.bound.blanks.get(key, lambda: half.of_half(self.context))
        return blank, encode_literals(_literals(self.bound, half))

    @cached_property
    def _pinned(self) -> QueryContext:
        return pin_time(self.context, self.now_ms)


@dataclass(frozen=True, slots=True)
class HalfAsked:
    """What is asked of one half: the bytes of the query, its literals where these are beside them, and of whom.

    routing: of the half, with those of its chains that are asked for. kept: what the filter leaves of its segments;
    None: all. instead: where any server will do, those that may be asked, in their order, and what each is asked for
    instead of the one name that stands for it in `routing` and `selection`.
    """

    half: Half
    encoded: bytes
    literals: bytes | None
    routing: TableRouting
    selection: Selection
    kept: Kept | None = None
    instead: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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

    def answered_by(self, server: str) -> SegmentChoice:
        """Where any server would do, and this one did."""
        ((asked,), pruner) = self.halves, self.halves[0].half.pruner
        assert pruner is not None
        first, others = next(iter(asked.instead.values())), asked.instead[server]
        num_docs = self.num_docs_pruned + pruner.docs_of(first) - pruner.docs_of(others)
        table = asked.half.routing.table
        explained = [replace(each, for_types=others) if each.table == table else each for each in self.explained]
        num_pruned = self.num_pruned + len(first) - len(others)
        return replace(self, num_pruned=num_pruned, num_docs_pruned=num_docs, explained=explained)


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
    anybody = _anybody(chosen, excluded, number)
    if anybody is not None:
        one, pruner, instead = anybody
        server, names = next(iter(instead.items()))
        routing = TableRouting(one.half.routing.table, {names[0]: tuple(instead)})
        alone = replace(one, routing=routing, selection=Selection({server: names[:1]}, ()), instead=instead)
        num_docs -= pruner.docs_of(names)
        return SegmentChoice([alone], num_pruned - len(names), num_docs, explained, is_for_types=True)
    # Nobody lives: that is told as it is without pruning.
    whole = [
        replace(one, routing=routing, selection=routing.select(number, excluded, lagging), kept=None)
        for one in chosen
        for routing in (one.half.routing,)
    ]
    return SegmentChoice(whole, explained=explained)


Whom = tuple[HalfAsked, SegmentPruner, dict[str, tuple[str, ...]]]


def _anybody(chosen: Iterable[HalfAsked], excluded: frozenset[str], number: int) -> Whom | None:
    """Of a half of which nothing is left the servers that may be asked, each with what it has: a file, and only where
    nobody has one, the members of a chain. The turn of a request is one of all servers and halves.
    """
    pruned = [(one, one.half.pruner) for one in chosen if one.kept is not None and one.half.pruner is not None]
    for left_out in (excluded, _NOBODY):
        for owned in (_files, _chains):
            living = [
                (one, pruner, server, names)
                for one, pruner in pruned
                for server, names in owned(one.half.routing)
                if server not in left_out
            ]
            if living:
                turn = fair_turn(number, len(living))
                one, pruner, *_ = living[turn]
                own = {server: names for each, _, server, names in living[turn:] + living[:turn] if each is one}
                return one, pruner, dict(islice(own.items(), ANYBODY_MAX))
    return None


def _files(routing: TableRouting) -> Iterable[tuple[str, tuple[str, ...]]]:
    return routing.file_of_each().items()


def _chains(routing: TableRouting) -> Iterable[tuple[str, tuple[str, ...]]]:
    owned = owned_chains(routing.replicas, routing.chains, _NOBODY)
    return ((server, tuple(members)) for owners, members in owned for server in owners)


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
