"""Proves whose turn it is among queries that need much memory: first come, first served, never more than there is
unless one runs alone, and nothing stays taken by whoever gave up.
"""

from __future__ import annotations

import asyncio

import pytest

from pinotpy.broker.large_queries import LargeQueries
from pinotpy.errors import ProcessMemoryError

MIB = 1 << 20


async def started(large: LargeQueries, size_bytes: int, timeout_s: float = 600.0) -> asyncio.Task[int]:
    """A query that waits for its turn, or has it."""
    task = asyncio.create_task(large.enter(size_bytes, timeout_s))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


def test_small_queries_and_those_without_a_budget_begin_at_once() -> None:
    async def run() -> None:
        large = LargeQueries(lambda: 64 * MIB)
        assert await large.enter(64 * MIB, 1.0) == 64 * MIB
        assert await large.enter(MIB, 1.0) == 0
        assert await LargeQueries(lambda: 0).enter(1 << 40, 1.0) == 0

    asyncio.run(run())


def test_whoever_came_first_begins_first() -> None:
    """A smaller one that would fit does not overtake: the large one before it would wait for ever."""

    async def run() -> None:
        large = LargeQueries(lambda: 100 * MIB)
        first = await started(large, 60 * MIB)
        second, third = await started(large, 80 * MIB), await started(large, 20 * MIB)
        assert (first.done(), second.done(), third.done()) == (True, False, False)
        large.leave(await first)
        assert await second == 80 * MIB and await third == 20 * MIB
        large.leave(80 * MIB)
        large.leave(20 * MIB)
        assert (large.running_bytes, large.waiting) == (0, 0)

    asyncio.run(run())


def test_one_that_needs_more_than_there_is_runs_alone() -> None:
    async def run() -> None:
        large = LargeQueries(lambda: 100 * MIB)
        first = await started(large, 20 * MIB)
        second, third = await started(large, 500 * MIB), await started(large, 20 * MIB)
        large.leave(await first)
        assert await second == 500 * MIB and not third.done()
        large.leave(500 * MIB)
        assert await third == 20 * MIB

    asyncio.run(run())


def test_whoever_waits_too_long_is_told_why_and_lets_the_next_one_begin() -> None:
    async def run() -> None:
        large = LargeQueries(lambda: 100 * MIB)
        first = await started(large, 60 * MIB)
        impatient, third = await started(large, 80 * MIB, 0.02), await started(large, 40 * MIB)
        with pytest.raises(ProcessMemoryError, match=rf"took {80 * MIB} bytes of this broker's memory before"):
            await impatient
        assert await third == 40 * MIB
        large.leave(await first)
        large.leave(40 * MIB)
        assert (large.running_bytes, large.waiting) == (0, 0)

    asyncio.run(run())


def test_a_cancelled_query_takes_nothing() -> None:
    async def run() -> None:
        large = LargeQueries(lambda: 100 * MIB)
        first = await started(large, 60 * MIB)
        waiting = await started(large, 80 * MIB)
        large.leave(await first)  # its turn is granted in the moment in which it is cancelled
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (large.running_bytes, large.waiting) == (0, 0)

    asyncio.run(run())
