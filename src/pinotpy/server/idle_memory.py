"""Returns memory to the operating system after heavy queries.

Freed memory stays with the process: Arrow's pool and the C library keep it for later, in as many arenas as there were
threads. After a few large queries an idle server held gigabytes. When the process has grown by GROWN_BYTES at the end
of a query, both therefore release free pages: on a separate thread, after a pause, once for all queries that end
meanwhile. That takes tens of milliseconds without the GIL. Reserved bytes of queries are no measure: most are free
again when the query ends, and Arrow's share is not included.
"""

from __future__ import annotations

import math
import mmap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pinotpy.memory.allocators import give_back_free_memory

GROWN_BYTES: Final = 64 << 20
# Longer than people and dashboards pause between queries, as jemalloc has it: memory that comes back from the system
# costs more than most queries (on a virtual machine 82 instead of 32 ms for exact percentiles of 5 M values, 127
# instead of 70 for 150 MB of groups).
AFTER_S: Final = 10.0
# After 10, 20, 40 and 80 seconds without a heavy query.
PASSES: Final = 4
# Queries shorter than this are looked after once in an interval.
SHORT_S: Final = 0.005
LOOK_INTERVAL_S: Final = 1.0
_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = mmap.PAGESIZE


class IdleMemory:
    """Called by all threads that answer queries; the lock guards `_passes_left` and `_is_running`.

    Passes follow one another with doubled pauses until the process is back at its size. If the last one does not find
    it there, what it still uses is in use for good (segments that were loaded), and growth counts from there.

    Args:
        own_bytes: memory of this process without files that it maps; None where that is not known.
        give_back: returns what is free.
    """

    def __init__(
        self,
        own_bytes: Callable[[], int | None] | None = None,
        give_back: Callable[[], None] | None = None,
        *,
        after_s: float = AFTER_S,
    ) -> None:
        self._own_bytes = own_bytes or own_memory_bytes
        self._give_back = give_back or give_back_free_memory
        self._after_s = after_s
        self._lock = threading.Lock()
        self._passes_left = 0
        self._is_running = False
        self._looked_s = -math.inf
        self._used_bytes = self._own_bytes() or 0

    def query_done(self, took_s: float = math.inf) -> None:
        """Have free memory given back, beginning in `after_s`, if queries took much of it. `took_s`: how long this one
        ran.
        """
        if took_s < SHORT_S:
            # Too short to take much; looking costs as much as a tenth of it, so one such query a second looks for all.
            now_s = time.monotonic()
            if now_s - self._looked_s < LOOK_INTERVAL_S:
                return
            self._looked_s = now_s
        if not self._has_grown():
            return
        with self._lock:
            self._passes_left = PASSES
            if self._is_running:
                return
            self._is_running = True
        threading.Thread(target=self._run, name="pinotpy-idle-memory", daemon=True).start()

    def _has_grown(self) -> bool:
        own_bytes = self._own_bytes()
        return own_bytes is not None and own_bytes - self._used_bytes >= GROWN_BYTES

    def _run(self) -> None:
        while True:
            with self._lock:
                pause_s = self._after_s * 2 ** (PASSES - self._passes_left)
                # A query that ends from here on begins the count anew: what it frees may come too late for this pass.
                self._passes_left -= 1
            time.sleep(pause_s)
            self._give_back()
            with self._lock:
                has_grown = self._has_grown()
                if has_grown and self._passes_left > 0:
                    continue
                if has_grown:
                    self._used_bytes = self._own_bytes() or 0
                self._is_running = False
                return


def own_memory_bytes() -> int | None:
    """Resident memory of this process that is no file's. 10 µs."""
    try:
        with _STATM.open("rb", buffering=0) as file:
            _, resident, shared, *_ = file.read(100).split()
    except (OSError, ValueError):
        return None
    return (int(resident) - int(shared)) * _PAGE_BYTES
