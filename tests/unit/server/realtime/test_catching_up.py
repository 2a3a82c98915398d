"""Proves that a partition counts as behind until it has read what its stream had when it was opened, and what came
while it read that.
"""

from __future__ import annotations

from typing import Any, cast

from pinotpy.clock import ManualClock
from pinotpy.server.realtime.catching_up import RETRY_S, ROUNDS_MAX, CatchingUp
from pinotpy.stream.spec import StreamLayer, StreamUnavailableError


class Stream:
    """A factory and its metadata provider: `ends` are what successive questions find, the last one for ever."""

    def __init__(self, *ends: int | None) -> None:
        self.ends = list(ends)
        self.num_asked = 0

    def metadata_provider(self) -> Any:
        return self

    def end_offset(self, partition: int, *, timeout_s: float) -> int:
        self.num_asked += 1
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if end is None:
            raise StreamUnavailableError("no broker answers", layer=StreamLayer.TCP)
        return end

    def close(self) -> None:
        pass


def catching_up(stream: Stream, clock: ManualClock) -> CatchingUp:
    return CatchingUp(cast(Any, stream), 0, clock)


def fetch(one: CatchingUp, clock: ManualClock, next_offset: int, *, took_ms: int = 100, is_empty: bool = False) -> bool:
    clock.advance(took_ms)
    one.fetched(next_offset, is_empty=is_empty)
    return one.is_behind


def test_it_is_behind_until_the_end_of_that_time_was_reached_fast() -> None:
    clock, stream = ManualClock(), Stream(1_000, 1_500, 1_600)
    one = catching_up(stream, clock)
    assert one.is_behind
    assert fetch(one, clock, 500) and fetch(one, clock, 900, took_ms=400)
    assert fetch(one, clock, 1_000, took_ms=400), "more came meanwhile, which took longer than half a second"
    assert stream.num_asked == 2
    assert not fetch(one, clock, 1_500, took_ms=500)
    assert not fetch(one, clock, 1_700) and stream.num_asked == 2


def test_a_batch_that_reaches_the_end_has_read_it() -> None:
    clock = ManualClock()
    assert not fetch(catching_up(Stream(1_000), clock), clock, 1_000)


def test_a_stream_that_has_nothing_more_has_been_read() -> None:
    clock, stream = ManualClock(), Stream(1_000)
    assert not fetch(catching_up(stream, clock), clock, 0, is_empty=True)
    assert stream.num_asked == 0


def test_a_stream_that_is_faster_is_not_chased_for_ever() -> None:
    clock = ManualClock()
    one = catching_up(Stream(*range(10, 1_000, 10)), clock)
    rounds = 0
    while fetch(one, clock, 10 * rounds, took_ms=1_000):
        rounds += 1
    assert rounds == ROUNDS_MAX


def test_a_stream_that_does_not_say_where_it_ends_is_asked_again_later() -> None:
    clock, stream = ManualClock(), Stream(None, 100)
    one = catching_up(stream, clock)
    assert fetch(one, clock, 50) and fetch(one, clock, 200)
    assert stream.num_asked == 1
    clock.advance(int(RETRY_S * 1_000))
    assert not fetch(one, clock, 200)
