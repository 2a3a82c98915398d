"""Rows of a partition that a process reads, on the server's side: the same memory, and boundaries of segments."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import Any

from pinotpy.clock import Clock
from pinotpy.ingest.decoders.ledger import StreamLedger, summed
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.frozen_chunk import FrozenChunk, freeze_chunk
from pinotpy.segment.consuming.log_pieces import LogPieces
from pinotpy.segment.consuming.log_ranges import LogRanges, Watermark
from pinotpy.segment.consuming.memory import SharedMemory
from pinotpy.segment.consuming.record_counts import BatchCounts
from pinotpy.server.realtime.ingest_worker import PartitionSpec
from pinotpy.server.realtime.workers.freezing import Freezer
from pinotpy.server.realtime.workers.shared_chunks import ChunkPlace, SharedChunk, mapped_chunk
from pinotpy.stream.spec import OffsetType


class SharedRows:
    """Chunks of one log with the descriptors of their memory, and the counts of the records that they came from.

    Args:
        freezer: is asked where a chunk is full.
        segment_name, start_offset: of the first segment.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        offsets: OffsetType,
        clock: Clock,
        freezer: Freezer,
        segment_name: str,
        start_offset: Any,
    ) -> None:
        self._spec = spec
        self._freezer = freezer
        self._offsets = offsets
        self.log = LogRanges(segment_name, start_offset)
        self.pieces = LogPieces(self.log, spec.table, clock=clock)
        self._ledger: dict[str, Any] = StreamLedger().to_json()
        self._ledger_before: dict[str, Any] = self._ledger  # of processes that ended
        self._lock = threading.Lock()  # of descriptors and places
        self._places: dict[int, SharedChunk] = {}  # by first row
        self._asked_row = -1  # first row of the last chunk that the freezer was asked for
        self._is_closed = False

    def ledger(self) -> dict[str, Any]:
        """Of the rows that are published, and of what was no row before them."""
        return summed(self._ledger_before, self._ledger)

    def memory_bytes(self) -> int:
        """Pages of the chunks that anybody wrote to."""
        with self._lock:
            return sum(os.fstat(descriptor).st_blocks * 512 for _, descriptor in self._places.values())

    def add_chunk(self, first_row: int, rooms: dict[str, list[int]], descriptor: int) -> None:
        """Rows go to another chunk from now on. The descriptor belongs to this object, whatever happens."""
        place = ChunkPlace(first_row, 0, {name: (values, size) for name, (values, size) in rooms.items()})
        try:
            chunk = mapped_chunk(self._spec, self._offsets.dtype, place, os.dup(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        self.log.add_chunk(chunk)
        with self._lock:
            gone = self._places.pop(first_row, None)
            self._places[first_row] = (place, descriptor)
            if self._is_closed:
                gone = self._places.pop(first_row)
        if gone is not None:
            os.close(gone[1])

    def publish(self, watermark: Watermark, ledger: dict[str, Any] | None, counts: BatchCounts | None = None) -> None:
        """Rows before the watermark can be read. One that lies behind what was published comes late, and is nothing.
        counts: see LogRanges.publish.
        """
        view = self.log.view()
        if watermark.num_rows > view.watermark.num_rows:
            last = view.chunks[-1]
            last.num_rows = watermark.num_rows - last.first_row
        if watermark.num_rows >= view.watermark.num_rows:
            self.log.publish(watermark, counts)
        if ledger is not None:
            self._ledger = ledger
        self._ask_freezer()

    def _ask_freezer(self) -> None:
        """Once for each chunk that is full, when all its rows are published."""
        view = self.log.view()
        full = view.chunks[-2] if len(view.chunks) > 1 else None
        if full is not None and self._asked_row < full.first_row and full.end_row <= view.watermark.num_rows:
            self._asked_row = full.first_row
            self._freezer.ask(self)

    def freeze(self) -> None:
        """Freeze full chunks, into memory that builds can map as well, and make the columns of their pieces."""
        self.log.freeze_chunks(self._frozen)
        self.pieces.freeze()

    def _frozen(self, chunk: Chunk) -> FrozenChunk:
        descriptors: list[int] = []
        try:
            frozen = freeze_chunk(chunk, SharedMemory(lambda descriptor: descriptors.append(os.dup(descriptor))))
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        (gone,) = descriptors
        with self._lock:
            if chunk.first_row in self._places:  # and not released, or closed, meanwhile
                (_, gone), self._places[chunk.first_row] = self._places[chunk.first_row], (frozen.layout, gone)
        os.close(gone)
        return frozen

    def process_ended(self) -> None:
        """The next one counts from zero."""
        self._ledger_before, self._ledger = self.ledger(), {}

    def reopened(self) -> tuple[int, str, int]:
        """Where a process goes on, in a new chunk: rows, next offset and latest time of what is published."""
        watermark = self.log.watermark
        self.log.end_chunks()
        self.drop_places()
        return watermark.num_rows, self._offsets.text(watermark.next_offset), watermark.last_time_ms

    def lent(self, first_row: int, end_row: int) -> list[SharedChunk]:
        """Chunks that hold these rows; the descriptors are the caller's."""
        lent: list[SharedChunk] = []
        with self._lock:
            for chunk in self.log.view().chunks:
                if chunk.first_row in self._places and chunk.first_row < end_row and chunk.end_row > first_row:
                    place, descriptor = self._places[chunk.first_row]
                    if isinstance(place, ChunkPlace):
                        place = replace(place, num_rows=chunk.num_rows)
                    lent.append((place, os.dup(descriptor)))
        return lent

    def drop_places(self) -> None:
        """Of chunks that the log has given up."""
        present = {chunk.first_row for chunk in self.log.view().chunks}
        with self._lock:
            gone = [self._places.pop(row)[1] for row in list(self._places) if row not in present]
        for descriptor in gone:
            os.close(descriptor)

    def close(self) -> None:
        """No process gets these rows any more; queries may read them still."""
        with self._lock:
            self._is_closed = True
            gone = [descriptor for _, descriptor in self._places.values()]
            self._places.clear()
        for descriptor in gone:
            os.close(descriptor)
