"""Proves that rows of streams keep to their memory: the largest segments end early, reading stops when all is taken and
goes on when commits have freed some, and never waits for memory that no commit would free.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from consuming_scene import TABLE, Scene, name, until

from pinotpy.clock import SystemClock
from pinotpy.cluster.completion_messages import ConsumedReason
from pinotpy.segment.consuming.chunk_layout import CHUNK_ROWS
from pinotpy.segment.consuming.frozen_chunk import FrozenChunk
from pinotpy.server.realtime.ingest_worker import IngestWorker
from pinotpy.server.realtime.local_worker import LocalWorker
from pinotpy.server.realtime.row_memory import SETTING, RowMemory, RowsHeld
from pinotpy.server.realtime.workers.process_worker import ProcessWorker


def held(size: int, open_bytes: int, *, is_open: bool = True, is_freeing: bool = False) -> RowsHeld:
    return RowsHeld(size, open_bytes, is_open, is_freeing)


@pytest.mark.parametrize(
    ("partitions", "ending", "is_paused"),
    [
        ([held(79, 70)], [], False),
        ([held(80, 70)], [0], False),
        # The largest first, and no more than are needed.
        ([held(30, 20), held(40, 35), held(20, 10)], [1], False),
        ([held(70, 60), held(70, 65), held(10, 5)], [1, 0], True),
        ([held(75, 45), held(75, 50), held(75, 48)], [1, 2, 0], True),
        # What a commit under way frees is not missed, but reading waits for it.
        ([held(90, 0, is_open=False, is_freeing=True), held(20, 15)], [], True),
        ([held(95, 5, is_freeing=True), held(20, 15)], [], True),
        ([held(90, 0, is_open=False, is_freeing=True), held(5, 5)], [], False),
        # One that failed holds its rows: others end early for it, and do not wait for it.
        ([held(90, 0, is_open=False), held(20, 15)], [1], True),
        ([held(90, 0, is_open=False), held(12, 0)], [], False),
        # No commit would free what the chunks hold that take rows.
        ([held(60, 0), held(60, 0)], [], False),
        ([held(120, 10)], [0], True),
        ([], [], False),
    ],
)
def test_segments_end_early_and_reading_waits(partitions: list[RowsHeld], ending: list[int], is_paused: bool) -> None:
    memory = RowMemory(100)
    assert memory.look(partitions) == ending
    assert bool(memory.pause) is is_paused
    assert memory.num_ended == len(ending) and memory.used_bytes == sum(each.size_bytes for each in partitions)
    assert not RowMemory(0).look(partitions)


@pytest.fixture(params=["threads", "processes"])
def worker(request: pytest.FixtureRequest) -> Iterator[IngestWorker]:
    worker = LocalWorker(SystemClock()) if request.param == "threads" else ProcessWorker(SystemClock(), num_processes=1)
    yield worker
    worker.close()


def test_memory_that_is_full_is_freed_by_commits_and_read_into_again(worker: IngestWorker, tmp_path: Path) -> None:
    memory = RowMemory()
    scene = Scene(tmp_path, worker, memory)

    def failure() -> str:
        return str(scene.tables.describe(TABLE)[0]["failure"])

    try:
        scene.start(0)
        while scene.num_produced < CHUNK_ROWS + 1_000:  # one chunk is full
            scene.produce(10_000)
        [partition] = scene.tables.partitions(TABLE).values()
        until(lambda: partition.log_view().watermark.num_rows == scene.num_produced, failure)
        until(lambda: isinstance(partition.log_view().chunks[0], FrozenChunk), failure)
        memory.max_bytes = partition.memory_bytes()
        until(lambda: SETTING in failure(), failure)
        until(lambda: bool(scene.sent))
        assert (scene.sent[0].name, scene.sent[0].reason) == (name(0), ConsumedReason.FORCE_COMMIT)
        assert memory.num_ended == 1
        num_read = partition.log_view().watermark.num_rows
        scene.produce(1_000)
        used_bytes = memory.used_bytes
        scene.ends[name(0)] = num_read
        scene.start(1)
        scene.finish(0)
        until(lambda: partition.log_view().watermark.num_rows == scene.num_produced, failure)
        until(lambda: failure() == "", failure)
        until(lambda: memory.used_bytes < used_bytes)
        assert {message.name for message in scene.sent} == {name(0)}, "a segment ended early that frees nothing"
    finally:
        scene.close()
