"""Completion of segments on the lead controller: runs `decide`, does what it asks for, and answers replicas.

One state per segment, under a lock of its own; it may be lost at any time, since the segment's record says what holds.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pinotpy.cluster.completion_messages import (
    FAILED,
    NOT_LEADER,
    RECORD_COUNTS,
    CompletionMessage,
    CompletionReply,
    MessageKind,
    Offset,
)
from pinotpy.cluster.realtime_records import RealtimeRecord, SegmentStatus
from pinotpy.cluster.realtime_segments import RealtimeSegments, StoredRealtime, Written
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.write_outcome import WriteOutcome
from pinotpy.config.table import TableConfig
from pinotpy.controller.catalog import StoredTable
from pinotpy.controller.completion.fsm import decide, initial_state
from pinotpy.controller.completion.states import (
    Alarm,
    CompletionState,
    DoneResult,
    Effect,
    Event,
    Facts,
    FileStored,
    LearnCommitTime,
    MarkOffline,
    OfflineResult,
    Phase,
    ReadRecord,
    Received,
    RecordRead,
    RecordStatus,
    SealResult,
    SegmentFacts,
    StoreFile,
    WriteDone,
    WriteSeal,
)
from pinotpy.controller.completion.thresholds import SizeFacts, next_row_threshold, segments_per_server
from pinotpy.controller.context import Controller
from pinotpy.controller.partition_gaps import tell_unpartitioned
from pinotpy.controller.realtime.files import StoredFile, metadata_of, realtime_table_of, store_file
from pinotpy.controller.realtime.next_segment import consuming_servers, new_record, offset_type
from pinotpy.controller.table_rules import server_candidates
from pinotpy.controller.upload import segment_record
from pinotpy.errors import NotFoundError, PinotError
from pinotpy.failpoints import FailPoint, reach

if TYPE_CHECKING:
    from pinotpy.stream.spec import OffsetType

LOG = logging.getLogger(__name__)

# States of finished segments go; of those under way a fleet has a few per partition.
STATES_MAX: Final = 100_000


@dataclass(slots=True)
class _Segment:
    """What is kept of one segment. The lock is held while one message is answered."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    state: CompletionState | None = None


@dataclass(frozen=True, slots=True)
class Attached:
    """What came with a message, on this controller's disk. folder: for what is unpacked; the caller removes it."""

    file: Path | None = None
    folder: Path | None = None


class CompletionService:
    """Called on many threads."""

    def __init__(self, controller: Controller, segments: RealtimeSegments) -> None:
        self._controller = controller
        self._segments = segments
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Segment] = OrderedDict()
        self._commit_ms: dict[str, int] = {}  # by table, what its last commit took
        # By table and partition the segment that completed last, with its sequence.
        self._completed: dict[tuple[str, int], tuple[int, SizeFacts]] = {}
        self._ratios: dict[str, float] = {}  # by table, rows per byte
        self._offset_types: dict[str, tuple[int, OffsetType]] = {}  # by table, with the modified_id of its config

    def answer(
        self, kind: MessageKind, params: Mapping[str, str], attached: Attached
    ) -> tuple[CompletionReply, Callable[[Offset], str]]:
        """The reply to a message, and how its offset is written.

        Raises: CompletionMessageError, DataError (the request is no message), NotFoundError (no such table).
        """
        controller = self._controller
        if not controller.is_leader():
            return NOT_LEADER, str
        table = realtime_table_of(params.get("name", ""))
        stored = controller.catalog.table_config(table)
        if stored is None:
            raise NotFoundError(f"there is no table '{table}'", table=table)
        offsets = self._offset_type(stored)
        message = CompletionMessage.from_params(kind, params, offsets.parse)
        if kind is MessageKind.COMMIT_START:
            reach(FailPoint.COMMIT_START_RECEIVED)
        entry = self._entry(message.name)
        with entry.lock:
            reply = _Turn(controller, self._segments, stored.config, offsets, attached, self).run(entry, message)
        LOG.info(
            "completion segment=%s message=%s instance=%s offset=%s reply=%s",
            message.name, kind.value, message.instance, offsets.text(message.offset), reply.status.value,
        )  # fmt: skip
        if entry.state is None or entry.state.phase is Phase.ABORTED:
            with self._lock:
                self._known.pop(message.name, None)
        return reply, offsets.text

    def _offset_type(self, stored: StoredTable) -> OffsetType:
        """How the table's offsets are read; making a plug-in may cost milliseconds."""
        table = stored.config.name_with_type
        known = self._offset_types.get(table)
        if known is None or known[0] != stored.modified_id:
            known = self._offset_types[table] = stored.modified_id, offset_type(self._controller, stored.config)
        return known[1]

    def _entry(self, name: str) -> _Segment:
        with self._lock:
            entry = self._known.setdefault(name, _Segment())
            self._known.move_to_end(name)
            if len(self._known) > STATES_MAX:
                self._known.popitem(last=False)
            return entry

    def completed(self, record: RealtimeRecord, num_rows: int, size_bytes: int) -> None:
        """A segment is DONE; size_bytes: of its files as the committer has them, 0 if it did not say."""
        consumed_ms = self._controller.clock.now_ms() - record.record.creation_time_ms
        is_forced = bool(record.force_commit_job)
        facts = SizeFacts(record.name.partition, num_rows, record.row_threshold, size_bytes, consumed_ms, is_forced)
        self._completed[record.table, record.name.partition] = record.name.sequence, facts
        for key in [key for key in self._controller.stopped if key[:2] == (record.table, str(record.name))]:
            self._controller.stopped.pop(key, None)

    def row_threshold(self, config: TableConfig, record: RealtimeRecord, num_servers: int) -> int:
        """Of the segment that follows `record`. What was learned of sizes is in memory alone: a new leader goes on with
        the threshold of `record` until it has seen a segment complete.
        """
        table, partition = record.table, record.name.partition
        stream = config.stream_config
        assert stream is not None
        sequence, facts = self._completed.get((table, partition), (record.name.sequence, None))
        if facts is None or sequence >= record.name.sequence:  # of a table of this name that was deleted
            facts = SizeFacts(partition, 0, record.row_threshold, 0)
        per_server = 1
        if stream.flush.rows:
            per_server = segments_per_server(self._segments.num_partitions(table), config.replication, num_servers)
        with self._lock:
            rows, ratio = next_row_threshold(
                stream.flush,
                facts,
                self._ratios.get(table),
                num_segments_per_server=per_server,
            )
            if ratio is not None:
                self._ratios[table] = ratio
        return rows

    def learned(self, table: str) -> int:
        return self._commit_ms.get(table, 0)

    def learn(self, table: str, commit_ms: int) -> None:
        self._commit_ms[table] = commit_ms

    def alarm(self, table: str, reason: str) -> None:
        LOG.error("consuming segment needs attention table=%s reason=%s", table, reason)
        self._controller.metrics.count("controllerCompletionAlarms", table=table)


class _Turn:
    """One message of one segment, to its reply."""

    def __init__(
        self,
        controller: Controller,
        segments: RealtimeSegments,
        config: TableConfig,
        offsets: OffsetType,
        attached: Attached,
        service: CompletionService,
    ) -> None:
        self._controller, self._segments, self._config = controller, segments, config
        self._offsets, self._attached, self._service = offsets, attached, service
        self._table = config.name_with_type
        self._stored: StoredRealtime | None = None

    def run(self, entry: _Segment, message: CompletionMessage) -> CompletionReply:
        self._stored = self._segments.read(self._table, message.name)
        if self._stored is None:
            entry.state = None
            return FAILED
        state = entry.state or initial_state(self._facts_of(self._stored.record), self._now_ms())
        event: Event | None = Received(message)
        reply: CompletionReply | None = None
        while event is not None:
            decision = decide(state, event, self._now_ms(), self._facts(message))
            state, reply, event = decision.state, decision.reply, None
            if decision.effects:
                # Until they are done. Where one fails, such as by a reply of ZooKeeper that is lost, the next message
                # begins with what the record says, as after a change of leaders.
                entry.state = None
            for effect in decision.effects:
                event = self._perform(effect) or event
            entry.state = state
        if state.phase is Phase.COMMITTED and message.kind is not MessageKind.CONSUMED:
            LOG.info("segment is done table=%s segment=%s", self._table, message.name)
        return reply or FAILED

    def _now_ms(self) -> int:
        # Only differences count, and wall time may jump.
        return self._controller.clock.monotonic_ns() // 1_000_000

    def _facts(self, message: CompletionMessage) -> Facts:
        stream = self._config.stream_config
        assert stream is not None and self._stored is not None
        name = self._stored.record.name
        others = [each for each in self._segments.consuming(self._table, name.partition) if each < name]
        return Facts(
            is_leader=self._controller.is_leader(),
            num_replicas=self._stored.record.num_replicas or self._config.replication,
            num_committing=len(others),
            commit_timeout_ms=stream.commit_timeout_s * 1000,
            learned_commit_ms=self._service.learned(self._table),
            controller_url=self._controller.identity.url,
            is_split_commit=self._controller.settings.split_commit,
        )

    def _facts_of(self, record: RealtimeRecord) -> SegmentFacts:
        parse = self._offsets.parse
        location = ""
        if record.status is SegmentStatus.DONE:
            done = record.record
            location = StoredFile(done.download_url, done.crc, done.size_bytes or 0, done.crypter).location
        status = RecordStatus.DONE if record.status is SegmentStatus.UPLOADED else RecordStatus(record.status.value)
        end = None if record.end_offset is None else parse(record.end_offset)
        if status is RecordStatus.IN_PROGRESS:
            end = None
        return SegmentFacts(status, parse(record.start_offset), end, record.record.total_docs, location)

    def _perform(self, effect: Effect) -> Event | None:
        match effect:
            case WriteSeal(end_offset, row_count, answering):
                written = self._seal(end_offset, row_count, answering)
                return SealResult(written.outcome, answering, written.reason)
            case WriteDone(_, answering):
                written = self._done(answering)
                return DoneResult(written.outcome, answering, written.reason)
            case ReadRecord(answering):
                self._stored = self._segments.read(self._table, answering.name)
                facts = None if self._stored is None else self._facts_of(self._stored.record)
                return RecordRead(facts, answering)
            case StoreFile(answering):
                return FileStored(self._store(answering), answering)
            case MarkOffline(answering):
                reason = answering.reason or "it gave no reason"
                self._controller.stopped[self._table, answering.name, answering.instance] = reason
                written = self._segments.mark_offline(self._table, answering.name, answering.instance)
                return OfflineResult(written.outcome is WriteOutcome.WRITTEN, answering)
            case LearnCommitTime(commit_ms):
                self._service.learn(self._table, commit_ms)
            case Alarm(reason):
                self._service.alarm(self._table, reason)
        return None

    def _seal(self, end_offset: Offset, row_count: int, answering: CompletionMessage) -> Written:
        stored = self._stored
        if stored is None or stored.record.status is not SegmentStatus.IN_PROGRESS:
            return Written(WriteOutcome.REFUSED, "the segment is not in progress")
        record, text = stored.record, self._offsets.text(end_offset)
        present = self._segments.instances(self._table, record.name)
        try:
            candidates = server_candidates(self._controller.catalog, self._config)
        except PinotError as error:
            self._service.alarm(self._table, f"the next segment has too few servers: {error.message}")
            candidates = tuple(present)
        servers = consuming_servers(candidates, record.name.partition, self._config.replication, present)
        following = record.name.following(self._controller.clock.now_ms())
        threshold = self._service.row_threshold(self._config, record, len(candidates))
        next_record = new_record(self._controller, self._config, following, text, threshold=threshold)
        reach(FailPoint.BEFORE_SEAL)
        written = self._segments.seal(stored, text, row_count, next_record, servers)
        reach(FailPoint.SEALED)
        LOG.info(
            "SEAL table=%s segment=%s end_offset=%s rows=%d picked=%s outcome=%s %s",
            self._table, record.name, text, row_count, answering.instance, written.outcome.value, written.reason,
        )  # fmt: skip
        if written.outcome is WriteOutcome.WRITTEN:
            self._stored = self._segments.read(self._table, str(record.name))
        return written

    def _done(self, answering: CompletionMessage) -> Written:
        self._stored = self._segments.read(self._table, answering.name)
        if self._stored is None or self._stored.record.status is not SegmentStatus.COMMITTING:
            return Written(WriteOutcome.REFUSED, "the segment is not being committed")
        try:
            metadata = self._metadata(answering)
        except PinotError as error:
            LOG.warning("commit refused segment=%s reason=%s", answering.name, error.message)
            return Written(WriteOutcome.FAILED, error.message)
        reach(FailPoint.BEFORE_DONE)
        written = self._segments.done(self._stored, metadata, self._records(answering, metadata))
        reach(FailPoint.DONE_UNANSWERED)
        if written.outcome is WriteOutcome.WRITTEN:
            self._service.completed(self._stored.record, metadata.total_docs, answering.segment_size_bytes)
            tell_unpartitioned(self._controller, self._config, metadata)
        LOG.info(
            "DONE table=%s segment=%s crc=%d docs=%d outcome=%s %s",
            self._table, answering.name, metadata.crc, metadata.total_docs, written.outcome.value, written.reason,
        )  # fmt: skip
        return written

    def _records(self, answering: CompletionMessage, metadata: SegmentZkMetadata) -> str:
        """What became of the segment's records, for its record; empty where the committer does not know it, or counted
        wrong.
        """
        counts = dict(zip(RECORD_COUNTS, answering.record_counts, strict=False))
        if not counts:
            return ""
        became_rows = counts["records"] - counts["tombstones"] + counts["added"]
        if became_rows != counts["indexed"] + counts["filtered"] + counts["rejected"] or (
            counts["indexed"] != metadata.total_docs
        ):
            reason = f"segment '{answering.name}' has {metadata.total_docs} rows, and its records are counted {counts}"
            self._service.alarm(self._table, reason)
            return ""
        return json.dumps(counts)

    def _metadata(self, answering: CompletionMessage) -> SegmentZkMetadata:
        file = StoredFile.of_location(answering.location)
        controller = self._controller
        # Of a commit in one step the attachment is the whole file, which was read when it was stored.
        sent = self._attached.file if answering.kind is MessageKind.COMMIT_END_WITH_METADATA else None
        metadata = metadata_of(controller, answering.name, file, sent)
        if not controller.files.has(self._table, answering.name, file.crc):
            raise NotFoundError(f"the file of segment '{answering.name}' is not in the deep store")
        return segment_record(
            metadata,
            self._table,
            size_bytes=file.size_bytes,
            download_url=file.url,
            now_ms=controller.clock.now_ms(),
            crypter=file.crypter,
        )

    def _store(self, answering: CompletionMessage) -> str:
        attached = self._attached
        if attached.file is None or attached.folder is None:
            return ""
        try:
            return store_file(self._controller, answering.name, attached.file, attached.folder).location
        except PinotError as error:
            LOG.warning("file of a commit refused segment=%s reason=%s", answering.name, error.message)
            return ""
