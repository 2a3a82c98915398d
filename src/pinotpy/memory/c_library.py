"""What the C library's allocator keeps of freed memory, where it is glibc; another one has its own ways."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

# Parameters of mallopt, in malloc.h.
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_LARGE_BYTES: Final = 256 << 10
_CORES_OF_ARENA: Final = 4
_ARENAS_MIN: Final = 2


def limit_arenas() -> None:
    """Let threads take memory from few arenas, unless the environment says how many (MALLOC_ARENA_MAX).

    By default nearly each thread gets its own, and what a query frees in one cannot be used by the next query, which
    another thread runs. With eight large queries at once a server held 800 MB that nobody used, beside 100 in use.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        _set(_M_ARENA_MAX, max(_ARENAS_MIN, len(os.sched_getaffinity(0)) // _CORES_OF_ARENA))


def give_large_blocks_back() -> None:
    """From now on each large block is returned when it is freed.

    Else blocks of a size that was freed once, up to 32 MB each, are kept for the next ones: quicker, and more memory
    than is in use. For processes that do one large thing.
    """
    _set(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def _set(parameter: int, value: int) -> None:
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(parameter, value)


def _malloc_trim() -> Callable[[int], int] | None:
    try:
        function = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    function.argtypes, function.restype = [ctypes.c_size_t], ctypes.c_int
    trim: Callable[[int], int] = function
    return trim


MALLOC_TRIM: Final = _malloc_trim()
