"""Giving back the memory of what only compiles, once everything is compiled.

A kernel that comes from the cache brings its machine code, and beside it the code in LLVM's own form, for kernels that
would be compiled later and call it: 42 MB for the kernels of a server. That form is packed here to a tenth; whoever
asks for it gets it back. And LLVM itself stays resident, 70 MB of a file that nobody reads any more: its unchanged
pages are given back, and come again from the file if needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import mmap
import sys
import time
import zlib
from pathlib import Path
from typing import Any, Final

LIBRARY: Final = "libllvmlite"
_COMPILED: Final = ("pinotpy.kernels", "numba.")
_SMAPS: Final = Path("/proc/self/smaps")

log = logging.getLogger(__name__)


def give_back() -> tuple[int, int]:
    """Pack what is loaded, and let pages go; gives the number of kernels packed and of bytes let go. Nothing without
    numba.

    Half a second of processor time with 220 kernels, mostly without Python's lock.
    """
    llvm = sys.modules.get("llvmlite.binding")
    if llvm is None:
        return 0, 0
    start_s = time.monotonic()
    packed = 0
    for library in _libraries():
        if getattr(library, "_shared_module", None) is not None:
            _Packed(library, llvm)
            packed += 1
    let_go = _let_pages_go(LIBRARY)
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library than glibc: it has its own ways
        ctypes.CDLL(None).malloc_trim(0)
    log.debug(
        "memory of the compiler given back kernels=%d bytes=%d took_ms=%.0f",
        packed,
        let_go,
        (time.monotonic() - start_s) * 1000,
    )
    return packed, let_go


def _libraries() -> list[Any]:
    """The code of all kernels that are loaded, and of what they call.

    Found from their modules, never by gc.get_objects(): that holds what other threads are just making, and a tuple of a
    generator that somebody holds cannot grow: SystemError, in whatever query was running.
    """
    dispatchers = sys.modules.get("numba.core.dispatcher")
    if dispatchers is None:
        return []
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(_COMPILED)]
    kernels = [
        value
        for module in modules
        for value in list(vars(module).values())
        if isinstance(value, dispatchers.Dispatcher)
    ]
    waiting = [overload.library for kernel in kernels for overload in list(kernel.overloads.values())]
    libraries: dict[int, Any] = {}
    while waiting:
        library = waiting.pop()
        if library is not None and id(library) not in libraries:
            libraries[id(library)] = library
            waiting += getattr(library, "_linking_libraries", ())
    return list(libraries.values())


class _Packed:
    """Stands for one library's `_get_module_for_linking` until somebody calls it. Names of numba 0.60 to 0.68."""

    def __init__(self, library: Any, llvm: Any) -> None:
        self._library, self._llvm = library, llvm
        self._bitcode = zlib.compress(library._shared_module.as_bitcode(), 1)
        library._get_module_for_linking = self
        library._shared_module = None

    def __call__(self) -> Any:
        library = self._library
        if library._shared_module is None:
            library._shared_module = self._llvm.parse_bitcode(zlib.decompress(self._bitcode))
        return library._shared_module


def _let_pages_go(name: str) -> int:
    """Drop the pages of a library that this process reads or runs and cannot have changed; gives their bytes."""
    try:
        lines = _SMAPS.read_text().splitlines()
        advise = ctypes.CDLL(None, use_errno=True).madvise
    except (OSError, AttributeError):
        return 0  # no Linux
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    let_go, where, resident = 0, None, 0
    for line in lines:
        words = line.split()
        if not words[0].endswith(":"):
            first, _, end = words[0].partition("-")
            # Pages that were written (relocated) are this process's alone and would be lost: they lie in maps of their
            # own.
            is_wanted = len(words) > 5 and Path(words[5]).name.startswith(name) and words[1] in ("r-xp", "r--p")
            where, resident = ((int(first, 16), int(end, 16)) if is_wanted else None), 0
        elif where is not None and words[0] == "Rss:":
            resident = int(words[1]) << 10
        elif where is not None and words[0] == "Private_Dirty:" and words[1] != "0":
            where = None
        elif where is not None and words[0] == "Anonymous:":
            if words[1] == "0" and not advise(where[0], where[1] - where[0], mmap.MADV_DONTNEED):
                let_go += resident
            where = None
    return let_go
