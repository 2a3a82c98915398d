"""Queries over rows that the request brings (rpc/given_rows.py): built into a segment in memory that lives as long as
the query, and read by the same code as any other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pinotpy.errors import DataError
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.rpc.given_rows import decode_given_rows
from pinotpy.rpc.wire import ServerRequest
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment
from pinotpy.server.tables.registry import Acquired


@contextmanager
def given_segment(request: ServerRequest) -> Iterator[Acquired]:
    """Hold the request's rows as the one segment that it names. Raises DataError."""
    if len(request.segment_names) != 1:
        raise DataError(
            f"a request that brings its rows names one segment for them, found {len(request.segment_names)}"
        )
    schema, batches = decode_given_rows(request.given_rows)
    directory = MemoryDirectory(request.segment_names[0])
    build_segment_into(
        directory,
        schema,
        None,
        batches,
        request.segment_names[0],
        raw_table_name=request.table_name_with_type,
        threads=1,
        log_level=logging.DEBUG,
    )
    with open_segment(directory) as segment:
        segment.acquire()
        segments = SegmentSet([segment])
        try:
            yield Acquired(segments, ())
        finally:
            segments.let_go()
            segment.release()
