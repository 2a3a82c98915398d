"""The ingest worker on threads of this process: one a partition, and the caller's for builds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pinotpy.clock import Clock
from pinotpy.cluster.completion_messages import Offset
from pinotpy.config.stream_keys import without_secrets
from pinotpy.errors import DataError, PinotError
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.registry import make_decoder
from pinotpy.ingest.row_order import sort_rows
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.log_pieces import LogPieces, PieceView
from pinotpy.segment.consuming.partition_log import LogView, PartitionLog, SegmentRange
from pinotpy.server.realtime.fetch_loop import FetchLoop
from pinotpy.server.realtime.ingest_worker import BuiltSegment, PartitionSpec, PartitionStatus
from pinotpy.stream.registry import consumer_factory
from pinotpy.stream.settings import StreamSettings
from pinotpy.stream.spec import StreamLayer

log = logging.getLogger(__name__)

_STOP_S: Final = 10.0


class LocalWorker:
    """Implements IngestWorker.

    Args:
        builds_max: segments that are built at once; more wait.
    """

    def __init__(self, clock: Clock, *, builds_max: int = 2) -> None:
        self._clock = clock
        self._builds = threading.BoundedSemaphore(max(builds_max, 1))
        self._lock = threading.Lock()
        self._open: set[LocalPartition] = set()

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
        builds: threading.BoundedSemaphore,
        on_change: Callable[[], None],
        on_close: Callable[[LocalPartition], None],
    ) -> None:
        self._spec = spec
        self._builds = builds
        self._on_close = on_close
        settings = StreamSettings.from_config(spec.stream)
        factory = consumer_factory(settings, clock)
        self._offsets = factory.offset_type
        self._log = PartitionLog(
            spec.schema,
            resolve_indexing(spec.schema, spec.config),
            segment_name=spec.segment_name,
            start_offset=self.parse_offset(spec.start_offset),
            offset_dtype=self._offsets.dtype,
        )
        self._pieces = LogPieces(self._log, spec.table, clock=clock)
        self._ledger = StreamLedger()
        self._num_chunks = 0
        self._fetching = FetchLoop(
            f"{spec.table}-{spec.partition}",
            factory,
            spec.partition,
            make_decoder(spec.stream, spec.schema, spec.config),
            self._log,
            self._ledger,
            clock,
            on_change=on_change,
            on_rows=self._freeze,
            shown=lambda text: without_secrets(text, settings.properties),
            fetch_timeout_s=settings.fetch_timeout_s,
            idle_timeout_s=settings.idle_timeout_s,
        )

    def start(self) -> None:
        self._fetching.start()

    def parse_offset(self, text: str) -> Offset:
        return self._offsets.parse(text)

    def offset_text(self, offset: Offset) -> str:
        return self._offsets.text(offset)

    def log_view(self) -> LogView:
        return self._log.view()

    def piece_view(self) -> PieceView:
        return self._pieces.view()

    def status(self) -> PartitionStatus:
        fetching = self._fetching
        failure, layer = fetching.failure
        if fetching.paused:
            failure, layer = fetching.paused, ""
        elif not failure and (cause := self._ledger.rejects_all()):
            failure = f"none of {self._ledger.records} records became a row: {cause}: check the decoder and the schema"
            layer = StreamLayer.DECODE.value
        return PartitionStatus(failure, fetching.is_final, fetching.last_fetch_ms, layer)

    def ledger(self) -> dict[str, Any]:
        return self._ledger.to_json()

    def seal(self, end_offset: Offset, next_name: str) -> SegmentRange:
        return self._log.seal(end_offset, next_name)

    def rename(self, name: str, new_name: str) -> None:
        self._log.rename(name, new_name)

    def release(self, name: str) -> None:
        self._log.release(name)

    def pause(self, reason: str) -> None:
        self._fetching.paused = reason

    def build(self, name: str, folder: Path, creation_time_ms: int) -> BuiltSegment:
        waiting_ns = time.monotonic_ns()
        with self._builds:
            building_ns = time.monotonic_ns()
            spec = self._spec
            metadata = build_segment(
                spec.schema,
                spec.config,
                self._rows_of(name),
                folder,
                name,
                creation_time_ms=creation_time_ms,
            )
            took_ms = (time.monotonic_ns() - building_ns) // 1_000_000
        return BuiltSegment(
            folder / name,
            metadata.crc,
            metadata.num_docs,
            metadata.size_bytes,
            took_ms,
            (building_ns - waiting_ns) // 1_000_000,
        )

    def close(self) -> None:
        self._fetching.stop(_STOP_S)
        self._on_close(self)

    def _rows_of(self, name: str) -> Iterator[pa.RecordBatch]:
        """The rows of an ended segment, in the order that the table wants."""
        ended = [segment for segment in self._log.segments if segment.name == name and segment.end_row is not None]
        if not ended:
            raise DataError(f"segment '{name}' has not ended here", segment=name)
        sorted_by = self._spec.config.indexing.sorted_column
        if not sorted_by:
            return self._log.rows(ended[0])
        return iter(sort_rows(list(self._log.rows(ended[0])), self._spec.schema, list(sorted_by)))

    def _freeze(self) -> None:
        """Make the columns of chunks that became full, before a query has to."""
        num_chunks = len(self._log.view().chunks)
        if num_chunks == self._num_chunks:
            return
        self._num_chunks = num_chunks
        try:
            self._pieces.freeze()
        except PinotError:
            log.exception("pieces are left to queries table=%s partition=%s", self._spec.table, self._spec.partition)
