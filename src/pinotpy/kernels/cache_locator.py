"""Tells numba in which folder the compiled code of a kernel lies; numba finds it by NUMBA_CACHE_LOCATOR_CLASSES
(cache.py).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import _CacheLocator

from pinotpy.kernels import demand
from pinotpy.kernels.cache import KERNELS, module_name, source_hash

demand.watch()


class KernelCacheLocator(_CacheLocator):  # type: ignore[misc]
    """A folder a kernel file, named by the hash of all source that its code is made of. Other files are left to numba's
    own locators.
    """

    def __init__(self, first_line: int, file: Path) -> None:
        self._first_line = first_line
        self._hash = source_hash(file)
        self._path = os.path.join(config.CACHE_DIR, f"{module_name(file)}-{self._hash}")

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> KernelCacheLocator | None:
        """The locator of a function, or None if it is not a kernel or its folder cannot be made."""
        file = Path(py_file).resolve()
        if KERNELS not in file.parents or not config.CACHE_DIR:
            return None
        locator = cls(py_func.__code__.co_firstlineno, file)
        try:
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return self._hash

    def get_disambiguator(self) -> str:
        return str(self._first_line)
