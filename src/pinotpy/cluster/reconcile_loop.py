"""A thread that runs a step when hinted, and at least once per period: hints give speed, the period correctness."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from pinotpy.clock import Clock, SystemClock
from pinotpy.errors import ClusterError

logger = logging.getLogger(__name__)

_PAUSE_S_FIRST = 0.05
_PAUSE_S_MAX = 2.0
# A pass over tens of thousands of segments takes long, whether one of them changed or hundreds did: it is followed by a
# rest of twice as long, in which more changes gather.
_REST_FROM_S = 0.02
_REST_SHARE = 2.0
_REST_S_MAX = 0.5
# A fault that lasts is told so often: a line each pass would fill a disk.
_TELL_AGAIN_S = 60.0


class ReconcileLoop:
    """Calls `step(full)`; `full` is true every `full_period_s` and after an error.

    Args:
        step: one pass; may raise, then it runs again after a growing, jittered pause.
        period_s: longest time between two passes.
        full_period_s: longest time between two full passes.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[bool], None],
        *,
        period_s: float,
        full_period_s: float,
        clock: Clock | None = None,
    ) -> None:
        self._name = name
        self._step = step
        self._period_s = period_s
        self._full_period_s = full_period_s
        self._clock = clock or SystemClock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.num_errors = 0
        self._cause = ""  # of the last failure, until a pass succeeds
        self._tell_again_ns = 0
        self._num_untold = 0

    def hint(self) -> None:
        """Run a pass soon. Safe from any thread."""
        self._wake.set()

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Let the running pass end, then stop."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        next_full_ns = 0
        pause_s = _PAUSE_S_FIRST
        while not self._stopping.is_set():
            self._wake.clear()
            is_full = self._clock.monotonic_ns() >= next_full_ns
            began_s = time.thread_time()  # of this thread alone: not what it waits for others
            try:
                self._step(is_full)
            except Exception as error:
                if self._stopping.is_set():
                    return
                self.num_errors += 1
                self._tell(error)
                next_full_ns = 0
                self._clock.wait(self._stopping, random.uniform(pause_s / 2, pause_s))
                pause_s = min(pause_s * 2, _PAUSE_S_MAX)
                continue
            pause_s = _PAUSE_S_FIRST
            if self._cause:
                logger.info("passes succeed again loop=%s untold_failures=%d", self._name, self._num_untold)
                self._cause, self._num_untold = "", 0
            if is_full:
                # Jitter, so that the daemons of a cluster do not re-read all at once.
                next_full_ns = self._clock.monotonic_ns() + int(self._full_period_s * random.uniform(0.8, 1.0) * 1e9)
            took_s = time.thread_time() - began_s
            if took_s >= _REST_FROM_S:
                self._clock.wait(self._stopping, min(took_s * _REST_SHARE, _REST_S_MAX))
            self._clock.wait(self._wake, self._period_s)

    def _tell(self, error: Exception) -> None:
        cause, now_ns = f"{type(error).__name__}: {error}", self._clock.monotonic_ns()
        if cause == self._cause and now_ns < self._tell_again_ns:
            self._num_untold += 1
            return
        # What is foreseen needs no trace; of what is not, the first one says all.
        trace = None if isinstance(error, ClusterError) or cause == self._cause else error
        level = logging.WARNING if isinstance(error, ClusterError) else logging.ERROR
        logger.log(
            level,
            "pass failed loop=%s cause=%s untold_failures=%d",
            self._name,
            cause,
            self._num_untold,
            exc_info=trace,
        )
        self._cause, self._tell_again_ns, self._num_untold = cause, now_ns + int(_TELL_AGAIN_S * 1e9), 0
