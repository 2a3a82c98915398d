"""Whether this server has all segments that it should have: what /health/readiness says."""

from __future__ import annotations

import logging
import threading

from pinotpy.clock import Clock
from pinotpy.cluster.buckets import read_record
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import BROKER_RESOURCE, ClusterPaths
from pinotpy.cluster.store import ClusterStore
from pinotpy.errors import ClusterError

CACHE_NS = 1_000_000_000
# Who asks is the loop that answers all requests of the admin port, liveness among them: it must not wait for a
# ZooKeeper that is silent. A look takes milliseconds; one that takes longer is answered by the one before.
WAIT_S = 0.25

log = logging.getLogger(__name__)


class Readiness:
    """Compares ideal states with the participant's states, at most once a second, on a thread of its own. The lock
    guards the answer.
    """

    def __init__(self, store: ClusterStore, paths: ClusterPaths, participant: Participant, clock: Clock) -> None:
        self._store, self._paths, self._participant, self._clock = store, paths, participant, clock
        self._lock = threading.Lock()
        self._until_ns = 0
        self._looked = threading.Event()
        self._looked.set()
        self._reason: str | None = "it is starting"

    def reason(self) -> str | None:
        """None if everything assigned is served, else what is missing."""
        with self._lock:
            if self._looked.is_set() and self._clock.monotonic_ns() >= self._until_ns:
                self._looked.clear()
                threading.Thread(target=self._refresh, name="readiness", daemon=True).start()
        self._looked.wait(WAIT_S)
        return self._reason

    def _refresh(self) -> None:
        now_ns = self._clock.monotonic_ns()
        try:
            reason = self._look()
        except Exception as error:
            log.exception("what is missing cannot be told")
            reason = f"what is missing cannot be told: {error}"
        with self._lock:
            self._reason, self._until_ns = reason, now_ns + CACHE_NS
            self._looked.set()

    def _look(self) -> str | None:
        if not self._participant.is_live:
            return "it has no session with ZooKeeper"
        try:
            missing = [
                name
                for table in self._store.children(self._paths.ideal_states)
                if table != BROKER_RESOURCE
                for name in self._missing(table)
            ]
        except ClusterError as error:
            return f"ZooKeeper does not answer: {error.message}"
        if not missing:
            return None
        return f"{len(missing)} segments are not loaded: {', '.join(missing[:10])}{' …' if len(missing) > 10 else ''}"

    def _missing(self, table: str) -> list[str]:
        states = self._participant.states(table)
        assigned = assigned_segments(self._store, self._paths, table, self._participant.instance)
        return [f"{table}/{segment}" for segment, state in assigned.items() if states.get(segment) != state]


def assigned_segments(store: ClusterStore, paths: ClusterPaths, table: str, instance: str) -> dict[str, str]:
    """Segment → wanted state of those segments of a table that an instance should serve."""
    ideal = read_record(store, paths.ideal_state(table))
    if ideal is None:
        return {}
    return {
        segment: replicas[instance]
        for segment, replicas in ideal.record.map_fields.items()
        if replicas.get(instance) in ("ONLINE", "CONSUMING")
    }
