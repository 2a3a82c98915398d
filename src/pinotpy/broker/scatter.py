"""Requests to servers for their part of an answer, and retries on other replicas.

A refused or broken connection costs no answer if another replica lives: its segments are requested from the others
within the same query. If a server has sent nothing to anybody for `hedge_after_s`, its segments are also requested
elsewhere, and whoever covers them first counts (each segment's rows enter the answer exactly once). A server that
answers others meanwhile is slow, not gone: hedging would only double the load. A server that lacks a segment says so,
and only that segment is requested elsewhere. No server gets the same segment twice within a query, so retries are
bounded by the number of replicas; none is made when the query's time is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pinotpy.broker.routing.segment_pruner import ExplainedPruning
from pinotpy.broker.routing.table_routing import Selection, TableRouting
from pinotpy.errors import DataError, PinotError, RemoteError, ServerNotRespondingError, ServerUnreachableError
from pinotpy.query.result.partial import OffsetRange, PartialResult

_NOBODY: frozenset[str] = frozenset()
Ask = Callable[[str, tuple[str, ...]], Awaitable[PartialResult]]


@dataclass(slots=True)
class Gathered:
    """What came back. Every segment of the routing is in exactly one partial result, or in `missing`, or failed."""

    partials: list[tuple[str, PartialResult]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # no (further) replica to ask
    failures: list[tuple[str, PinotError]] = field(default_factory=list)  # server, fault, of attempts that cost rows
    asked: set[str] = field(default_factory=set)  # servers on whose answers the result depends; see `_counted`
    responded: set[str] = field(default_factory=set)
    unreachable: set[str] = field(default_factory=set)  # servers to leave out for a while
    faulted: set[str] = field(default_factory=set)  # servers that live and failed
    num_pruned: int = 0  # segments that nobody was asked for, as they have no row that passes; num_docs_pruned: theirs
    num_docs_pruned: int = 0
    explained: list[ExplainedPruning] = field(default_factory=list)  # of EXPLAIN, by halves of the table

    @property
    def has_offsets(self) -> bool:
        """Whether rows of segments that consume are among the answers."""
        return any(partial.partition_offsets for _, partial in self.partials)

    def offsets(self) -> dict[str, list[OffsetRange]]:
        """By server, which records of a stream were answered."""
        ranges: dict[str, list[OffsetRange]] = {}
        for server, partial in self.partials:
            if partial.partition_offsets:
                ranges.setdefault(server, []).extend(partial.partition_offsets)
        return ranges

    def add(self, other: Gathered) -> None:
        self.partials += other.partials
        self.missing += other.missing
        self.failures += other.failures
        self.asked |= other.asked
        self.responded |= other.responded
        self.unreachable |= other.unreachable
        self.faulted |= other.faulted


@dataclass(slots=True)
class _Question:
    """What all attempts of one query share."""

    routing: TableRouting
    ask: Ask
    hedge_after_s: float
    heard: dict[str, float]
    time_is_up: Callable[[], bool]


async def scatter(
    routing: TableRouting,
    selection: Selection,
    ask: Ask,
    *,
    hedge_after_s: float,
    heard: dict[str, float] | None = None,
    time_is_up: Callable[[], bool] = lambda: False,
) -> Gathered:
    """Ask all servers of `selection` at once; returns when every segment is answered or has no replica left.

    Args:
        ask: carries the deadline: it raises a PinotError at the latest when the time is up.
        heard: when each server last answered anything (loop time), kept up to date here; queries share it.
        time_is_up: whether the query has no time left to ask anybody else.
    """
    question = _Question(routing, ask, hedge_after_s, {} if heard is None else heard, time_is_up)
    if len(selection.assignment) == 1:
        # One server is most queries: a task for it would cost as much as parsing the query.
        [(server, segments)] = selection.assignment.items()
        alone = await _cover(question, server, segments, _NOBODY)
        alone.missing += selection.unavailable
        return alone
    gathered = Gathered(missing=list(selection.unavailable))
    for gathered_part in await asyncio.gather(
        *(_cover(question, server, segments, _NOBODY) for server, segments in selection.assignment.items())
    ):
        gathered.add(gathered_part)
    return gathered


async def _cover(question: _Question, server: str, segments: tuple[str, ...], tried: frozenset[str]) -> Gathered:
    """Get an answer for `segments`, from `server` or, if it fails or is silent, from other replicas."""
    tried = tried | {server}
    if segments and not _has_other_replicas(question.routing, segments[:1], tried):
        # Nobody could help out: no need to watch the clock.
        return await _complete(await _ask_one(server, segments, question), question, segments, tried)
    first = asyncio.create_task(_ask_one(server, segments, question))
    try:
        if await _is_silent(first, server, question) and _has_other_replicas(question.routing, segments, tried):
            return await _race(first, question, segments, tried)
        outcome = await first
    finally:
        if not first.done():
            first.cancel()
    return await _complete(outcome, question, segments, tried)


async def _is_silent(first: asyncio.Task[Gathered], server: str, question: _Question) -> bool:
    """Wait for `first`; True if its server has answered nothing at all for `hedge_after_s`."""
    loop = asyncio.get_running_loop()
    asked_at = loop.time()
    while True:
        quiet_s = loop.time() - max(asked_at, question.heard.get(server, 0.0))
        done, _ = await asyncio.wait({first}, timeout=max(question.hedge_after_s - quiet_s, 0.0))
        if done:
            return False
        if loop.time() - max(asked_at, question.heard.get(server, 0.0)) >= question.hedge_after_s:
            return True


async def _ask_one(server: str, segments: tuple[str, ...], question: _Question) -> Gathered:
    gathered = Gathered(asked={server})
    try:
        partial = await question.ask(server, segments)
    except (ServerUnreachableError, ServerNotRespondingError) as error:
        gathered.failures.append((server, error))
        gathered.unreachable.add(server)
    except (RemoteError, DataError) as error:
        # It lives, and something is wrong with it or with these segments there: another replica may do better.
        gathered.responded.add(server)
        gathered.failures.append((server, error))
        gathered.faulted.add(server)
    except PinotError as error:
        # The query's own fault (a bad argument, a limit): another replica would say the same.
        gathered.responded.add(server)
        gathered.failures.append((server, error))
    else:
        gathered.responded.add(server)
        gathered.partials.append((server, partial))
    if gathered.responded:
        question.heard[server] = asyncio.get_running_loop().time()
    return gathered


async def _complete(
    outcome: Gathered, question: _Question, segments: tuple[str, ...], tried: frozenset[str]
) -> Gathered:
    """Request elsewhere what `outcome` lacks: all segments after a failed connection, or those the server misses."""
    if len(outcome.partials) == 1 and not outcome.partials[0][1].missing_segments:
        return outcome
    if outcome.partials:
        lacking = _take_missing(outcome)
    elif outcome.unreachable or outcome.faulted:
        lacking = segments
    else:
        return outcome
    if not lacking:
        return outcome
    if question.time_is_up():
        if outcome.partials or not outcome.failures:
            outcome.missing += lacking
        return outcome
    answered = set(segments).difference(lacking) if outcome.partials else ()
    other = question.routing.reselect(lacking, dict.fromkeys(lacking, tried), answered)
    parts = await asyncio.gather(*(_cover(question, s, names, tried) for s, names in other.assignment.items()))
    if other.assignment and not other.unavailable:
        # Every lacking segment has another server: the failed attempt itself costs no rows and is no fault of the
        # answer.
        outcome.failures = []
    if not outcome.faulted:
        # A server's fault names the cause already; "no replica" would hide that one lives.
        outcome.missing += other.unavailable
    for gathered_part in parts:
        outcome.add(gathered_part)
    return _counted(outcome)


async def _race(
    first: asyncio.Task[Gathered], question: _Question, segments: tuple[str, ...], tried: frozenset[str]
) -> Gathered:
    """`first` is silent: ask other replicas too; the first that covers all segments wins, the loser is cancelled."""
    silent = Gathered(unreachable=set(tried), asked=set(tried), failures=[])
    second = asyncio.create_task(_complete(silent, question, segments, tried))
    pending: set[asyncio.Task[Gathered]] = {first, second}
    best: Gathered | None = None
    try:
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                outcome = task.result()
                if task is second:
                    outcome.unreachable -= outcome.responded
                if _covers(outcome):
                    return outcome
                outcome.asked |= tried
                # Keep the attempt that delivered more.
                if best is None or len(outcome.partials) > len(best.partials):
                    best = outcome
    finally:
        for loser in pending:
            loser.cancel()
    assert best is not None
    best.missing += _take_missing(best)
    return best


def _counted(outcome: Gathered) -> Gathered:
    """Where nothing lacks, a server whose segments all came from elsewhere was not needed: clients of the reference
    read an answer of fewer servers than were queried as partial.
    """
    if _covers(outcome):
        outcome.asked = {server for server, _ in outcome.partials}
    return outcome


def _take_missing(outcome: Gathered) -> tuple[str, ...]:
    """The segments that servers said they lack; from here on `outcome.missing` or another server accounts for them."""
    lacking = tuple(name for _, partial in outcome.partials for name in partial.missing_segments)
    for _, partial in outcome.partials:
        partial.missing_segments = []
    return lacking


def _covers(outcome: Gathered) -> bool:
    complete = not outcome.failures and not outcome.missing
    return complete and not any(partial.missing_segments for _, partial in outcome.partials)


def _has_other_replicas(routing: TableRouting, segments: tuple[str, ...], tried: frozenset[str]) -> bool:
    return all(any(server not in tried for server in routing.replicas.get(name, ())) for name in segments)
