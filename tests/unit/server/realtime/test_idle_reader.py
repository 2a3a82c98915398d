"""Proves when a process that reads gives free memory back: once, when no partition of it had rows for a while."""

from __future__ import annotations

from pinotpy.clock import ManualClock
from pinotpy.server.realtime.workers.idle_reader import AFTER_NS, IdleReader

AFTER_MS = AFTER_NS // 1_000_000


def test_memory_is_given_back_once_rows_stop() -> None:
    clock, given = ManualClock(), list[int]()
    idle = IdleReader(clock, lambda: given.append(clock.now_ms()))

    def looked(*num_rows: int) -> int:
        for partition, count in enumerate(num_rows):
            idle.looked(partition, count)
        return len(given)

    clock.advance(2 * AFTER_MS)
    assert looked(0, 0) == 0, "nothing was read"
    assert looked(5, 0) == 0
    clock.advance(AFTER_MS - 1)
    assert looked(5, 7) == 0, "the other one reads"
    clock.advance(AFTER_MS - 1)
    assert looked(5, 7) == 0
    clock.advance(2)
    assert looked(5, 7) == 1
    clock.advance(5 * AFTER_MS)
    assert looked(5, 7) == 1, "there is nothing new to give"
    assert looked(6, 7) == 1
    clock.advance(AFTER_MS + 1)
    assert looked(6, 7) == 2
    clock.advance(AFTER_MS + 1)
    idle.closed(0)
    idle.looked(1, 7)
    assert len(given) == 3, "what a closed partition had"
