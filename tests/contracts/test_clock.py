"""The contract of clock.Clock, run over SystemClock and ManualClock."""

from __future__ import annotations

import threading
import time

import pytest

from pinotpy.clock import Clock, ManualClock, SystemClock


class _Ticking(threading.Thread):
    """Advances a manual clock in small steps until told to stop, as time passes by itself for the real one."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(daemon=True)
        self.clock, self.done = clock, threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.001):
            self.clock.advance(5)


@pytest.fixture(params=["system", "manual"])
def clock(request: pytest.FixtureRequest):
    if request.param == "system":
        yield SystemClock()
        return
    manual = ManualClock()
    ticking = _Ticking(manual)
    ticking.start()
    yield manual
    ticking.done.set()
    ticking.join(60.0)


def test_wall_time_is_in_milliseconds_since_the_epoch(clock: Clock) -> None:
    year_2020_ms, year_2100_ms = 1_577_836_800_000, 4_102_444_800_000
    assert year_2020_ms < clock.now_ms() < year_2100_ms


def test_time_never_goes_back(clock: Clock) -> None:
    seen = [(clock.monotonic_ns(), clock.now_ms()) for _ in range(2000)]
    assert seen == sorted(seen)


def test_a_wait_ends_when_the_time_is_up_and_says_that_nothing_was_set(clock: Clock) -> None:
    event = threading.Event()
    started_ns = clock.monotonic_ns()
    assert clock.wait(event, 0.2) is False
    assert clock.monotonic_ns() - started_ns >= 100_000_000, "the time or about so, by a clock that may be coarse"


def test_a_wait_without_time_looks_and_returns(clock: Clock) -> None:
    event = threading.Event()
    assert clock.wait(event, 0.0) is False
    event.set()
    assert clock.wait(event, 0.0) is True


def test_a_set_event_ends_a_wait_at_once(clock: Clock) -> None:
    event = threading.Event()
    event.set()
    assert clock.wait(event, 3600.0) is True


def test_an_event_set_by_another_thread_cuts_a_wait_short(clock: Clock) -> None:
    event = threading.Event()
    setter = threading.Timer(0.02, event.set)
    started = time.monotonic()
    setter.start()
    assert clock.wait(event, 3600.0) is True
    assert time.monotonic() - started < 600, "an hour was granted"
    setter.join()


def test_many_threads_can_wait_on_one_clock(clock: Clock) -> None:
    event, results = threading.Event(), []
    threads = [threading.Thread(target=lambda: results.append(clock.wait(event, 3600.0))) for _ in range(8)]
    for thread in threads:
        thread.start()
    event.set()
    for thread in threads:
        thread.join(60.0)
    assert results == [True] * 8


def test_a_manual_clock_moves_only_when_told_to() -> None:
    clock = ManualClock(now_ms=5_000)
    assert (clock.now_ms(), clock.monotonic_ns()) == (5_000, 5_000_000_000)
    clock.advance(250)
    assert (clock.now_ms(), clock.monotonic_ns()) == (5_250, 5_250_000_000)


def test_advancing_a_manual_clock_past_the_deadline_ends_a_wait() -> None:
    clock, results = ManualClock(), []
    waiting = threading.Thread(target=lambda: results.append(clock.wait(threading.Event(), 60.0)))
    waiting.start()
    clock.advance(59_999)
    waiting.join(0.05)
    # Whether the thread began to wait before or after that step, its deadline lies within the next 60 s.
    assert results == []
    clock.advance(60_000)
    waiting.join(60.0)
    assert results == [False]
