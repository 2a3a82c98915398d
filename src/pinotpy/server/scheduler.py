"""Admission: at most `concurrent_max` queries execute, at most `queue_max` wait, each at most until its deadline.

First come, first served. Small queries (the caller decides which) have slots of their own, so that a dashboard's tile
does not wait behind reports. Long scans share the kernel threads quantum by quantum (query.runtime.kernel_threads);
short ones run on the thread that received them, which takes precedence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pinotpy.clock import Clock
from pinotpy.errors import OutOfCapacityError, QueryCancelledError, QueryTimeoutError


def _never() -> bool:
    return False


class QueryScheduler:
    """Admission control of one server. The condition guards the two counters."""

    def __init__(self, clock: Clock, *, concurrent_max: int, queue_max: int, small_max: int = 0) -> None:
        self._clock = clock
        self._concurrent_max = concurrent_max
        self._queue_max = queue_max
        self._small_max = small_max
        self._small_running = 0
        self._condition = threading.Condition()
        self._running = 0
        self._waiting = 0
        self._next_ticket = 0
        self._serving = 0
        self._abandoned: set[int] = set()

    @property
    def running(self) -> int:
        return self._running + self._small_running

    @property
    def waiting(self) -> int:
        return self._waiting

    @contextmanager
    def slot(
        self, deadline_ns: int, *, is_small: bool = False, is_cancelled: Callable[[], bool] = _never
    ) -> Iterator[None]:
        """Wait for a slot; a small query takes a slot of its own kind if one is free.

        Raises: OutOfCapacityError (211) when the queue is full, QueryTimeoutError (250) when the deadline passes first,
        QueryCancelledError when `is_cancelled` first; whoever cancels calls `wake`.
        """
        if is_small and self._enter_small():
            try:
                yield
            finally:
                with self._condition:
                    self._small_running -= 1
            return
        self._enter(deadline_ns, is_cancelled)
        try:
            yield
        finally:
            with self._condition:
                self._running -= 1
                self._condition.notify_all()

    def wake(self) -> None:
        """Make waiting queries check whether they were cancelled."""
        with self._condition:
            if self._waiting:
                self._condition.notify_all()

    def _enter_small(self) -> bool:
        with self._condition:
            if self._small_running >= self._small_max:
                return False
            self._small_running += 1
            return True

    def _enter(self, deadline_ns: int, is_cancelled: Callable[[], bool]) -> None:
        with self._condition:
            if self._waiting >= self._queue_max and self._running >= self._concurrent_max:
                raise OutOfCapacityError(
                    f"{self._running} queries run and {self._waiting} wait already, allowed are "
                    f"{self._concurrent_max} and {self._queue_max}; try again",
                )
            ticket = self._next_ticket
            self._next_ticket += 1
            self._waiting += 1
            try:
                while not self._is_turn(ticket):
                    if is_cancelled():
                        self._abandoned.add(ticket)
                        raise QueryCancelledError("the query was cancelled while it waited for a free thread")
                    left_s = (deadline_ns - self._clock.monotonic_ns()) / 1e9
                    if left_s <= 0:
                        self._abandoned.add(ticket)
                        raise QueryTimeoutError(
                            "the query waited for a free thread until its deadline passed: lower the load"
                        )
                    self._condition.wait(min(left_s, 1.0))
                self._serving = ticket + 1
                self._running += 1
            finally:
                self._waiting -= 1
                self._condition.notify_all()

    def _is_turn(self, ticket: int) -> bool:
        while self._serving in self._abandoned:
            self._abandoned.discard(self._serving)
            self._serving += 1
        return self._serving == ticket and self._running < self._concurrent_max
