"""Proves that damage that a load cannot see is found, and never served longer than it takes to find it: the segment is
fetched anew, or not served.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from built_segments import count
from server_scene import SCHEMA, TABLE, Scene

from pinotpy.clock import SystemClock
from pinotpy.errors import PinotError, RemoteError, SegmentCorruptError
from pinotpy.segment import layout
from pinotpy.segment.immutable import ImmutableSegment, load_segment
from pinotpy.server.scrubber import Scrubber

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
