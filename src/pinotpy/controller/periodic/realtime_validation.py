"""Keeps every partition of every table of a stream consuming (Pinot: RealtimeSegmentValidationManager).

A table is looked at when it is new, also under a name that another had, when its config changed, and now and then. What
keeps a stream from being read is kept for status pages, and tried again soon.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pinotpy.cluster.realtime_segments import RealtimeSegments
from pinotpy.config.stream_keys import without_secrets
from pinotpy.controller.catalog import StoredTable
from pinotpy.controller.context import Controller
from pinotpy.controller.realtime.next_segment import begin_partitions
from pinotpy.errors import PinotError

LOG = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 1.0
# A stream that cannot be read is to be told within 5 s of the table's creation; later a slow one gets more time.
STREAM_TIMEOUT_S_FIRST: Final = 2.0
STREAM_TIMEOUT_S: Final = 5.0
RETRY_S_FIRST: Final = 1.0
RETRY_S_MAX: Final = 60.0
_SUFFIX: Final = "_REALTIME"


@dataclass(frozen=True, slots=True)
class StreamFailure:
    """Why the partitions of a table's stream could not be begun, without passwords.

    layer: a StreamLayer; empty if it is not known. since_ms: of the first of `num_attempts` attempts that ended so,
        last_ms: of the last one; ms since the epoch.
    """

    message: str
    layer: str
    since_ms: int
    last_ms: int
    num_attempts: int = 1


class RealtimeValidation:
    """The task. `failure` may be called from any thread."""

    name = "RealtimeSegmentValidationManager"
    interval_s = LOOK_INTERVAL_S

    def __init__(self, controller: Controller, segments: RealtimeSegments, full_interval_s: float) -> None:
        self._controller, self._segments = controller, segments
        self._full_interval_ns = int(full_interval_s * 1e9)
        self._lock = threading.Lock()
        self._due_ns: dict[str, int] = {}
        self._pause_s: dict[str, float] = {}
        self._seen: dict[str, int] = {}  # table → modified_id of the config that was looked at
        self._failures: dict[str, StreamFailure] = {}

    def failure(self, table_name_with_type: str) -> StreamFailure | None:
        """What the last look at a table failed with."""
        return self._failures.get(table_name_with_type)

    def tables(self) -> Sequence[str]:
        names = [name for name in self._controller.catalog.table_names() if name.endswith(_SUFFIX)]
        return sorted(names, key=lambda name: name in self._seen)  # new ones do not wait for slow streams

    def run_table(self, table_name_with_type: str) -> None:
        """Look at one table if it is due. Raises what keeps its stream from being read."""
        now_ns = self._controller.clock.monotonic_ns()
        stored = self._controller.catalog.table_config(table_name_with_type)
        if stored is None or not self._controller.catalog.is_enabled(table_name_with_type):
            self._forget(table_name_with_type)
            return
        with self._lock:
            is_changed = self._seen.get(table_name_with_type) != stored.modified_id
            if not is_changed and now_ns < self._due_ns.get(table_name_with_type, 0):
                return
            if is_changed:
                self._pause_s.pop(table_name_with_type, None)
        timeout_s = STREAM_TIMEOUT_S_FIRST if is_changed else STREAM_TIMEOUT_S
        try:
            begin_partitions(self._controller, self._segments, stored.config, timeout_s=timeout_s)
        except Exception as error:
            self._failed(stored, error)
            return
        with self._lock:
            self._seen[table_name_with_type] = stored.modified_id
            self._due_ns[table_name_with_type] = now_ns + self._full_interval_ns
            self._pause_s.pop(table_name_with_type, None)
            self._failures.pop(table_name_with_type, None)

    def run_once(self) -> None:
        """Nothing of the whole cluster; tables that are gone are forgotten."""
        known = set(self.tables())
        for table in [table for table in self._seen if table not in known]:
            self._forget(table)

    def _failed(self, stored: StoredTable, error: Exception) -> None:
        from pinotpy.stream.spec import layer_of  # Arrow comes with it

        config, now_ms, layer = stored.config, self._controller.clock.now_ms(), layer_of(error)
        table, stream = config.name_with_type, config.stream_config
        text = error.message if isinstance(error, PinotError) else f"{type(error).__name__}: {error}"
        message = without_secrets(text, {} if stream is None else stream.properties)
        with self._lock:
            known = self._failures.get(table)
            if known is None or known.message != message:
                LOG.warning("stream cannot be read table=%s reason=%s", table, message)
                self._failures[table] = StreamFailure(message, "" if layer is None else layer.value, now_ms, now_ms)
            else:
                self._failures[table] = replace(known, last_ms=now_ms, num_attempts=known.num_attempts + 1)
            pause_s = self._pause_s.get(table, RETRY_S_FIRST)
            self._pause_s[table] = min(pause_s * 2, RETRY_S_MAX)
            self._seen[table] = stored.modified_id
            self._due_ns[table] = self._controller.clock.monotonic_ns() + int(pause_s * 1e9)

    def _forget(self, table: str) -> None:
        with self._lock:
            for known in (self._seen, self._due_ns, self._pause_s, self._failures):
                known.pop(table, None)
