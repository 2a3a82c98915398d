"""How segments come and go: state transitions and user messages of this server.

OFFLINE→ONLINE opens the segment that ZooKeeper's record names (its CRC decides whether the local copy will do), ONLINE→
OFFLINE closes it, →DROPPED also deletes its files. Every step may be told twice; a failure ends the partition in ERROR
with its reason, and queries are answered by the other replicas.
"""

from __future__ import annotations

import logging

from pinotpy.cluster.property_store import PropertyStore
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.views import Message
from pinotpy.errors import DataError, NotFoundError, PinotError, RemoteError
from pinotpy.segment.immutable import ImmutableSegment
from pinotpy.server.index_upkeep import IndexUpkeep, ReloadJobs
from pinotpy.server.metrics import ServerMetrics
from pinotpy.server.tables.registry import SegmentRegistry
from pinotpy.server.tables.store import SegmentStore

log = logging.getLogger(__name__)


class SegmentTransitions:
    """The participant's handler. Called on several threads, one at a time per segment."""

    def __init__(
        self,
        registry: SegmentRegistry,
        store: SegmentStore,
        properties: PropertyStore,
        metrics: ServerMetrics,
        upkeep: IndexUpkeep,
        jobs: ReloadJobs,
    ) -> None:
        self._registry = registry
        self._store = store
        self._properties = properties
        self._metrics = metrics
        self._upkeep = upkeep
        self._jobs = jobs

    def on_transition(self, resource: str, partition: str, from_state: str, to_state: str) -> None:
        """Make the step; raises what kept it from being made."""
        match to_state:
            case "ONLINE":
                self._load(resource, partition)
            case "OFFLINE":
                self._registry.remove(resource, partition)
            case "DROPPED":
                self._registry.remove(resource, partition)
                self._store.delete(resource, partition)
                self._metrics.segment_dropped(resource)
            case _:
                raise PinotError(
                    f"this server cannot take segment '{partition}' of '{resource}' from {from_state} to {to_state}: expected ONLINE, OFFLINE or DROPPED"
                )
        log.info("segment state changed table=%s segment=%s from=%s to=%s", resource, partition, from_state, to_state)
        self._count(resource)

    def on_message(self, message: Message) -> None:
        """REFRESH_SEGMENT: take the new version of a segment. RELOAD_SEGMENT: bring its indexes to the table's config (no
        partition = all segments; one that fails stays as it is, and the others go on)."""
        table, segment = message.resource, message.partition
        match message.subtype:
            case "REFRESH_SEGMENT":
                self._refresh(message.fields.get("tableName") or table, message.fields.get("segmentName") or segment)
            case "RELOAD_SEGMENT":
                self._reload(table, [segment] if segment else list(self._registry.segments(table)), message)
            case other:
                log.info("message without effect here subtype=%s resource=%s partition=%s", other, table, segment)

    def _refresh(self, table: str, segment_name: str) -> None:
        if segment_name not in self._registry.segments(table):
            return
        try:
            self._load(table, segment_name)
        except PinotError:
            self._metrics.refresh_failed(table)
            raise
        self._count(table)

    def _reload(self, table: str, names: list[str], message: Message) -> None:
        job = self._jobs.begin(message.fields.get("reloadJobId") or message.id, table, len(names))
        anew = message.fields.get("forceDownload") == "true"
        first_fault: PinotError | None = None
        for name in names:
            if name not in self._registry.segments(table):
                self._jobs.failed(job, name, "this server does not serve it")
                continue
            try:
                segment, words = self._upkeep.apply(table, self._open(table, name, anew=anew), drop=True)
                self._registry.put(table, segment)
                self._jobs.done(job, name, words)
            except PinotError as error:
                self._jobs.failed(job, name, error.message)
                log.warning("segment not reloaded table=%s segment=%s reason=%s", table, name, error.message)
                self._metrics.reload_failed(table)
                first_fault = first_fault or error
        self._jobs.finish(job)
        self._count(table)
        if first_fault is not None:
            raise first_fault

    def _load(self, table: str, segment_name: str) -> None:
        try:
            segment = self._upkeep.apply_or_leave(table, self._open(table, segment_name))
        except RemoteError:
            self._metrics.download_failed(table)
            raise
        except DataError:
            self._metrics.load_failed(table)
            raise
        self._registry.put(table, segment)

    def _open(self, table: str, segment_name: str, *, anew: bool = False) -> ImmutableSegment:
        """The version that the record names. One that was replaced while it was fetched is fetched again in its new version."""
        record = self._record(table, segment_name)
        while True:
            try:
                return self._store.open(table, segment_name, record.crc, record.download_url, anew=anew)
            except PinotError:
                newer = self._record(table, segment_name)
                if newer.crc == record.crc:
                    raise
                log.info("segment was replaced while it was fetched table=%s segment=%s", table, segment_name)
                record = newer

    def _record(self, table: str, segment_name: str) -> SegmentZkMetadata:
        found = self._properties.segment(table, segment_name)
        if found is None:
            raise NotFoundError(f"the cluster has no record of segment '{segment_name}' of table '{table}': it was deleted meanwhile", table=table)
        return found.value

    def _count(self, table: str) -> None:
        segments = self._registry.segments(table)
        self._metrics.table_holds(table, len(segments), sum(segment.num_docs for segment in segments.values()))
