"""Byte code of the modules that daemons and commands import.

An installation has none: pip would compile thousands of modules of which few are ever imported. Python keeps what it
compiles at the first import, but daemons that start together then compile the same files beside each other, and where
PYTHONDONTWRITEBYTECODE is set every process compiles all that it imports at each start: 0.7 of the second that numba
takes. So a process of its own imports what they import, and writes what is missing.
"""

from __future__ import annotations

import compileall
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pinotpy

# What a daemon or a command imports when it runs, not only when it starts, and the rest of numba that kernels need.
_IMPORTED: Final = (
    "pinotpy.server.service",
    "pinotpy.broker.service",
    "pinotpy.controller.service",
    "pinotpy.service.embedded_zookeeper",
    "pinotpy.query.warm",
    "pinotpy.segment.warm",
    "pinotpy.ingest.warm",
    "pinotpy.cli.loading",
    "pinotpy.cli.quickstart",
    "pinotpy.cli.result_table",
    "anyio._backends._asyncio",
    "fastapi",
    "grpc.aio",
    "numba.np.ufunc.parallel",
    "prometheus_client",
    "pyarrow.csv",
    "rich.console",
    "rich.table",
    "uvicorn",
    "uvicorn.lifespan.off",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)
_WAIT_S: Final = 120.0


@contextmanager
def byte_code_beside() -> Iterator[Callable[[], None]]:
    """It is written beside what is done inside; call what this gives to wait for it. Nothing where the folders of the
    modules cannot be written.
    """
    writing = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def wait() -> None:
        with suppress(subprocess.TimeoutExpired):
            writing.wait(_WAIT_S)

    try:
        yield wait
    finally:
        writing.kill()
        writing.wait()


def write_byte_code() -> None:
    """Import, and compile what has been imported and has no byte code, or that of another version."""
    for name in _IMPORTED:
        with suppress(ImportError):  # of an extra that is not installed
            importlib.import_module(name)
    with suppress(Exception):  # what numba imports before it compiles for the first time
        cpu_target = importlib.import_module("numba.core.registry").cpu_target
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()
    compileall.compile_dir(Path(pinotpy.__file__).parent, quiet=2)
    for module in list(sys.modules.values()):
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if isinstance(origin, str) and origin.endswith(".py"):
            with suppress(OSError):
                compileall.compile_file(origin, quiet=2)


if __name__ == "__main__":
    write_byte_code()
