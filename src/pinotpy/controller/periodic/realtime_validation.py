"""Keeps every partition of every table of a stream consuming (Pinot: RealtimeSegmentValidationManager).

A table is looked at when it is new, when its config changed, and now and then. What keeps a stream from being read is
kept for status pages, and tried again soon.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from pinotpy.cluster.realtime_segments import RealtimeSegments
from pinotpy.controller.context import Controller
from pinotpy.controller.realtime.next_segment import begin_partitions
from pinotpy.errors import PinotError

LOG = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 1.0
STREAM_TIMEOUT_S: Final = 5.0
RETRY_S_FIRST: Final = 1.0
RETRY_S_MAX: Final = 60.0
_SUFFIX: Final = "_REALTIME"


class RealtimeValidation:
    """The task. `faults` may be read from any thread."""

    name = "RealtimeSegmentValidationManager"
    interval_s = LOOK_INTERVAL_S

    def __init__(self, controller: Controller, segments: RealtimeSegments, full_interval_s: float) -> None:
        self._controller, self._segments = controller, segments
        self._full_interval_ns = int(full_interval_s * 1e9)
        self._lock = threading.Lock()
        self._due_ns: dict[str, int] = {}
        self._pause_s: dict[str, float] = {}
        self._versions: dict[str, int] = {}
        self.faults: dict[str, str] = {}

    def tables(self) -> Sequence[str]:
        return [name for name in self._controller.catalog.table_names() if name.endswith(_SUFFIX)]

    def run_table(self, table_name_with_type: str) -> None:
        """Look at one table if it is due. Raises what keeps its stream from being read."""
        now_ns = self._controller.clock.monotonic_ns()
        stored = self._controller.catalog.table_config(table_name_with_type)
        if stored is None or not self._controller.catalog.is_enabled(table_name_with_type):
            self._forget(table_name_with_type)
            return
        with self._lock:
            is_changed = self._versions.get(table_name_with_type) != stored.version
            if not is_changed and now_ns < self._due_ns.get(table_name_with_type, 0):
                return
        try:
            begin_partitions(self._controller, self._segments, stored.config, timeout_s=STREAM_TIMEOUT_S)
        except Exception as error:
            message = error.message if isinstance(error, PinotError) else f"{type(error).__name__}: {error}"
            self._failed(table_name_with_type, stored.version, message)
            return
        with self._lock:
            self._versions[table_name_with_type] = stored.version
            self._due_ns[table_name_with_type] = now_ns + self._full_interval_ns
            self._pause_s.pop(table_name_with_type, None)
            self.faults.pop(table_name_with_type, None)

    def run_once(self) -> None:
        """Nothing of the whole cluster; tables that are gone are forgotten."""
        known = set(self.tables())
        for table in [table for table in self._versions if table not in known]:
            self._forget(table)

    def _failed(self, table: str, version: int, message: str) -> None:
        with self._lock:
            if self.faults.get(table) != message:
                LOG.warning("stream cannot be read table=%s reason=%s", table, message)
            pause_s = self._pause_s.get(table, RETRY_S_FIRST)
            self._pause_s[table] = min(pause_s * 2, RETRY_S_MAX)
            self._versions[table] = version
            self._due_ns[table] = self._controller.clock.monotonic_ns() + int(pause_s * 1e9)
            self.faults[table] = message

    def _forget(self, table: str) -> None:
        with self._lock:
            for known in (self._versions, self._due_ns, self._pause_s, self.faults):
                known.pop(table, None)
