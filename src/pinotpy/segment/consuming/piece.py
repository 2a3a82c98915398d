"""Piece: the part of a segment that lies in one chunk, as an immutable Segment that queries read.

A frozen piece never changes again, and is kept until its segment is sealed and replaced; the piece of the last chunk's
rows is made anew when a query asks and rows came. Columns are made when they are first asked for.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.errors import UnknownColumnError
from pinotpy.segment.consuming.log_chunk import LogChunk
from pinotpy.segment.consuming.piece_column import PieceColumn
from pinotpy.segment.data_source import WithoutFiles


class Piece(WithoutFiles):
    """Implements data_source.Segment; shared between threads.

    name: of the segment. first_doc: the number of its first row among those of the segment.

    Args:
        chunk, first_row, end_row: the rows, counted from the partition's first.
        first_doc: see above.
        is_frozen: the piece stays as long as its segment consumes.
    """

    star_trees: tuple[Any, ...] = ()
    visible: NDArray[np.uint8] | None = None
    crc = 0

    def __init__(
        self, name: str, table: str, chunk: LogChunk, first_row: int, end_row: int, first_doc: int, *, is_frozen: bool
    ) -> None:
        self.name = name
        self.table = table
        self.first_doc = first_doc
        self.num_docs = end_row - first_row
        self.is_frozen = is_frozen
        self.chunk = chunk
        self._rows = (first_row - chunk.first_row, end_row - chunk.first_row)
        self._columns: dict[str, PieceColumn] = {}
        self._lock = threading.Lock()

    def columns(self) -> tuple[str, ...]:
        return tuple(self.chunk.kinds)

    def has_column(self, name: str) -> bool:
        return name in self.chunk.kinds

    def kind(self, name: str) -> tuple[DataType, bool]:
        """Implements data_source.Segment."""
        spec = self.chunk.kinds[name].spec
        return spec.data_type, spec.single_value

    def column(self, name: str) -> PieceColumn:
        column = self._columns.get(name)
        if column is not None:
            return column
        kind = self.chunk.kinds.get(name)
        if kind is None:
            raise UnknownColumnError(
                f"no column '{name}' in segment '{self.name}' of table '{self.table}'",
                table=self.table,
                segment=self.name,
                column=name,
            )
        with self._lock:
            column = self._columns.get(name)
            if column is None:
                parts = self.chunk.parts(name, *self._rows, is_final=self.is_frozen)
                column = PieceColumn(kind, parts, self.num_docs, outlives_queries=self.is_frozen)
                self._columns[name] = column
        return column

    def freeze(self) -> None:
        """Make all columns now, so that no query has to."""
        for name in self.chunk.kinds:
            self.column(name)
