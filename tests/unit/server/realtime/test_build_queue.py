"""Proves that as many segments are built at once as the setting says, whatever waits, and that the settings of the
reference that choose where rows lie are taken and change nothing.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from consuming_scene import PATIENCE_S, Scene, name, until

from pinotpy.clock import SystemClock
from pinotpy.config.settings import ServerSettings
from pinotpy.config.settings_loading import load_settings
from pinotpy.server.realtime import local_worker
from pinotpy.server.realtime.assembly import tell_where_rows_lie
from pinotpy.server.realtime.ingest_worker import BuiltSegment
from pinotpy.server.realtime.local_worker import LocalWorker
from pinotpy.server.realtime.segment_build import BuildQueue

ROWS = 10
GRACE_S = 0.2  # in which one that does not wait for its turn would have begun; nothing is asserted of its length


class HeldBuilds:
    """Counts the builds that are under way at once; none ends before it may."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.num_running = self.num_running_max = self.num_ended = 0
        self._lock = threading.Lock()

    def hold(self) -> None:
        with self._lock:
            self.num_running += 1
            self.num_running_max = max(self.num_running_max, self.num_running)
        assert self.may_end.wait(PATIENCE_S)
        with self._lock:
            self.num_running -= 1
            self.num_ended += 1


@pytest.mark.parametrize("builds_max", [1, 2])
def test_a_worker_builds_as_many_segments_at_once_as_it_may(
    builds_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds, build = HeldBuilds(), local_worker.build_of_chunks

    def held(*arguments: Any) -> BuiltSegment:
        builds.hold()
        return build(*arguments)

    monkeypatch.setattr(local_worker, "build_of_chunks", held)
    scene = Scene(tmp_path, LocalWorker(SystemClock(), builds_max=builds_max))
    scene.start(0)
    for sequence in range(3):
        scene.ends[name(sequence)] = (sequence + 1) * ROWS
        scene.start(sequence + 1)
    scene.produce(3 * ROWS)
    with ThreadPoolExecutor(3) as pool:
        finishing = [pool.submit(scene.finish, sequence) for sequence in range(3)]
        until(lambda: builds.num_running >= builds_max)
        threading.Event().wait(GRACE_S)
        assert not scene.built
        builds.may_end.set()
        for each in finishing:
            each.result(PATIENCE_S)
    assert (builds.num_running_max, builds.num_ended) == (builds_max, 3)
    assert sorted(scene.built) == [name(sequence) for sequence in range(3)], "those that waited came to their turn"
    scene.close()


def test_a_build_that_fails_gives_its_place_to_the_next_one() -> None:
    queue = BuildQueue(1)

    def fails() -> BuiltSegment:
        raise OSError("disk full")

    for _ in range(3):
        with pytest.raises(OSError, match="disk full"):
            queue.run(fails)
    built = queue.run(lambda: BuiltSegment(Path("s"), 1, 2, 3, -1, -1))
    assert (built.num_rows, built.crc) == (2, 1) and min(built.build_time_ms, built.wait_time_ms) >= 0


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("pinot.server.instance.realtime.alloc.offheap", "realtime_offheap"),
        ("pinot.server.instance.realtime.alloc.offheap.direct", "realtime_direct"),
    ],
)
@pytest.mark.parametrize("value", ["true", "false"])
def test_settings_that_say_where_rows_lie_are_taken_and_told(
    key: str, field: str, value: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{key}={value}\npinot.server.instance.realtime.max.parallel.segment.builds=3\n")
    settings = load_settings(ServerSettings, file, {}, {})
    assert (getattr(settings, field), settings.segment_builds_max) == (value == "true", 3)
    with caplog.at_level(logging.WARNING):
        tell_where_rows_lie(settings)
    told = [record for record in caplog.records if "outside of the heap" in record.getMessage()]
    assert len(told) == (value == "false")
