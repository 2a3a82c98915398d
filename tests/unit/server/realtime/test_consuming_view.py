"""Proves which rows a server answers for a partition's chain: all from its first segment on, sealed and not, or
nothing; and that a swap between the two is never seen.
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.clock import ManualClock
from pinotpy.config.schema import Schema
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.log_pieces import LogPieces, PieceView
from pinotpy.segment.consuming.partition_log import PartitionLog
from pinotpy.server.tables.consuming_view import ConsumingView, consuming_view

SCHEMA = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "id", "dataType": "LONG"}]})
DONE = {3: ("0", "30")}


def name(sequence: int) -> str:
    return f"t__0__{sequence}__20260101T0000Z"


class Partition:
    """Segment 4 of partition 0, 100 records from offset 30 on."""

    def __init__(self) -> None:
        self.log = PartitionLog(
            SCHEMA,
            resolve_indexing(SCHEMA, None),
            segment_name=name(4),
            start_offset=30,
            offset_dtype=np.dtype(np.int64),
            chunk_rows=7,
        )
        offsets = np.arange(30, 130, dtype=np.int64)
        rows = pa.RecordBatch.from_pydict({"id": pa.array(offsets)})
        self.log.append(rows, offsets, offsets + 1_000, 130)
        self._pieces = LogPieces(self.log, "t_REALTIME", clock=ManualClock())

    def piece_view(self) -> PieceView:
        return self._pieces.view()

    def offset_text(self, offset: int | bytes) -> str:
        return str(offset)

    is_behind = False


def asked(
    *sequences: int, partition: Partition | None = None, done: dict[int, tuple[str, str]] = DONE
) -> ConsumingView:
    partitions = {0: partition} if partition is not None else {}
    sealed = {name(sequence): offsets for sequence, offsets in done.items()}
    return consuming_view([name(sequence) for sequence in sequences], partitions, sealed.get)


def num_rows(view: ConsumingView) -> int:
    return sum(piece.num_docs for piece in [*view.frozen, *view.tail])


def test_a_chain_is_answered_from_its_first_segment_on() -> None:
    partition = Partition()
    partition.log.seal(60, name(5))
    whole = asked(4, 5, partition=partition)
    assert (num_rows(whole), whole.num_segments, whole.missing, whole.sealed) == (100, 2, [], [])
    assert [(each.segment, each.start, each.end, each.status) for each in whole.offsets] == [
        (name(4), "30", "60", "COMMITTING"), (name(5), "60", "130", "IN_PROGRESS"),
    ]  # fmt: skip
    assert whole.offsets[1].last_time_ms == 1_129
    end = asked(5, partition=partition)
    assert num_rows(end) == 70 and {piece.name for piece in [*end.frozen, *end.tail]} == {name(5)}


def test_rows_of_segments_that_the_broker_does_not_know_are_answered() -> None:
    partition = Partition()
    partition.log.seal(60, name(5))
    assert num_rows(asked(4, partition=partition)) == 100
    before_the_cut = Partition()
    assert num_rows(asked(4, 5, partition=before_the_cut)) == 100, "the cluster knows of 5, this server does not yet"


def test_a_sealed_member_is_answered_from_its_file_once() -> None:
    partition = Partition()
    partition.log.seal(60, name(5))
    view = asked(3, 4, 5, partition=partition)
    assert view.sealed == [name(3)] and num_rows(view) == 100
    assert [each.status for each in view.offsets] == ["DONE", "COMMITTING", "IN_PROGRESS"]
    both = asked(4, 5, partition=partition, done={4: ("30", "60")})
    assert both.sealed == [] and num_rows(both) == 100, "while it is swapped it is here twice"
    partition.log.release(name(4))
    after = asked(4, 5, partition=partition, done={4: ("30", "60")})
    assert after.sealed == [name(4)] and num_rows(after) == 70


@pytest.mark.parametrize("sequences", [(2, 3, 4, 5), (3, 5), (4, 6), (7,)])
def test_a_chain_of_which_a_member_is_not_here_is_missing_as_a_whole(sequences: tuple[int, ...]) -> None:
    partition = Partition()
    partition.log.seal(60, name(5))
    view = asked(*sequences, partition=partition)
    assert sorted(view.missing) == [name(sequence) for sequence in sequences]
    assert num_rows(view) == 0 and view.sealed == [] and view.offsets == []


def test_nothing_is_here_without_the_partition_but_sealed_segments() -> None:
    assert asked(4).missing == [name(4)]
    assert asked(3).sealed == [name(3)] and asked(3, 4).missing == [name(3), name(4)]
    assert consuming_view(["uploaded"], {}, lambda _: None).missing == ["uploaded"]


def test_segments_end_behind_whole_records() -> None:
    dice = random.Random(3)
    log = PartitionLog(
        SCHEMA,
        resolve_indexing(SCHEMA, None),
        segment_name=name(0),
        start_offset=0,
        offset_dtype=np.dtype(np.int64),
        chunk_rows=5,
    )
    offsets = np.sort(np.array([dice.randrange(0, 60) for _ in range(40)], np.int64))
    for first in range(0, 40, 8):
        some = offsets[first : first + 8]
        log.append(pa.RecordBatch.from_pydict({"id": pa.array(some)}), some, some, int(some[-1]) + 1)
    view = log.view()
    for row in range(40):
        behind = view.offset_behind(row)
        later = [offset for offset in offsets.tolist() if offset > offsets[row]]
        assert behind == min(later, default=int(offsets[-1]) + 1)


def test_a_partition_that_is_behind_says_so_of_the_segment_that_takes_rows() -> None:
    partition = Partition()
    partition.is_behind = True
    partition.log.seal(60, name(5))
    view = asked(4, 5, partition=partition)
    assert [each.status for each in view.offsets] == ["COMMITTING", "CATCHING_UP"]
