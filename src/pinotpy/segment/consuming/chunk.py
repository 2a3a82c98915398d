"""Chunk: up to CHUNK_ROWS rows of a partition, in one block of memory that never moves.

Rows are appended by one thread. A row that was published by the log is never written to again, so readers need no lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.segment.consuming.chunk_column import ChunkColumn, IncomingColumn, view
from pinotpy.segment.consuming.chunk_layout import ChunkLayout
from pinotpy.segment.consuming.column_parts import ColumnParts
from pinotpy.segment.consuming.encode_rows import encode_rows
from pinotpy.segment.consuming.log_chunk import ColumnKind
from pinotpy.segment.consuming.memory import ChunkMemory
from pinotpy.segment.consuming.stored_rows import stored_of_rows


class Chunk:
    """Implements LogChunk: a block and views over it.

    num_rows: rows that are written whole; readers go by the log's watermark.
    """

    def __init__(self, layout: ChunkLayout, memory: ChunkMemory, first_row: int, name: str) -> None:
        self.layout = layout
        self.first_row = first_row
        self.num_rows = 0
        self.is_closed = False
        self.block = memory.allocate(layout.size_bytes, name)
        self.offsets: NDArray[Any] = view(self.block, layout.offsets)
        self.columns = {column.spec.name: ChunkColumn(column, self.block) for column in layout.columns}
        self.kinds: Mapping[str, ColumnKind] = {
            column.spec.name: ColumnKind(column.spec, column.indexing) for column in layout.columns
        }

    @property
    def end_row(self) -> int:
        return self.first_row + self.num_rows

    @property
    def memory_bytes(self) -> int:
        return self.layout.size_bytes * self.num_rows // self.layout.rows

    def rows_that_fit(self, columns: Mapping[str, IncomingColumn], first: int, end: int) -> int:
        """How many of the incoming rows [first, end) the chunk can take."""
        end = min(end, first + self.layout.rows - self.num_rows)
        for name, column in self.columns.items():
            end = first + column.rows_that_fit(columns[name], first, end)
        return max(end - first, 0)

    def append(
        self,
        columns: Mapping[str, IncomingColumn],
        offsets: NDArray[Any],
        first: int,
        end: int,
    ) -> None:
        """Append the incoming rows [first, end), for which there is room."""
        rows = slice(self.num_rows, self.num_rows + end - first)
        self.offsets[rows] = offsets[first:end]
        for name, column in self.columns.items():
            column.append(columns[name], first, end, self.num_rows)
        self.num_rows += end - first

    def close(self) -> None:
        self.is_closed = True
        for column in self.columns.values():
            column.close()

    def offset_at(self, row: int) -> Any:
        return self.offsets[row].item()

    def find_offset(self, offset: Any, num_rows: int, side: Literal["left", "right"]) -> int:
        return int(np.searchsorted(self.offsets[:num_rows], offset, side))

    def parts(self, name: str, first_row: int, end_row: int, *, is_final: bool) -> ColumnParts:
        return encode_rows(self.columns[name], first_row, end_row, is_final=is_final)

    def stored(self, name: str, first_row: int, end_row: int) -> pa.Array:
        return stored_of_rows(self.columns[name], first_row, end_row)
