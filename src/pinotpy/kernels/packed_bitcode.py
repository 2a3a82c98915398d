"""Loaded kernels without what only further compilation reads.

Beside the machine code of each function numba's cache has bitcode, for functions that are compiled later and link it.
numba reads it into a module of LLVM and keeps that: 57 MB of the 219 that a server had in memory with all kernels
loaded. In a process that asks for it the bytes are kept instead, and read when something links them, which is seldom:
kernels are compiled before a daemon serves.
"""

from __future__ import annotations

import importlib
from typing import Any


def keep_bitcode_packed() -> None:
    """For this process and kernels that are loaded from now on. Nothing where numba has another way of loading. Names
    of numba 0.60 to 0.68.
    """
    codegen: Any = importlib.import_module("numba.core.codegen")
    library: Any = codegen.JITCodeLibrary
    if not hasattr(library, "_unserialize") or not hasattr(library, "_get_module_for_linking"):
        return
    if hasattr(library, "_packed_module"):
        return  # asked for before
    load, module_for_linking = library._unserialize, library._get_module_for_linking

    def unserialize(cls: Any, codegen: Any, state: tuple[str, str, Any]) -> Any:
        loaded = load(codegen, state)
        _, kind, content = state
        if kind == "object":
            _, loaded._packed_module = content
            loaded._shared_module = None
        return loaded

    def get_module_for_linking(self: Any) -> Any:
        if self._shared_module is None and self._packed_module is not None:
            self._shared_module = importlib.import_module("llvmlite.binding").parse_bitcode(self._packed_module)
        return module_for_linking(self)

    library._packed_module = None
    library._unserialize = classmethod(unserialize)
    library._get_module_for_linking = get_module_for_linking
