"""Proves that damage that a load cannot see is found, and never served longer than it takes to find it: the segment is
fetched anew, or not served. And that the reading goes round in its time, at its rate, at the lowest priority, and says
how far it is.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from built_segments import count
from server_scene import SCHEMA, TABLE, Scene

from pinotpy.clock import SystemClock
from pinotpy.config.settings import ServerSettings
from pinotpy.errors import PinotError, RemoteError, SegmentCorruptError
from pinotpy.segment import layout
from pinotpy.segment.immutable import ImmutableSegment, load_segment
from pinotpy.server.metrics import ServerMetrics
from pinotpy.server.scrubber import Scrubber, _StoppedError
from pinotpy.service.metric_catalogue import METRICS_BY_ROLE
from pinotpy.service.metrics import Metrics

FAST = 1 << 40
LONG_AGO_S = 90_000


def scrubber(scene: Scene, *, period_s: float = 86_400, found: list[str] | None = None) -> Scrubber:
    def replace(table: str, segment: ImmutableSegment, damage: SegmentCorruptError) -> None:
        if found is not None:
            found.append(f"{segment.name}: {damage.message}")
        scene.transitions.replace_damaged(table, segment)

    return Scrubber(scene.registry, replace, SystemClock(), period_s=period_s, bytes_per_s=FAST)


def damage(scene: Scene, name: str) -> None:
    """Other bytes, and neither size nor time tell: what a disk does, and what no load looks at."""
    file = scene.directory / TABLE / name / layout.COLUMNS
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[layout.COLUMNS_HEADER_BYTES + 5] ^= 0x10
    file.chmod(0o644)
    file.write_bytes(content)
    file.chmod(0o444)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def make_old(scene: Scene) -> None:
    for marker in scene.directory.glob(f"{TABLE}/*/{layout.VERIFIED}"):
        os.utime(marker, (time.time() - LONG_AGO_S,) * 2)


def oslo(scene: Scene) -> int:
    return count(SCHEMA, list(scene.registry.segments(TABLE).values()), "city = 'oslo'")


def test_a_damaged_segment_is_fetched_anew_and_sound_ones_stay(tmp_path: Path) -> None:
    scene, found = Scene(tmp_path, 3, with_archives=True), list[str]()
    held = scene.registry.segments(TABLE)
    damage(scene, "s1")
    load_segment(scene.directory / TABLE / "s1", verify=False).close()  # a load does not see it
    scrubber(scene, found=found).step()
    assert not found, "they were read a moment ago"
    make_old(scene)
    reader = scrubber(scene, found=found)
    reader.step()
    assert [text.partition(":")[0] for text in found] == ["s1"] and "does not match its CRC" in found[0]
    now = scene.registry.segments(TABLE)
    assert [now[name] is held[name] for name in sorted(now)] == [True, False, True]
    assert oslo(scene) == 150 and scene.deep_store.fetched == ["s1"] and scene.counted["damaged"] == 1
    load_segment(scene.directory / TABLE / "s1", verify=True).close()
    reader.step()
    assert len(found) == 1, "what was read is not due"


def test_what_cannot_be_fetched_is_not_served_and_not_trusted_by_the_next_load(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, with_archives=True)
    damage(scene, "s0")
    make_old(scene)
    scene.deep_store.failure = RemoteError("the deep store is away")
    scrubber(scene).step()
    assert sorted(scene.registry.segments(TABLE)) == ["s1"] and (TABLE, "s0") in scene.retries._failed
    with pytest.raises(PinotError, match="away"):
        scene.transitions.on_transition(TABLE, "s0", "OFFLINE", "ONLINE")
    scene.deep_store.failure = None
    scene.transitions.on_transition(TABLE, "s0", "OFFLINE", "ONLINE")
    assert oslo(scene) == 100 and scene.deep_store.fetched == ["s0"]


def test_after_a_query_met_damage_its_table_is_read_at_once(tmp_path: Path) -> None:
    scene, found = Scene(tmp_path, 2, with_archives=True), list[str]()
    damage(scene, "s0")
    make_old(scene)
    reader = scrubber(scene, period_s=0, found=found)
    reader.step()
    reader.suspect("other_OFFLINE")
    reader.step()
    assert not found
    reader.start()
    reader.suspect(TABLE)
    deadline = time.monotonic() + 60
    while not scene.counted["damaged"] and time.monotonic() < deadline:
        time.sleep(0.01)
    reader.stop(60)
    assert len(found) == 1 and oslo(scene) == 100


@pytest.mark.parametrize("what", ["gone", "replaced", "unreadable"])
def test_a_segment_that_changes_while_it_is_read_is_left_alone_and_one_that_cannot_be_read_is_damaged(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, 1, with_archives=True)
    segment = scene.registry.segments(TABLE)["s0"]
    if what == "unreadable":

        def failing(*_: Any) -> bytes:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr("pinotpy.segment.directory.file_directory.os.read", failing)
        assert scene.transitions.replace_damaged(TABLE, segment)
        return
    damage(scene, "s0")
    if what == "gone":
        scene.transitions.on_transition(TABLE, "s0", "ONLINE", "OFFLINE")
    else:
        scene.reload("job1")
    assert not scene.transitions.replace_damaged(TABLE, segment) and not scene.deep_store.fetched


class Told:
    """What a scrub tells of itself, through the server's metrics."""

    def __init__(self) -> None:
        self.metrics = Metrics("server", METRICS_BY_ROLE["server"])
        self.left: list[float] = []
        self.priorities: set[int] = set()

    def progress(self, num_segments_left: int, num_bytes: int) -> None:
        ServerMetrics(self.metrics).scrubbed(num_segments_left, num_bytes)
        self.left.append(self.value("segmentsToScrub"))
        self.priorities.add(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    def value(self, name: str) -> float:
        lines = self.metrics.render().decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"pinot_server_{name}"))


class SteppedClock(SystemClock):
    """Its time is that of the machine and what a test adds; it notes how long others would have waited."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.waits_s: list[float] = []
        self.stops_after = 1 << 30

    def now_ms(self) -> int:
        return super().now_ms() + int(self.ahead_s * 1000)

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.waits_s.append(timeout_s)
        return len(self.waits_s) > self.stops_after


def told_by(scene: Scene, clock: SystemClock, told: Told, *, bytes_per_s: int = FAST) -> Scrubber:
    return Scrubber(
        scene.registry,
        lambda table, segment, damage: scene.transitions.replace_damaged(table, segment) and None,
        clock,
        period_s=ServerSettings().scrub_period_s,
        bytes_per_s=bytes_per_s,
        progress=told.progress,
    )


def size_of(scene: Scene, *names: str) -> int:
    return sum(scene.registry.segments(TABLE)[name].metadata.size_bytes for name in names)


def test_by_default_each_segment_is_read_once_an_hour_and_the_metrics_say_how_far_it_is(tmp_path: Path) -> None:
    scene, clock, told = Scene(tmp_path, 3, with_archives=True), SteppedClock(), Told()
    reader = told_by(scene, clock, told)
    clock.ahead_s = 3_500
    reader.step()
    assert told.left == [0] and told.value("scrubbedBytes") == 0, "none is due"
    clock.ahead_s = 3_700
    reader.step()
    assert told.left[1:] == [3, 2, 2, 1, 1, 0, 0], "before each segment, after each, and at the end"
    sound = size_of(scene, "s0", "s1", "s2")
    assert told.value("scrubbedBytes") == sound > 0
    clock.ahead_s += 3_500
    reader.step()
    assert told.value("scrubbedBytes") == sound, "none is due again"
    damage(scene, "s1")
    clock.ahead_s += 200
    reader.step()
    assert told.value("scrubbedBytes") == sound + size_of(scene, "s0", "s2"), "what was damaged was not read to its end"
    assert told.value("segmentsToScrub") == 0 and scene.counted["damaged"] == 1


def test_it_reads_no_faster_than_its_rate_and_ends_in_the_middle_when_the_server_stops(tmp_path: Path) -> None:
    scene, clock, told = Scene(tmp_path, 2, with_archives=True), SteppedClock(), Told()
    clock.ahead_s = LONG_AGO_S
    rate = 1_000
    told_by(scene, clock, told, bytes_per_s=rate).step()
    files = sum(size for name in ("s0", "s1") for _, size in scene.registry.segments(TABLE)[name].metadata.files)
    assert round(sum(clock.waits_s) * rate) == files, "as long as these bytes take"
    clock.waits_s.clear()
    clock.stops_after = 0
    clock.ahead_s *= 2
    with pytest.raises(_StoppedError):
        told_by(scene, clock, told, bytes_per_s=rate).step()
    assert len(clock.waits_s) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="where priorities are those of threads")
def test_its_thread_has_the_lowest_priority_and_no_other_has_it(tmp_path: Path) -> None:
    scene, told = Scene(tmp_path, 1, with_archives=True), Told()
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    reader = told_by(scene, SystemClock(), told)
    reader.start()
    reader.suspect(TABLE)
    deadline = time.monotonic() + 60
    while len(told.left) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    reader.stop(60)
    assert told.priorities == {19} and told.value("scrubbedBytes") == size_of(scene, "s0")
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_the_settings_are_an_hour_and_a_bounded_rate() -> None:
    settings = ServerSettings()
    assert (settings.scrub_period_s, settings.scrub_rate) == (3_600, 64 << 20)
