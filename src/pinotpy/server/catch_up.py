"""Finds segments whose newer version this server was not told of, and tells it.

The message of a refresh can be missed: a server that was paused loses its session, and what was meant for that session; a
controller can die between record and message. So what is held is compared with the records, after every reconnection and
periodically. What is behind is asked for by the same message that the controller sends, and takes the same way.
"""

from __future__ import annotations

import logging

from pinotpy.clock import Clock
from pinotpy.cluster.messages import REFRESH_SEGMENT, send_user_message
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.property_store import PropertyStore
from pinotpy.cluster.reconcile_loop import ReconcileLoop
from pinotpy.cluster.store import ClusterStore, SessionEvent, SessionState
from pinotpy.server.tables.registry import SegmentRegistry

log = logging.getLogger(__name__)
PERIOD_S = 10.0
# A refresh that was asked for may take this long before it is asked for again.
ASK_AGAIN_S = 60.0


class CatchUp:
    """A thread that compares; see the module docstring."""

    def __init__(self, registry: SegmentRegistry, participant: Participant, store: ClusterStore, paths: ClusterPaths, clock: Clock) -> None:
        self._registry = registry
        self._participant = participant
        self._store = store
        self._paths = paths
        self._properties = PropertyStore(store, paths)
        self._clock = clock
        self._asked: dict[tuple[str, str, int], int] = {}  # (table, segment, CRC) → until when, monotonic ns
        self._loop = ReconcileLoop("catch-up", self.step, period_s=PERIOD_S, full_period_s=PERIOD_S, clock=clock)

    def start(self) -> None:
        self._store.add_session_listener(self._on_session)
        self._loop.start()

    def stop(self, timeout_s: float) -> None:
        self._store.remove_session_listener(self._on_session)
        self._loop.stop(timeout_s)

    def step(self, is_full: bool = True) -> None:
        """One comparison of everything held. Raises ConnectionLostError; the next one goes on."""
        if not self._participant.is_live:
            return
        now_ns = self._clock.monotonic_ns()
        self._asked = {key: until_ns for key, until_ns in self._asked.items() if until_ns > now_ns}
        for table in self._registry.tables():
            held = {name: segment.crc for name, segment in self._registry.segments(table).items()}
            for name, record in self._properties.segments(table, held).items():
                if record.crc != held[name] and (table, name, record.crc) not in self._asked:
                    self._ask(table, name, record.crc, now_ns)

    def _ask(self, table: str, name: str, crc: int, now_ns: int) -> None:
        instance = self._participant.instance
        fields = {"segmentName": name, "tableName": table}
        send_user_message(
            self._store, self._paths, [instance], REFRESH_SEGMENT, resource=table, partition=name, fields=fields, source=instance, now_ms=self._clock.now_ms()
        )
        self._asked[table, name, crc] = now_ns + int(ASK_AGAIN_S * 1e9)
        log.info("segment is behind its record, refreshing table=%s segment=%s crc=%d", table, name, crc)

    def _on_session(self, event: SessionEvent) -> None:
        if event.state is SessionState.CONNECTED:
            self._loop.hint()
