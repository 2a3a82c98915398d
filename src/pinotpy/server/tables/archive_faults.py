"""Which archives this server could not get from where their records say, for the controller that mends them and for
those who look after a table.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

from pinotpy.clock import Clock

FAULTS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class ArchiveFault:
    """reason: what was wrong with the archive in the deep store, or with the way there. since_ms: since the epoch.
    given_by: base URL of the server that gave the segment instead, empty if none did.
    """

    crc: int
    reason: str
    since_ms: int
    given_by: str = ""


class ArchiveFaults:
    """The newest FAULTS_MAX by table and segment. Safe to share between threads: the lock guards `_faults`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._faults: dict[tuple[str, str], ArchiveFault] = {}

    def found(self, table: str, segment: str, crc: int, reason: str, given_by: str = "") -> None:
        """An archive could not be had."""
        with self._lock:
            self._faults.pop((table, segment), None)
            self._faults[table, segment] = ArchiveFault(crc, reason, self._clock.now_ms(), given_by)
            while len(self._faults) > FAULTS_MAX:
                del self._faults[next(iter(self._faults))]

    def gone(self, table: str, segment: str) -> None:
        """The archive was had, or the segment is not this server's any more."""
        with self._lock:
            self._faults.pop((table, segment), None)

    def describe(self) -> list[dict[str, Any]]:
        """All of them, as they stand in the admin REST."""
        with self._lock:
            faults = sorted(self._faults.items())
        return [
            {
                "tableName": table,
                "segmentName": segment,
                "crc": str(fault.crc),
                "reason": fault.reason,
                "sinceMs": fault.since_ms,
                "givenBy": fault.given_by,
            }
            for (table, segment), fault in faults
        ]
