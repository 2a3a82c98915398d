"""The clock door: the only place that reads the time.

`Clock` is passed to everything that decides by time; `SystemClock` is the real one, `ManualClock` its twin for tests.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time in milliseconds since the epoch, monotonic time in nanoseconds, and a wait that an event can cut
    short.
    """

    def now_ms(self) -> int: ...

    def monotonic_ns(self) -> int: ...

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Wait until `event` is set or `timeout_s` seconds have passed; return whether it is set."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return event.wait(timeout_s)


class CpuClock(SystemClock):
    """Its monotonic time is the CPU time of the thread that asks: what work costs, however busy the machine is."""

    def monotonic_ns(self) -> int:
        return time.thread_time_ns()


class ManualClock:
    """A clock that moves only when told to. Safe to share between threads: its condition guards `_now_ns`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._condition = threading.Condition()
        self._now_ns = now_ms * 1_000_000

    def now_ms(self) -> int:
        return self._now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self._now_ns

    def advance(self, ms: int) -> None:
        """Move the clock forward by `ms` milliseconds and wake all who wait."""
        with self._condition:
            self._now_ns += ms * 1_000_000
            self._condition.notify_all()

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        deadline_ns = self._now_ns + int(timeout_s * 1e9)
        with self._condition:
            while not event.is_set() and self._now_ns < deadline_ns:
                # The event may be set by another thread without notifying us: look again every 10 ms of real time.
                self._condition.wait(0.01)
        return event.is_set()
