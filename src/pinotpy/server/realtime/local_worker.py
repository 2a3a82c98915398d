"""The ingest worker on threads of this process: one a partition, and the caller's for builds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pinotpy.clock import Clock
from pinotpy.cluster.completion_messages import Offset
from pinotpy.segment.consuming.frozen_chunk import freeze_chunk
from pinotpy.segment.consuming.log_pieces import LogPieces, PieceView
from pinotpy.segment.consuming.log_ranges import LogView, SegmentRange
from pinotpy.segment.consuming.memory import HeapMemory
from pinotpy.server.realtime.closed_rows import forget_later
from pinotpy.server.realtime.ingest_worker import BuiltSegment, PartitionSpec, PartitionStatus
from pinotpy.server.realtime.partition_reader import PartitionReader
from pinotpy.server.realtime.segment_build import BuildQueue, build_of_chunks


class LocalWorker:
    """Implements IngestWorker.

    Args:
        builds_max: segments that are built at once; more wait.
    """

    def __init__(self, clock: Clock, *, builds_max: int = 2) -> None:
        self._clock = clock
        self._builds = BuildQueue(builds_max)
        self._lock = threading.Lock()
        self._open: set[LocalPartition] = set()

    def prepare(self) -> None:
        """Nothing: there is no process to begin."""

    def open(self, spec: PartitionSpec, on_change: Callable[[], None]) -> LocalPartition:
        partition = LocalPartition(spec, self._clock, self._builds, on_change, self._forget)
        with self._lock:
            self._open.add(partition)
        partition.start()
        return partition

    def close(self) -> None:
        with self._lock:
            partitions = list(self._open)
        for partition in partitions:
            partition.close()

    def _forget(self, partition: LocalPartition) -> None:
        with self._lock:
            self._open.discard(partition)


class LocalPartition:
    """Implements IngestPartition."""

    def __init__(
        self,
        spec: PartitionSpec,
        clock: Clock,
        builds: BuildQueue,
        on_change: Callable[[], None],
        on_close: Callable[[LocalPartition], None],
    ) -> None:
        self._spec = spec
        self._builds = builds
        self._on_close = on_close
        self._reader = PartitionReader(spec, clock, on_change=on_change, on_rows=self._freeze)
        self._log = self._reader.log
        self._pieces = LogPieces(self._log, spec.table, clock=clock)
        self._num_chunks = 0

    def start(self) -> None:
        self._reader.start()

    def parse_offset(self, text: str) -> Offset:
        return self._reader.offsets.parse(text)

    def offset_text(self, offset: Offset) -> str:
        return self._reader.offsets.text(offset)

    def log_view(self) -> LogView:
        return self._log.view()

    def piece_view(self) -> PieceView:
        return self._pieces.view()

    def memory_bytes(self) -> int:
        return sum(chunk.memory_bytes for chunk in self._log.view().chunks)

    @property
    def is_behind(self) -> bool:
        return self._reader.status().is_behind

    def status(self) -> PartitionStatus:
        return self._reader.status()

    def ledger(self) -> dict[str, Any]:
        return self._reader.ledger.to_json()

    def seal(self, end_offset: Offset, next_name: str) -> SegmentRange:
        return self._log.seal(end_offset, next_name)

    def rename(self, name: str, new_name: str) -> None:
        self._log.rename(name, new_name)

    def release(self, name: str) -> None:
        self._log.release(name)
        self._pieces.drop_released()

    def pause(self, reason: str) -> None:
        self._reader.pause(reason)

    def build(self, name: str, folder: Path, creation_time_ms: int) -> BuiltSegment:
        rows, chunks = self._log.ended_range(name), self._log.view().chunks
        return self._builds.run(lambda: build_of_chunks(self._spec, chunks, rows, folder, name, creation_time_ms))

    def close(self) -> None:
        self._reader.close()
        self._on_close(self)
        forget_later(self._pieces)

    def _freeze(self) -> None:
        """Make the columns of chunks that became full, before a query has to."""
        num_chunks = len(self._log.view().chunks)
        if num_chunks != self._num_chunks:
            self._num_chunks = num_chunks
            self._log.freeze_chunks(lambda chunk: freeze_chunk(chunk, HeapMemory()))
            self._pieces.freeze()
