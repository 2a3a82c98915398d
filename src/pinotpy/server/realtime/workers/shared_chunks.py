"""Chunks whose memory another process made: where each begins, and how it is mapped."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.chunk_layout import ColumnRoom, chunk_layout
from pinotpy.segment.consuming.memory import GivenMemory, map_block
from pinotpy.server.realtime.ingest_worker import PartitionSpec


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """A chunk that is there already: its rows, and the rooms that its layout was made with (values, bytes of texts)."""

    first_row: int
    num_rows: int
    rooms: Mapping[str, tuple[int, int]]


def mapped_chunk(spec: PartitionSpec, offset_dtype: Any, place: ChunkPlace, descriptor: int) -> Chunk:
    """The chunk whose block is behind a descriptor, which is closed. Raises DataError if it has another size."""
    try:
        rooms = {name: ColumnRoom(*room) for name, room in place.rooms.items()}
        layout = chunk_layout(spec.schema, resolve_indexing(spec.schema, spec.config), offset_dtype, rooms=rooms)
        block = map_block(descriptor, os.fstat(descriptor).st_size)
        chunk = Chunk(layout, GivenMemory(block), place.first_row, f"{spec.table}-{spec.partition}")
        chunk.num_rows = place.num_rows
        return chunk
    finally:
        os.close(descriptor)
