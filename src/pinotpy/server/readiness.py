"""Whether this server has all segments that it should have: what /health/readiness says.

A segment in ERROR here that another server has does not keep this one from being ready, or a rolling update would stop
at it; nor does one that nobody has, once that is known for a while. Both are told. Anybody may ask, so that answers
have numbers only; the log names the segments.
"""

from __future__ import annotations

import logging
import threading

from pinotpy.clock import Clock
from pinotpy.cluster.buckets import read_record
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import BROKER_RESOURCE, ClusterPaths
from pinotpy.cluster.store import ClusterStore
from pinotpy.cluster.views import CONSUMING, ERROR, OFFLINE, ONLINE
from pinotpy.errors import ClusterError

CACHE_NS = 1_000_000_000
# Who asks is the loop that answers all requests of the admin port, liveness among them: it must not wait for a
# ZooKeeper that is silent. A look takes milliseconds; one that takes longer is answered by the one before.
WAIT_S = 0.25
# A segment that no server can serve is known to be bad for so long before this one is ready without it.
BAD_AFTER_S = 60.0

log = logging.getLogger(__name__)


class Readiness:
    """Compares ideal states with the participant's states, at most once a second, on a thread of its own. The lock
    guards the answer.
    """

    def __init__(
        self,
        store: ClusterStore,
        paths: ClusterPaths,
        participant: Participant,
        clock: Clock,
        *,
        bad_after_s: float = BAD_AFTER_S,
    ) -> None:
        self._store, self._paths, self._participant, self._clock = store, paths, participant, clock
        self._bad_after_ns = int(bad_after_s * 1e9)
        # Segments in ERROR, those that are tried again among them: what is repaired, or not, is no more missing for it.
        self._bad_since_ns: dict[tuple[str, str], int] = {}
        self._remark = self._said = ""
        self._lock = threading.Lock()
        self._until_ns = 0
        self._looked = threading.Event()
        self._looked.set()
        self._reason: str | None = "it is starting"

    def remark(self) -> str:
        """What is bad although the server is ready, as of the last look; empty if nothing is."""
        return self._remark

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
        except Exception:
            log.exception("what is missing cannot be told")
            reason = "what is missing cannot be told: the log has the details"
        with self._lock:
            self._reason, self._until_ns = reason, now_ns + CACHE_NS
            self._looked.set()

    def _look(self) -> str | None:
        if not self._participant.is_live:
            return "it has no session with ZooKeeper"
        missing: list[str] = []
        failed: dict[tuple[str, str], bool] = {}
        try:
            for table in self._store.children(self._paths.ideal_states):
                if table != BROKER_RESOURCE:
                    failed |= self._look_at(table, missing)
        except ClusterError as error:
            self._say(f"ZooKeeper does not answer: {error.message}")
            return "ZooKeeper does not answer"
        now_ns = self._clock.monotonic_ns()
        self._bad_since_ns = {key: self._bad_since_ns.get(key, now_ns) for key in failed}
        bad: list[str] = []
        for key, since_ns in self._bad_since_ns.items():
            is_known = failed[key] or now_ns - since_ns >= self._bad_after_ns
            (bad if is_known else missing).append("/".join(key))
        self._remark = f"{len(bad)} segments are in ERROR here" if bad else ""
        if missing or bad:
            self._say(f"not loaded: {_some(missing) or 'none'}; in ERROR here: {_some(bad) or 'none'}")
        return f"{len(missing)} segments are not loaded" if missing else None

    def _say(self, what: str) -> None:
        if what != self._said:
            self._said = what
            log.warning("not all is served %s", what)

    def _look_at(self, table: str, missing: list[str]) -> dict[tuple[str, str], bool]:
        """Adds what is not loaded yet; returns what is bad, and whether it is served elsewhere."""
        states = self._participant.states(table)
        assigned = assigned_segments(self._store, self._paths, table, self._participant.instance)
        absent = {segment for segment, state in assigned.items() if states.get(segment) != state}
        failed = {
            segment
            for segment in absent
            if (state := states.get(segment)) == ERROR or (state == OFFLINE and (table, segment) in self._bad_since_ns)
        }
        missing += [f"{table}/{segment}" for segment in sorted(absent - failed)]
        if not failed:
            return {}
        view = read_record(self._store, self._paths.external_view(table))
        reached = {} if view is None else view.record.map_fields
        return {
            (table, segment): bool({ONLINE, CONSUMING} & set(reached.get(segment, {}).values()))
            for segment in sorted(failed)
        }


def _some(names: list[str]) -> str:
    return f"{', '.join(names[:10])}{' …' if len(names) > 10 else ''}"


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
