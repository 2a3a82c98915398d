"""Kernels are compiled before a server joins: seconds with a filled cache, minutes without one, which the log tells."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Final

from pinotpy.clock import Clock

TELL_EVERY_S: Final = 10.0
# A signal that the system gave to another thread does not end a long wait.
_LOOK_S: Final = 0.1

log = logging.getLogger(__name__)

Step = Callable[[int, int], None]


def _warm(step: Step) -> None:
    from pinotpy.query.warm import warm  # imports what builds segments: not before the server says that it starts

    warm(step)


class KernelWarmUp:
    """The thread that compiles, and the wait for it."""

    def __init__(self, clock: Clock, warm: Callable[[Step], None] = _warm) -> None:
        self._clock = clock
        self._progress = (0, 0)
        self._thread = threading.Thread(target=warm, args=(self._step,), name="warm", daemon=True)

    def start(self) -> None:
        """Begin to compile; returns at once."""
        self._thread.start()

    def wait(self) -> None:
        """Return when everything is compiled; meanwhile say every TELL_EVERY_S how far it is."""
        begun_ns = told_ns = self._clock.monotonic_ns()
        while self._thread.is_alive():
            self._thread.join(_LOOK_S)
            now_ns = self._clock.monotonic_ns()
            if now_ns - told_ns >= TELL_EVERY_S * 1e9 and self._thread.is_alive():
                told_ns = now_ns
                log.info(
                    "kernels are being compiled, as the cache lacks them: later starts of this user take seconds "
                    "queries=%d of=%d took_s=%d cache=%s",
                    *self._progress,
                    (now_ns - begun_ns) // 1_000_000_000,
                    os.environ.get("NUMBA_CACHE_DIR", ""),
                )

    def _step(self, done: int, total: int) -> None:
        self._progress = done, total
