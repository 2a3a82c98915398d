"""A partition that a process reads, as the server has it: boundaries of segments and pieces are made here."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from pinotpy.clock import Clock
from pinotpy.cluster.completion_messages import Offset
from pinotpy.ingest.decoders.registry import make_decoder
from pinotpy.segment.consuming.log_pieces import PieceView
from pinotpy.segment.consuming.log_ranges import LogView, SegmentRange, Watermark
from pinotpy.segment.consuming.record_counts import BatchCounts
from pinotpy.server.realtime.closed_rows import forget_later
from pinotpy.server.realtime.ingest_worker import BuiltSegment, PartitionSpec, PartitionStatus
from pinotpy.server.realtime.segment_build import BuildQueue
from pinotpy.server.realtime.workers.build_client import build_in_process
from pinotpy.server.realtime.workers.fork_server import ForkServer
from pinotpy.server.realtime.workers.freezing import Freezer
from pinotpy.server.realtime.workers.shared_rows import SharedRows
from pinotpy.stream.registry import consumer_factory
from pinotpy.stream.settings import StreamSettings

log = logging.getLogger(__name__)

# A process says something at least with each fetch, twice a second. One that stands still reads nothing.
SILENT_S_MAX: Final = 15.0


class Reader(Protocol):
    """The process that reads a partition."""

    def call(self, *call: Any) -> None: ...

    def remove(self, partition: ProcessPartition) -> None: ...


class ProcessPartition:
    """Implements IngestPartition.

    Methods with `of_process` are called by the thread that listens to the process.
    """

    _numbers = itertools.count(1)

    def __init__(
        self,
        spec: PartitionSpec,
        clock: Clock,
        on_change: Callable[[], None],
        fork_server: ForkServer,
        builds: BuildQueue,
        freezer: Freezer,
    ) -> None:
        self.number = next(self._numbers)
        self.spec = spec
        self.reader: Reader | None = None
        self.paused = ""
        self._clock = clock
        self._on_change = on_change
        self._fork_server = fork_server
        self._builds = builds
        self._freezer = freezer
        # Made here as well, so that a fault is told at once.
        self._offsets = consumer_factory(StreamSettings.from_config(spec.stream), clock).offset_type
        make_decoder(spec.stream, spec.schema, spec.config)
        self._status = PartitionStatus("", False, 0, is_behind=True)
        self._heard_ns = clock.monotonic_ns()
        self._boundaries = threading.Lock()  # changes of boundaries, and of the rows that they belong to
        self._rows = self._new_rows(spec.segment_name, self.parse_offset(spec.start_offset))
        self._read_again: SharedRows | None = None  # take the place of `_rows` when they reach as far

    def _new_rows(self, segment_name: str, start_offset: Offset) -> SharedRows:
        return SharedRows(self.spec, self._offsets, self._clock, self._freezer, segment_name, start_offset)

    def parse_offset(self, text: str) -> Offset:
        return self._offsets.parse(text)

    def offset_text(self, offset: Offset) -> str:
        return self._offsets.text(offset)

    def log_view(self) -> LogView:
        return self._rows.log.view()

    def piece_view(self) -> PieceView:
        return self._rows.pieces.view()

    @property
    def is_behind(self) -> bool:
        return self._status.is_behind or self._read_again is not None or self._silent_s() > SILENT_S_MAX

    def memory_bytes(self) -> int:
        again = self._read_again
        return self._rows.memory_bytes() + (0 if again is None else again.memory_bytes())

    def status(self) -> PartitionStatus:
        status, silent_s = self._status, self._silent_s()
        if status.failure:
            return status
        if silent_s > SILENT_S_MAX:
            reason = f"the process that reads the stream has said nothing for {silent_s:.0f} s"
            return replace(status, failure=reason, is_behind=True)
        if self._read_again is None:
            return status
        start = self.offset_text(self._rows.log.segments[0].start_offset)
        reason = (
            f"the ingest worker ended several times within a minute: records from {start} on are read again, and no "
            "new rows are seen until they are"
        )
        return replace(status, failure=reason, is_behind=True)

    def _silent_s(self) -> float:
        return (self._clock.monotonic_ns() - self._heard_ns) / 1e9

    def ledger(self) -> dict[str, Any]:
        """See SharedRows.ledger."""
        return self._rows.ledger()

    def seal(self, end_offset: Offset, next_name: str) -> SegmentRange:
        with self._boundaries:
            return self._rows.log.seal(end_offset, next_name)

    def rename(self, name: str, new_name: str) -> None:
        with self._boundaries:
            self._rows.log.rename(name, new_name)

    def release(self, name: str) -> None:
        with self._boundaries:
            self._rows.log.release(name)
            self._rows.drop_places()
            pieces = self._rows.pieces
        pieces.drop_released()

    def pause(self, reason: str) -> None:
        if reason != self.paused:
            self.paused = reason
            self._call("pause", self.number, reason)

    def build(self, name: str, folder: Path, creation_time_ms: int) -> BuiltSegment:
        with self._boundaries:
            rows = self._rows.log.ended_range(name)
            chunks = self._rows.lent(*rows)
        try:
            return self._builds.run(
                lambda: build_in_process(
                    self._fork_server, self.spec, self._offsets.dtype, chunks, rows, folder, name, creation_time_ms
                )
            )
        finally:
            for _, descriptor in chunks:
                os.close(descriptor)

    def close(self) -> None:
        if self.reader is not None:
            self.reader.remove(self)
        with self._boundaries:
            self._rows.close()
            if self._read_again is not None:
                self._read_again.close()
                forget_later(self._read_again.pieces)
        forget_later(self._rows.pieces)

    def _call(self, *call: Any) -> None:
        if self.reader is not None:
            self.reader.call(*call)

    # --- What the process says

    def of_process_chunk(self, first_row: int, rooms: dict[str, list[int]], descriptor: int) -> None:
        (self._read_again or self._rows).add_chunk(first_row, rooms, descriptor)

    def of_process_state(self, message: dict[str, Any]) -> None:
        """Rows were published, or reading failed, or nothing came."""
        self._heard_ns = self._clock.monotonic_ns()
        watermark = Watermark(message["rows"], self.parse_offset(message["next_offset"]), message["last_time_ms"])
        counts = BatchCounts.from_json(message["counts"]) if "counts" in message else None
        (self._read_again or self._rows).publish(watermark, message.get("ledger"), counts)
        # Rows that a process read before this one are still here.
        stray = self._status.stray or message["stray"]
        self._status = PartitionStatus(
            message["failure"],
            message["is_final"],
            message["last_fetch_ms"],
            message["layer"],
            message["is_behind"],
            "" if stray else message["kept"],
            stray,
        )
        if self._read_again is not None and watermark.next_offset >= self._rows.log.watermark.next_offset:
            self._take_rows_read_again(self._read_again)
        self._on_change()

    def of_process_failed(self, reason: str) -> None:
        """Nothing is read until the process is begun again, or the partition opened in it."""
        self._heard_ns = self._clock.monotonic_ns()
        (self._read_again or self._rows).process_ended()
        self._status = replace(self._status, failure=reason, is_final=False, layer="", is_behind=True)
        self._on_change()

    def of_process_begun(self, *, from_start: bool) -> tuple[int, str, int]:
        """Where the process goes on: see SharedRows.reopened.

        Args:
            from_start: of the first segment that is here, into new memory: what lies in this one may be why processes
                end. Queries read the old rows until the new ones reach as far.
        """
        with self._boundaries:
            if from_start:
                first = self._rows.log.segments[0]
                if self._read_again is not None:
                    self._read_again.close()
                self._read_again = self._new_rows(first.name, first.start_offset)
            return (self._read_again or self._rows).reopened()

    def _take_rows_read_again(self, new: SharedRows) -> None:
        with self._boundaries:
            old, view = self._rows, self._rows.log.view()
            if new.log.segments[0].start_offset < view.segments[0].start_offset:
                # Released meanwhile: the new rows begin before the first segment that is still here.
                new.log.seal(view.segments[0].start_offset, view.segments[0].name)
                new.log.release(new.log.segments[0].name)
                new.drop_places()
            for ended, following in itertools.pairwise(view.segments):
                again = new.log.seal(ended.end_offset, following.name)
                if new.log.view().num_rows(again) != view.num_rows(ended):
                    log.error(
                        "records gave other rows when they were read again segment=%s before=%d again=%d",
                        ended.name, view.num_rows(ended), new.log.view().num_rows(again),
                    )  # fmt: skip
            if new.log.segments[0].name != view.segments[0].name:
                new.log.rename(new.log.segments[0].name, view.segments[0].name)
            self._rows, self._read_again = new, None
            old.close()
        log.info("rows were read again table=%s partition=%d", self.spec.table, self.spec.partition)
