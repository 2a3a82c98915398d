"""Proves that a server that died of a fault while it read segments checks these as a whole at its next start, and that
nothing is suspected after another end: real processes that die, and the marks that they leave.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from server_scene import TABLE, Scene

from pinotpy.segment import layout
from pinotpy.segment.immutable import load_segment
from pinotpy.server.tables.reading_marks import ReadingMarks
from pinotpy.server.tables.registry import SegmentRegistry

# Serves s0, s1 and s2, has read s0, reads s1, and ends as the last argument says.
PROGRAM = """
import ctypes, os, signal, sys
from pathlib import Path
from pinotpy.segment.immutable import load_segment
from pinotpy.server.tables.reading_marks import ReadingMarks
from pinotpy.server.tables.registry import SegmentRegistry

folder, end = Path(sys.argv[1]), sys.argv[2]
registry = SegmentRegistry()
registry.marks = ReadingMarks(folder / ".reading")
for name in ("s0", "s1", "s2"):
    registry.put("t_OFFLINE", load_segment(folder / "t_OFFLINE" / name))
with registry.acquire("t_OFFLINE", ["s0"]):
    pass
with registry.acquire("t_OFFLINE", ["s1", "absent"]), registry.acquire("t_OFFLINE", ["s1"]):
    if end == "fault":
        ctypes.string_at(0)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
registry.marks.close()
"""


@pytest.mark.parametrize(
    ("end", "code", "suspects"),
    [("fault", -signal.SIGSEGV, {(TABLE, "s1")}), ("kill", -signal.SIGKILL, set()), ("stop", 0, set())],
)
def test_what_was_read_when_a_process_died_of_a_fault_is_suspected(
    tmp_path: Path, end: str, code: int, suspects: set[tuple[str, str]]
) -> None:
    scene = Scene(tmp_path, 3)
    scene.registry.close()
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(scene.directory), end], timeout=300, check=False)
    assert ended.returncode == code
    marks = ReadingMarks(scene.directory / ".reading")
    try:
        assert marks.suspects == suspects
    finally:
        marks.close()
    after = ReadingMarks(scene.directory / ".reading")
    after.close()
    assert not after.suspects, "once"


def test_a_suspect_is_checked_as_a_whole_and_one_that_is_damaged_is_fetched_anew(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, with_archives=True)
    file = scene.directory / TABLE / "s1" / layout.COLUMNS
    before = file.stat()
    file.chmod(0o644)
    with file.open("r+b") as stream:
        stream.seek(before.st_size - 70)
        stream.write(b"\xff" * 8)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    for name in ("s0", "s1"):
        scene.transitions.on_transition(TABLE, name, "ONLINE", "OFFLINE")
    load_segment(file.parent, verify=False).close()  # a load does not see it
    store = scene.transitions._store
    for name in ("s0", "s1"):
        store.distrust(TABLE, name)
        scene.transitions.on_transition(TABLE, name, "OFFLINE", "ONLINE")
    assert scene.deep_store.fetched == ["s1"]
    load_segment(file.parent, verify=True).close()


def test_marks_follow_segments_that_come_and_go(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, registry=SegmentRegistry())
    marks = scene.registry.marks = ReadingMarks(tmp_path / ".reading")
    first, second = (scene.registry.segments(TABLE)[name] for name in ("s0", "s1"))
    for segment in (first, second):
        scene.registry.remove(TABLE, segment.name)
        scene.registry.put(TABLE, load_segment(scene.directory / TABLE / segment.name))
    with scene.registry.acquire(TABLE, ["s0", "s1"]):
        assert marks.counts[:4].tolist() == [0, 1, 1, 0]
        scene.registry.remove(TABLE, "s0")
        scene.registry.put(TABLE, load_segment(scene.directory / TABLE / "s0"))
        with scene.registry.acquire(TABLE, ["s0"]):
            assert marks.counts[:4].tolist() == [0, 1, 1, 1]
    assert not marks.counts.any()
    scene.registry.close()
    marks.close()
