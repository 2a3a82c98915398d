"""Proves that a replica which lags reads on beside segments that others have committed, however long it takes to build
them here; and that it waits where commits are missing, says so, and goes on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from consuming_scene import TABLE, Scene, name, until

from pinotpy.clock import SystemClock
from pinotpy.segment.consuming.log_ranges import LogView, SegmentRange, Watermark
from pinotpy.server.realtime import read_pauses
from pinotpy.server.realtime.ingest_worker import BuiltSegment
from pinotpy.server.realtime.local_worker import LocalWorker
from pinotpy.server.realtime.read_pauses import SMALL_ROWS_MAX, WAITING_MAX, backlog

NUM_ENDED, ROWS = 8, 10


class SlowScene(Scene):
    """Segments come to be served when `goes_on` is set."""

    goes_on: threading.Event

    def adopt(self, table: str, built: BuiltSegment, offsets: tuple[str, str]) -> None:
        assert self.goes_on.wait(120)
        super().adopt(table, built, offsets)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[SlowScene]:
    scene = SlowScene(tmp_path, LocalWorker(SystemClock()))
    scene.goes_on = threading.Event()
    yield scene
    scene.goes_on.set()
    scene.close()


def failure(scene: Scene) -> str:
    [partition] = scene.tables.describe(TABLE)
    return str(partition["failure"])


def begin(scene: Scene) -> None:
    scene.start(0)
    for sequence in range(NUM_ENDED):
        scene.ends[name(sequence)] = (sequence + 1) * ROWS
        scene.start(sequence + 1)


def test_a_replica_behind_segments_that_are_done_elsewhere_reads_on(scene: SlowScene) -> None:
    begin(scene)
    with ThreadPoolExecutor(NUM_ENDED) as pool:
        finishing = [pool.submit(scene.finish, sequence) for sequence in range(NUM_ENDED)]
        for batch in range(1, NUM_ENDED + 2):  # each reading meets one more segment that has ended
            scene.produce(ROWS)
            until(lambda batch=batch: len(scene.rows()) == batch * ROWS, lambda: failure(scene))
        assert failure(scene) == ""
        scene.goes_on.set()
        for each in finishing:
            each.result(120)
    until(lambda: set(scene.rows()) == set(range(NUM_ENDED * ROWS, (NUM_ENDED + 1) * ROWS)))
    assert sorted(scene.built) == [name(sequence) for sequence in range(NUM_ENDED)]


def test_where_commits_are_missing_it_waits_and_says_so(
    scene: SlowScene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(read_pauses, "_TOLD_NS", 1)
    caplog.set_level(logging.INFO, read_pauses.__name__)
    begin(scene)
    for _ in range(WAITING_MAX + 1):
        scene.produce(ROWS)
        rows = scene.num_produced
        until(lambda rows=rows: len(scene.rows()) == rows, lambda: failure(scene))
    reason = f"{WAITING_MAX + 1} segments have ended and are not committed yet, {WAITING_MAX + 1} lie in memory"
    until(lambda: failure(scene) == reason and reason in caplog.text, lambda: failure(scene))
    scene.produce(ROWS)
    scene.goes_on.set()
    for sequence in range(2):
        scene.finish(sequence)
    until(lambda: scene.num_produced - 1 in scene.rows(), lambda: failure(scene))
    until(lambda: "rows are read again" in caplog.text)


@pytest.mark.parametrize(
    ("segment_rows", "num_ended", "num_met", "waits"),
    [
        (1_000, 32, 0, False),
        (1_000, 33, 0, True),
        (SMALL_ROWS_MAX // 4, 4, 0, False),
        (SMALL_ROWS_MAX // 4, 5, 0, True),
        (1_000, 32, WAITING_MAX, False),
        (1_000, 0, WAITING_MAX + 1, True),
    ],
)
def test_committed_segments_hold_up_only_what_memory_cannot_keep(
    segment_rows: int, num_ended: int, num_met: int, waits: bool
) -> None:
    rows = [number * segment_rows for number in range(num_ended + 2)]
    segments = tuple(
        SegmentRange(name(number), rows[number], rows[number], rows[number + 1], rows[number + 1])
        for number in range(num_ended)
    )
    open_one = SegmentRange(name(num_ended), rows[-2], rows[-2])
    view = LogView(Watermark(rows[-1], rows[-1], 0), (*segments, open_one), ())
    assert bool(backlog(view, lambda _: True, num_met)) is waits
