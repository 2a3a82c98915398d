"""Rows that are appended in any batches, sealed at any offsets and released are the rows that were given: as pieces, as
record batches and as built segments, whatever chunks they lie in. The oracle is the list of the rows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from consuming_registry import freeze
from consuming_rows import CONFIG, SCHEMA, TYPES, append, filled, new_log, read, rows_of

from pinotpy.clock import ManualClock
from pinotpy.errors import DataError
from pinotpy.segment.build.builder import ColumnSource, build_segment_into
from pinotpy.segment.consuming import chunk_layout
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.frozen_chunk import FrozenChunk
from pinotpy.segment.consuming.log_pieces import LogPieces
from pinotpy.segment.consuming.log_ranges import SegmentRange
from pinotpy.segment.consuming.memory import ChunkMemory, HeapMemory, SharedMemory
from pinotpy.segment.consuming.partition_log import PartitionLog
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment
from pinotpy.segment.to_arrow import column_to_arrow
from pinotpy.server.realtime.segment_build import columns_of_chunks


def built(rows: Sequence[pa.RecordBatch] | ColumnSource) -> bytes:
    directory = MemoryDirectory()
    metadata = build_segment_into(directory, SCHEMA, CONFIG, rows, "t__0__0")
    return b"".join(directory.read(name, size_max=1 << 30) for name, _ in metadata.files)


def rows_in(log: PartitionLog, segment: SegmentRange) -> ColumnSource:
    end_row = log.watermark.num_rows if segment.end_row is None else segment.end_row
    return columns_of_chunks(SCHEMA, log.view().chunks, (segment.first_row, end_row))


@pytest.mark.parametrize("is_frozen", [False, True], ids=["as they came", "frozen"])
@pytest.mark.parametrize("memory", [HeapMemory(), SharedMemory()], ids=["heap", "shared"])
@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_that_were_given(seed: int, memory: ChunkMemory, *, is_frozen: bool) -> None:
    dice = random.Random(seed)
    rows = rows_of(dice, dice.randrange(1, 400))
    log = filled(new_log(dice.choice([1, 7, 64, 1000]), memory), rows, dice)
    if is_frozen:
        log.end_chunks()
        freeze(log)
        assert {type(chunk) for chunk in log.view().chunks} == {FrozenChunk}
    view = LogPieces(log, "t_REALTIME", clock=ManualClock()).view()
    directory = MemoryDirectory()
    build_segment_into(directory, SCHEMA, CONFIG, [rows], "t__0__0")
    (segment,) = log.segments
    assert built(rows_in(log, segment)) == built([rows]), "a sealed segment has the same bytes, whatever the chunks"
    pieces = [*view.frozen, *view.tail]
    assert [piece.first_doc for piece in pieces] == np.cumsum([0, *(p.num_docs for p in pieces[:-1])]).tolist()
    # What the builder makes of the same rows, as one segment, is what pieces show.
    with open_segment(directory) as whole:
        expected = {name: column_to_arrow(whole.column(name)).to_pylist() for name in TYPES}
    assert read(pieces) == expected
    assert expected["id"] == list(range(rows.num_rows))


@pytest.mark.parametrize("seed", range(4))
def test_segments_tile_the_log_wherever_they_are_sealed(seed: int) -> None:
    dice = random.Random(seed)
    rows = rows_of(dice, 200)
    log = new_log(dice.choice([16, 33]))
    pieces = LogPieces(log, "t_REALTIME", clock=ManualClock())
    first, ends = 0, []
    while first < 200:
        count = min(dice.randrange(1, 30), 200 - first)
        append(log, rows, first, count)
        first += count
        pieces.view()
        if dice.random() < 0.3:
            freeze(log)
        if dice.random() < 0.5:
            start = log.segments[-1].start_offset
            end = dice.randrange(start, log.watermark.next_offset + 1)
            ended = log.seal(end, f"t__0__{len(ends) + 1}")
            assert ended.end_row == -(-(end - 100) // 2), "the first row that is not before the offset"
            ends.append(ended.end_row)
        view = pieces.view()
        names = [piece.name for piece in (*view.frozen, *view.tail)]
        assert names == sorted(names, key=lambda name: int(name.rsplit("_", 1)[1]))
        seen = read([*view.frozen, *view.tail])["id"]
        assert seen == list(range(view.log_view.watermark.num_rows))
        for segment in view.log_view.segments:
            of_segment = [piece for piece in (*view.frozen, *view.tail) if piece.name == segment.name]
            end_row = segment.end_row if segment.end_row is not None else view.log_view.watermark.num_rows
            assert read(of_segment)["id"] == list(range(segment.first_row, end_row))
    ids = [value for segment in log.segments for value in rows_in(log, segment).take("id").to_pylist()]
    assert ids == list(range(200))


def test_rows_of_one_record_are_not_parted_by_a_boundary() -> None:
    rows = rows_of(random.Random(1), 6)
    log = new_log(4)
    log.append(rows, np.array([100, 103, 103, 103, 104, 104]), np.full(6, -1, np.int64), 110)
    assert log.seal(103, "t__0__1").end_row == 1
    assert log.seal(104, "t__0__2").end_row == 4
    assert log.seal(110, "t__0__3").end_row == 6
    assert log.segments[-1].first_row == 6 and log.watermark.last_time_ms == -1


def test_a_boundary_that_was_not_reached_or_lies_before_the_segment_is_refused() -> None:
    rows = rows_of(random.Random(1), 10)
    log = new_log(4)
    append(log, rows, 0, 10)
    with pytest.raises(DataError, match=r"cannot end at offset 121: its rows reach 120"):
        log.seal(121, "t__0__1")
    log.seal(110, "t__0__1")
    with pytest.raises(DataError, match=r"'t__0__1' cannot end at offset 108: it begins at 110"):
        log.seal(108, "t__0__2")
    assert [segment.name for segment in log.segments] == ["t__0__0", "t__0__1"]


def test_released_rows_go_and_views_keep_what_they_have() -> None:
    rows = rows_of(random.Random(1), 100)
    log = new_log(10)
    append(log, rows, 0, 100)
    log.seal(100 + 2 * 55, "t__0__1")
    pieces = LogPieces(log, "t_REALTIME", clock=ManualClock())
    before = pieces.view()
    with pytest.raises(DataError, match="not the first one of the log, or has not ended"):
        log.release("t__0__1")
    log.release("t__0__0")
    with pytest.raises(DataError, match="segment 't__0__0' has not ended here"):
        log.ended_range("t__0__0")
    assert len(log.view().chunks) == 5, "the chunk with the boundary stays"
    assert read([*before.frozen, *before.tail])["id"] == list(range(100))
    after = pieces.view()
    assert read([*after.frozen, *after.tail])["id"] == list(range(55, 100))
    assert {piece.name for piece in (*after.frozen, *after.tail)} == {"t__0__1"}


def test_a_view_is_kept_for_a_while_and_frozen_pieces_for_ever() -> None:
    rows, clock = rows_of(random.Random(1), 40), ManualClock()
    log = new_log(16)
    pieces = LogPieces(log, "t_REALTIME", clock=clock)
    append(log, rows, 0, 20)
    first = pieces.view()
    append(log, rows, 20, 10)
    assert pieces.view() is first, "rows that came less than 20 ms ago need not be seen"
    clock.advance(20)
    second = pieces.view()
    assert second.log_view.watermark.num_rows == 30 and second.frozen[0] is first.frozen[0]
    assert first.frozen[0].column("word").code_space is not None, "caches may refer to what stays"
    assert second.tail[0].column("word").code_space is None
    pieces.freeze()
    assert second.frozen[0]._columns.keys() == set(TYPES), "no query waits for columns of what stays"


def test_a_value_larger_than_the_room_gets_a_chunk_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_layout, "TEXT_BYTES", 64)
    rows = rows_of(random.Random(2), 30).to_pylist()
    for row, size in ((0, 1000), (7, 65), (8, 64), (29, 5000)):
        rows[row]["word"] = rows[row]["plain"] = "x" * size
        rows[row]["numbers"] = list(range(size))
        rows[row]["words"] = [str(number) for number in range(size)]
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema(TYPES))
    log = new_log(100)
    append(log, batch, 0, 30)
    (segment,) = log.segments
    assert built(rows_in(log, segment)) == built([batch])
    view = LogPieces(log, "t_REALTIME").view()
    assert read([*view.frozen, *view.tail])["id"] == list(range(30))


class _Exhausted:
    """Memory that ends after some blocks."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks

    def allocate(self, size_bytes: int, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        self.blocks -= 1
        if self.blocks < 0:
            raise MemoryError(name)
        return HeapMemory().allocate(size_bytes, name)


def test_a_batch_that_fails_leaves_no_row_and_can_be_given_again() -> None:
    rows = rows_of(random.Random(3), 50)
    memory = _Exhausted(3)
    log = new_log(10, memory)
    append(log, rows, 0, 15)
    with pytest.raises(MemoryError):
        append(log, rows, 15, 35)
    assert log.watermark.num_rows == 15 and log.watermark.next_offset == 130
    memory.blocks = 100
    append(log, rows, 15, 35)
    (segment,) = log.segments
    assert built(rows_in(log, segment)) == built([rows])
    wrong = rows.set_column(0, "id", pa.array(["x"] * 50))
    with pytest.raises(DataError, match="column 'id' cannot be stored as LONG"):
        log.append(wrong, np.arange(50), np.arange(50), 500)
    with pytest.raises(DataError, match="expected an offset and a time for each of 50 rows, found 49 and 50"):
        log.append(rows, np.arange(49), np.arange(50), 500)
    assert log.watermark.num_rows == 50


def test_rows_are_given_to_a_build_without_a_copy() -> None:
    """What builds a segment holds all of its rows at once: those of the log, whose memory is there already."""
    log = new_log(64)
    rows = rows_of(random.Random(8), 64).set_column(1, "word", pa.array([f"word {row % 7}" for row in range(64)]))
    append(log, rows, 0, 64)
    (chunk,) = log.view().chunks
    assert isinstance(chunk, Chunk)
    start, words = chunk.block.ctypes.data, chunk.stored("word", 0, 64)
    for given in (chunk.stored("id", 0, 64).buffers()[1], words.indices.buffers()[1]):
        assert start <= given.address < start + len(chunk.block)
    assert words.dictionary_decode().to_pylist() == [f"word {row % 7}".encode() for row in range(64)]
