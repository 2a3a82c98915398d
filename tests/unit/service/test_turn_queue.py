"""Proves that those who ask take turns on the threads of a TurnQueue, and that what one of them asks for is bounded."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial

import pytest

from pinotpy.service.turn_queue import TurnQueue


def test_askers_take_turns_and_one_may_not_wait_with_much() -> None:
    queue = TurnQueue("test", 2, 20, ConnectionRefusedError)
    started, release = threading.Semaphore(0), threading.Event()
    order: list[str] = []

    def work(name: str) -> str:
        started.release()
        assert release.wait(60)
        order.append(name)
        return name

    def submit(name: str) -> Future[str]:
        return queue.submit(name, partial(work, name))

    running = [submit("a"), submit("a")]
    for _ in running:
        assert started.acquire(timeout=60)
    waiting = [submit("a") for _ in range(20)]
    with pytest.raises(ConnectionRefusedError, match="20"):
        submit("a")
    assert waiting.pop().cancel()
    other = submit("b")
    release.set()
    assert [future.result(60) for future in [*running, *waiting, other]] == ["a"] * 21 + ["b"]
    assert order.index("b") < len(order) // 2


def test_who_has_as_much_running_as_he_may_leaves_the_other_threads_to_others() -> None:
    queue = TurnQueue("test", 3, 20, ConnectionRefusedError, at_once_max=2)
    hangs, release = threading.Semaphore(0), threading.Event()

    def hang() -> bool:
        hangs.release()
        return release.wait(60)

    mine = [queue.submit("a", hang) for _ in range(7)]
    for _ in range(2):
        assert hangs.acquire(timeout=60)
    assert [queue.submit("b", lambda: "other").result(60) for _ in range(5)] == ["other"] * 5
    assert not hangs.acquire(blocking=False), "the third thread is not his"
    release.set()
    assert all(future.result(60) for future in mine), "those that were passed over have their turn"
    assert all(future.result(60) for future in [queue.submit("a", hang) for _ in range(5)])


def test_what_the_work_raises_is_raised_to_who_asked() -> None:
    queue = TurnQueue("test", 1, 1, ConnectionRefusedError)
    with pytest.raises(ZeroDivisionError):
        queue.submit("a", lambda: 1 // 0).result(60)
    assert queue.submit("a", lambda: 1).result(60) == 1
