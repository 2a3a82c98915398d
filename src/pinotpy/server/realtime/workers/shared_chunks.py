"""Chunks whose memory another process made: where each begins, and how it is mapped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.chunk_layout import ColumnRoom, chunk_layout
from pinotpy.segment.consuming.frozen_chunk import FrozenChunk, FrozenLayout
from pinotpy.segment.consuming.log_chunk import ColumnKind, LogChunk
from pinotpy.segment.consuming.memory import GivenMemory, map_block
from pinotpy.server.realtime.ingest_worker import PartitionSpec


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """A chunk that rows were written to: they, and the rooms that its layout was made with (values, bytes of texts)."""

    first_row: int
    num_rows: int
    rooms: Mapping[str, tuple[int, int]]


SharedChunk = tuple[ChunkPlace | FrozenLayout, int]  # with the descriptor of its memory


def mapped_chunk(spec: PartitionSpec, offset_dtype: Any, place: ChunkPlace, descriptor: int) -> Chunk:
    """The chunk whose block is behind a descriptor, which is closed. Raises DataError if it has another size."""
    rooms = {name: ColumnRoom(*room) for name, room in place.rooms.items()}
    layout = chunk_layout(spec.schema, resolve_indexing(spec.schema, spec.config), offset_dtype, rooms=rooms)
    chunk = Chunk(layout, GivenMemory(_mapped(descriptor)), place.first_row, f"{spec.table}-{spec.partition}")
    chunk.num_rows = place.num_rows
    return chunk


def mapped_chunks(spec: PartitionSpec, offset_dtype: Any, shared: Iterable[SharedChunk]) -> list[LogChunk]:
    """As `mapped_chunk`, also of frozen ones."""
    indexing = resolve_indexing(spec.schema, spec.config)
    kinds = {name: ColumnKind(field, indexing[name]) for name, field in spec.schema.field_specs.items()}
    chunks: list[LogChunk] = [
        FrozenChunk(place, _mapped(descriptor), kinds)
        if isinstance(place, FrozenLayout)
        else mapped_chunk(spec, offset_dtype, place, descriptor)
        for place, descriptor in shared
    ]
    return chunks


def _mapped(descriptor: int) -> NDArray[np.uint8]:
    try:
        return map_block(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
