"""One lock for each segment that somebody works on: its files and its place in the registry change on one thread at a
time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SegmentLocks:
    """Locks by (table, segment), there as long as somebody holds or waits for them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[tuple[str, str], tuple[threading.Lock, int]] = {}  # lock, number of those that hold or wait

    @contextmanager
    def hold(self, table: str, segment: str) -> Iterator[None]:
        """Hold a segment's lock while the block runs. Not to be nested."""
        key = (table, segment)
        with self._guard:
            lock, number = self._held.get(key, (threading.Lock(), 0))
            self._held[key] = (lock, number + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, number = self._held.pop(key)
                if number > 1:
                    self._held[key] = (lock, number - 1)
