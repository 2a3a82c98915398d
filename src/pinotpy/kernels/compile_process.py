"""A process that compiles kernels into the cache: names of kernels as lines in, one JSON object a line out.

    {"kernel": name, "failure": "" or why it cannot be compiled, "took_s": seconds}

It ends when its input ends, in the middle of whatever it compiles: what the cache has is whole. `--idle`: it uses only
processor time that nobody else wants. Functions that only kernels call are compiled once a process, not once a kernel,
so it pays to give one process the kernels of one file.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from pinotpy.kernels.compile_processes import IDLE
from pinotpy.kernels.demand import locked
from pinotpy.kernels.kernel_names import Kernel, code_of, kernel_of
from pinotpy.kernels.linked_functions import link_functions_without_cache

_NICENESS: Final = 19


def main(arguments: list[str]) -> None:
    """Never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; who started this one decides
    is_idle = IDLE in arguments
    if is_idle:
        yield_to_others()
    link_functions_without_cache()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else is written there
    waiting = SimpleQueue[str]()
    threading.Thread(target=_read, args=(waiting,), daemon=True).start()
    while True:
        name, start_s = waiting.get().strip(), time.monotonic()
        failure = _compiled(name, is_idle=is_idle)
        took_s = round(time.monotonic() - start_s, 3)
        print(json.dumps({"kernel": name, "failure": failure, "took_s": took_s}), file=answers, flush=True)


def _read(waiting: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        waiting.put(line)
    os._exit(0)


def yield_to_others() -> None:
    """Run this process only when no other wants the processor."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        os.nice(_NICENESS)


def _compiled(name: str, *, is_idle: bool) -> str:
    """Why it is not in the cache now; empty: it is."""
    try:
        kernel = kernel_of(name)
        # Processes of one kind do not compile the same at once; one that is waited for does not wait for an idle one.
        place = Path(os.environ.get("NUMBA_CACHE_DIR", "")) / (".compiling-idle" if is_idle else ".compiling")
        with locked(place, name):
            compile_kernel(kernel)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:1000]
    return ""


def compile_kernel(kernel: Kernel) -> None:
    """In this process, unless the cache has it. Raises whatever keeps it from being compiled."""
    code, types = code_of(kernel)
    if types is None:
        code.compile()
    else:
        code.compile(types)


if __name__ == "__main__":
    main(sys.argv[1:])
