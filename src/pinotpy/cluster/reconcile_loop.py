"""One thread that runs a step when hinted and at least every period: hints make it fast, the period makes it right."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from pinotpy.clock import Clock, SystemClock
from pinotpy.errors import ClusterError

logger = logging.getLogger(__name__)

_PAUSE_S_FIRST = 0.05
_PAUSE_S_MAX = 2.0


class ReconcileLoop:
    """Calls `step(full)`; `full` is true every `full_period_s` and after an error.

    Args:
        step: one pass; may raise, then it runs again after a growing, jittered pause.
        period_s: longest time between two passes.
        full_period_s: longest time between two full passes.
    """

    def __init__(self, name: str, step: Callable[[bool], None], *, period_s: float, full_period_s: float, clock: Clock | None = None) -> None:
        self._name = name
        self._step = step
        self._period_s = period_s
        self._full_period_s = full_period_s
        self._clock = clock or SystemClock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.num_errors = 0

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
            try:
                self._step(is_full)
            except Exception as error:
                if self._stopping.is_set():
                    return
                self.num_errors += 1
                if isinstance(error, ClusterError):
                    logger.warning("pass failed loop=%s cause=%s", self._name, error)
                else:
                    logger.exception("pass failed loop=%s", self._name)
                next_full_ns = 0
                self._clock.wait(self._stopping, random.uniform(pause_s / 2, pause_s))
                pause_s = min(pause_s * 2, _PAUSE_S_MAX)
                continue
            pause_s = _PAUSE_S_FIRST
            if is_full:
                # Jitter, so that the daemons of a cluster do not re-read all at once.
                next_full_ns = self._clock.monotonic_ns() + int(self._full_period_s * random.uniform(0.8, 1.0) * 1e9)
            self._clock.wait(self._wake, self._period_s)
