"""When the memory of what only compiles is given back (kernels/code_memory.py): some time after kernels were loaded,
once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from pinotpy.kernels.code_memory import give_back

IDLE_S: Final = 2.0

log = logging.getLogger(__name__)


class WhenIdle:
    """Gives back some time after the last of many uses, on a thread of its own."""

    def __init__(self, idle_s: float = IDLE_S, give_back: Callable[[], object] = give_back) -> None:
        self._idle_s, self._give_back = idle_s, give_back
        self._lock = threading.Lock()
        self._used_s = 0.0
        self._is_waiting = False

    def used(self) -> None:
        """Kernels were loaded or may have been."""
        with self._lock:
            self._used_s = time.monotonic()
            if self._is_waiting:
                return
            self._is_waiting = True
        threading.Thread(target=self._run, name="pinotpy-code-memory", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                left_s = self._used_s + self._idle_s - time.monotonic()
                if left_s <= 0:
                    self._is_waiting = False
                    break
            time.sleep(left_s)
        try:
            self._give_back()
        except Exception:
            # It reads what another thread may be compiling.
            log.warning("memory of compiled kernels is not given back this time", exc_info=True)


# Of this process.
CODE_MEMORY: Final = WhenIdle()
