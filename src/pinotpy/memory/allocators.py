"""What allocators keep of freed memory, and how the system gets it back."""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pyarrow as pa

_M_MMAP_THRESHOLD: Final = -3  # of malloc.h
_LARGE_BYTES: Final = 256 << 10

log = logging.getLogger(__name__)


def give_back_free_memory() -> None:
    """Let Arrow's pool and, where it is glibc, the C library return pages that hold nothing."""
    start_s = time.monotonic()
    pa.default_memory_pool().release_unused()
    if _MALLOC_TRIM is not None:
        _MALLOC_TRIM(0)
    log.debug("free memory given back took_ms=%.1f", (time.monotonic() - start_s) * 1000)


def give_large_blocks_back() -> None:
    """From now on the C library, where it is glibc, returns each large block when it is freed.

    Else it keeps blocks of a size that was freed once, up to 32 MB each, for the next ones: quicker, and more memory
    than is in use. For processes that do one large thing.
    """
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def _malloc_trim() -> Callable[[int], int] | None:
    try:
        function = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None  # another C library than glibc: it has its own ways
    function.argtypes, function.restype = [ctypes.c_size_t], ctypes.c_int
    trim: Callable[[int], int] = function
    return trim


_MALLOC_TRIM: Final = _malloc_trim()
