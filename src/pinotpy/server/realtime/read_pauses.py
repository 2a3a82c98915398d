"""When a partition reads no further for a while, and how that is told.

Memory is what limits it. Segments that ended and of which no commit is known may need their rows for long (nobody
leads, the store of files is full), so only a few of them are kept. Those that others have committed are only built
here, and go then: they hold nothing up as long as they are small, else a replica that lags would lag for as long as its
builds take on a busy machine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pinotpy.clock import Clock
from pinotpy.segment.consuming.log_ranges import LogView

log = logging.getLogger(__name__)

# Ended segments whose commit is not known.
WAITING_MAX: Final = 4
# All ended segments in memory, and as many as WAITING_MAX where they have more rows than this.
ENDED_MAX: Final = 32
SMALL_ROWS_MAX: Final = 1 << 19
_TOLD_NS: Final = 1_000_000_000


def backlog(view: LogView, is_committed: Callable[[str], bool], num_met: int) -> str:
    """Why no more rows are to be read for now, or nothing.

    Args:
        is_committed: whether a segment's commit is known, by its name.
        num_met: how many segments the rows of the open one would make, whose end is not decided.
    """
    ended = view.segments[:-1]
    num_waiting = sum(not is_committed(each.name) for each in ended) + num_met
    num_rows = view.segments[-1].first_row - view.segments[0].first_row
    if num_waiting <= WAITING_MAX and len(ended) <= (WAITING_MAX if num_rows > SMALL_ROWS_MAX else ENDED_MAX):
        return ""
    return f"{num_waiting} segments have ended and are not committed yet, {len(ended)} lie in memory"


class PauseLog:
    """Tells pauses of a second and more, once each, and their end. Tiny segments make shorter ones all the time."""

    def __init__(self, table: str, partition: int, clock: Clock) -> None:
        self._table, self._partition, self._clock = table, partition, clock
        self._since_ns = 0  # 0: rows are read
        self._is_told = False

    def tell(self, reason: str) -> None:
        """Why nothing is read now, or nothing; is called at least every 100 ms while something holds it up."""
        now_ns = self._clock.monotonic_ns()
        if not reason:
            if self._is_told:
                passed_ms = (now_ns - self._since_ns) // 1_000_000
                log.info("rows are read again table=%s partition=%d after_ms=%d",
                         self._table, self._partition, passed_ms)  # fmt: skip
            self._since_ns, self._is_told = 0, False
        elif not self._since_ns:
            self._since_ns = now_ns
        elif not self._is_told and now_ns - self._since_ns >= _TOLD_NS:
            self._is_told = True
            log.warning("no rows are read for now table=%s partition=%d reason=%s",
                        self._table, self._partition, reason)  # fmt: skip
