"""Proves that a server outlives its disk: what cannot be written fails alone, with its reason, and is tried again; and
that two servers never share a folder.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from built_segments import count
from server_scene import SCHEMA, TABLE, Scene

from pinotpy.clock import SystemClock
from pinotpy.errors import AlreadyExistsError, DiskError, PinotError
from pinotpy.segment.build.column_indexes import form_among
from pinotpy.segment.directory import file_directory as directory_room
from pinotpy.server import disk
from pinotpy.server.disk import FolderLock

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_for(monkeypatch: pytest.MonkeyPatch, segment: str) -> None:
    """No byte more is written to the folder of a segment."""
    whole = directory_room._write

    def failing(descriptor: int, data: Any) -> None:
        if f"/{segment}/" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise FULL
        whole(descriptor, data)

    monkeypatch.setattr(directory_room, "_write", failing)


def indexed(scene: Scene) -> list[bool]:
    return [form_among(scene.kinds(name, "city"), "inverted") is not None for name in sorted(scene.properties.crcs)]


def test_a_reload_on_a_full_disk_fails_with_the_reason_and_the_other_segments_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, 3)
    scene.properties.index = {"invertedIndexColumns": ["city"]}
    with monkeypatch.context() as full:
        full_for(full, "s1")
        with pytest.raises(DiskError, match="no space left on device"):
            scene.reload("job1")
    assert indexed(scene) == [True, False, True]
    assert scene.counts("job1") == (3, 2, 1) and scene.status("job1")["finishTimeMs"] > 0
    reason = scene.status("job1")["failedSegments"]["s1"]["errorMessage"]
    assert reason.startswith(
        "the indexes of segment 's1' are not written, the disk of the data folder (pinot.server.instance.dataDir) "
        "failed"
    )
    assert not [name for name in os.listdir(scene.directory / TABLE / "s1") if name.endswith(".tmp")], (
        "nothing half-done stays"
    )
    with scene.registry.acquire(TABLE, ["s0", "s1", "s2"]) as held:
        assert not held.missing and count(SCHEMA, held.segments, "city = 'oslo'") == 150
    scene.reload("job2")
    assert indexed(scene) == [True, True, True] and scene.counts("job1") == (3, 3, 0)


def test_a_load_on_a_full_disk_serves_without_the_new_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path, 1)
    scene.properties.index = {"invertedIndexColumns": ["city"]}
    scene.transitions.on_transition(TABLE, "s0", "ONLINE", "OFFLINE")
    full_for(monkeypatch, "s0")
    scene.transitions.on_transition(TABLE, "s0", "OFFLINE", "ONLINE")
    assert (
        indexed(scene) == [False]
        and count(SCHEMA, list(scene.registry.segments(TABLE).values()), "city = 'oslo'") == 50
    )


def test_too_little_memory_for_an_index_is_no_reason_to_serve_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, 2)
    scene.properties.index = {"invertedIndexColumns": ["city"]}

    def failing(*_: Any) -> None:
        raise MemoryError("unable to allocate 40 GiB")

    monkeypatch.setattr("pinotpy.server.index_upkeep.reload_segment", failing)
    with pytest.raises(PinotError, match="MemoryError: unable to allocate"):
        scene.reload("job1")
    assert scene.counts("job1") == (2, 0, 2)
    scene.transitions.on_transition(TABLE, "s0", "ONLINE", "OFFLINE")
    scene.transitions.on_transition(TABLE, "s0", "OFFLINE", "ONLINE")
    assert len(scene.registry.segments(TABLE)) == 2


def test_a_segment_that_cannot_be_stored_says_so_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, 1)
    scene.transitions.on_transition(TABLE, "s0", "ONLINE", "OFFLINE")
    scene.properties.crcs["s0"] += 1
    scene.deep_store.failure = FULL
    with pytest.raises(DiskError, match=r"segment 's0' is not loaded, .*no space left on device; make room"):
        scene.transitions.on_transition(TABLE, "s0", "OFFLINE", "ONLINE")
    monkeypatch.setattr("pinotpy.server.failed_transitions.FIRST_WAIT_S", 0)
    assert scene.failures == [TABLE] and (TABLE, "s0") in scene.retries._failed


def test_what_to_do_depends_on_what_the_disk_says() -> None:
    for number, remedy in (
        (errno.EROFS, "read-only file system; it is read-only: mount it for writing"),
        (errno.ENOSPC, "; make room"),
        (errno.EIO, "; mend it"),
    ):
        with pytest.raises(DiskError, match=remedy), disk.disk_faults("segment 's0' is not loaded"):
            raise OSError(number, os.strerror(number))


def test_a_folder_belongs_to_one_server_until_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_WAIT_S", 0.3)
    clock, folder = SystemClock(), tmp_path / "index"
    program = (
        "import sys; from pathlib import Path; from pinotpy.clock import SystemClock; from pinotpy.server.disk import "
        "FolderLock;"
        "FolderLock(Path(sys.argv[1]), 'a.setting', SystemClock()).acquire(); print('held', flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(
            AlreadyExistsError,
            match=rf"'{folder}' \(the\.setting\) is in use by another server \(process {other.pid}\): give each server",
        ):
            FolderLock(folder, "the.setting", clock).acquire()
        other.kill()
    mine = FolderLock(folder, "the.setting", clock)
    mine.acquire()
    with pytest.raises(AlreadyExistsError):
        FolderLock(folder, "the.setting", clock).acquire()
    mine.release()
    FolderLock(folder, "the.setting", clock).acquire()


def test_a_folder_that_cannot_be_written_is_used_without_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(disk.os, "open", failing)
    lock = FolderLock(tmp_path, "the.setting", SystemClock())
    lock.acquire()
    lock.release()
