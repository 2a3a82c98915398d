"""A frozen chunk is the chunk that it was made of: for pieces of any of its rows, for offsets, for builds; and that
one's memory goes. The oracle is the chunk before it froze, and numpy.
"""

from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import numpy as np
import pytest
from consuming_registry import freeze
from consuming_rows import CONFIG, SCHEMA, TYPES, append, filled, new_log, read, rows_of
from numpy.typing import NDArray

from pinotpy.clock import ManualClock
from pinotpy.errors import DataError
from pinotpy.kernels.runtime import abi
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.frozen_chunk import FrozenChunk, freeze_chunk
from pinotpy.segment.consuming.log_pieces import LogPieces
from pinotpy.segment.consuming.memory import HeapMemory, SharedMemory
from pinotpy.segment.consuming.partition_log import PartitionLog
from pinotpy.segment.consuming.piece import Piece


def full_chunk(dice: random.Random, num_rows: int) -> Chunk:
    log = filled(new_log(max(num_rows, 1)), rows_of(dice, num_rows), dice)
    log.end_chunks()
    (chunk,) = log.view().chunks
    assert isinstance(chunk, Chunk)
    return chunk


@pytest.mark.parametrize("seed", range(8))
def test_every_range_of_rows_is_as_it_was(seed: int) -> None:
    dice = random.Random(seed)
    chunk = full_chunk(dice, dice.choice([1, 40, 700]))
    frozen = freeze_chunk(chunk, HeapMemory())
    ranges = [(0, chunk.num_rows), *(sorted(dice.choices(range(chunk.num_rows + 1), k=2)) for _ in range(10))]
    for first, end in ranges:
        if first == end:
            continue
        before, after = (Piece("s", "t", each, first, end, 0, is_frozen=True) for each in (chunk, frozen))
        assert read([after]) == read([before])
        for name in TYPES:
            old, new = before.column(name), after.column(name)
            assert old.null_mask().tolist() == new.null_mask().tolist() and old.has_nulls == new.has_nulls
            if new.dictionary is not None:
                used = np.unique(new.ids())
                assert used.tolist() == list(range(new.cardinality)), "a dictionary has no value that does not occur"
            assert chunk.stored(name, first, end).to_pylist() == frozen.stored(name, first, end).to_pylist()


@pytest.mark.parametrize(
    "offsets",
    [
        np.arange(100, 140, dtype=np.int64),
        np.array([7, 7, 7, 9, 500, 500, 70_000, 2**33, 2**60], np.int64),
        np.array([b"a", b"b", b"b", b"cc"], "S16"),
        np.full(5, 3, np.int64),
    ],
    ids=["dense", "with gaps", "texts", "of one record"],
)
def test_offsets_are_found_where_they_were(offsets: NDArray[Any]) -> None:
    num_rows = len(offsets)
    log = PartitionLog(
        SCHEMA,
        resolve_indexing(SCHEMA, CONFIG),
        segment_name="t__0__0",
        start_offset=offsets[0].item(),
        offset_dtype=offsets.dtype,
    )
    log.append(rows_of(random.Random(1), num_rows), offsets, np.zeros(num_rows, np.int64), offsets[-1].item())
    log.end_chunks()
    freeze(log)
    (chunk,) = log.view().chunks
    assert isinstance(chunk, FrozenChunk)
    assert [chunk.offset_at(row) for row in range(num_rows)] == offsets.tolist()
    asked = offsets.tolist()
    if offsets.dtype.kind == "i":
        asked += [each + step for each in asked for step in (-1, 1)] + [-(2**40), 2**62]
    for offset in asked:
        for rows in (0, 1, num_rows):
            for side in ("left", "right"):
                expected = int(np.searchsorted(offsets[:rows], offset, side))
                assert chunk.find_offset(offset, rows, side) == expected, (offset, rows, side)


def test_the_rows_as_they_came_go_once_nobody_reads_them() -> None:
    log = new_log(16)
    pieces = LogPieces(log, "t_REALTIME", clock=ManualClock())
    append(log, rows_of(random.Random(1), 40), 0, 40)
    view = pieces.view()
    ids = read(view.frozen)["id"]
    first = weakref.ref(log.view().chunks[0])
    freeze(log)
    pieces.freeze()
    assert read(view.frozen)["id"] == ids, "a query that has begun reads on"
    again = pieces.view()
    assert [type(chunk) for chunk in again.log_view.chunks] == [FrozenChunk, FrozenChunk, Chunk]
    assert read(again.frozen)["id"] == ids
    del view
    gc.collect()
    assert first() is None
    (whole, *_) = again.frozen
    block = whole.chunk.block  # type: ignore[attr-defined]
    for name in TYPES:
        address = int(whole.column(name).meta[abi.M_DATA])
        assert block.ctypes.data <= address < block.ctypes.data + len(block), "pieces copy nothing"


def test_rows_that_are_not_published_stay_as_they_came() -> None:
    log = new_log(10)
    append(log, rows_of(random.Random(1), 25), 0, 25)
    assert [chunk.is_closed for chunk in log.view().chunks] == [True, True, False]
    freeze(log)
    assert [type(chunk) for chunk in log.view().chunks] == [FrozenChunk, FrozenChunk, Chunk]


def test_what_cannot_be_frozen_is_read_as_it_came(caplog: pytest.LogCaptureFixture) -> None:
    log = new_log(10)
    append(log, rows_of(random.Random(1), 35), 0, 35)
    pieces = LogPieces(log, "t_REALTIME", clock=ManualClock())
    refused: list[int] = []

    def freeze_second(chunk: Chunk) -> FrozenChunk:
        if chunk.first_row == 10 and not refused:
            refused.append(chunk.first_row)
            raise MemoryError("no more")
        return freeze_chunk(chunk, SharedMemory())

    log.freeze_chunks(freeze_second)
    assert [type(chunk) for chunk in log.view().chunks] == [FrozenChunk, Chunk, FrozenChunk, Chunk]
    assert "rows stay as they came segment=t__0__0 row=10" in caplog.text
    view = pieces.view()
    assert read([*view.frozen, *view.tail])["id"] == list(range(35))
    log.freeze_chunks(freeze_second)
    assert [type(chunk) for chunk in log.view().chunks] == [FrozenChunk, FrozenChunk, FrozenChunk, Chunk]


def test_a_block_of_another_size_is_refused() -> None:
    frozen = freeze_chunk(full_chunk(random.Random(1), 20), HeapMemory())
    with pytest.raises(DataError, match=r"the block of a frozen chunk has \d+ bytes, expected \d+"):
        FrozenChunk(frozen.layout, frozen.block[:-1], frozen.kinds)
