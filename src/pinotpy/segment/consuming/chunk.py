"""Chunk: up to CHUNK_ROWS rows of a partition, in one block of memory that never moves.

Rows are appended by one thread. A row that was published by the log is never written to again, so readers need no lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.segment.consuming.chunk_column import ChunkColumn, IncomingColumn, view
from pinotpy.segment.consuming.chunk_layout import ChunkLayout
from pinotpy.segment.consuming.memory import ChunkMemory


class Chunk:
    """A block and views over it.

    first_row: the number of its first row in the partition's log. num_rows: rows that are written whole; readers go by
    the log's watermark. is_closed: no row comes any more.
    """

    def __init__(self, layout: ChunkLayout, memory: ChunkMemory, first_row: int, name: str) -> None:
        self.layout = layout
        self.first_row = first_row
        self.num_rows = 0
        self.is_closed = False
        self.block = memory.allocate(layout.size_bytes, name)
        self.offsets: NDArray[Any] = view(self.block, layout.offsets)
        self.times_ms: Int64Array = view(self.block, layout.times_ms)
        self.columns = {column.spec.name: ChunkColumn(column, self.block) for column in layout.columns}

    @property
    def end_row(self) -> int:
        return self.first_row + self.num_rows

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
        times_ms: Int64Array,
        first: int,
        end: int,
    ) -> None:
        """Append the incoming rows [first, end), for which there is room."""
        rows = slice(self.num_rows, self.num_rows + end - first)
        self.offsets[rows] = offsets[first:end]
        self.times_ms[rows] = times_ms[first:end]
        for name, column in self.columns.items():
            column.append(columns[name], first, end, self.num_rows)
        self.num_rows += end - first

    def close(self) -> None:
        self.is_closed = True
        for column in self.columns.values():
            column.close()

    def used_bytes(self) -> int:
        """Bytes of the block that hold something, about as many as its memory has."""
        used = self.num_rows * (self.layout.offsets.dtype.itemsize + 8)
        for column in self.columns.values():
            used += self.num_rows * (5 if column.value_ends is not None else 1)
            if column.values is not None:
                used += column.num_values * column.values.itemsize
            if column.layout.text_ends is not None:
                used += column.num_texts * 8 + int(column.text_ends[column.num_texts])
        return used


def rows_before_offset(chunks: Sequence[Chunk], num_rows: int, offset: Any) -> int:
    """The number of the first row, among the first `num_rows` of the log, whose stream offset is not below `offset`;
    `num_rows` if there is none. Offsets ascend with the rows; rows of one record have the same.
    """
    for chunk in chunks:
        rows = min(chunk.num_rows, num_rows - chunk.first_row)
        if rows > 0 and not chunk.offsets[rows - 1] < offset:
            return chunk.first_row + int(np.searchsorted(chunk.offsets[:rows], offset, "left"))
    return num_rows
