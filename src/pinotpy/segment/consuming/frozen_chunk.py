"""FrozenChunk: rows of a full chunk in the form in which queries read them, a half of what they took while they came.

It takes the chunk's place in the log: pieces are views of it, and so is what builds of segments read
(docs/format/consuming-chunks.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.errors import DataError
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.chunk_column import view
from pinotpy.segment.consuming.chunk_layout import Area, PlacedAreas
from pinotpy.segment.consuming.column_parts import ColumnParts
from pinotpy.segment.consuming.log_chunk import ColumnKind
from pinotpy.segment.consuming.memory import ChunkMemory
from pinotpy.segment.consuming.stored_rows import stored_of_parts

_PARTS: Final = tuple(part.name for part in fields(ColumnParts))


@dataclass(frozen=True, slots=True)
class FrozenLayout:
    """Where everything lies in the block.

    first_offset: what is added to each entry of `offsets`, of a stream whose offsets are integers; None of others.
    columns: by column the areas of its ColumnParts, by their names.
    """

    first_row: int
    num_rows: int
    first_offset: int | None
    offsets: Area
    columns: Mapping[str, Mapping[str, Area]]
    size_bytes: int


class FrozenChunk:
    """Implements LogChunk over a block that is written whole. Raises DataError if the block has another size."""

    is_closed = True

    def __init__(self, layout: FrozenLayout, block: NDArray[np.uint8], kinds: Mapping[str, ColumnKind]) -> None:
        if len(block) != layout.size_bytes:
            raise DataError(f"the block of a frozen chunk has {len(block)} bytes, expected {layout.size_bytes}")
        self.layout = layout
        self.block = block
        self.kinds = kinds
        self.first_row, self.num_rows = layout.first_row, layout.num_rows
        self._offsets = view(block, layout.offsets)
        self._parts = {
            name: ColumnParts(**{part: view(block, area) for part, area in areas.items()})
            for name, areas in layout.columns.items()
        }

    @property
    def end_row(self) -> int:
        return self.first_row + self.num_rows

    @property
    def memory_bytes(self) -> int:
        return self.layout.size_bytes

    def offset_at(self, row: int) -> Any:
        offset = self._offsets[row].item()
        return offset if self.layout.first_offset is None else self.layout.first_offset + offset

    def find_offset(self, offset: Any, num_rows: int, side: Literal["left", "right"]) -> int:
        offsets = self._offsets[:num_rows]
        if self.layout.first_offset is None:
            return int(np.searchsorted(offsets, offset, side))
        distance = offset - self.layout.first_offset
        if not 0 <= distance <= np.iinfo(offsets.dtype).max:
            return 0 if distance < 0 else num_rows
        return int(np.searchsorted(offsets, offsets.dtype.type(distance), side))

    def parts(self, name: str, first_row: int, end_row: int, *, is_final: bool) -> ColumnParts:
        """Without a copy, where these are all rows."""
        parts = self._parts[name]
        return parts if (first_row, end_row) == (0, self.num_rows) else parts.cut(first_row, end_row)

    def stored(self, name: str, first_row: int, end_row: int) -> pa.Array:
        parts = self.parts(name, first_row, end_row, is_final=True)
        return stored_of_parts(parts, self.kinds[name].spec, end_row - first_row)


def freeze_chunk(chunk: Chunk, memory: ChunkMemory) -> FrozenChunk:
    """The rows of a chunk to which none comes any more, in memory of their own.

    Raises PinotError, pyarrow.ArrowException: a column cannot be encoded; MemoryError, OSError: there is no memory.
    """
    columns = {name: chunk.parts(name, 0, chunk.num_rows, is_final=True) for name in chunk.kinds}
    first_offset, offsets = _narrowed(chunk.offsets[: chunk.num_rows])
    placed = PlacedAreas()
    layout = FrozenLayout(
        chunk.first_row,
        chunk.num_rows,
        first_offset,
        placed.area(len(offsets), offsets.dtype),
        {
            name: {part: placed.area(len(array), array.dtype) for part, array in _arrays(parts).items()}
            for name, parts in columns.items()
        },
        placed.end,
    )
    block = memory.allocate(layout.size_bytes, f"frozen-{chunk.first_row}")
    view(block, layout.offsets)[:] = offsets
    for name, parts in columns.items():
        for part, array in _arrays(parts).items():
            view(block, layout.columns[name][part])[:] = array
    return FrozenChunk(layout, block, chunk.kinds)


def _arrays(parts: ColumnParts) -> dict[str, NDArray[Any]]:
    return {part: array for part in _PARTS if (array := getattr(parts, part)) is not None}


def _narrowed(offsets: NDArray[Any]) -> tuple[int | None, NDArray[Any]]:
    """Offsets as distances from the first one, in the narrowest type that holds them; as they are, if they are no
    integers.
    """
    if offsets.dtype.kind not in "iu" or not len(offsets):
        return None, offsets
    first, last = int(offsets[0]), int(offsets[-1])
    return first, (offsets - offsets.dtype.type(first)).astype(np.min_scalar_type(last - first))
