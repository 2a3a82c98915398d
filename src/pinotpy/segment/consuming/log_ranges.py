"""The rows that a replica has of one stream partition, as queries and completion see them: chunks, a watermark, and
segments as ranges of rows. Who appends the rows is not known here: a thread of this process (partition_log.py), or
another process that shares the chunks' memory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from pinotpy.errors import DataError, PinotError
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.log_chunk import LogChunk
from pinotpy.segment.consuming.record_counts import BatchCounts, RecordCounts, SegmentCounts

log = logging.getLogger(__name__)

UNKNOWN_TIME_MS: Final = -1


@dataclass(frozen=True, slots=True)
class Watermark:
    """What is published of a log.

    num_rows: rows before it can be read. next_offset: of the stream; every record before it is in a row, or was
    filtered or rejected. last_time_ms: the latest stream time of a row, UNKNOWN_TIME_MS if none has one.
    """

    num_rows: int
    next_offset: Any
    last_time_ms: int


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """A segment as a range of the log's rows.

    end_row, end_offset: None while the segment takes rows.
    counts: of the records between its offsets, once it has ended; None: not known.
    """

    name: str
    first_row: int
    start_offset: Any
    end_row: int | None = None
    end_offset: Any = None
    counts: RecordCounts | None = None


@dataclass(frozen=True, slots=True)
class LogView:
    """What one query reads of a log: rows before the watermark, cut at the segments' boundaries. Never changes."""

    watermark: Watermark
    segments: tuple[SegmentRange, ...]
    chunks: tuple[LogChunk, ...]

    def num_rows(self, segment: SegmentRange) -> int:
        """Rows of a segment that are published."""
        return (self.watermark.num_rows if segment.end_row is None else segment.end_row) - segment.first_row

    def rows_before(self, offset: Any) -> int:
        """The number of the first published row whose stream offset is not below `offset`; if there is none, how many
        rows there are. Offsets ascend with the rows; rows of one record have the same.
        """
        num_rows = self.watermark.num_rows
        for chunk in self.chunks:
            rows = min(chunk.num_rows, num_rows - chunk.first_row)
            if rows > 0 and not chunk.offset_at(rows - 1) < offset:
                return chunk.first_row + chunk.find_offset(offset, rows, "left")
        return num_rows

    def offset_behind(self, row: int) -> Any:
        """Where the stream goes on behind the record that gave a published row: a segment that ends there has all rows
        of that record and none of the next one.
        """
        offset: Any = None
        for chunk in self.chunks:
            rows = min(chunk.num_rows, self.watermark.num_rows - chunk.first_row)
            if rows <= 0 or chunk.first_row + rows <= row:
                continue
            if offset is None:
                offset = chunk.offset_at(row - chunk.first_row)
            behind = chunk.find_offset(offset, rows, "right")
            if behind < rows:
                return chunk.offset_at(behind)
        if offset is None:
            raise DataError(f"row {row} is not in the log, which has {self.watermark.num_rows} rows")
        return self.watermark.next_offset


class LogRanges:
    """Chunks, watermark and boundaries of one partition; shared between threads.

    Args:
        segment_name: of the segment that takes the first rows.
        start_offset: where that begins, in the stream's type.
    """

    def __init__(self, segment_name: str, start_offset: Any) -> None:
        self._lock = threading.Lock()  # of boundaries and chunks against each other; never held while rows are written
        self._counts = SegmentCounts(start_offset)
        self._view = LogView(
            Watermark(0, start_offset, UNKNOWN_TIME_MS), (SegmentRange(segment_name, 0, start_offset),), ()
        )

    @property
    def watermark(self) -> Watermark:
        return self._view.watermark

    @property
    def segments(self) -> tuple[SegmentRange, ...]:
        """The segments whose rows are here, in the order of their rows; the last one takes new rows."""
        return self._view.segments

    def view(self) -> LogView:
        """What is published now. One read of one attribute: a watermark and boundaries that belong together."""
        return self._view

    def publish(self, watermark: Watermark, counts: BatchCounts | None = None) -> None:
        """Rows before the watermark can be read from now on; its rows are in the chunks. counts: of the records that
        came since the watermark before; None: not known.
        """
        with self._lock:
            self._counts.add(counts, watermark.next_offset, watermark.num_rows)
            self._view = replace(self._view, watermark=watermark)

    def add_chunk(self, chunk: Chunk) -> None:
        """The next rows go to `chunk`. Those that are here from its first row on were never published, and go."""
        with self._lock:
            self._view = replace(self._view, chunks=(*_ended(self._view.chunks, chunk.first_row), chunk))

    def end_chunks(self) -> None:
        """What comes next goes to a new chunk. Rows behind the watermark go."""
        with self._lock:
            self._view = replace(self._view, chunks=_ended(self._view.chunks, self._view.watermark.num_rows))

    def freeze_chunks(self, freeze: Callable[[Chunk], LogChunk]) -> None:
        """Give chunks to which no row comes any more their places to what `freeze` makes of each; called by one thread.
        Views that were taken keep what they have. What cannot be frozen stays as it is, and the log says why.
        """
        view = self._view
        for chunk in view.chunks:
            if not isinstance(chunk, Chunk) or not chunk.is_closed or chunk.end_row > view.watermark.num_rows:
                continue
            try:
                frozen = freeze(chunk)
            except (PinotError, pa.ArrowException, MemoryError, OSError):
                log.exception("rows stay as they came segment=%s row=%d", view.segments[-1].name, chunk.first_row)
                continue
            with self._lock:
                chunks = tuple(frozen if each is chunk else each for each in self._view.chunks)
                self._view = replace(self._view, chunks=chunks)

    def give_up_before(self, row: int) -> None:
        """Forget closed chunks of which all rows lie before `row`. Views that were taken keep them."""
        with self._lock:
            chunks = tuple(chunk for chunk in self._view.chunks if not chunk.is_closed or chunk.end_row > row)
            self._view = replace(self._view, chunks=chunks)

    def seal(self, end_offset: Any, next_name: str) -> SegmentRange:
        """Name the row where the last segment ends; `next_name` begins there. Returns the ended segment's range.

        Raises DataError if the log has not reached `end_offset` yet, or the segment begins behind it.
        """
        with self._lock:
            view = self._view
            last = view.segments[-1]
            if view.watermark.next_offset < end_offset:
                raise DataError(
                    f"segment '{last.name}' cannot end at offset {end_offset}: its rows reach "
                    f"{view.watermark.next_offset}",
                    segment=last.name,
                )
            if end_offset < last.start_offset:
                raise DataError(
                    f"segment '{last.name}' cannot end at offset {end_offset}: it begins at {last.start_offset}",
                    segment=last.name,
                )
            row = max(view.rows_before(end_offset), last.first_row)
            counts = self._counts.cut(end_offset, row)
            if counts is not None and counts.indexed != row - last.first_row:
                log.error(
                    "records were miscounted segment=%s rows=%d counts=%s", last.name, row - last.first_row, counts
                )
                counts = None
            ended = replace(last, end_row=row, end_offset=end_offset, counts=counts)
            following = SegmentRange(next_name, row, end_offset)
            self._view = replace(view, segments=(*view.segments[:-1], ended, following))
        return ended

    def rename(self, name: str, new_name: str) -> None:
        """Give a segment its name: one that was cut off before the cluster named it."""
        with self._lock:
            view = self._view
            if name not in [segment.name for segment in view.segments]:
                raise DataError(f"segment '{name}' is not in the log", segment=name)
            segments = tuple(replace(each, name=new_name) if each.name == name else each for each in view.segments)
            self._view = replace(view, segments=segments)

    def release(self, name: str) -> None:
        """Give up the rows of a segment, which has ended and is the first one here. Views that were taken keep them."""
        with self._lock:
            view = self._view
            first = view.segments[0]
            if first.name != name or first.end_row is None:
                raise DataError(f"segment '{name}' is not the first one of the log, or has not ended", segment=name)
            self._view = replace(view, segments=view.segments[1:])
        self.give_up_before(first.end_row)

    def forget(self) -> None:
        """Give up all rows. Views that were taken keep them."""
        with self._lock:
            self._view = replace(self._view, chunks=())

    def ended_range(self, name: str) -> tuple[int, int]:
        """First and end row of a segment that has ended; raises DataError."""
        for segment in self._view.segments:
            if segment.name == name and segment.end_row is not None:
                return segment.first_row, segment.end_row
        raise DataError(f"segment '{name}' has not ended here", segment=name)


def _ended(chunks: tuple[LogChunk, ...], end_row: int) -> tuple[LogChunk, ...]:
    """Chunks of the rows before `end_row`, of which the last one is closed."""
    chunks = tuple(chunk for chunk in chunks if chunk.first_row < end_row)
    if chunks and isinstance(chunks[-1], Chunk):
        chunks[-1].num_rows = end_row - chunks[-1].first_row
        chunks[-1].close()
    return chunks
