"""Where everything lies in the block of a chunk: docs/format/consuming-chunks.md, as code.

A block holds, for CHUNK_ROWS rows, stream offsets, and of every column: values (fixed types) or texts with
their offsets (VAR), ids where texts are interned, value ends of multi-values, and one byte a row where nulls are kept.
The layout follows from the schema, the indexing and the room for values and texts alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pinotpy.config.field_spec import FieldSpec
from pinotpy.config.schema import Schema
from pinotpy.segment.build.indexing import ColumnIndexing

CHUNK_ROWS: Final = 1 << 16
# Room of one column of a chunk. It is only reserved: pages that hold nothing take no memory.
TEXT_BYTES: Final = 8 << 20
VALUES_PER_ROW: Final = 8
_ALIGNMENT: Final = 64


@dataclass(frozen=True, slots=True)
class Area:
    """An array in a block: `count` entries of `dtype` from byte `start` on."""

    start: int
    count: int
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class ColumnRoom:
    """How much a column of a chunk can hold: values (the rows, unless it is multi-valued) and bytes of texts."""

    values: int
    text_bytes: int


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The areas of one column; those that its kind does not have are None.

    values: fixed types: the values. VAR, interned: the number of each value's text, in order of first occurrence.
    value_ends: multi-value only, uint32, shape (rows + 1,): values of row r are [value_ends[r], value_ends[r + 1]).
    text_ends: VAR only, int64: text t is text_bytes[text_ends[t]:text_ends[t + 1]].
    nulls: uint8 a row, 1 = the row had no value (the default stands in values).
    """

    spec: FieldSpec
    indexing: ColumnIndexing
    room: ColumnRoom
    is_interned: bool
    values: Area | None
    value_ends: Area | None
    text_ends: Area | None
    text_bytes: Area | None
    nulls: Area


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """The areas of a block."""

    rows: int
    offsets: Area
    columns: tuple[ColumnLayout, ...]
    size_bytes: int


def chunk_layout(
    schema: Schema,
    indexing: Mapping[str, ColumnIndexing],
    offset_dtype: np.dtype[Any],
    *,
    rows: int = CHUNK_ROWS,
    rooms: Mapping[str, ColumnRoom] | None = None,
) -> ChunkLayout:
    """The layout of a chunk.

    Args:
        rows: at most CHUNK_ROWS.
        rooms: of columns for which the usual room is too small.
    """
    placed = PlacedAreas()
    offsets = placed.area(rows, offset_dtype)
    columns = tuple(
        _column(placed, spec, indexing[name], rows, (rooms or {}).get(name) or usual_room(spec, rows))
        for name, spec in schema.field_specs.items()
    )
    return ChunkLayout(rows, offsets, columns, placed.end)


def usual_room(spec: FieldSpec, rows: int = CHUNK_ROWS) -> ColumnRoom:
    """Room that is enough for most rows; what does not fit makes the chunk full before it has all its rows."""
    return ColumnRoom(rows if spec.single_value else rows * VALUES_PER_ROW, TEXT_BYTES)


class PlacedAreas:
    """Areas one behind the other."""

    def __init__(self) -> None:
        self.end = 0

    def area(self, count: int, dtype: np.dtype[Any]) -> Area:
        start = -(-self.end // _ALIGNMENT) * _ALIGNMENT
        self.end = start + count * dtype.itemsize
        return Area(start, count, dtype)


def _column(
    placed: PlacedAreas, spec: FieldSpec, indexing: ColumnIndexing, rows: int, room: ColumnRoom
) -> ColumnLayout:
    stored = spec.data_type.stored
    is_interned = not stored.is_fixed and indexing.dictionary
    values = text_ends = text_bytes = None
    if stored.is_fixed:
        values = placed.area(room.values, stored.numpy)
    else:
        if is_interned:
            values = placed.area(room.values, np.dtype(np.uint32))
        text_ends = placed.area(room.values + 1, np.dtype(np.int64))
        text_bytes = placed.area(room.text_bytes, np.dtype(np.uint8))
    value_ends = None if spec.single_value else placed.area(rows + 1, np.dtype(np.uint32))
    nulls = placed.area(rows, np.dtype(np.uint8))
    return ColumnLayout(spec, indexing, room, is_interned, values, value_ends, text_ends, text_bytes, nulls)
