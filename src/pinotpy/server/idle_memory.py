"""Giving memory back to the operating system after heavy queries.

What a query frees stays with the process: Arrow's pool and the C library keep it for the next one, in as many arenas as there
were threads. After a few large queries a server that did nothing held gigabytes. When the process has grown by GROWN_BYTES at
the end of a query, both therefore return what is free: on a thread of its own, some time later, once for all queries that end
meanwhile. That takes tens of milliseconds without Python's lock. What queries reserve would not tell: most of it is free again
when they end, and Arrow's share is not among it.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa

GROWN_BYTES: Final = 64 << 20
# Long enough for the answer to be sent, and seldom enough to cost nothing beside queries.
AFTER_S: Final = 2.0
_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = mmap.PAGESIZE

log = logging.getLogger(__name__)


class IdleMemory:
    """Called by all threads that answer queries; the lock guards `_is_planned`.

    Args:
        own_bytes: memory of this process without files that it maps; None where that is not known.
        give_back: returns what is free.
        is_busy: whether queries run: what they use then is not what stays in use.
    """

    def __init__(
        self,
        is_busy: Callable[[], bool],
        own_bytes: Callable[[], int | None] | None = None,
        give_back: Callable[[], None] | None = None,
        *,
        after_s: float = AFTER_S,
    ) -> None:
        self._is_busy = is_busy
        self._own_bytes = own_bytes or own_memory_bytes
        self._give_back = give_back or give_back_free_memory
        self._after_s = after_s
        self._lock = threading.Lock()
        self._is_planned = False
        self._used_bytes = self._own_bytes() or 0  # what stays in use, as seen when nothing ran

    def query_done(self) -> None:
        """Have free memory given back in `after_s` if queries took much of it and that is not planned already."""
        own_bytes = self._own_bytes()
        if own_bytes is None or own_bytes - self._used_bytes < GROWN_BYTES:
            return
        with self._lock:
            if self._is_planned:
                return
            self._is_planned = True
        timer = threading.Timer(self._after_s, self._run)
        timer.daemon = True
        timer.name = "pinotpy-idle-memory"
        timer.start()

    def _run(self) -> None:
        with self._lock:
            # From here on a query that ends plans the next time: what it frees may come too late for this one.
            self._is_planned = False
        self._give_back()
        used_bytes = self._own_bytes() or 0
        if not self._is_busy():
            self._used_bytes = used_bytes


def own_memory_bytes() -> int | None:
    """Resident memory of this process that is no file's. 10 µs."""
    try:
        with _STATM.open("rb", buffering=0) as file:
            _, resident, shared, *_ = file.read(100).split()
    except (OSError, ValueError):
        return None
    return (int(resident) - int(shared)) * _PAGE_BYTES


def give_back_free_memory() -> None:
    """Let Arrow's pool and, where it is glibc, the C library return pages that hold nothing."""
    start_s = time.monotonic()
    pa.default_memory_pool().release_unused()
    if _MALLOC_TRIM is not None:
        _MALLOC_TRIM(0)
    log.debug("free memory given back took_ms=%.1f", (time.monotonic() - start_s) * 1000)


def _malloc_trim() -> Callable[[int], int] | None:
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None  # another C library than glibc: it has its own ways
    found.argtypes, found.restype = [ctypes.c_size_t], ctypes.c_int
    trim: Callable[[int], int] = found
    return trim


_MALLOC_TRIM: Final = _malloc_trim()
