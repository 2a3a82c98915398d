"""Compares the budget with what the kernel says, twenty times a second, and ends the query that holds most when the
process is over its budget: better one query than the process, which the system would kill.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from pinotpy.memory.budget import ProcessBudget, process_memory_error
from pinotpy.memory.resident import children_of, memfd_bytes, resident_bytes

INTERVAL_S: Final = 0.05
# Processes and anonymous files come seldom, and looking for them costs more than reading sizes.
CHILDREN_INTERVAL_S: Final = 2.0
# Giving free pages back takes tens of milliseconds.
GIVE_BACK_INTERVAL_S: Final = 0.5
# From here on free pages are given back at once, and not after a pause.
FULL_PART: Final = 0.85
# A query that was ended frees its memory at its next block.
PAUSE_AFTER_END_S: Final = 0.2
# Ending a query that holds less does not help.
HELD_MIN_BYTES: Final = 8 << 20

log = logging.getLogger(__name__)


class MemoryWatch:
    """A thread; `look` is what it does each time.

    Args:
        give_back: returns free pages of the allocators to the system.
        measure: what this process and its children use.
    """

    def __init__(
        self, budget: ProcessBudget, give_back: Callable[[], None], measure: Callable[[], int] | None = None
    ) -> None:
        self.resident_bytes = 0
        self.peak_bytes = 0
        self._budget = budget
        self._give_back = give_back
        self._measure = measure or _OwnProcesses()
        self._gave_back_s = 0.0
        self._ended_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pinotpy-memory", daemon=True)

    def start(self) -> None:
        self.look()
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL_S):
            try:
                self.look()
            except Exception:
                log.exception("memory could not be measured")

    def look(self, now_s: float | None = None) -> None:
        """Measure, and act where too much is used. `now_s`: on a monotonic clock."""
        now_s = time.monotonic() if now_s is None else now_s
        budget = self._budget
        used = self._measured(now_s)
        if (budget.is_short or used > budget.total_bytes * FULL_PART) and self._may_give_back(now_s):
            self._give_back()
            used = self._measured(now_s)
        if used <= budget.total_bytes or now_s - self._ended_s < PAUSE_AFTER_END_S:
            return
        heaviest = budget.heaviest()
        if heaviest is None or heaviest[1].held_bytes < HELD_MIN_BYTES:
            return
        name, holder = heaviest
        self._ended_s = now_s
        budget.num_ended += 1
        log.warning(
            "query ended for memory query=%s held_bytes=%d resident_bytes=%d budget_bytes=%d",
            name, holder.held_bytes, used, budget.total_bytes,
        )  # fmt: skip
        holder.end(
            process_memory_error(
                f"query {name} was ended: it held most ({holder.held_bytes} bytes) when its process used {used} bytes",
                budget,
            )
        )

    def _measured(self, now_s: float) -> int:
        self.resident_bytes = used = self._measure()
        self.peak_bytes = max(self.peak_bytes, used)
        self._budget.measured(used, now_s)
        return used

    def _may_give_back(self, now_s: float) -> bool:
        if now_s - self._gave_back_s < GIVE_BACK_INTERVAL_S:
            return False
        self._gave_back_s = now_s
        return True


class _OwnProcesses:
    """Memory of this process and of all below it."""

    def __init__(self) -> None:
        self._children: list[int] = []
        self._memfds = 0
        self._looked_s = float("-inf")

    def __call__(self) -> int:
        now_s = time.monotonic()
        if now_s - self._looked_s >= CHILDREN_INTERVAL_S:
            self._looked_s = now_s
            self._children = children_of(os.getpid())
            # Files are shared with workers; without any, the pages that this process has touched are all. A server with
            # thousands of segments has as many descriptors to look through.
            self._memfds = memfd_bytes() if self._children else 0
        return resident_bytes(os.getpid(), self._children, self._memfds)
