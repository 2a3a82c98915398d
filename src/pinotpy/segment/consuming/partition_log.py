"""PartitionLog: all rows that a replica has of one stream partition and has not given up; segments are ranges of them.

Rows are appended by one thread and published batch by batch through a watermark. Sealing a segment names the row where
it ends and the next one begins: nothing is copied, stopped or read again (ADR 19). A query takes one view: a watermark
and the segments' boundaries, so its segments tile the log by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.config.schema import Schema
from pinotpy.errors import DataError
from pinotpy.segment.build.arrow_values import column_values
from pinotpy.segment.build.indexing import ColumnIndexing
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.chunk_column import IncomingColumn
from pinotpy.segment.consuming.chunk_layout import CHUNK_ROWS, ColumnRoom, chunk_layout, usual_room
from pinotpy.segment.consuming.log_ranges import UNKNOWN_TIME_MS, LogRanges, Watermark
from pinotpy.segment.consuming.memory import ChunkMemory, HeapMemory
from pinotpy.segment.consuming.record_counts import BatchCounts


class PartitionLog(LogRanges):
    """The rows of one partition, appended here.

    Args:
        schema, indexing: of all rows (`resolve_indexing`). A changed schema needs another log.
        segment_name: of the segment that takes the first rows.
        start_offset: where that begins, in the stream's type; `offset_dtype` is that of arrays of offsets.
        chunk_rows: for tests; at most CHUNK_ROWS.
        on_chunk: called with each new chunk, before rows of it are published.
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
        on_chunk: Callable[[Chunk], None] = lambda chunk: None,
    ) -> None:
        assert 0 < chunk_rows <= CHUNK_ROWS
        super().__init__(segment_name, start_offset)
        self._schema = schema
        self._indexing = dict(indexing)
        self._offset_dtype = offset_dtype
        self._memory = memory or HeapMemory()
        self._chunk_rows = chunk_rows
        self._on_chunk = on_chunk

    def append(
        self,
        rows: pa.RecordBatch,
        offsets: NDArray[Any],
        times_ms: Int64Array,
        next_offset: Any,
        counts: BatchCounts | None = None,
    ) -> None:
        """Append a batch and publish it; called by one thread.

        Args:
            rows: storage form, with every column of the schema (a missing one is null throughout).
            offsets, times_ms: of each row's record, shape (rows.num_rows,); offsets ascend, equal where one record gave
                several rows.
            next_offset: where the stream goes on behind the batch.
            counts: of its records; None: not known.

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
            self._write(columns, offsets, before.num_rows, rows.num_rows)
        except BaseException:
            self.end_chunks()
            raise
        last_time_ms = max(before.last_time_ms, int(times_ms.max(initial=UNKNOWN_TIME_MS)))
        self.publish(Watermark(before.num_rows + rows.num_rows, next_offset, last_time_ms), counts)

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
        first_row: int,
        num_rows: int,
    ) -> None:
        done = 0
        while done < num_rows:
            chunk = self._open_chunk(first_row + done)
            count = chunk.rows_that_fit(columns, done, num_rows)
            if count:
                chunk.append(columns, offsets, done, done + count)
                done += count
            else:
                # Where not even the first row fits, the usual room is too small for it.
                self._add_chunk(first_row + done, {} if chunk.num_rows else self._rooms_for(columns, done))

    def _open_chunk(self, row: int) -> Chunk:
        last = self._view.chunks[-1] if self._view.chunks else None
        if isinstance(last, Chunk) and not last.is_closed and last.num_rows < last.layout.rows:
            return last
        return self._add_chunk(row, {})

    def _add_chunk(self, row: int, rooms: Mapping[str, ColumnRoom]) -> Chunk:
        layout = chunk_layout(self._schema, self._indexing, self._offset_dtype, rows=self._chunk_rows, rooms=rooms)
        chunk = Chunk(layout, self._memory, row, f"{self._view.segments[-1].name}-{row}")
        self._on_chunk(chunk)
        self.add_chunk(chunk)
        return chunk

    def _rooms_for(self, columns: Mapping[str, IncomingColumn], row: int) -> dict[str, ColumnRoom]:
        rooms = {}
        for name, spec in self._schema.field_specs.items():
            usual, column = usual_room(spec, self._chunk_rows), columns[name]
            begin, stop = column.first_value(row), column.first_value(row + 1)
            text_bytes = 0 if column.text_ends is None else int(column.text_ends[stop] - column.text_ends[begin])
            rooms[name] = ColumnRoom(max(usual.values, stop - begin), max(usual.text_bytes, text_bytes))
        return rooms
