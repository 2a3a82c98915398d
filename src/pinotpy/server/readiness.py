"""Whether this server has all segments that it should have: what /health/readiness says."""

from __future__ import annotations

import threading

from pinotpy.clock import Clock
from pinotpy.cluster.buckets import read_record
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import BROKER_RESOURCE, ClusterPaths
from pinotpy.cluster.store import ClusterStore
from pinotpy.errors import ClusterError

CACHE_NS = 1_000_000_000


class Readiness:
    """Compares ideal states with the participant's states, at most once a second. The lock guards the cached answer."""

    def __init__(self, store: ClusterStore, paths: ClusterPaths, participant: Participant, clock: Clock) -> None:
        self._store, self._paths, self._participant, self._clock = store, paths, participant, clock
        self._lock = threading.Lock()
        self._until_ns = 0
        self._reason: str | None = "it is starting"

    def reason(self) -> str | None:
        """None if everything assigned is served, else what is missing."""
        with self._lock:
            now_ns = self._clock.monotonic_ns()
            if now_ns >= self._until_ns:
                self._reason = self._look()
                self._until_ns = now_ns + CACHE_NS
            return self._reason

    def _look(self) -> str | None:
        if not self._participant.is_live:
            return "it has no session with ZooKeeper"
        try:
            missing = [name for table in self._store.children(self._paths.ideal_states) if table != BROKER_RESOURCE for name in self._missing(table)]
        except ClusterError as error:
            return f"ZooKeeper does not answer: {error.message}"
        if not missing:
            return None
        return f"{len(missing)} segments are not loaded: {', '.join(missing[:10])}{' …' if len(missing) > 10 else ''}"

    def _missing(self, table: str) -> list[str]:
        states = self._participant.states(table)
        wanted = assigned_segments(self._store, self._paths, table, self._participant.instance)
        return [f"{table}/{segment}" for segment, state in wanted.items() if states.get(segment) != state]


def assigned_segments(store: ClusterStore, paths: ClusterPaths, table: str, instance: str) -> dict[str, str]:
    """Segment → wanted state of those segments of a table that an instance should serve."""
    found = read_record(store, paths.ideal_state(table))
    if found is None:
        return {}
    return {segment: wanted[instance] for segment, wanted in found.record.map_fields.items() if wanted.get(instance) in ("ONLINE", "CONSUMING")}
