"""Re-reads the files of loaded segments, slowly, and has damaged ones replaced.

Queries compare bytes when they first read them, and when a file was touched since (segment/integrity.py). A disk can
lose bits later without anybody noticing. So every segment is re-read once per period, at a bounded rate and the lowest
priority, and soon after a query met damage.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import Final

from pinotpy.clock import Clock
from pinotpy.errors import NotFoundError, PinotError, SegmentCorruptError
from pinotpy.segment import layout
from pinotpy.segment.immutable import ImmutableSegment, scrub
from pinotpy.server.damaged_segments import Replace
from pinotpy.server.tables.registry import SegmentRegistry

log = logging.getLogger(__name__)
LOOK_INTERVAL_S: Final = 60.0
# A server that starts has better things to do.
FIRST_LOOK_S: Final = 600.0
_LOWEST_PRIORITY: Final = 19


class _StoppedError(Exception):
    """The server stops while a segment is read."""


class Scrubber:
    """A thread; see the module docstring. The lock guards `_suspected`.

    Args:
        period_s: how often each segment is read; 0: only those of tables in which a query met damage.
        bytes_per_s: how fast.
        progress: told how many segments are still to be read in this round, and how many bytes were read since it was
            told last.
    """

    def __init__(
        self,
        registry: SegmentRegistry,
        replace: Replace,
        clock: Clock,
        *,
        period_s: float,
        bytes_per_s: int,
        progress: Callable[[int, int], None] = lambda num_segments, num_bytes: None,
    ) -> None:
        self._registry, self._replace, self._clock = registry, replace, clock
        self._period_ms, self._bytes_per_s = int(period_s * 1000), bytes_per_s
        self._progress = progress
        self._lock = threading.Lock()
        self._suspected: set[str] = set()
        self._checked_ms: dict[tuple[str, str, int], int] = {}  # (table, segment, CRC) → when it was read last
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="scrub", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def suspect(self, table: str) -> None:
        """A query met damage in a table: its segments are read now. Safe from any thread."""
        with self._lock:
            self._suspected.add(table)
        self._wake.set()

    def step(self) -> None:
        """Read what is due or suspected."""
        with self._lock:
            suspected, self._suspected = self._suspected, set()
        held = {
            (table, name, segment.crc): segment
            for table in self._registry.tables()
            for name, segment in self._registry.segments(table).items()
        }
        self._checked_ms = {key: at_ms for key, at_ms in self._checked_ms.items() if key in held}
        wanted = [key for key, segment in held.items() if key[0] in suspected or self._is_due(key, segment)]
        for number, key in enumerate(wanted):
            self._progress(len(wanted) - number, 0)
            if self._is_sound(key[0], held[key]):
                self._checked_ms[key] = self._clock.now_ms()
                self._progress(len(wanted) - number - 1, held[key].metadata.size_bytes)
        self._progress(0, 0)

    def _is_due(self, key: tuple[str, str, int], segment: ImmutableSegment) -> bool:
        if not self._period_ms:
            return False
        if key not in self._checked_ms:
            # The marker of the last full check tells when that was.
            try:
                marker = segment.directory.fingerprint().get(layout.VERIFIED, (0, 0))
            except NotFoundError:
                return True
            self._checked_ms[key] = marker[1] // 1_000_000
        return self._clock.now_ms() - self._checked_ms[key] >= self._period_ms

    def _is_sound(self, table: str, segment: ImmutableSegment) -> bool:
        if not segment.acquire():
            return False
        try:
            scrub(segment, self._pace)
        except SegmentCorruptError as error:
            log.error("segment is damaged table=%s segment=%s reason=%s", table, segment.name, error.message)
            damage = error
        else:
            return True
        finally:
            segment.release()
        try:
            self._replace(table, segment, damage)
        except PinotError as error:
            log.error(
                "damaged segment could not be replaced table=%s segment=%s reason=%s",
                table,
                segment.name,
                error.message,
            )
        # Read again by the next step: what is there now came from elsewhere.
        return False

    def _pace(self, num_bytes: int) -> None:
        if self._clock.wait(self._stopping, num_bytes / self._bytes_per_s):
            raise _StoppedError

    def _run(self) -> None:
        if sys.platform == "linux":  # where priorities are those of threads
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
        pause_s = FIRST_LOOK_S
        while not self._stopping.is_set():
            self._clock.wait(self._wake, pause_s)
            self._wake.clear()
            pause_s = LOOK_INTERVAL_S
            if self._stopping.is_set():
                return
            try:
                self.step()
            except _StoppedError:
                return
            except Exception:
                log.exception("reading segments anew failed")
