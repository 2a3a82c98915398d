"""What a server makes of the chunks that a process announces: they freeze once they are full and published, builds get
them in either form, and rows that a process announced and never published are nobody's.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from consuming_rows import CONFIG, SCHEMA, read, rows_of

from pinotpy.clock import ManualClock
from pinotpy.config.stream_configs import StreamConfig
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.frozen_chunk import FrozenChunk
from pinotpy.segment.consuming.log_ranges import Watermark
from pinotpy.segment.consuming.memory import SharedMemory
from pinotpy.segment.consuming.partition_log import PartitionLog
from pinotpy.server.realtime.ingest_worker import PartitionSpec
from pinotpy.server.realtime.segment_build import columns_of_chunks
from pinotpy.server.realtime.workers.freezing import Freezable
from pinotpy.server.realtime.workers.shared_chunks import mapped_chunks
from pinotpy.server.realtime.workers.shared_rows import SharedRows
from pinotpy.stream.spec import LONG_OFFSETS

CHUNK_ROWS = 65_536  # a server's layout has no other


class Asked:
    """A freezer that only notes who asks."""

    def __init__(self) -> None:
        self.who: list[Freezable] = []

    def ask(self, pieces: Freezable) -> None:
        self.who.append(pieces)


class Process:
    """The log of a process that reads, whose announcements go to a server's rows."""

    def __init__(self) -> None:
        stream: Any = StreamConfig
        self.spec = PartitionSpec("t_REALTIME", 0, SCHEMA, CONFIG, stream, "t__0__0", "0")
        self.freezer: Any = Asked()
        self.rows = SharedRows(self.spec, LONG_OFFSETS, ManualClock(), self.freezer, "t__0__0", 0)
        self.fails = False
        self._descriptor = -1
        self.log = PartitionLog(
            SCHEMA,
            resolve_indexing(SCHEMA, CONFIG),
            segment_name="t__0__0",
            start_offset=0,
            offset_dtype=LONG_OFFSETS.dtype,
            memory=SharedMemory(self._keep),
            on_chunk=self._announce,
        )

    def _keep(self, descriptor: int) -> None:
        self._descriptor = os.dup(descriptor)

    def _announce(self, chunk: Chunk) -> None:
        rooms = {column.spec.name: [column.room.values, column.room.text_bytes] for column in chunk.layout.columns}
        self.rows.add_chunk(chunk.first_row, rooms, self._descriptor)
        if self.fails:
            raise MemoryError("no more")

    def append(self, rows: pa.RecordBatch) -> None:
        first = self.log.watermark.num_rows
        offsets = np.arange(first, first + rows.num_rows, dtype=np.int64)
        self.log.append(rows, offsets, offsets, first + rows.num_rows)
        self.rows.publish(self.log.watermark, None)


@pytest.fixture(scope="module")
def rows() -> pa.RecordBatch:
    some = rows_of(random.Random(5), 1000)
    many = pa.Table.from_batches([some] * 140).combine_chunks()
    ids = pa.array(np.arange(many.num_rows))
    (batch,) = many.set_column(0, "id", ids).combine_chunks().to_batches()
    return batch


@pytest.fixture
def process() -> Iterator[Process]:
    process = Process()
    yield process
    if hasattr(process, "rows"):
        process.rows.close()


def anonymous_files() -> set[str]:
    """The descriptors of this process that are anonymous files; a map has one, too."""
    gc.collect()
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed meanwhile
            link = os.readlink(f"/proc/self/fd/{descriptor}")
            found |= {f"{descriptor} {link}"} if "memfd:" in link else set()
    return found


def kinds(rows: SharedRows) -> list[type]:
    return [type(chunk) for chunk in rows.log.view().chunks]


def ids(rows: SharedRows) -> list[int]:
    view = rows.pieces.view()
    found: list[int] = [
        value for piece in (*view.frozen, *view.tail) for value in piece.column("id").raw_values().tolist()
    ]
    return found


def test_full_chunks_freeze_and_builds_are_given_both_kinds(
    process: Process, rows: pa.RecordBatch, tmp_path: Path
) -> None:
    before = anonymous_files()
    for first in range(0, rows.num_rows, 7_000):
        process.append(rows.slice(first, 7_000))
    assert process.freezer.who == [process.rows] * 2, "once for each chunk that is full"
    process.rows.log.seal(100_000, "t__0__1")
    lent = process.rows.lent(0, 100_000)
    as_they_came = build(process, lent, tmp_path / "came")
    process.rows.freeze()
    assert kinds(process.rows) == [FrozenChunk, FrozenChunk, Chunk]
    lent = process.rows.lent(0, 100_000)
    assert len(lent) == 2
    assert build(process, lent, tmp_path / "frozen") == as_they_came
    whole = build_segment(SCHEMA, CONFIG, [rows.slice(0, 100_000)], tmp_path / "whole", "s")
    assert as_they_came == whole.crc
    assert ids(process.rows) == list(range(140_000))
    process.rows.log.release("t__0__0")
    process.rows.drop_places()
    assert kinds(process.rows) == [FrozenChunk, Chunk]
    assert ids(process.rows) == list(range(100_000, 140_000))
    process.rows.close()
    del process.rows, process.log, process.freezer, lent
    assert anonymous_files() <= before


def build(process: Process, lent: list[Any], folder: Path) -> int:
    chunks = mapped_chunks(process.spec, LONG_OFFSETS.dtype, lent)
    columns = columns_of_chunks(SCHEMA, chunks, (0, 100_000))
    return build_segment(SCHEMA, CONFIG, columns, folder, "s", threads=1).crc


def test_rows_that_were_announced_and_never_published_are_not_read_twice(
    process: Process, rows: pa.RecordBatch
) -> None:
    process.append(rows.slice(0, 60_000))
    process.fails = True
    with pytest.raises(MemoryError):
        process.append(rows.slice(60_000, 70_000))  # its first rows fill a chunk, the next one fails
    process.fails = False
    process.append(rows.slice(60_000, 70_000))
    chunks = [(chunk.first_row, chunk.num_rows) for chunk in process.rows.log.view().chunks]
    assert chunks == [(0, 60_000), (60_000, 65_536), (125_536, 4_464)]
    assert ids(process.rows) == list(range(130_000))
    process.rows.freeze()
    assert kinds(process.rows) == [FrozenChunk, FrozenChunk, Chunk]
    assert ids(process.rows) == list(range(130_000))


def test_a_process_that_begins_again_goes_on_in_a_new_chunk(process: Process, rows: pa.RecordBatch) -> None:
    process.append(rows.slice(0, 1_000))
    assert process.rows.reopened() == (1_000, "1000", 999)
    again = Process()
    again.rows.close()
    again.rows = process.rows
    again.log.publish(Watermark(1_000, 1_000, 999))
    again.append(rows.slice(1_000, 500))
    assert process.freezer.who == [process.rows]
    process.rows.freeze()
    assert kinds(process.rows) == [FrozenChunk, Chunk]
    assert ids(process.rows) == list(range(1_500))


def test_once_closed_what_freezes_leaves_no_descriptor(process: Process, rows: pa.RecordBatch) -> None:
    before = anonymous_files()
    process.append(rows.slice(0, 70_000))
    process.rows.close()
    process.rows.freeze()
    assert kinds(process.rows) == [FrozenChunk, Chunk]
    assert read(process.rows.pieces.view().frozen)["id"] == list(range(65_536))
    del process.rows, process.log, process.freezer
    assert anonymous_files() <= before
