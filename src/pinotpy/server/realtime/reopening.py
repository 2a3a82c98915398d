"""A table's schema or config changed while a partition is read: from the next segment on the new ones are to hold.

Rows behind that segment's start may have been read by the old documents. So the partition is opened a second time,
from there, as soon as no older segment's rows are left in the log; it takes the first one's place when it reaches as
far, so that no row that was seen is missing meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pinotpy.cluster.completion_messages import Offset
from pinotpy.errors import PinotError
from pinotpy.segment.consuming.log_ranges import SegmentRange
from pinotpy.server.realtime.ingest_worker import IngestPartition, IngestWorker, PartitionSpec

log = logging.getLogger(__name__)

PAUSED: Final = "the table's schema or config changed: rows of the segment are read again by the new ones"


class Reopening:
    """Runs on the event loop.

    sequence: of the first segment that the new documents hold for.
    partition: None until it is opened; `begins_with` is its first segment's sequence then.

    Args:
        spec: the new documents.
    """

    def __init__(self, spec: PartitionSpec, sequence: int, worker: IngestWorker) -> None:
        self.spec = spec
        self.sequence = sequence
        self.begins_with = sequence
        self.partition: IngestPartition | None = None
        self._worker = worker
        self._refused = ""

    @property
    def failure(self) -> str:
        """Why the partition cannot be read by the new documents; empty while it is, or has not begun."""
        return self._refused or ("" if self.partition is None else self.partition.status().failure)

    @property
    def is_given_up(self) -> bool:
        """It cannot be read by the new documents, and asking again does not help."""
        return bool(self._refused) or (self.partition is not None and self.partition.status().is_final)

    def open(self, first: SegmentRange, sequence: int, start_offset: str, on_change: Callable[[], None]) -> None:
        """Begin with a segment of the log."""
        self.spec = replace(self.spec, segment_name=first.name, start_offset=start_offset)
        self.begins_with = sequence
        try:
            self.partition = self._worker.open(self.spec, on_change)
        except PinotError as error:
            self._refused = error.message
        else:
            log.info(
                "documents changed, rows are read again table=%s partition=%d segment=%s from=%s",
                self.spec.table, self.spec.partition, first.name, start_offset,
            )  # fmt: skip

    def has_arrived(self, next_offset: Offset) -> bool:
        """Whether it has read what the other one has."""
        return self.partition is not None and self.partition.log_view().watermark.next_offset >= next_offset

    def close(self) -> None:
        if self.partition is not None:
            close_apart(self.partition, self.spec)


def close_apart(partition: IngestPartition, spec: PartitionSpec) -> None:
    """A fetch that is under way may take a while: not on the event loop."""
    threading.Thread(target=partition.close, name=f"close-{spec.table}-{spec.partition}", daemon=True).start()


def same_documents(one: PartitionSpec, other: PartitionSpec) -> bool:
    """Whether rows are read alike."""
    return (one.schema, one.config, one.stream) == (other.schema, other.config, other.stream)
