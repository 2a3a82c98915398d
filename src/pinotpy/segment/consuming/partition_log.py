"""PartitionLog: all rows that a replica has of one stream partition and has not given up; segments are ranges of them.

Rows are appended by one thread and published batch by batch through a watermark. Sealing a segment names the row where
it ends and the next one begins: nothing is copied, stopped or read again (ADR 19). A query takes one view: a watermark
and the segments' boundaries, so its segments tile the log by construction.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.config.schema import Schema
from pinotpy.errors import DataError
from pinotpy.segment.build.arrow_values import column_values
from pinotpy.segment.build.indexing import ColumnIndexing
from pinotpy.segment.consuming.chunk import Chunk, rows_before_offset
from pinotpy.segment.consuming.chunk_column import IncomingColumn
from pinotpy.segment.consuming.chunk_layout import CHUNK_ROWS, ColumnRoom, chunk_layout, usual_room
from pinotpy.segment.consuming.memory import ChunkMemory, HeapMemory
from pinotpy.segment.consuming.stored_rows import stored_rows

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
    """

    name: str
    first_row: int
    start_offset: Any
    end_row: int | None = None
    end_offset: Any = None


@dataclass(frozen=True, slots=True)
class LogView:
    """What one query reads of a log: rows before the watermark, cut at the segments' boundaries. Never changes."""

    watermark: Watermark
    segments: tuple[SegmentRange, ...]
    chunks: tuple[Chunk, ...]

    def num_rows(self, segment: SegmentRange) -> int:
        """Rows of a segment that are published."""
        return (self.watermark.num_rows if segment.end_row is None else segment.end_row) - segment.first_row

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
                offset = chunk.offsets[row - chunk.first_row]
            behind = int(np.searchsorted(chunk.offsets[:rows], offset, "right"))
            if behind < rows:
                return chunk.offsets[behind].item()
        if offset is None:
            raise DataError(f"row {row} is not in the log, which has {self.watermark.num_rows} rows")
        return self.watermark.next_offset


class PartitionLog:
    """The rows of one partition.

    Args:
        schema, indexing: of all rows (`resolve_indexing`). A changed schema needs another log.
        segment_name: of the segment that takes the first rows.
        start_offset: where that begins, in the stream's type; `offset_dtype` is that of arrays of offsets.
        chunk_rows: for tests; at most CHUNK_ROWS.
    """

    def __init__(
        self,
        schema: Schema,
        indexing: Mapping[str, ColumnIndexing],
        *,
        segment_name: str,
        start_offset: Any,
        offset_dtype: np.dtype[Any],
        memory: ChunkMemory | None = None,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        assert 0 < chunk_rows <= CHUNK_ROWS
        self._schema = schema
        self._indexing = dict(indexing)
        self._offset_dtype = offset_dtype
        self._memory = memory or HeapMemory()
        self._chunk_rows = chunk_rows
        self._lock = threading.Lock()  # of boundaries and chunks against each other; never held while rows are written
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

    def append(self, rows: pa.RecordBatch, offsets: NDArray[Any], times_ms: Int64Array, next_offset: Any) -> None:
        """Append a batch and publish it; called by one thread.

        Args:
            rows: storage form, with every column of the schema (a missing one is null throughout).
            offsets, times_ms: of each row's record, shape (rows.num_rows,); offsets ascend, equal where one record gave
                several rows.
            next_offset: where the stream goes on behind the batch.

        Raises:
            DataError: a column does not fit the schema; nothing is published.
            MemoryError, OSError: no memory; rows before the failure are not published either.
        """
        if not (len(offsets) == len(times_ms) == rows.num_rows):
            raise DataError(
                f"expected an offset and a time for each of {rows.num_rows} rows, found {len(offsets)} and "
                f"{len(times_ms)}"
            )
        before = self._view.watermark
        columns = self._incoming(rows)
        try:
            self._write(columns, offsets, times_ms, before.num_rows, rows.num_rows)
        except BaseException:
            self._give_up_unpublished()
            raise
        last_time_ms = max(before.last_time_ms, int(times_ms.max(initial=UNKNOWN_TIME_MS)))
        watermark = Watermark(before.num_rows + rows.num_rows, next_offset, last_time_ms)
        with self._lock:
            self._view = replace(self._view, watermark=watermark)

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
            row = max(rows_before_offset(view.chunks, view.watermark.num_rows, end_offset), last.first_row)
            ended = replace(last, end_row=row, end_offset=end_offset)
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
            end_row = first.end_row
            chunks = tuple(chunk for chunk in view.chunks if not chunk.is_closed or chunk.end_row > end_row)
            self._view = replace(view, segments=view.segments[1:], chunks=chunks)

    def rows(self, segment: SegmentRange) -> Iterator[pa.RecordBatch]:
        """The rows of a segment in storage form, in the order of the stream. Raises DataError if they were released."""
        view = self._view
        if segment.name not in [here.name for here in view.segments]:
            raise DataError(f"rows of segment '{segment.name}' are not here any more", segment=segment.name)
        end_row = view.watermark.num_rows if segment.end_row is None else segment.end_row
        return stored_rows(view.chunks, segment.first_row, end_row)

    def used_bytes(self) -> int:
        """About as much memory as the rows here take."""
        return sum(chunk.used_bytes() for chunk in self._view.chunks)

    def _incoming(self, rows: pa.RecordBatch) -> dict[str, IncomingColumn]:
        unknown = [name for name in rows.schema.names if name not in self._schema.field_specs]
        if unknown:
            raise DataError(
                f"rows have columns {unknown[:10]} that schema '{self._schema.schema_name}' does not have",
                columns=unknown[:100],
            )
        columns = {}
        for name, spec in self._schema.field_specs.items():
            index = rows.schema.get_field_index(name)
            array = rows.column(index) if index >= 0 else pa.nulls(rows.num_rows)
            columns[name] = IncomingColumn(
                column_values(
                    pa.chunked_array([array]),
                    name,
                    spec.data_type,
                    single_value=spec.single_value,
                    default=spec.default_in_segments,
                )
            )
        return columns

    def _write(
        self,
        columns: Mapping[str, IncomingColumn],
        offsets: NDArray[Any],
        times_ms: Int64Array,
        first_row: int,
        num_rows: int,
    ) -> None:
        done = 0
        while done < num_rows:
            chunk = self._open_chunk(first_row + done)
            count = chunk.rows_that_fit(columns, done, num_rows)
            if count:
                chunk.append(columns, offsets, times_ms, done, done + count)
                done += count
            elif chunk.num_rows:
                chunk.close()
            else:
                # The usual room is too small for a single row.
                with self._lock:
                    self._view = replace(self._view, chunks=self._view.chunks[:-1])
                self._add_chunk(first_row + done, self._rooms_for(columns, done))

    def _give_up_unpublished(self) -> None:
        """After a failure: no chunk has rows behind the watermark; the next ones go to a new chunk."""
        with self._lock:
            num_rows = self._view.watermark.num_rows
            chunks = tuple(chunk for chunk in self._view.chunks if chunk.first_row < num_rows)
            if chunks:
                chunks[-1].close()
                chunks[-1].num_rows = num_rows - chunks[-1].first_row
            self._view = replace(self._view, chunks=chunks)

    def _open_chunk(self, row: int) -> Chunk:
        chunks = self._view.chunks
        if chunks and not chunks[-1].is_closed:
            if chunks[-1].num_rows < chunks[-1].layout.rows:
                return chunks[-1]
            chunks[-1].close()
        return self._add_chunk(row, {})

    def _add_chunk(self, row: int, rooms: Mapping[str, ColumnRoom]) -> Chunk:
        layout = chunk_layout(self._schema, self._indexing, self._offset_dtype, rows=self._chunk_rows, rooms=rooms)
        chunk = Chunk(layout, self._memory, row, f"{self._view.segments[-1].name}-{row}")
        with self._lock:
            self._view = replace(self._view, chunks=(*self._view.chunks, chunk))
        return chunk

    def _rooms_for(self, columns: Mapping[str, IncomingColumn], row: int) -> dict[str, ColumnRoom]:
        rooms = {}
        for name, spec in self._schema.field_specs.items():
            usual, column = usual_room(spec, self._chunk_rows), columns[name]
            begin, stop = column.first_value(row), column.first_value(row + 1)
            text_bytes = 0 if column.text_ends is None else int(column.text_ends[stop] - column.text_ends[begin])
            rooms[name] = ColumnRoom(max(usual.values, stop - begin), max(usual.text_bytes, text_bytes))
        return rooms
