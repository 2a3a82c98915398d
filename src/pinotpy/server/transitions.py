"""How segments come and go: state transitions and user messages of this server.

OFFLINE→ONLINE opens the segment that ZooKeeper's record names (its CRC decides whether the local copy will do), ONLINE→
OFFLINE closes it, →DROPPED also deletes its files. OFFLINE→CONSUMING reads a stream from the segment's start on,
CONSUMING→ONLINE ends it there (server/realtime). Every step may be told twice; a failure ends the partition in ERROR
with its reason, and queries are answered by the other replicas.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from pinotpy.cluster.property_store import PropertyStore
from pinotpy.cluster.realtime_records import END_OFFSET, START_OFFSET
from pinotpy.cluster.reload_jobs import SEALED_ENDS, SealedEnds
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.views import Message
from pinotpy.errors import DataError, DiskError, NotFoundError, PinotError, RemoteError, SegmentCorruptError
from pinotpy.failpoints import FailPoint, reach
from pinotpy.segment.immutable import ImmutableSegment, scrub
from pinotpy.server.failed_transitions import FailedTransitions
from pinotpy.server.index_upkeep import IndexUpkeep, with_move
from pinotpy.server.metrics import ServerMetrics
from pinotpy.server.realtime.consuming_tables import ConsumingTables
from pinotpy.server.reload_jobs import ReloadJobs
from pinotpy.server.tables.locks import SegmentLocks
from pinotpy.server.tables.registry import SegmentRegistry
from pinotpy.server.tables.store import SegmentStore

log = logging.getLogger(__name__)


class SegmentTransitions:
    """The participant's handler. Called on several threads.

    Args:
        assigned: the segments of a table that this server should serve.
        retries: is told which transitions failed and may succeed later.
        consuming: what reads streams; None: segments cannot be consumed here.
        serves: is told which content of a segment is served from now on (SegmentZkMetadata.content_id).
    """

    def __init__(
        self,
        registry: SegmentRegistry,
        store: SegmentStore,
        properties: PropertyStore,
        metrics: ServerMetrics,
        upkeep: IndexUpkeep,
        jobs: ReloadJobs,
        assigned: Callable[[str], Collection[str]],
        retries: FailedTransitions | None = None,
        consuming: ConsumingTables | None = None,
        serves: Callable[[str, str, str], None] = lambda table, segment, content: None,
    ) -> None:
        self._registry = registry
        self._store = store
        self._properties = properties
        self._metrics = metrics
        self._upkeep = upkeep
        self._jobs = jobs
        self._assigned = assigned
        self._retries = retries
        self._consuming = consuming
        self._serves = serves
        # The participant calls one at a time per partition; but a reload of a table is of no partition.
        self._locks = SegmentLocks()

    def on_transition(self, resource: str, partition: str, from_state: str, to_state: str) -> None:
        """Make the step; raises what kept it from being made."""
        if from_state == "CONSUMING" and to_state == "ONLINE" and self._consuming is not None:
            # Not under the segment's lock: what it waits for takes that.
            with self._retried(resource, partition):
                if not self._consuming.become_online(resource, partition):
                    with self._locks.hold(resource, partition):
                        self._load(resource, partition)
            log.info("segment sealed table=%s segment=%s", resource, partition)
            self._count(resource)
            return
        with self._locks.hold(resource, partition):
            if from_state in ("CONSUMING", "ERROR") and self._consuming is not None:
                self._consuming.leave(resource, partition)
            match to_state:
                case "CONSUMING" if self._consuming is not None:
                    with self._retried(resource, partition):
                        self._consuming.start(resource, partition)
                case "ONLINE":
                    self._load(resource, partition)
                case "OFFLINE":
                    self._leave(resource, partition, is_tried_again=from_state == "ERROR")
                case "DROPPED":
                    self._leave(resource, partition)
                    self._store.delete(resource, partition)
                    self._metrics.segment_dropped(resource)
                case _:
                    raise PinotError(
                        f"this server cannot take segment '{partition}' of '{resource}' from {from_state} to "
                        f"{to_state}: expected ONLINE, OFFLINE or DROPPED"
                    )
        log.info("segment state changed table=%s segment=%s from=%s to=%s", resource, partition, from_state, to_state)
        self._count(resource)

    def on_message(self, message: Message) -> None:
        """REFRESH_SEGMENT: take the new version of a segment. RELOAD_SEGMENT: bring its indexes to the table's config
        (no partition = all segments; one that fails stays as it is, and the others go on). FORCE_COMMIT: look at the
        records of consuming segments.
        """
        table, segment = message.resource, message.partition
        match message.subtype:
            case "REFRESH_SEGMENT":
                self._refresh(message.fields.get("tableName") or table, message.fields.get("segmentName") or segment)
            case "RELOAD_SEGMENT":
                self._reload(table, segment, message)
            case "FORCE_COMMIT" if self._consuming is not None:
                self._consuming.take_force_commits(table)
            case other:
                log.info("message without effect here subtype=%s resource=%s partition=%s", other, table, segment)

    def _refresh(self, table: str, segment_name: str) -> None:
        with self._locks.hold(table, segment_name):
            if self._registry.segment(table, segment_name) is None:
                return
            try:
                self._load(table, segment_name)
            except PinotError:
                self._metrics.refresh_failed(table)
                raise
        self._count(table)

    def _reload(self, table: str, only: str, message: Message) -> None:
        """Reload what is here; what is assigned and still to be loaded is done by its load, for which the job waits."""
        assigned = self._assigned(table)
        names = [only] if only else list(dict.fromkeys([*self._registry.segments(table), *assigned]))
        job = self._jobs.begin(
            message.fields.get("reloadJobId") or message.id,
            table,
            only,
            names,
            is_download_anew=message.fields.get("forceDownload") == "true",
            ends=SealedEnds.from_text(message.fields.get(SEALED_ENDS, "")),
        )
        first_fault: PinotError | None = None
        for name in filter(job.means, names):
            with self._locks.hold(table, name):
                if self._registry.segment(table, name) is not None:
                    first_fault = self._reload_one(table, name) or first_fault
                elif (reason := self._jobs.failure(table, name)) is not None:
                    self._jobs.failed(table, name, job.serial, f"it is not served: {reason}")
                elif name not in assigned:
                    self._jobs.failed(table, name, job.serial, "this server does not serve it")
        self._count(table)
        if first_fault is not None:
            raise first_fault

    def _reload_one(self, table: str, name: str) -> PinotError | None:
        """Do what jobs wait for of a segment that is served; returns the fault that kept it from being done."""
        while jobs := self._jobs.waiting_for(table, name):
            mark = self._jobs.mark()
            try:
                words = self._bring_to_config(table, name, anew=any(job.is_download_anew for job in jobs))
            except NotFoundError as error:
                # Its files go with the transition that is on its way.
                log.info(
                    "segment not reloaded, it was deleted table=%s segment=%s reason=%s", table, name, error.message
                )
                self._jobs.gone(table, name)
            except Exception as error:
                fault = _as_fault(error)
                self._jobs.failed(table, name, mark, fault.message)
                log.warning("segment not reloaded table=%s segment=%s reason=%s", table, name, fault.message)
                self._metrics.reload_failed(table)
                return fault
            else:
                self._jobs.done(table, name, mark, words)
        return None

    def _bring_to_config(self, table: str, name: str, *, anew: bool) -> str:
        opened, record = self._open(table, name, anew=anew)
        try:
            segment, words = self._upkeep.apply(table, opened, drop=True)
        except Exception:
            opened.close()
            raise
        served = self._registry.segment(table, name)
        self._put(table, segment, record)
        return words if served is None else with_move(words, served.directory, segment.directory)

    def replace_damaged(self, table: str, segment: ImmutableSegment) -> bool:
        """Take a segment whose files are damaged out of service, and fetch it anew; one that queries took out already
        (`SegmentRegistry.withdraw`) comes back, if its files are sound. False if there is nothing to do.

        Raises: PinotError: it cannot be had, and is not served.
        """
        name = segment.name
        with self._locks.hold(table, name):
            is_withdrawn = self._registry.is_withdrawn(table, segment)
            if not is_withdrawn and self._registry.segment(table, name) is not segment:
                return False
            is_sound = _is_sound(segment)
            if is_sound and not is_withdrawn:
                return False
            self._metrics.segment_damaged(table)
            self._registry.remove(table, name)
            self._store.distrust(table, name)
            self._load(table, name, anew=not is_sound)
        log.info("damaged segment replaced table=%s segment=%s fetched=%s", table, name, not is_sound)
        self._count(table)
        return True

    def adopt(self, table: str, built: Path, offsets: tuple[str, str]) -> None:
        """Serve a segment that was built here of rows of its stream, from and to `offsets`: its folder moves to its
        place.
        """
        with self._locks.hold(table, built.name):
            adopted = self._store.adopt(table, built)
            reach(FailPoint.SWAPPING)
            self._registry.put(table, adopted, offsets)
            # It may have been sealed for the cluster, and a reload asked for, before it was served here.
            self._reload_one(table, built.name)
        self._count(table)

    def download(self, table: str, segment_name: str) -> None:
        """Serve the segment that its record names. Raises PinotError."""
        with self._locks.hold(table, segment_name):
            self._load(table, segment_name)
        self._count(table)

    def remove_left_over(self, table: str, segment_name: str) -> bool:
        """Remove the files of a segment that this server need not serve; False if it is served by now."""
        with self._locks.hold(table, segment_name):
            if self._registry.segment(table, segment_name) is not None:
                return False
            self._store.delete(table, segment_name)
        return True

    def _load(self, table: str, segment_name: str, *, anew: bool = False) -> None:
        jobs, mark = self._jobs.waiting_for(table, segment_name), self._jobs.mark()
        try:
            opened, record = self._open(table, segment_name, anew=anew or any(job.is_download_anew for job in jobs))
        except PinotError as error:
            self._jobs.failed(table, segment_name, mark, error.message)
            if isinstance(error, RemoteError):
                self._metrics.download_failed(table)
            elif isinstance(error, DataError | DiskError):
                self._metrics.load_failed(table)
            is_passing = isinstance(error, RemoteError | DiskError)
            if is_passing and self._retries is not None and self._registry.segment(table, segment_name) is None:
                self._retries.failed(table, segment_name)
            raise
        if self._retries is not None:
            self._retries.gone(table, segment_name)
        try:
            segment, words = self._upkeep.apply(table, opened, drop=bool(jobs))
        except Exception as error:
            # Every query is right without an index, only slower.
            fault = _as_fault(error)
            log.warning("indexes not built table=%s segment=%s reason=%s", table, segment_name, fault.message)
            self._jobs.failed(table, segment_name, mark, fault.message)
            self._put(table, opened, record)
        else:
            self._put(table, segment, record)
            self._jobs.done(table, segment_name, mark, words)
        # A job that began meanwhile did not see it in the registry.
        self._reload_one(table, segment_name)

    def _put(self, table: str, segment: ImmutableSegment, record: SegmentZkMetadata) -> None:
        """Serve the content that `record` names, and tell so."""
        self._registry.put(table, segment, _offsets(record))
        self._serves(table, segment.name, record.content_id)

    @contextmanager
    def _retried(self, table: str, segment_name: str) -> Iterator[None]:
        """Whatever keeps a segment of a stream from consuming, or from being served when it is done, may pass: other
        replicas bring it to its end meanwhile.
        """
        try:
            yield
        except Exception:
            if self._retries is not None and self._registry.segment(table, segment_name) is None:
                self._retries.failed(table, segment_name)
            raise
        if self._retries is not None:
            self._retries.gone(table, segment_name)

    def _leave(self, table: str, segment_name: str, *, is_tried_again: bool = False) -> None:
        self._registry.remove(table, segment_name)
        self._jobs.gone(table, segment_name)
        if self._retries is not None and not is_tried_again:  # else its failures are counted on
            self._retries.gone(table, segment_name)

    def _open(self, table: str, segment_name: str, *, anew: bool = False) -> tuple[ImmutableSegment, SegmentZkMetadata]:
        """The version that the record names, and the record. One that was replaced while it was fetched is fetched
        again in its new version; one that the deep store does not give, from a replica.
        """
        record = self._record(table, segment_name)
        while True:
            try:
                opened = self._store.open(
                    table, segment_name, record.crc, record.download_url, record.crypter, anew=anew
                )
                return opened, record
            except PinotError as error:
                newer = self._record(table, segment_name)
                if (newer.crc, newer.crypter) == (record.crc, record.crypter):
                    return self._store.open_from_peer(table, segment_name, record.crc, error), newer
                log.info("segment was replaced while it was fetched table=%s segment=%s", table, segment_name)
                record = newer

    def _record(self, table: str, segment_name: str) -> SegmentZkMetadata:
        stored = self._properties.segment(table, segment_name)
        if stored is None:
            raise NotFoundError(
                f"the cluster has no record of segment '{segment_name}' of table '{table}': it was deleted meanwhile",
                table=table,
            )
        return stored.value

    def _count(self, table: str) -> None:
        segments = self._registry.segments(table)
        self._metrics.table_holds(table, len(segments), sum(segment.num_docs for segment in segments.values()))


def _offsets(record: SegmentZkMetadata) -> tuple[str, str] | None:
    """Where a segment of a stream starts and ends there."""
    start, end = record.extra.get(START_OFFSET, ""), record.extra.get(END_OFFSET, "")
    return (start, end) if record.table_name_with_type.endswith("_REALTIME") and start and end else None


def _is_sound(segment: ImmutableSegment) -> bool:
    try:
        scrub(segment)
    except SegmentCorruptError:
        return False
    return True


def _as_fault(error: Exception) -> PinotError:
    """What kept an index from being built, whatever it was: too little memory and faults of ours must not keep the
    other segments waiting.
    """
    if isinstance(error, PinotError):
        return error
    log.error("indexes not built, unexpectedly", exc_info=error)
    return PinotError(f"{type(error).__name__}: {error}")
