"""The record of a segment of a stream, typed: what Pinot calls SegmentZKMetadata of a realtime segment.

Offsets are text here; only their stream knows what they are. The keys are the reference's; `nextSegment`, by which
whoever reads a COMMITTING record finds the segment that goes on; and `forceCommitJob`, by which its servers know that
it is to end now, however long they were away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from pinotpy.cluster.llc_names import LlcName, known_llc_name
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.errors import DecodeError

STATUS: Final = "segment.realtime.status"
START_OFFSET: Final = "segment.realtime.startOffset"
END_OFFSET: Final = "segment.realtime.endOffset"
NUM_REPLICAS: Final = "segment.realtime.numReplicas"
ROW_THRESHOLD: Final = "segment.flush.threshold.size"
TIME_THRESHOLD: Final = "segment.flush.threshold.time"
NEXT_SEGMENT: Final = "segment.realtime.nextSegment"
# A JSON object: how many records lie between the offsets, and what became of them (completion_messages.RECORD_COUNTS).
RECORDS: Final = "segment.realtime.records"
FORCE_COMMIT_JOB: Final = "segment.realtime.forceCommitJob"
_OPEN_ENDS: Final = frozenset({"", "null", str((1 << 63) - 1)})  # as the reference's versions write "not known yet"


class SegmentStatus(StrEnum):
    """IN_PROGRESS: takes rows. COMMITTING: its end is fixed, its file is not there yet. DONE. UPLOADED: pushed as a
    file.
    """

    IN_PROGRESS = "IN_PROGRESS"
    COMMITTING = "COMMITTING"
    DONE = "DONE"
    UPLOADED = "UPLOADED"


@dataclass(frozen=True, slots=True)
class RealtimeRecord:
    """A segment of a stream.

    end_offset: None while it is IN_PROGRESS. row_threshold: 0 = of the table's config. time_threshold_ms: likewise.
    next_segment: name of the one that goes on where this ends; empty while it is IN_PROGRESS.
    record: everything else that is known of it.
    force_commit_job: id of the job by which an operator ended it; empty if none did.
    """

    name: LlcName
    table: str
    status: SegmentStatus
    start_offset: str
    end_offset: str | None
    num_replicas: int
    row_threshold: int
    time_threshold_ms: int
    next_segment: str
    record: SegmentZkMetadata
    force_commit_job: str = ""

    @classmethod
    def in_progress(
        cls,
        table: str,
        name: LlcName,
        start_offset: str,
        *,
        num_replicas: int,
        row_threshold: int,
        time_threshold_ms: int,
        creation_time_ms: int,
        partition_metadata: dict[str, Any] | None = None,
    ) -> RealtimeRecord:
        """The record of a segment that begins. table: name with type. partition_metadata: see SegmentZkMetadata."""
        empty = SegmentZkMetadata(
            str(name),
            table,
            crc=0,
            total_docs=0,
            creation_time_ms=creation_time_ms,
            partition_metadata=partition_metadata,
        )
        return cls(
            name,
            table,
            SegmentStatus.IN_PROGRESS,
            start_offset,
            None,
            num_replicas,
            row_threshold,
            time_threshold_ms,
            "",
            empty,
        )

    @classmethod
    def from_metadata(cls, record: SegmentZkMetadata) -> RealtimeRecord | None:
        """Of a record as it is stored; None if the segment was not read of a stream. Raises DecodeError, DataError."""
        extra = dict(record.extra)
        status_text, start_offset = extra.pop(STATUS, ""), extra.pop(START_OFFSET, "")
        if not status_text or not start_offset:
            return None
        end_offset, force_job = extra.pop(END_OFFSET, ""), extra.pop(FORCE_COMMIT_JOB, "")
        try:
            status = SegmentStatus(status_text)
            numbers = [int(extra.pop(key, "") or 0) for key in (NUM_REPLICAS, ROW_THRESHOLD, TIME_THRESHOLD)]
        except ValueError as error:
            raise DecodeError(f"the record of segment '{record.segment_name}' cannot be read: {error}") from None
        return cls(
            known_llc_name(record.segment_name),
            record.table_name_with_type,
            status,
            start_offset,
            None if end_offset in _OPEN_ENDS else end_offset,
            numbers[0],
            numbers[1],
            numbers[2],
            extra.pop(NEXT_SEGMENT, ""),
            replace(record, extra=extra),
            force_job,
        )

    def to_metadata(self) -> SegmentZkMetadata:
        """As it is stored."""
        fields = {
            STATUS: self.status.value,
            START_OFFSET: self.start_offset,
            END_OFFSET: self.end_offset or "",
            NUM_REPLICAS: str(self.num_replicas),
            ROW_THRESHOLD: str(self.row_threshold),
            TIME_THRESHOLD: str(self.time_threshold_ms),
            NEXT_SEGMENT: self.next_segment,
            FORCE_COMMIT_JOB: self.force_commit_job,
        }
        written = {key: value for key, value in fields.items() if value}
        return replace(self.record, extra={**self.record.extra, **written})

    def to_bytes(self) -> bytes:
        return self.to_metadata().to_record().to_bytes()
