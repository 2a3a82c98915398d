"""Loading kernels from the cache without what only compiles.

Before numba looks into its cache it fills its tables of types and implementations: 60 modules, 12 MB, 0.25 s of
processor time. Code that is there already needs none of them, only the symbols of numba's runtime. In a process that
asks for it numba looks first; where it has to compile after all, the compiler fills its tables itself.
"""

from __future__ import annotations

import importlib
from typing import Any


def load_without_compiler() -> None:
    """For this process, from now on. Nothing where numba has another way of loading. Names of numba 0.60 to 0.68."""
    from numba.core.caching import Cache
    from numba.core.runtime import rtsys

    if not hasattr(Cache, "_load_overload") or not hasattr(Cache, "_guard_against_spurious_io_errors"):
        return

    importlib.import_module("numba.cpython.hashing")  # gives symbols that code with hashed tuples refers to

    def load_overload(self: Any, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)
        return None

    Cache.load_overload = load_overload
