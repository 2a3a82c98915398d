"""One thread that runs what is posted to it, in order, and timers: all states of consuming segments are its alone."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable

from pinotpy.clock import Clock

log = logging.getLogger(__name__)

_LONGEST_WAIT_S = 1.0


class EventLoop:
    """What is posted must not block. An error of one call is logged, and the next call runs."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards the queue and the timers
        self._wake = threading.Event()
        self._queue: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def post(self, call: Callable[[], None]) -> None:
        """Run soon. Safe from any thread; after `stop` nothing runs any more."""
        with self._lock:
            self._queue.append(call)
        self._wake.set()

    def later(self, ms: int, call: Callable[[], None]) -> None:
        """Run when `ms` milliseconds have passed."""
        due_ns = self._clock.monotonic_ns() + ms * 1_000_000
        with self._lock:
            heapq.heappush(self._timers, (due_ns, next(self._numbers), call))
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Let the running call end; what still waits is dropped."""
        self._is_stopping = True
        self._wake.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._is_stopping:
            self._wake.clear()
            call = self._next()
            if call is None:
                self._clock.wait(self._wake, self._wait_s())
                continue
            try:
                call()
            except Exception:
                log.exception("an event of consuming segments failed")

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._timers and self._timers[0][0] <= self._clock.monotonic_ns():
                return heapq.heappop(self._timers)[2]
            return self._queue.popleft() if self._queue else None

    def _wait_s(self) -> float:
        with self._lock:
            if not self._timers:
                return _LONGEST_WAIT_S
            return min(max((self._timers[0][0] - self._clock.monotonic_ns()) / 1e9, 0.0), _LONGEST_WAIT_S)
