"""Which segments are in ERROR for a reason that may pass, and when to try again.

The deep store may be away for longer than a download is tried, a disk may be full, ZooKeeper or a stream may not answer
when a segment should begin to consume. Nobody should have to reset every replica by hand when that is over.
"""

from __future__ import annotations

import random
import threading
from typing import Final

from pinotpy.clock import Clock

FIRST_WAIT_S: Final = 20.0
WAIT_MAX_S: Final = 600.0
_DOUBLED_MAX: Final = 10


class FailedTransitions:
    """By table and segment. Safe to share between threads: `_lock` guards `_failed`.

    A segment is due FIRST_WAIT_S after its failure, then twice as long each time up to WAIT_MAX_S, half to one and a
    half times that by chance, so that servers do not come back together.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failed: dict[tuple[str, str], tuple[int, int]] = {}  # → failures so far, due at (monotonic ns)

    def failed(self, table: str, segment: str) -> None:
        """Its transition ended in ERROR, and may succeed later."""
        with self._lock:
            count = self._failed.get((table, segment), (0, 0))[0] + 1
            self._failed[table, segment] = (count, self._due_ns(count))

    def gone(self, table: str, segment: str) -> None:
        """It is served, or is not to be served any more."""
        with self._lock:
            self._failed.pop((table, segment), None)

    def take_due(self) -> dict[str, list[str]]:
        """table → segments to try again now. They are due again after their next wait, should nobody hear of them."""
        now_ns = self._clock.monotonic_ns()
        due: dict[str, list[str]] = {}
        with self._lock:
            for (table, segment), (count, due_ns) in self._failed.items():
                if due_ns <= now_ns:
                    self._failed[table, segment] = (count, self._due_ns(count + 1))
                    due.setdefault(table, []).append(segment)
        return due

    def _due_ns(self, count: int) -> int:
        # A power of a count of weeks is no float any more.
        wait_s = min(FIRST_WAIT_S * 2 ** min(count - 1, _DOUBLED_MAX), WAIT_MAX_S) * random.uniform(0.5, 1.5)
        return self._clock.monotonic_ns() + int(wait_s * 1e9)
