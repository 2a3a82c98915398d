"""Kernels of a server: those that the first queries need are there before it joins, the others follow behind.

With a filled cache all are loaded before it joins, in seconds. Where the cache lacks some, those of the first queries
are compiled first, by a process a core, and the others later, on processor time that nobody else wants. The server
itself compiles nothing: another process compiles what is called and not there (kernels/demand.py). The log, /health and
/metrics tell how far it is.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pinotpy.clock import Clock
from pinotpy.kernels.compile_process import compile_kernel
from pinotpy.kernels.compile_processes import Compilers, Tell
from pinotpy.kernels.compiling import Stage, StageRun, is_compiled, percent
from pinotpy.kernels.demand import RECORD, compile_elsewhere
from pinotpy.kernels.kernel_names import Kernel
from pinotpy.kernels.runtime.abi import BlockFunction
from pinotpy.service.code_memory import CODE_MEMORY

TELL_EVERY_S: Final = 5.0
TELL_OTHERS_EVERY_S: Final = 30.0
# A signal that the system gave to another thread does not end a long wait.
_LOOK_S: Final = 0.1
# Between kernels that are loaded while queries run: each holds Python's lock for some milliseconds.
_PAUSE_S: Final = 0.01

log = logging.getLogger(__name__)


def _warm() -> None:
    from pinotpy.query.warm import warm  # imports what builds segments: not before the server says that it starts

    warm()


class KernelWarmUp:
    """The threads that have kernels compiled, and the wait for the first of them.

    compilers: compile what somebody waits for.
    """

    def __init__(
        self,
        clock: Clock,
        tell: Tell = lambda done, total: None,
        *,
        folder: Path | None = None,
        warm: Callable[[], None] = _warm,
        make_run: Callable[..., StageRun] = StageRun,
        load: Callable[[Kernel], None] = compile_kernel,
    ) -> None:
        """tell: told how many kernels are there, of how many. folder: the cache, None: that of this process."""
        self._clock, self._tell, self._warm, self._make_run, self._load_one = clock, tell, warm, make_run, load
        self._folder = Path(os.environ["NUMBA_CACHE_DIR"]) if folder is None else folder
        self.compilers = Compilers(self._folder, len(os.sched_getaffinity(0)))
        self._progress: dict[Stage, tuple[int, int]] = {}
        self._stage: Stage | None = None
        self._runs: list[StageRun] = []
        self._first = threading.Thread(target=self._run_first, name="warm", daemon=True)
        self._is_ended = threading.Event()
        self._end_elsewhere: Callable[[], None] = lambda: None
        self._loads_all = True

    # --- the first --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to load and compile; returns at once."""
        self._end_elsewhere = compile_elsewhere(self.compilers.compile, BlockFunction)
        self._first.start()

    def wait(self) -> None:
        """Return when the kernels of the first queries are loaded; meanwhile say every TELL_EVERY_S how far it is."""
        begun_ns = told_ns = self._clock.monotonic_ns()
        while self._first.is_alive():
            self._first.join(_LOOK_S)
            now_ns = self._clock.monotonic_ns()
            if now_ns - told_ns >= TELL_EVERY_S * 1e9 and self._first.is_alive() and self._stage is not None:
                told_ns = now_ns
                self._tell_log(begun_ns)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to compile."""
        return is_compiled(self._folder, Stage.ALL)

    def _run_first(self) -> None:
        if os.environ.get(RECORD):
            return  # what queries ask for is recorded, not what is loaded ahead
        self._loads_all = self.is_complete
        if self._loads_all:
            self._warm()
            return
        self._compile(Stage.FIRST, is_idle=False)
        self._load(Stage.FIRST.kernels)  # compiles what could not be

    # --- the others -------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Have the other kernels compiled behind queries; returns at once."""
        if not self._loads_all and not os.environ.get(RECORD):
            threading.Thread(target=self._run_others, name="other_kernels", daemon=True).start()

    def _run_others(self) -> None:
        begun_ns = self._clock.monotonic_ns()
        threading.Thread(target=self._tell_others, args=(begun_ns,), name="tell_kernels", daemon=True).start()
        if self._compile(Stage.ALL, is_idle=True):
            # Queries load what they need; what none needed yet is loaded so that no later one waits for the disk.
            self._load(Stage.ALL.kernels, _PAUSE_S)
            CODE_MEMORY.used()
            took_s = (self._clock.monotonic_ns() - begun_ns) // 1_000_000_000
            log.info("all kernels are compiled took_s=%d cache=%s", took_s, self._folder)

    def _tell_others(self, begun_ns: int) -> None:
        while not self._clock.wait(self._is_ended, TELL_OTHERS_EVERY_S) and self._stage is not None:
            self._tell_log(begun_ns)

    # --- both -------------------------------------------------------------------------------------------------------

    def _compile(self, stage: Stage, *, is_idle: bool) -> bool:
        """Whether all are there."""
        run = self._make_run(self._folder, stage, self._told(stage), is_idle=is_idle)
        self._runs.append(run)
        if self._is_ended.is_set():
            run.end()
        self._stage, is_there = stage, False
        try:
            is_there = run.run()
        except OSError as error:
            log.warning("kernels cannot be compiled ahead, queries will wait for theirs reason=%s", error)
        finally:
            self._stage = None
        if run.failures:
            log.warning(
                "kernels could not be compiled, queries that need them will try again number=%d", len(run.failures)
            )
        return is_there

    def _told(self, stage: Stage) -> Tell:
        def told(done: int, total: int) -> None:
            self._progress[stage] = done, total
            self._tell(done, total)

        return told

    def _load(self, kernels: Sequence[Kernel], pause_s: float = 0.0) -> None:
        for kernel in kernels:
            if self._is_ended.wait(pause_s):
                return
            try:
                self._load_one(kernel)
            except Exception:
                # Whoever calls it is told.
                log.warning("kernel cannot be loaded ahead kernel=%s", kernel.short_name, exc_info=True)

    def _tell_log(self, begun_ns: int) -> None:
        stage = self._stage
        done, total = self._progress.get(stage, (0, 0)) if stage is not None else (0, 0)
        log.info(
            "compiling kernels, once for this CPU: %d %% of %s kernels=%d of=%d took_s=%d cache=%s",
            percent(done, total),
            "what the first queries need" if stage is Stage.FIRST else "all, on idle processor time",
            done,
            total,
            (self._clock.monotonic_ns() - begun_ns) // 1_000_000_000,
            self._folder,
        )

    def told(self) -> str:
        """What health says of it; empty where nothing is compiled."""
        stage = self._stage
        if stage is None:
            return ""
        done, total = self._progress.get(stage, (0, 0))
        what = "kernels that the first queries need" if stage is Stage.FIRST else "the other kernels"
        return f"{what} are being compiled, once for this CPU: {percent(done, total)} %"

    def end(self) -> None:
        """Stop compiling, at once."""
        self._is_ended.set()
        for run in self._runs:
            run.end()
        self.compilers.end()
        self._end_elsewhere()
