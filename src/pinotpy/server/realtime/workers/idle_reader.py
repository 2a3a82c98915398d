"""Gives free memory back to the system when no rows come any more; called by the threads that read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pinotpy.clock import Clock
from pinotpy.memory.allocators import give_back_free_memory

AFTER_NS: Final = 10_000_000_000


class IdleReader:
    """Of one process. Two threads may give back at once: that costs some milliseconds, and no more."""

    def __init__(self, clock: Clock, give_back: Callable[[], None] = give_back_free_memory) -> None:
        self._clock = clock
        self._give_back = give_back
        self._num_rows: dict[int, int] = {}  # by partition
        self._changed_ns = clock.monotonic_ns()
        self._has_read = False

    def looked(self, partition: int, num_rows: int) -> None:
        """A partition was asked for records; it has so many rows now. At least once a second."""
        now_ns = self._clock.monotonic_ns()
        if self._num_rows.get(partition, 0) != num_rows:
            self._num_rows[partition] = num_rows
            self._changed_ns, self._has_read = now_ns, True
        elif self._has_read and now_ns - self._changed_ns > AFTER_NS:
            self._has_read = False
            self._give_back()

    def closed(self, partition: int) -> None:
        self._num_rows.pop(partition, None)
        self._has_read = True
