"""Processes that compile kernels (compile_process.py), seen from the process that wants them compiled."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pinotpy.kernels.kernel_names import Kernel

IDLE: Final = "--idle"
_PROGRAM: Final = (sys.executable, "-m", "pinotpy.kernels.compile_process")
# How long a process stays that has nothing to do.
_KEEP_S: Final = 20.0
_LOOK_S: Final = 1.0

log = logging.getLogger(__name__)
# Kernels that are done, of how many.
Tell = Callable[[int, int], None]


class CompileProcess:
    """One process, for one thread. It ends with this one, or when `end` is called, from any thread."""

    def __init__(self, folder: Path, *, is_idle: bool = False) -> None:
        """folder: the cache of this machine, as `cache.prepare` gives it."""
        self._process = subprocess.Popen(
            [*_PROGRAM, *([IDLE] if is_idle else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PINOTPY_KERNEL_CACHE": str(folder.parent)},
        )
        self.took_s = 0.0  # the last kernel

    def compile(self, kernel: Kernel) -> str:
        """Why the kernel is not in the cache now; empty: it is."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            print(kernel, file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except (OSError, ValueError):
            line = ""
        if line:
            answer = json.loads(line)
            self.took_s = float(answer["took_s"])
            return str(answer["failure"])
        return f"the process that compiles it ended with status {self._process.wait()}"

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> None:
        """At once: what the cache has is whole. Again is harmless."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class CompileRun:
    """Compiles a list of kernels with several processes; those of one file go to one process, files in their order."""

    def __init__(
        self, folder: Path, kernels: Sequence[Kernel], num_processes: int, *, is_idle: bool = False, tell: Tell
    ) -> None:
        """tell: called on one thread at a time, before the first kernel and after each."""
        files: dict[str, deque[Kernel]] = {}
        for kernel in kernels:
            files.setdefault(kernel.module, deque()).append(kernel)
        self._files = deque(files.values())
        self._folder, self._num_processes, self._is_idle, self._tell = folder, num_processes, is_idle, tell
        self._lock = threading.Lock()
        self._processes: list[CompileProcess] = []
        self._is_ended = False
        self._done, self._total = 0, len(kernels)
        self.failures: dict[Kernel, str] = {}

    def run(self, is_needless: Callable[[], bool] = lambda: False) -> None:
        """Returns when all were compiled or could not be (`failures`), or after `end`.

        is_needless: asked every second; when others have compiled all, processes that got no time end.
        """
        self._tell(0, self._total)
        threads = [
            threading.Thread(target=self._work, name=f"compile_{number}", daemon=True)
            for number in range(min(self._num_processes, len(self._files)))
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(_LOOK_S)
                    if is_needless():
                        return
        finally:
            self.end()

    def end(self) -> None:
        """Stop at once; from any thread."""
        with self._lock:
            self._is_ended = True
            processes, self._processes = self._processes, []
        for process in processes:
            process.end()

    def _work(self) -> None:
        process: CompileProcess | None = None
        while (kernels := self._next_file()) is not None:
            for kernel in kernels:
                if process is None or process.has_ended:
                    process = self._start()
                if process is None:
                    return
                failure = process.compile(kernel)
                with self._lock:
                    if self._is_ended:
                        return
                    self._done += 1
                    if failure:
                        self.failures[kernel] = failure
                        log.warning("kernel cannot be compiled ahead kernel=%s reason=%s", kernel.short_name, failure)
                    self._tell(self._done, self._total)

    def _next_file(self) -> deque[Kernel] | None:
        with self._lock:
            return self._files.popleft() if self._files and not self._is_ended else None

    def _start(self) -> CompileProcess | None:
        with self._lock:
            if self._is_ended:
                return None
            process = CompileProcess(self._folder, is_idle=self._is_idle)
            self._processes.append(process)
            return process


class Wanted:
    """A kernel that somebody waits for. `done` is set when it is in the cache, or `failure` says why it is not."""

    __slots__ = ("done", "failure", "kernel")

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.done, self.failure = kernel, threading.Event(), ""


class Compilers:
    """Compiles kernels that somebody waits for, in the order in which they were asked for, at most `num_processes` at
    once. Shared by all threads; the condition guards everything.
    """

    def __init__(self, folder: Path, num_processes: int, *, keep_s: float = _KEEP_S) -> None:
        """keep_s: how long a process waits for another kernel, which it may compile faster than a new one would."""
        self._folder, self._num_processes, self._keep_s = folder, num_processes, keep_s
        self._condition = threading.Condition()
        self._wanted: dict[Kernel, Wanted] = {}
        self._waiting = deque[Wanted]()
        self._processes: list[CompileProcess] = []
        self._num_threads = self._num_free = 0
        self._is_ended = False

    def want(self, kernel: Kernel) -> Wanted:
        """Returns at once; who wants the same gets the same."""
        with self._condition:
            wanted = self._wanted.get(kernel)
            if wanted is not None:
                return wanted
            wanted = Wanted(kernel)
            if self._is_ended:
                wanted.failure = "this daemon is stopping"
                wanted.done.set()
                return wanted
            self._wanted[kernel] = wanted
            self._waiting.append(wanted)
            if len(self._waiting) > self._num_free and self._num_threads < self._num_processes:
                self._num_threads += 1
                threading.Thread(target=self._work, name="compile_wanted", daemon=True).start()
            self._condition.notify()
        return wanted

    def compile(self, kernel: Kernel) -> str:
        """Wait for it; why it is not in the cache now, empty: it is."""
        wanted = self.want(kernel)
        wanted.done.wait()
        return wanted.failure

    def end(self) -> None:
        """At once. Who still waits is told that it failed."""
        with self._condition:
            self._is_ended = True
            processes = list(self._processes)
            self._condition.notify_all()
        for process in processes:
            process.end()

    def _work(self) -> None:
        process: CompileProcess | None = None
        while (wanted := self._next()) is not None:
            try:
                if process is None or process.has_ended:
                    process = self._start()
                wanted.failure = process.compile(wanted.kernel)
                log.info("kernel compiled kernel=%s took_s=%.1f", wanted.kernel.short_name, process.took_s)
            except OSError as error:
                wanted.failure = f"no process can be started: {error}"
            with self._condition:
                del self._wanted[wanted.kernel]
            wanted.done.set()
        if process is not None:
            process.end()
            with self._condition:
                self._processes.remove(process)

    def _start(self) -> CompileProcess:
        process = CompileProcess(self._folder)
        with self._condition:
            self._processes = [one for one in self._processes if not one.has_ended] + [process]
            is_late = self._is_ended
        if is_late:
            process.end()
        return process

    def _next(self) -> Wanted | None:
        """None when nothing came for a while, or all ends."""
        with self._condition:
            self._num_free += 1
            self._condition.wait_for(lambda: self._waiting or self._is_ended, self._keep_s)
            self._num_free -= 1
            if self._waiting:
                return self._waiting.popleft()
            self._num_threads -= 1
            return None
