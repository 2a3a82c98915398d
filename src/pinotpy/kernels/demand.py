"""What happens when code is called for the first time that the cache lacks.

Ordinarily it is compiled there and then, on the thread that calls it. That holds Python's lock for seconds, and
numba's, for which everybody waits who only loads a kernel. So a daemon says by `compile_elsewhere` who compiles
instead: its threads wait for that, without a lock. A thread that runs a query must not wait for longer than the query
has time, and not where others need the thread: it refuses (`refusing`), the query ends with KernelMissingError, and
whoever started it waits for the kernel and runs it again (server/kernel_waits.py).

The names of numba here are those of 0.60 to 0.68; brokers import this and load no numba.
"""

from __future__ import annotations

import fcntl
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, Final

from pinotpy.kernels.kernel_names import PACKAGE, Kernel, text_of

# Names of all kernels that processes look for are appended to the file that this variable of the environment names.
RECORD: Final = "PINOTPY_KERNEL_RECORD"
# Waits until the kernel is in the cache, or cannot be brought there.
Compile = Callable[[Kernel], object]


class KernelMissingError(Exception):
    """Code was called that is not compiled yet, on a thread that may not wait for it."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(f"kernel {kernel.short_name} is not compiled yet")
        self.kernel = kernel


class _Thread(threading.local):
    refuses = False
    compiles = False


_thread: Final = _Thread()
_elsewhere: list[Compile] = []
# What cannot be brought into the cache, and is compiled in this process after all.
_here: Final = set[Kernel]()


def watch() -> None:
    """Whatever numba looks for in the cache comes by here from now on; cache_locator.py calls it."""
    from numba.core.caching import FunctionCache

    FunctionCache.load_overload = _load
    FunctionCache.save_overload = _save


def _load(self: Any, signature: Any, target_context: Any) -> Any:
    from numba.core.caching import Cache

    found = Cache.load_overload(self, signature, target_context)
    record = os.environ.get(RECORD)
    is_missing = found is None and _elsewhere and not _thread.compiles
    if (is_missing or record) and (kernel := _kernel(self._py_func, signature)) is not None:
        if record:
            with open(record, "a") as lines:
                lines.write(f"{kernel}\n")
        if is_missing and kernel not in _here:
            raise KernelMissingError(kernel)
    return found


def _save(self: Any, signature: Any, result: Any) -> None:
    from numba.core.caching import Cache

    # Signatures of one function share an index that is read, changed and written: two processes at once would lose one.
    kernel = _kernel(self._py_func, signature)
    with nullcontext() if kernel is None else locked(Path(self._cache_path).parent / ".saving", kernel.short_name):
        Cache.save_overload(self, signature, result)


def _kernel(function: Any, signature: Any) -> Kernel | None:
    """None where it has no name."""
    from numba.core.typing import Signature

    module = function.__module__
    if not module.startswith(PACKAGE):
        return None
    if isinstance(signature, Signature):
        return Kernel(module.removeprefix(PACKAGE), function.__qualname__)
    try:
        return Kernel(module.removeprefix(PACKAGE), function.__qualname__, text_of(signature))
    except ValueError:
        return None


@contextmanager
def locked(file: Path, name: str) -> Iterator[None]:
    """Alone among the processes that ask for this name in this file; nothing where the file cannot be made.

    One byte of the file stands for the name, so that no lock leaves a file of its own. Threads of one process do not
    exclude each other.
    """
    try:
        held = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        yield
        return
    try:
        fcntl.lockf(held, fcntl.LOCK_EX, 1, zlib.crc32(name.encode()))
        yield
    finally:
        os.close(held)


def compile_elsewhere(compile_it: Compile, block_functions: type) -> Callable[[], None]:
    """From now on this process compiles nothing: `compile_it` is called, on the thread that needs the kernel. What it
    does not bring into the cache that thread compiles after all. Returns what ends this; again is harmless.

    block_functions: their class (kernels/runtime/abi.py), which no module beside this one may know.
    """
    from numba.core.dispatcher import Dispatcher

    kinds: Iterable[Any] = (Dispatcher, block_functions)
    before = [(kind, kind.compile) for kind in kinds]
    for kind, compile_here in before:
        kind.compile = _or_elsewhere(compile_here)
    _elsewhere.append(compile_it)

    def end() -> None:
        if compile_it in _elsewhere:
            _elsewhere.remove(compile_it)
            for kind, compile_here in before:
                kind.compile = compile_here

    return end


def _or_elsewhere(compile_here: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(compile_here)
    def compiled(self: Any, *arguments: Any) -> Any:
        try:
            return compile_here(self, *arguments)
        except KernelMissingError as missing:
            if _thread.refuses:
                raise
            kernel = missing.kernel
        _elsewhere[-1](kernel)
        _thread.compiles = True
        try:
            return compile_here(self, *arguments)
        finally:
            _thread.compiles = False

    return compiled


@contextmanager
def refusing() -> Iterator[None]:
    """On this thread: KernelMissingError instead of waiting, where kernels are compiled elsewhere."""
    before, _thread.refuses = _thread.refuses, True
    try:
        yield
    finally:
        _thread.refuses = before


def refuse_on_this_thread() -> None:
    """As `refusing`, for good."""
    _thread.refuses = True


def compile_here(kernel: Kernel) -> None:
    """Let whoever calls this kernel compile it: no other process can."""
    _here.add(kernel)
