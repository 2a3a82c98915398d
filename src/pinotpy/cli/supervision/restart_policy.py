"""When a daemon that ended is started again: after ever longer waits, and not for ever."""

from __future__ import annotations

from typing import Final

from pinotpy.clock import Clock

FIRST_WAIT_S: Final = 1.0
WAIT_MAX_S: Final = 30.0
# So many ends within the window are not bad luck any more: what ends the daemon is still there.
ENDS_MAX: Final = 6
WINDOW_S: Final = 600.0


class RestartPolicy:
    """Of one daemon. Ends longer ago than `WINDOW_S` are forgotten."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends_ns: list[int] = []

    def after_end(self) -> float | None:
        """To be called when the daemon ended: seconds until it shall start again; None: it has ended too often."""
        now_ns = self._clock.monotonic_ns()
        self._ends_ns = [end for end in self._ends_ns if now_ns - end < WINDOW_S * 1e9]
        self._ends_ns.append(now_ns)
        if len(self._ends_ns) > ENDS_MAX:
            return None
        return min(FIRST_WAIT_S * 2.0 ** (len(self._ends_ns) - 1), WAIT_MAX_S)
