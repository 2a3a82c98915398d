"""Functions that only kernels call are compiled to be linked, not to be run.

numba makes machine code and a door for Python of every function that it compiles, as somebody may call it. A kernel is
made of dozens that nobody calls but the kernel, which links their bitcode and optimises all of it: of the 50 s of
processor time of the driver's step 20 went into code that was thrown away. In a process that only compiles for the
cache those functions are kept as they are when a kernel links them.
"""

from __future__ import annotations

import importlib
from typing import Any


class _LinkedOnly:
    """Stands where numba has what Python calls; each is the key of its function in numba's tables."""


def link_functions_without_cache() -> None:
    """For this process, from now on: functions without `cache=True` cannot be called from Python. Nothing where numba
    compiles in another way. Names of numba 0.60 to 0.68.
    """
    from numba.core.caching import NullCache

    codegen: Any = importlib.import_module("numba.core.codegen").CPUCodeLibrary
    dispatcher: Any = importlib.import_module("numba.core.dispatcher")
    context: Any = importlib.import_module("numba.core.cpu").CPUContext
    kernel, compiler = dispatcher.Dispatcher, dispatcher._FunctionCompiler
    expected = (
        (codegen, ("finalize", "_optimize_final_module", "_finalize_final_module")),
        (context, ("get_executable",)),
        (kernel, ("compile", "add_overload")),
        (compiler, ("_customize_flags",)),
    )
    if not all(hasattr(owner, name) for owner, names in expected for name in names) or hasattr(codegen, "_is_linked"):
        return
    is_linked = [False]  # the function that is just compiled; those that it calls are compiled in between
    compile_function, add_overload = kernel.compile, kernel.add_overload
    get_executable, customize_flags = context.get_executable, compiler._customize_flags
    optimize, finalize = codegen._optimize_final_module, codegen._finalize_final_module

    def compiled(self: Any, signature: Any) -> Any:
        before, is_linked[0] = is_linked[0], isinstance(self._cache, NullCache)
        try:
            return compile_function(self, signature)
        finally:
            is_linked[0] = before

    def customized_flags(self: Any, flags: Any) -> Any:
        flags = customize_flags(self, flags)
        if is_linked[0]:
            flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        return flags

    def executable(self: Any, library: Any, *others: Any) -> Any:
        if not is_linked[0]:
            return get_executable(self, library, *others)
        library._is_linked = True
        library.finalize()
        return _LinkedOnly()

    def added(self: Any, result: Any) -> None:
        if isinstance(result.entry_point, _LinkedOnly):
            self.overloads[tuple(result.signature.args)] = result
        else:
            add_overload(self, result)

    def optimized(self: Any) -> None:
        if not self._is_linked:
            optimize(self)

    def finalized(self: Any) -> None:
        if not self._is_linked:
            finalize(self)
            return
        self._finalize_dynamic_globals()
        self._finalized = True

    codegen._is_linked = False
    codegen._optimize_final_module, codegen._finalize_final_module = optimized, finalized
    context.get_executable, compiler._customize_flags = executable, customized_flags
    kernel.compile, kernel.add_overload = compiled, added
