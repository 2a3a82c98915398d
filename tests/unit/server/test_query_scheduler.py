"""Proves admission: never more than the limit run, order is first come first served, a full queue and a passed deadline
are refused with their own errors, and a query that gave up does not block those behind it."""

from __future__ import annotations

import threading
import time

import pytest

from pinotpy.clock import SystemClock
from pinotpy.errors import OutOfCapacityError, QueryCancelledError, QueryTimeoutError
from pinotpy.server.scheduler import QueryScheduler

CLOCK = SystemClock()


def in_s(seconds: float) -> int:
    return CLOCK.monotonic_ns() + int(seconds * 1e9)


def wait_until(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    gate = threading.Event()
    while not condition():
        assert time.monotonic() < end, "condition not reached"
        gate.wait(0.001)


def test_never_more_than_the_limit_run_and_all_get_their_turn() -> None:
    scheduler = QueryScheduler(CLOCK, concurrent_max=3, queue_max=100)
    most, now, done = 0, 0, 0
    lock = threading.Lock()
    together = threading.Barrier(3)  # nobody goes on before three run at once

    def query() -> None:
        nonlocal most, now, done
        with scheduler.slot(in_s(60)):
            with lock:
                now += 1
                most = max(most, now)
            together.wait(60)
            with lock:
                now -= 1
                done += 1

    threads = [threading.Thread(target=query) for _ in range(39)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (most, done) == (3, 39)
    assert (scheduler.running, scheduler.waiting) == (0, 0)


def test_a_full_queue_is_refused_at_once_with_211() -> None:
    scheduler = QueryScheduler(CLOCK, concurrent_max=1, queue_max=0)
    with scheduler.slot(in_s(60)), pytest.raises(OutOfCapacityError) as caught, scheduler.slot(in_s(60)):
        pass
    assert caught.value.code == 211


def test_a_query_that_gave_up_waiting_does_not_block_the_next() -> None:
    scheduler = QueryScheduler(CLOCK, concurrent_max=1, queue_max=10)
    entered = threading.Event()

    def second() -> None:
        with scheduler.slot(in_s(60)):
            entered.set()

    with scheduler.slot(in_s(60)):
        with pytest.raises(QueryTimeoutError), scheduler.slot(in_s(0.05)):
            pass
        thread = threading.Thread(target=second)
        thread.start()
        wait_until(lambda: scheduler.waiting == 1)
        assert not entered.is_set()
    assert entered.wait(60)
    thread.join(60)


def test_a_query_that_is_cancelled_while_it_waits_leaves_at_once() -> None:
    scheduler = QueryScheduler(CLOCK, concurrent_max=1, queue_max=10)
    cancelled = threading.Event()
    ended: list[type[Exception]] = []

    def second() -> None:
        try:
            with scheduler.slot(in_s(600), is_cancelled=cancelled.is_set):
                raise AssertionError("it was cancelled")
        except QueryCancelledError as problem:
            ended.append(type(problem))

    with scheduler.slot(in_s(60)):
        thread = threading.Thread(target=second)
        thread.start()
        wait_until(lambda: scheduler.waiting == 1)
        cancelled.set()
        scheduler.wake()
        thread.join(60)
        assert ended == [QueryCancelledError] and scheduler.waiting == 0
    with scheduler.slot(in_s(60)):
        assert scheduler.running == 1, "its turn went on to the next"


def test_small_queries_have_places_of_their_own_and_wait_like_others_beyond_them() -> None:
    scheduler = QueryScheduler(CLOCK, concurrent_max=1, queue_max=10, small_max=2)
    with scheduler.slot(in_s(60)):
        with scheduler.slot(in_s(60), is_small=True), scheduler.slot(in_s(60), is_small=True):
            assert scheduler.running == 3
            with pytest.raises(QueryTimeoutError), scheduler.slot(in_s(0.02), is_small=True):
                pass
        with scheduler.slot(in_s(60), is_small=True):
            assert scheduler.running == 2
    assert (scheduler.running, scheduler.waiting) == (0, 0)
