"""The process that others of ingestion are forked from: it has one thread, and holds nothing but code.

Requests are pickled tuples, with the descriptor of the new process's socket: `("fork", program, arguments)`, answered
with `started` and the pid; `("reap", pid)` of one that ended, answered with its status; and `("prepare",)`, without an
answer: load kernels before the first fork, not behind it.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pinotpy.kernels.cache_loading import load_without_compiler
from pinotpy.kernels.packed_bitcode import keep_bitcode_packed
from pinotpy.memory.c_library import MALLOC_TRIM
from pinotpy.server.realtime.workers import build_process, reader_process
from pinotpy.server.realtime.workers.channel import Channel, ChannelLog, send_json
from pinotpy.service.lean_imports import keep_imports_lean

log = logging.getLogger(__name__)

# Name as `ps` shows it, and what runs.
PROGRAMS: Final[dict[str, tuple[str, Callable[..., None]]]] = {
    "read": ("pinotpy-ingest", reader_process.run),
    "build": ("pinotpy-build", build_process.run),
}


def main(arguments: list[str]) -> int:
    """`fork_process <descriptor of the socket>`."""
    keep_imports_lean()
    load_without_compiler()
    keep_bitcode_packed()
    # Ctrl-C reaches the whole group of processes; the server decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=int(arguments[0])))
    logging.basicConfig(level=logging.INFO, handlers=[ChannelLog(channel)])
    with suppress(OSError):
        _serve(channel)
    return 0


def _serve(channel: Channel) -> None:
    is_warm = False
    gc.freeze()  # what is here is not looked at, and so not copied, by what is forked
    while (received := channel.receive()) is not None:
        content, descriptor = received
        kind, *arguments = pickle.loads(content)  # noqa: S301 (of the process that started this one)
        if kind == "reap":
            send_json(channel, kind="reaped", status=_status(*arguments))
            continue
        if kind == "prepare":
            is_warm = True
            _warm_up()
            continue
        assert descriptor is not None
        try:
            pid = os.fork()
        except OSError as error:
            send_json(channel, kind="failed", reason=f"no process can be started: {error}")
            continue
        if not pid:
            channel.close()
            _run(descriptor, *arguments)
        os.close(descriptor)
        send_json(channel, kind="started", pid=pid)
        if not is_warm:
            # The first one is waited for, and loads its own.
            is_warm = True
            _warm_up()


def _warm_up() -> None:
    from pinotpy.server.realtime.workers.kernels import load_kernels

    try:
        load_kernels()
    except Exception:
        log.exception("kernels of ingestion cannot be loaded beforehand, each process loads its own")
    if threads := _other_threads():
        log.error("the process that ingest workers are forked from has other threads: %s", ", ".join(threads))
    gc.collect()
    if MALLOC_TRIM is not None:
        MALLOC_TRIM(0)  # what loading left free would be in every process that is forked
    gc.freeze()


def _other_threads() -> list[str]:
    """A lock that one of them holds would be held for ever in what is forked; Arrow's allocator takes care of its."""
    main = str(os.getpid())
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir() if task.name != main]
    return [name for name in names if not name.startswith("jemalloc")]


def _run(descriptor: int, program: str, arguments: tuple[Any, ...]) -> None:
    """Never returns."""
    code = 1
    try:
        name, run = PROGRAMS[program]
        with suppress(OSError):
            Path("/proc/self/comm").write_text(name)
        channel = Channel(socket.socket(fileno=descriptor))
        logging.basicConfig(level=logging.INFO, handlers=[ChannelLog(channel)], force=True)
        run(channel, *arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # Threads of librdkafka and of builds are not waited for.
        os._exit(code)


def _status(pid: int) -> str:
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return "unknown"
    return str(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
