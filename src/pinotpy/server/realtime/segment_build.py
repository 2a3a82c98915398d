"""Builds a segment of rows of a partition's log, in whichever process this is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pinotpy.ingest.row_order import sort_rows
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.stored_rows import stored_rows
from pinotpy.server.realtime.ingest_worker import BuiltSegment, PartitionSpec


def build_of_chunks(
    spec: PartitionSpec,
    chunks: Sequence[Chunk],
    rows: tuple[int, int],
    folder: Path,
    name: str,
    creation_time_ms: int,
) -> BuiltSegment:
    """Build `folder/<name>` of rows [first, end), in the order that the table wants. Raises PinotError, OSError."""
    # Where streams are read and nothing is built, the builder's kernels would take a second to load, and 20 MB.
    from pinotpy.segment.build.builder import build_segment

    first_row, end_row = rows
    batches = stored_rows(tuple(chunks), first_row, end_row)
    if sorted_by := list(spec.config.indexing.sorted_column):
        batches = iter(sort_rows(list(batches), spec.schema, sorted_by))
    # One column after the other: one that is encoded holds about 20 bytes a row, and the rows are in memory as well.
    metadata = build_segment(
        spec.schema, spec.config, batches, folder, name, creation_time_ms=creation_time_ms, threads=1
    )
    return BuiltSegment(folder / name, metadata.crc, metadata.num_docs, metadata.size_bytes, 0, 0)


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
