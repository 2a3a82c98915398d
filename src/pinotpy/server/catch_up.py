"""Finds what this server missed: newer versions of segments, reloads, forced commits, and transitions that failed but
may succeed now.

A refresh or reload message can be missed: a server that was paused or killed loses its session, and with it the
messages to that session; a controller can die between record and message. So after every reconnection, and
periodically, the server compares its segments with the records. What is outdated is requested with the same message
that the controller sends, and handled in the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pinotpy.clock import Clock
from pinotpy.cluster.messages import REFRESH_SEGMENT, RELOAD_SEGMENT, send_reset, send_user_message
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.property_store import PropertyStore
from pinotpy.cluster.reconcile_loop import ReconcileLoop
from pinotpy.cluster.reload_jobs import SEALED_ENDS, ReloadJobRecord, ReloadJobRecords
from pinotpy.cluster.state_model import SEGMENT_STATE_MODEL
from pinotpy.cluster.store import ClusterStore, SessionEvent, SessionState
from pinotpy.server.failed_transitions import FailedTransitions
from pinotpy.server.reload_jobs import ReloadJobs
from pinotpy.server.tables.registry import SegmentRegistry

log = logging.getLogger(__name__)
PERIOD_S = 10.0
# A refresh that was asked for may take this long before it is asked for again.
ASK_AGAIN_S = 60.0


class CatchUp:
    """A thread that compares; see the module docstring."""

    def __init__(
        self,
        registry: SegmentRegistry,
        participant: Participant,
        store: ClusterStore,
        paths: ClusterPaths,
        clock: Clock,
        reloads: ReloadJobs,
        retries: FailedTransitions | None = None,
        take_force_commits: Callable[[], None] = lambda: None,
    ) -> None:
        self._registry = registry
        self._participant = participant
        self._store = store
        self._paths = paths
        self._properties = PropertyStore(store, paths)
        self._clock = clock
        self._reloads = reloads
        self._retries = retries
        self._take_force_commits = take_force_commits
        self._records = ReloadJobRecords(store, paths)
        self._asked: dict[
            tuple[str, str, int | str], int
        ] = {}  # (table, segment, CRC or reload job) → until when, monotonic ns
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
                # A segment of a stream may be served before its record says that it is done.
                is_done = bool(record.crc)
                if is_done and record.crc != held[name] and (table, name, record.crc) not in self._asked:
                    self._ask(
                        REFRESH_SEGMENT, table, name, record.crc, {"segmentName": name, "tableName": table}, now_ns
                    )
        self._missed_reloads(now_ns)
        self._failed_transitions()
        self._take_force_commits()

    def _failed_transitions(self) -> None:
        instance = self._participant.instance
        for table, segments in self._retries.take_due().items() if self._retries is not None else ():
            # A reset by an operator takes the same way; one that is in ERROR no more lets the message go without
            # effect.
            send_reset(
                self._store,
                self._paths,
                instance,
                table,
                segments,
                state_model=SEGMENT_STATE_MODEL.name,
                source=instance,
                now_ms=self._clock.now_ms(),
            )
            log.info("trying failed transitions again table=%s segments=%d first=%s", table, len(segments), segments[0])

    def _missed_reloads(self, now_ns: int) -> None:
        missed: list[ReloadJobRecord] = []
        for job in self._records.all(self._clock.now_ms()).values():
            held = () if job.is_table_deleted else self._registry.segments(job.table)
            names = list(filter(job.means, held))
            if names and not self._reloads.is_finished(job.job_id, job.table, job.segment):
                # All begin before the first is done, so that segments are brought to their config once and not once a
                # job.
                anew, ends = job.force_download, job.sealed_ends
                self._reloads.expect(job.job_id, job.table, job.segment, names, is_download_anew=anew, ends=ends)
                missed.append(job)
        for job in missed:
            if (job.table, job.segment, job.job_id) not in self._asked:
                fields = {
                    "reloadJobId": job.job_id,
                    "forceDownload": str(job.force_download).lower(),
                    SEALED_ENDS: job.sealed_ends.to_text(),
                }
                self._ask(RELOAD_SEGMENT, job.table, job.segment, job.job_id, fields, now_ns)

    def _ask(self, subtype: str, table: str, name: str, what: int | str, fields: dict[str, str], now_ns: int) -> None:
        instance = self._participant.instance
        send_user_message(
            self._store,
            self._paths,
            [instance],
            subtype,
            resource=table,
            partition=name,
            fields=fields,
            source=instance,
            now_ms=self._clock.now_ms(),
        )
        self._asked[table, name, what] = now_ns + int(ASK_AGAIN_S * 1e9)
        log.info(
            "behind the cluster's records, asking for it subtype=%s table=%s segment=%s what=%s",
            subtype,
            table,
            name,
            what,
        )

    def _on_session(self, event: SessionEvent) -> None:
        if event.state is SessionState.CONNECTED:
            self._loop.hint()
