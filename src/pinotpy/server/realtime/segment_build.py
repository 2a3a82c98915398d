"""Builds a segment of rows of a partition's log, in whichever process this is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.errors import DataError
from pinotpy.ingest.row_order import in_order, row_order, whole_column
from pinotpy.segment.consuming.log_chunk import LogChunk
from pinotpy.server.realtime.ingest_worker import BuiltSegment, PartitionSpec

if TYPE_CHECKING:
    from pinotpy.segment.build.builder import ColumnSource


def build_of_chunks(
    spec: PartitionSpec,
    chunks: Sequence[LogChunk],
    rows: tuple[int, int],
    folder: Path,
    name: str,
    creation_time_ms: int,
) -> BuiltSegment:
    """Build `folder/<name>` of rows [first, end), in the order that the table wants. Raises PinotError, OSError."""
    # Where streams are read and nothing is built, the builder's kernels would take a second to load, and 20 MB.
    from pinotpy.segment.build.builder import build_segment

    # One column after the other: one that is encoded holds about 20 bytes a row, and the rows are in memory as well.
    metadata = build_segment(
        spec.schema,
        spec.config,
        columns_of_chunks(spec.schema, chunks, rows, spec.config.indexing.sorted_column),
        folder,
        name,
        creation_time_ms=creation_time_ms,
        threads=1,
    )
    return BuiltSegment(folder / name, metadata.crc, metadata.num_docs, metadata.size_bytes, 0, 0)


def columns_of_chunks(
    schema: Schema, chunks: Sequence[LogChunk], rows: tuple[int, int], sorted_by: Sequence[str] = ()
) -> ColumnSource:
    """Rows [first, end) of a log, in the order of `sorted_by`, for the builder. Raises PinotError."""
    from pinotpy.segment.build.builder import ColumnSource, chunked_column

    first_row, end_row = rows

    def stored(name: str) -> pa.ChunkedArray:
        parts = [
            chunk.stored(name, max(first_row - chunk.first_row, 0), min(end_row, chunk.end_row) - chunk.first_row)
            for chunk in chunks
            if chunk.first_row < end_row and chunk.end_row > first_row
        ]
        spec = schema.field_specs[name]
        if not spec.data_type.stored.is_fixed and len({part.type for part in parts}) > 1:
            # Some chunks number their texts, others do not. As bytes: nobody has to look at them again.
            plain = pa.large_binary() if spec.single_value else pa.list_(pa.large_binary())
            parts = [part.cast(plain) for part in parts]
        return chunked_column(parts, spec)

    num_rows = sum(max(min(end_row, chunk.end_row) - max(first_row, chunk.first_row), 0) for chunk in chunks)
    if num_rows != end_row - first_row:
        raise DataError(f"of rows {first_row} to {end_row} of the log {num_rows} are here: the partition was closed")
    order = row_order(stored, schema, sorted_by) if sorted_by else None
    if order is None:
        return ColumnSource(num_rows, stored)

    def ordered(name: str) -> pa.ChunkedArray:
        spec = schema.field_specs[name]
        return in_order(whole_column(stored(name).chunks, spec), order, spec)

    return ColumnSource(num_rows, ordered)


class BuildQueue:
    """Lets some segments be built at once; more wait.

    Args:
        builds_max: how many.
    """

    def __init__(self, builds_max: int) -> None:
        self._places = threading.BoundedSemaphore(max(builds_max, 1))

    def run(self, build: Callable[[], BuiltSegment]) -> BuiltSegment:
        """Build on this thread; the result says how long that took, and how long it waited before."""
        waiting_ns = time.monotonic_ns()
        with self._places:
            building_ns = time.monotonic_ns()
            built = build()
            took_ms = (time.monotonic_ns() - building_ns) // 1_000_000
        return replace(built, build_time_ms=took_ms, wait_time_ms=(building_ns - waiting_ns) // 1_000_000)
