"""One lifecycle for all daemons: start parts in order, say `ready …`, wait for a signal, stop parts in reverse.

    def parts() -> list[Part]: ...
    sys.exit(run_daemon("broker", parts, ready=lambda: {"url": server.url, "instance": instance_id}))

- A fault at start prints one sentence to standard error and exits 1; what was started is stopped.
- SIGTERM or SIGINT stops within the parts' deadlines and exits 0; a second one exits at once.
- A part that ends by itself calls `fail(reason)`: the daemon stops and exits 1, or with the status that is given.
- A stop that hangs says where, and ends all the same (stop_watch.py). SIGABRT and faults in compiled code tell the same
  of every thread.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from pinotpy.errors import PinotError
from pinotpy.memory.c_library import limit_arenas
from pinotpy.memory.descriptors import descriptor_limit, raise_descriptor_limit
from pinotpy.service.code_memory import CODE_MEMORY
from pinotpy.service.lean_imports import keep_imports_lean
from pinotpy.service.stop_watch import STOPS, StopWatch

SWITCH_INTERVAL_S = 0.0005
STOP_TIMEOUT_S = 10.0
# How often a daemon that runs looks for a signal.
_LOOK_S = 0.1
# A part has its own deadline; the second on top lets it report in its own words.
_REPORT_S = 1.0
# Flushing, and what libraries do at the end of a process.
_AT_EXIT_S = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """Something that a daemon starts and stops. `stop(timeout_s)` must also work after a start that failed half-way."""

    name: str
    start: Callable[[], object]
    stop: Callable[[float], object]
    stop_timeout_s: float = STOP_TIMEOUT_S


class _StopDuringStartError(BaseException):
    """A signal while starting: like KeyboardInterrupt, not to be caught on the way."""


class Daemon:
    """Parts with one life. `start` and `stop` are called from one thread; `fail` from any."""

    def __init__(self, role: str, parts: Sequence[Part] = ()) -> None:
        self.role = role
        self.stop_asked = threading.Event()
        self.failure: str | None = None
        self.failure_status = 1
        self.is_stopping = False
        self._parts = list(parts)
        self._started: list[Part] = []
        self._clean = True

    @property
    def stop_bound_s(self) -> float:
        """How long `stop` and the process' end take at most."""
        return sum(part.stop_timeout_s + _REPORT_S for part in self._parts) + _AT_EXIT_S

    def start(self) -> None:
        """Start all parts in order. On a fault those that were started are stopped, and the fault goes on."""
        try:
            for part in self._parts:
                started_ns = time.monotonic_ns()
                # Appended first: a part that fails half-way is stopped like the others.
                self._started.append(part)
                part.start()
                _log.info(
                    "part started role=%s part=%s took_ms=%d",
                    self.role,
                    part.name,
                    (time.monotonic_ns() - started_ns) // 1_000_000,
                )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> bool:
        """Stop what was started, last first, each within its deadline. False if a part did not end: it is left
        behind.
        """
        self.is_stopping = True
        while self._started:
            part = self._started.pop()
            started_ns = time.monotonic_ns()
            done = threading.Thread(target=_stop_part, args=(self.role, part), name=f"stop-{part.name}", daemon=True)
            done.start()
            done.join(part.stop_timeout_s + _REPORT_S)
            took_ms = (time.monotonic_ns() - started_ns) // 1_000_000
            if done.is_alive():
                self._clean = False
                _log.error("part did not stop in time role=%s part=%s took_ms=%d", self.role, part.name, took_ms)
            else:
                _log.info("part stopped role=%s part=%s took_ms=%d", self.role, part.name, took_ms)
        return self._clean

    def fail(self, reason: str, status: int = 1) -> None:
        """Stop the daemon with this exit status: a part cannot continue."""
        if self.failure is None:
            self.failure, self.failure_status = reason, status
            _log.error("daemon fails role=%s reason=%s", self.role, reason)
        self.stop_asked.set()


def _stop_part(role: str, part: Part) -> None:
    try:
        part.stop(part.stop_timeout_s)
    except Exception:
        _log.exception("part failed to stop role=%s part=%s", role, part.name)


def run_daemon(
    role: str,
    parts: Callable[[Daemon], Sequence[Part]],
    *,
    ready: Callable[[], Mapping[str, object]],
    ready_file: Path | None = None,
) -> NoReturn:
    """Run a daemon in this process until it is told to stop, and end the process. Must be called by the main thread.

    `parts` builds the parts (it may raise PinotError for bad settings), `ready` gives what the ready line shows once
    all have started. With `ready_file` the same facts and the pid are written there as JSON, and removed at the end.
    """
    started_ns = time.monotonic_ns()
    tune_process()
    raise_descriptor_limit()
    if sys.stderr is not None:
        faulthandler.enable(file=sys.stderr)
    daemon = Daemon(role)
    signals = _Signals(daemon)
    try:
        signals.starting = True
        if signals.asked:
            raise _StopDuringStartError
        status, last_words = _live(daemon, signals, parts, ready, ready_file, started_ns)
        signals.starting = False
    except _StopDuringStartError:
        status, last_words = 0, ""
        _log.info("stopped during start role=%s", role)
    daemon.stop_asked.set()
    signals.watch.begin()
    is_clean = daemon.stop()
    with contextlib.suppress(OSError):
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)
        if last_words:
            print(f"pinotpy {role}: {last_words}", file=sys.stderr, flush=True)
    _leave(status if is_clean else status or 1)


def _live(
    daemon: Daemon,
    signals: _Signals,
    parts: Callable[[Daemon], Sequence[Part]],
    ready: Callable[[], Mapping[str, object]],
    ready_file: Path | None,
    started_ns: int,
) -> tuple[int, str]:
    """Start and run; returns the exit status and what to say at the end."""
    try:
        daemon._parts = list(parts(daemon))
        _log.info("open files role=%s limit=%d", daemon.role, descriptor_limit())
        daemon.start()
        # Whatever was built at start lives as long as the process: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        tune_process()  # once more: parts import libraries when they start
        signals.starting = False
        took_ms = (time.monotonic_ns() - started_ns) // 1_000_000
        facts = {"role": daemon.role, **ready(), "took_ms": took_ms}
        if ready_file is not None:
            _write_ready_file(ready_file, {**facts, "pid": os.getpid()})
        CODE_MEMORY.used()
        print("ready " + " ".join(f"{key}={value}" for key, value in facts.items()), flush=True)
    except PinotError as problem:
        return 1, f"cannot start: {problem}"
    except Exception as problem:
        _log.exception("start failed role=%s", daemon.role)
        return 1, f"cannot start: {type(problem).__name__}: {problem}"
    # Not one long wait: a signal that the system gave to another thread does not end it, and its handler runs between
    # two looks.
    while not signals.asked and not daemon.stop_asked.wait(_LOOK_S):
        pass
    _log.info("stopping role=%s reason=%s", daemon.role, daemon.failure or "asked to")
    return (0, "") if daemon.failure is None else (daemon.failure_status, daemon.failure)


class _Signals:
    """Handlers of SIGTERM and SIGINT: the first asks to stop, the second leaves at once."""

    def __init__(self, daemon: Daemon) -> None:
        self.starting = False
        self.asked = False
        self._daemon = daemon
        self._old = {number: signal.signal(number, self._handle) for number in STOPS}
        self.watch = StopWatch(
            daemon.role, lambda: self.asked or daemon.stop_asked.is_set(), lambda: daemon.stop_bound_s
        )

    def undo(self) -> None:
        """For tests: a daemon keeps them to its end."""
        self.watch.undo()
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            os._exit(128 + number)
        self.asked = True
        if self.starting and not self._daemon.is_stopping:
            self._daemon.stop_asked.set()
            raise _StopDuringStartError
        # The event is the main thread's to set: it may hold the event's own lock just now, and would wait here for
        # itself.


def _leave(status: int) -> NoReturn:
    """End the process, after the last words are out. Not as Python does it: that waits for all threads of pools without
    a deadline (a download, a file system that does not answer), and daemon threads that still run in compiled code may
    crash it.
    """
    last = threading.Thread(target=_at_exit, name="at-exit", daemon=True)
    last.start()
    last.join(_AT_EXIT_S)
    os._exit(status)


def _at_exit() -> None:
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or never there
            stream.flush()


def _write_ready_file(file: Path, facts: Mapping[str, object]) -> None:
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(descriptor, "w") as stream:
        json.dump(facts, stream)
    os.replace(name, file)


def tune_process() -> None:
    """Settings of every daemon process: quick hand-over of the GIL, no threads of libraries besides ours, and freed
    memory that serves the next thread.

    With the default switch interval of 5 ms one busy Python thread takes a trivial query from 0.65 to 38 ms; with 0.5
    ms to 4.6. Kernels run in our own threads, so Arrow, numba's parallel layer and BLAS get one each.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    keep_imports_lean()
    limit_arenas()
    # Another thread may be in the middle of importing them: a controller checks uploads from its first moment.
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and hasattr(pyarrow, "set_io_thread_count"):
        pyarrow.set_cpu_count(1)
        pyarrow.set_io_thread_count(1)
    numba_config: Any = sys.modules.get("numba.core.config")
    if hasattr(numba_config, "NUMBA_NUM_THREADS"):
        numba_config.NUMBA_NUM_THREADS = 1  # set_num_threads would launch the pool that it limits
    numpy = sys.modules.get("numpy")
    if numpy is not None and numpy.__file__ is not None:
        _limit_blas(Path(numpy.__file__).parent.parent / "numpy.libs")


def _limit_blas(libraries: Path) -> None:
    # numpy's wheels carry OpenBLAS, which reads its environment only when loaded; this call works afterwards too.
    for file in libraries.glob("*openblas*.so*"):
        library = ctypes.CDLL(str(file))
        for name in ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "openblas_set_num_threads"):
            set_num_threads = getattr(library, name, None)
            if set_num_threads is not None:
                set_num_threads(1)
                break
