"""Asking the servers of a query: one request to each, within the query's time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

from pinotpy.broker.catalog import Target
from pinotpy.broker.parts import Broker
from pinotpy.broker.plan_cache import BoundQuery
from pinotpy.broker.query_memory import QueryMemory
from pinotpy.broker.replica_choice import choose_replicas
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.broker.scatter import Ask, Gathered, scatter
from pinotpy.broker.segment_choice import CompiledQuery, HalfAsked
from pinotpy.errors import DataError, OutOfCapacityError, QueryTimeoutError, RemoteError, ServerNotRespondingError
from pinotpy.query.model.context import QueryContext
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.wire import FLAG_COMPACT_ROWS, FLAG_FINAL, FLAG_TRACE, LAST_WORD_S, RequestKind, ServerRequest

QUARANTINE_NS = 2_000_000_000
# Of a query's time, where any server would do: what one is waited for that says nothing before another one is asked.
ANYBODY_PART = 0.25


# Above this an answer is read and checked on another thread.
INLINE_ANSWER_BYTES_MAX = 256 << 10


async def read_answer(answer: bytes) -> PartialResult:
    """A server's answer from its bytes. Raises DataError."""
    if len(answer) <= INLINE_ANSWER_BYTES_MAX:
        return PartialResult.from_bytes(answer)
    return await asyncio.to_thread(_read_and_measured, answer)


def _read_and_measured(answer: bytes) -> PartialResult:
    partial = PartialResult.from_bytes(answer)
    _ = partial.num_bytes  # asked for on the event loop
    return partial


async def gather(
    broker: Broker,
    context: QueryContext,
    bound: BoundQuery | None,
    target: Target,
    number: int,
    deadline_ns: int,
    memory: QueryMemory,
) -> Gathered:
    """Scatter to the servers of every half of the table and collect. `bound`: what servers get of the context where
    they know the rest.
    """
    excluded = _quarantined(broker)
    lagging = broker.lagging.of(target.raw_table_name, broker.clock.monotonic_ns())
    query = CompiledQuery(context, bound, broker.clock.now_ms())
    chosen = await choose_replicas(broker, query, target.halves, number, excluded, lagging)
    hedge_after_s = broker.limits.hedge_after_ms / 1000
    if chosen.is_for_types:
        # Whoever it is, it has no rows of the query: not to be waited for until the query's time is up.
        hedge_after_s = min(hedge_after_s, ANYBODY_PART * (deadline_ns - broker.clock.monotonic_ns()) / 1e9)
    flags = FLAG_COMPACT_ROWS | (FLAG_TRACE if context.options.trace else 0)
    asking = _Asking(broker, number, deadline_ns, flags, memory, target.given_rows)

    def ask_half(asked: HalfAsked) -> Awaitable[Gathered]:
        selection, routing = asked.selection, asked.routing
        # Whoever is asked for all segments gives all of the answer, or none of it (scatter.py).
        is_whole = len(chosen.halves) == 1 and not selection.unavailable
        num_segments = sum(map(len, selection.assignment.values())) if is_whole else 0
        ask: Ask = asking.of_half(asked.half.routing, asked.encoded, asked.literals, num_segments)
        if asked.instead:
            ask = _for_its_own(ask, asked.instead)
        return scatter(
            routing, selection, ask, hedge_after_s=hedge_after_s, heard=broker.heard, time_is_up=asking.time_is_up
        )

    if len(chosen.halves) == 1:
        whole = await ask_half(chosen.halves[0])
    else:
        whole = Gathered()
        for answers in await asyncio.gather(*map(ask_half, chosen.halves)):
            whole.add(answers)
    if chosen.is_for_types and whole.partials:
        chosen = chosen.answered_by(whole.partials[-1][0])
    whole.num_pruned, whole.num_docs_pruned = chosen.num_pruned, chosen.num_docs_pruned
    whole.explained = chosen.explained
    if whole.unreachable:
        for server in whole.unreachable - whole.responded:
            broker.quarantine[server] = broker.clock.monotonic_ns() + QUARANTINE_NS
    return whole


def _for_its_own(ask: Ask, own: Mapping[str, tuple[str, ...]]) -> Ask:
    """Asks each server for what it has itself, instead of what it is to answer for."""

    async def ask_for_its_own(server: str, segments: tuple[str, ...]) -> PartialResult:
        partial = await ask(server, own[server])
        if partial.missing_segments:
            partial.missing_segments = list(segments)
        return partial

    return ask_for_its_own


class _Asking:
    """What the calls of one query share: its number, its time, the servers that were asked, its memory, the rows that
    it brings.
    """

    __slots__ = ("_asked", "_broker", "_deadline_ns", "_flags", "_given_rows", "_memory", "_number")

    def __init__(
        self, broker: Broker, number: int, deadline_ns: int, flags: int, memory: QueryMemory, given_rows: bytes
    ) -> None:
        self._broker = broker
        self._number = number
        self._deadline_ns = deadline_ns
        self._flags = flags
        self._asked: set[str] = set()
        self._memory = memory
        self._given_rows = given_rows

    def time_is_up(self) -> bool:
        return self._broker.clock.monotonic_ns() >= self._deadline_ns

    def of_half(self, routing: TableRouting, encoded: bytes, literals: bytes | None, num_segments: int) -> _AskHalf:
        """Asks servers of one half. `num_segments`: of the whole answer, 0 where no server can have all of it."""
        return _AskHalf(self, routing, encoded, literals, num_segments)

    async def send(self, server: str, segments: tuple[str, ...], half: _AskHalf) -> PartialResult:
        broker, number = self._broker, self._number
        timeout_s = (self._deadline_ns - broker.clock.monotonic_ns()) / 1e9
        if timeout_s <= 0:
            raise QueryTimeoutError("the query's time was up before the servers could be asked: lower the load")
        if server in self._asked:
            # A server ends queries by their number when a call breaks off: its second call for this query has another
            # one.
            number = next(broker.numbers)
        self._asked.add(server)
        flags = self._flags | FLAG_FINAL if len(segments) == half.num_segments else self._flags
        request = ServerRequest(
            RequestKind.QUERY,
            number,
            int(timeout_s * 1000),
            broker.broker_id,
            "",
            half.routing.table,
            segments,
            half.encoded,
            flags,
            0,
            half.literals,
            half.routing.num_consuming(segments),
            self._given_rows,
        )
        try:
            partial = await _measured(broker, server, request, timeout_s)
        except ServerNotRespondingError as error:  # whose message has the time of this call, not the query's
            raise ServerNotRespondingError(
                f"server '{server}' did not answer in the query's time", server=server
            ) from error
        left_s = (self._deadline_ns - broker.clock.monotonic_ns()) / 1e9
        await self._memory.take(partial.num_bytes, "the answers of servers", left_s)
        return partial


async def _measured(broker: Broker, server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
    """A server's answer; how long it took is kept where this broker measures its servers."""
    wait_s = timeout_s + LAST_WORD_S
    if not broker.servers.rules.measures:
        return await broker.send(server, request, wait_s)
    began_ns = broker.clock.monotonic_ns()
    broker.servers.began(server, began_ns)
    took_ms: float | None = None
    try:
        partial = await broker.send(server, request, wait_s)
        took_ms = _ms_since(broker, began_ns)
    except (RemoteError, DataError, OutOfCapacityError, QueryTimeoutError):
        # No answer is no fast one: refusals would attract queries.
        took_ms = timeout_s * 1000
        raise
    except asyncio.CancelledError:
        took_ms = _ms_since(broker, began_ns)  # it took at least so long
        raise
    finally:
        broker.servers.ended(server, broker.clock.monotonic_ns(), took_ms)
    return partial


def _ms_since(broker: Broker, began_ns: int) -> float:
    return (broker.clock.monotonic_ns() - began_ns) / 1e6


class _AskHalf:
    """Asks one server for segments of one half of the table."""

    __slots__ = ("_asking", "encoded", "literals", "num_segments", "routing")

    def __init__(
        self, asking: _Asking, routing: TableRouting, encoded: bytes, literals: bytes | None, num_segments: int
    ) -> None:
        self._asking = asking
        self.routing = routing
        self.encoded = encoded
        self.literals = literals
        self.num_segments = num_segments

    async def __call__(self, server: str, segments: tuple[str, ...]) -> PartialResult:
        return await self._asking.send(server, segments, self)


def _quarantined(broker: Broker) -> frozenset[str]:
    if not broker.quarantine:
        return _NOBODY
    now_ns = broker.clock.monotonic_ns()
    broker.quarantine = {server: until for server, until in broker.quarantine.items() if until > now_ns}
    return frozenset(broker.quarantine)


_NOBODY: frozenset[str] = frozenset()
