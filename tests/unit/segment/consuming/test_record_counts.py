"""Proves that of every segment of a log it is known what became of its records, wherever it ends, or said that it is
not: against counting records one by one.
"""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from pinotpy.segment.consuming.record_counts import (
    DETAILS_MAX,
    BatchCounts,
    RecordCounts,
    RecordFates,
    SegmentCounts,
    pack_ascending,
    unpack_ascending,
)

ROW, FILTERED, REJECTED, TOMBSTONE = range(4)


def counted(fates: list[int]) -> RecordCounts:
    count = fates.count
    return RecordCounts(len(fates), count(TOMBSTONE), 0, count(ROW), count(FILTERED), count(REJECTED))


def batch_of(offsets: list[int], fates: list[int]) -> BatchCounts:
    counts = counted(fates)
    if counts.is_plain:
        return BatchCounts(counts)
    numbers = [np.flatnonzero(np.array(fates) == fate) for fate in (FILTERED, REJECTED, TOMBSTONE)]
    made = BatchCounts(counts, RecordFates.of(np.array(offsets, np.int64), *numbers))
    return BatchCounts.from_json(json.loads(json.dumps(made.to_json())))


@pytest.mark.parametrize("seed", range(60))
def test_every_segment_has_the_counts_of_its_records(seed: int) -> None:
    draw = random.Random(seed)
    share = draw.choice([0.0, 0.02, 0.3, 1.0])
    counts, offset, end_row, cut_at, row = SegmentCounts(100), 100, 0, 0, 0
    all_offsets: list[int] = []
    all_fates: list[int] = []
    for _ in range(draw.randint(1, 60)):
        offsets = []
        for _ in range(draw.randint(0, 12)):
            offsets.append(offset)
            offset += draw.choice([1, 1, 1, 2, 300, 70_000])
        offset += draw.choice([0, 0, 3])  # of a record that nobody sees
        fates = [draw.randrange(4) if draw.random() < share else ROW for _ in offsets]
        end_row += fates.count(ROW)
        all_offsets += offsets
        all_fates += fates
        counts.add(batch_of(offsets, fates), offset, end_row)
        if draw.random() < 0.3:
            counts.add(None, offset, end_row)  # nothing was read
        while draw.random() < 0.3:
            # Where a replica's criterion was met: at the end of one of its batches, which need not be these, or behind
            # a row.
            end = draw.randint(all_offsets[cut_at], offset) if cut_at < len(all_offsets) else offset
            stop = int(np.searchsorted(all_offsets, end, "left"))
            row += all_fates[cut_at:stop].count(ROW)
            assert counts.cut(end, row) == counted(all_fates[cut_at:stop]), (seed, end)
            cut_at = stop


def test_what_is_not_known_is_said_and_the_next_segment_is_known_again() -> None:
    mixed = [ROW, REJECTED, ROW, FILTERED, TOMBSTONE]
    counts = SegmentCounts(0)
    counts.add(None, 10, 10)
    counts.add(batch_of(list(range(10, 15)), mixed), 15, 12)
    assert counts.cut(12, 11) is None
    assert counts.cut(15, 12) == counted(mixed[2:])
    # A decoder that gives several rows of a record: known at the end of its batches.
    counts.add(BatchCounts(RecordCounts(5, added=5, indexed=10)), 20, 22)
    counts.add(BatchCounts(RecordCounts(5, added=5, indexed=10)), 25, 32)
    assert counts.cut(20, 22) == RecordCounts(5, added=5, indexed=10)
    assert counts.cut(22, 26) is None
    counts.add(batch_of(list(range(25, 30)), mixed), 30, 34)
    assert counts.cut(30, 34) is None
    counts.add(batch_of(list(range(30, 35)), mixed), 35, 36)
    assert counts.cut(35, 36) == counted(mixed)


def test_the_records_of_old_batches_are_forgotten_and_their_counts_are_not() -> None:
    counts, number = SegmentCounts(0), 4 * DETAILS_MAX
    for batch in range(number):
        counts.add(batch_of([2 * batch, 2 * batch + 1], [ROW, REJECTED]), 2 * batch + 2, batch + 1)
    assert len(counts._runs) <= DETAILS_MAX
    assert counts.cut(2 * number - 11, number - 5) == RecordCounts(
        2 * number - 11, indexed=number - 5, rejected=number - 6
    )
    assert counts.cut(2 * number, number) == RecordCounts(11, indexed=5, rejected=6)


@pytest.mark.parametrize("step", [1, 255, 256, 70_000, 1 << 33])
def test_numbers_are_packed(step: int) -> None:
    draw = random.Random(step)
    for size in (0, 1, 2, 50):
        for numbers in (np.arange(size) * step + 7, np.cumsum([draw.randint(0, step) for _ in range(size)]) - 9):
            assert unpack_ascending(pack_ascending(numbers.astype(np.int64))).tolist() == numbers.tolist()
