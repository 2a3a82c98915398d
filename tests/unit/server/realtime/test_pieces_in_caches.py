"""Proves that rows of a stream leave no trace in caches: sealed segments keep what queries prepared for them while rows
come, and neither a piece of the tail nor one of a segment that was sealed is held by anything once nobody reads it.
No collection of garbage helps: daemons have none for hours.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import consuming_scene
import numpy as np
import pyarrow as pa
import pytest
from consuming_registry import freeze
from consuming_scene import until
from in_process import InProcessCluster

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.clock import ManualClock, SystemClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.query.plan.instruction_cache import Prepared, PreparedShapes
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.query.segments.segment_sets import SegmentSets
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.log_pieces import TAIL_KEPT_NS, LogPieces, PieceView
from pinotpy.segment.consuming.log_ranges import LogView
from pinotpy.segment.consuming.partition_log import PartitionLog
from pinotpy.segment.consuming.piece import Piece
from pinotpy.server.realtime.ingest_worker import IngestWorker
from pinotpy.server.realtime.local_worker import LocalWorker
from pinotpy.server.realtime.workers.process_worker import ProcessWorker

TABLE = "t_OFFLINE"
CHUNK_ROWS, BATCH_ROWS = 100, 30
FIRST, SECOND, THIRD = (f"t__0__{sequence}__20260101T0000Z" for sequence in range(3))
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "kind", "dataType": "STRING"}, {"name": "note", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "id", "dataType": "LONG"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"noDictionaryColumns": ["note"]},
    }
)
# Of each kind of plan that may prepare or keep something.
QUERIES = [
    "SELECT kind, COUNT(*), SUM(id) FROM t WHERE id >= {} GROUP BY kind ORDER BY kind LIMIT 20",
    "SELECT note, COUNT(*) FROM t WHERE id >= {} GROUP BY note ORDER BY note LIMIT 5",
    "SELECT DISTINCT kind FROM t WHERE id >= {} ORDER BY kind LIMIT 20",
    "SELECT SUM(id), MIN(id), DISTINCTCOUNT(kind), DISTINCTCOUNTHLL(note) FROM t WHERE id >= {}",
    "SELECT UPPER(kind), COUNT(*) FROM t WHERE id >= {} GROUP BY UPPER(kind) ORDER BY UPPER(kind) LIMIT 20",
    "SELECT id, kind FROM t WHERE id >= {} ORDER BY id DESC LIMIT 3",
    "SELECT COUNT(*) FROM t WHERE note LIKE '%9%' AND id >= {}",
    "SELECT COUNT(*) FROM t WHERE kind = 'k3' AND id >= {}",
]


def batch(first: int, count: int) -> pa.RecordBatch:
    rows = range(first, first + count)
    return pa.record_batch(
        {
            "kind": pa.array([f"k{row % 7}" for row in rows]),
            "note": pa.array([f"order {row}" for row in rows]),
            "id": pa.array(rows, pa.int64()),
        }
    )


class Scene:
    """A table of one sealed segment and one partition that is read on; implements ReadPartition."""

    is_behind = False

    def __init__(self, folder: Path) -> None:
        self.cluster = InProcessCluster(folder, threads=2)
        ((server, self.registry),) = self.cluster.registries.items()
        self.cluster.add_table(SCHEMA, CONFIG, [[batch(0, 500)]], segment_names=[FIRST])
        self.clock = ManualClock()
        self.log = PartitionLog(
            SCHEMA,
            resolve_indexing(SCHEMA, CONFIG),
            segment_name=SECOND,
            start_offset=500,
            offset_dtype=np.dtype(np.int64),
            chunk_rows=CHUNK_ROWS,
        )
        self.num_rows = 500
        self.pieces = LogPieces(self.log, TABLE, clock=self.clock)
        self.registry.partitions = lambda table: {0: self} if table == TABLE else {}
        routing = TableRouting(TABLE, {FIRST: (server,), SECOND: (server,)}, ((SECOND,),))
        self.cluster.catalog.targets["t"] = Target("t", SCHEMA, (Half(routing),))

    def log_view(self) -> LogView:
        return self.log.view()

    def piece_view(self) -> PieceView:
        return self.pieces.view()

    def offset_text(self, offset: int | bytes) -> str:
        return str(offset)

    def append(self, count: int) -> None:
        while count:
            some = min(count, BATCH_ROWS)
            offsets = np.arange(self.num_rows, self.num_rows + some, dtype=np.int64)
            self.log.append(batch(self.num_rows, some), offsets, offsets, self.num_rows + some)
            self.num_rows += some
            count -= some
        self.clock.advance(2 * TAIL_KEPT_NS // 1_000_000)

    def ask(self) -> None:
        """Every query sees all rows."""
        for text in QUERIES:
            for literal in (0, 1):
                answer = self.cluster.sql(text.format(literal))
                assert not answer["exceptions"] and answer["totalDocs"] == self.num_rows, answer

    def sets(self) -> list[SegmentSet]:
        with self.registry.acquire(TABLE, [FIRST, SECOND], 1) as acquired:
            assert isinstance(acquired.segments, SegmentSets)
            return list(acquired.segments.sets)


def prepared(segments: SegmentSet) -> dict[Any, Prepared[Any] | None]:
    return dict(segments.attached(PreparedShapes).prepared)


def held(pieces: tuple[Piece, ...]) -> list[weakref.ref[Any]]:
    """The pieces, their columns and dictionaries, as far as queries asked for them."""
    found: list[Any] = []
    for piece in pieces:
        columns = [piece.column(name) for name in piece.columns()]
        found += [piece, *columns]
    return [weakref.ref(each) for each in found]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    made.append(250)
    freeze(made.log)
    gc.disable()
    yield made
    gc.enable()
    made.cluster.close()


def test_sealed_segments_and_frozen_pieces_keep_what_is_prepared_while_rows_come(scene: Scene) -> None:
    scene.ask()
    sealed, frozen, tail = scene.sets()
    shapes = [prepared(sealed), prepared(frozen)]
    assert all(sum(one is not None for one in of_set.values()) >= 4 for of_set in shapes)
    for _ in range(3):
        scene.append(10)
        scene.ask()
        now = scene.sets()
        assert now[0] is sealed and now[1] is frozen and now[2] is not tail
        for of_set, before in zip(now, shapes, strict=False):
            after = prepared(of_set)
            assert after.keys() == before.keys() and all(after[key] is before[key] for key in after)


def test_no_piece_of_the_tail_is_held_once_its_view_is_gone(scene: Scene) -> None:
    scene.ask()
    (piece,) = scene.piece_view().tail
    gone = held((piece,))
    del piece
    scene.append(10)
    scene.ask()
    assert [one() for one in gone if one() is not None] == []
    (last,) = held(scene.piece_view().tail)[:1]
    assert last() is not None, "the newest one is kept for the next query"


def test_no_piece_is_held_once_its_rows_are_given_up(scene: Scene) -> None:
    """Though nobody asks the table again."""
    scene.ask()
    view = scene.piece_view()
    gone = held((*view.frozen, *view.tail))
    assert len(view.frozen) == 2
    del view
    scene.log.seal(scene.num_rows, THIRD)
    scene.ask()
    scene.log.release(SECOND)
    scene.pieces.drop_released()
    assert [one() for one in gone if one() is not None] == []


def test_a_set_that_a_query_reads_outlives_its_rows_until_the_query_ends(scene: Scene) -> None:
    scene.ask()
    gone = held(scene.piece_view().frozen)
    with scene.registry.acquire(TABLE, [FIRST, SECOND], 1) as acquired:
        scene.pieces.forget()
        assert isinstance(acquired.segments, SegmentSets)
        assert len([one for one in acquired.segments.sets[1] if one.num_docs]) == 2
        assert acquired.segments.sets[1].attached(PreparedShapes).prepared
        del acquired
    assert [one() for one in gone if one() is not None] == []


@pytest.mark.parametrize("worker", [LocalWorker, ProcessWorker])
def test_a_worker_gives_pieces_up_with_their_rows(
    worker: Callable[[SystemClock], IngestWorker], tmp_path: Path
) -> None:
    reading = consuming_scene.Scene(tmp_path, worker(SystemClock()))
    reading.start(0)
    reading.ends[consuming_scene.name(0)] = 10
    reading.start(1)
    reading.produce(12)
    until(lambda: len(reading.rows()) == 12)
    (partition,) = reading.tables.partitions(consuming_scene.TABLE).values()
    until(lambda: bool(partition.piece_view().frozen))  # that a segment ended is seen after its rows
    gone = held(partition.piece_view().frozen)
    reading.finish(0)
    until(lambda: all(one() is None for one in gone))
    assert sorted(reading.rows()) == [10, 11]
    reading.close()
