"""What allocators keep of freed memory, and how the system gets it back."""

from __future__ import annotations

import logging
import time

import pyarrow as pa

from pinotpy.memory.c_library import MALLOC_TRIM

log = logging.getLogger(__name__)


def give_back_free_memory() -> None:
    """Let Arrow's pool and, where it is glibc, the C library return pages that hold nothing."""
    start_s = time.monotonic()
    pa.default_memory_pool().release_unused()
    if MALLOC_TRIM is not None:
        MALLOC_TRIM(0)
    log.debug("free memory given back took_ms=%.1f", (time.monotonic() - start_s) * 1000)
