"""Proves the contract of the segment directory door, over the folder on disk, its in-memory twin and either of them
held in memory: nothing is visible before commit, everything after; a map outlives deletion and keeps its bytes when
memory is let go of; damage, absence and what is no file are typed errors; a builder and a reader work through it.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import AlreadyExistsError, DiskError, NotFoundError, SegmentCorruptError
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.directory import SegmentDirectory
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.directory.resident_directory import ResidentDirectory
from pinotpy.segment.immutable import open_segment, scrub

Make = Callable[[str], SegmentDirectory]


@pytest.fixture(params=["file", "memory", "resident file", "resident memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """A new directory by name; names are looked up again by the same name within one test only on disk."""
    if request.param == "memory":
        return MemoryDirectory
    if request.param == "resident memory":
        return lambda name: ResidentDirectory(MemoryDirectory(name))
    if request.param == "resident file":
        return lambda name: ResidentDirectory(FileDirectory(tmp_path / "segments" / name))
    return lambda name: FileDirectory(tmp_path / "segments" / name)


def filled(directory: SegmentDirectory) -> SegmentDirectory:
    draft = directory.create()
    draft.append("columns", b"abc")
    draft.append("metadata", b"")
    draft.append("columns", np.array([1, 2], np.uint16))
    draft.commit()
    return directory


def test_bytes_come_back_as_written(make: Make) -> None:
    directory = filled(make("s"))
    assert directory.exists()
    assert directory.read("columns", size_max=100) == b"abc\x01\x00\x02\x00"
    assert directory.map("columns").tobytes() == b"".join(directory.chunks("columns")) == b"abc\x01\x00\x02\x00"
    assert directory.map("metadata").tobytes() == directory.read("metadata", size_max=0) == b""
    assert {name: size for name, (size, _) in directory.fingerprint().items()} == {"columns": 7, "metadata": 0}


def test_a_file_that_was_touched_has_another_state_and_bytes_that_nobody_can_change_have_none(make: Make) -> None:
    directory = filled(make("s"))
    data = directory.map("columns")
    before = directory.state_of("columns", data)
    assert directory.state_of("metadata", directory.map("metadata")) is None
    if not isinstance(directory, FileDirectory):
        assert before is None
        return
    assert before is not None and before.size_bytes == 7 and directory.state_of("columns", data) == before
    file = directory.path / "columns"
    os.utime(file, ns=(0, before.modified_ns + 1_000_000))
    touched = directory.state_of("columns", data)
    assert touched is not None and touched.modified_ns != before.modified_ns
    file.unlink()
    assert directory.state_of("columns", data) is None


def test_another_file_of_the_same_name_does_not_stand_behind_a_map(make: Make) -> None:
    directory = filled(make("s"))
    data = directory.map("columns")
    directory.delete()
    again = make("s")
    draft = again.create()
    draft.append("columns", b"new")
    draft.append("metadata", b"")
    draft.commit()
    assert directory.state_of("columns", data) is None and data.tobytes() == b"abc\x01\x00\x02\x00"
    state = again.state_of("columns", again.map("columns"))
    assert state is None or state.size_bytes == 3


def test_a_map_is_read_only_and_starts_at_a_multiple_of_64(make: Make) -> None:
    data = filled(make("s")).map("columns")
    assert data.ctypes.data % 64 == 0
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 1


def test_nothing_is_visible_before_commit_and_nothing_stays_after_abort(make: Make) -> None:
    directory = make("s")
    draft = directory.create()
    draft.append("columns", b"abc")
    assert not directory.exists()
    with pytest.raises(NotFoundError):
        directory.fingerprint()
    draft.abort()
    draft.abort()
    assert not directory.exists()
    filled(directory)


def test_a_second_segment_in_the_same_place_is_refused_and_the_first_stays(make: Make) -> None:
    directory = make("s")
    early = directory.create()
    early.append("columns", b"other")
    filled(directory)
    with pytest.raises(AlreadyExistsError):
        directory.create()
    with pytest.raises(AlreadyExistsError):
        early.commit()
    early.abort()
    assert directory.read("columns", size_max=100).startswith(b"abc")


def test_a_map_outlives_the_segment(make: Make) -> None:
    directory = filled(make("s"))
    data = directory.map("columns")
    directory.delete()
    directory.delete()
    assert not directory.exists()
    assert data.tobytes() == b"abc\x01\x00\x02\x00"
    filled(directory)


def test_memory_that_is_let_go_of_changes_no_byte(make: Make) -> None:
    directory = make("s")
    content = np.random.default_rng(1).integers(1, 256, 8 * mmap.PAGESIZE + 100, np.uint8)
    draft = directory.create()
    draft.append("columns", content)
    draft.append("empty", b"")
    draft.commit()
    data, other = directory.map("columns"), directory.map("columns")
    for start, end in (
        (0, len(data)),
        (100, 3 * mmap.PAGESIZE + 5),
        (mmap.PAGESIZE, mmap.PAGESIZE),
        (8 * mmap.PAGESIZE, len(data)),
    ):
        directory.release(data, start, end)
        assert np.array_equal(data, content), (start, end)
    directory.release(directory.map("empty"), 0, 0)
    directory.delete()
    directory.release(data, 0, len(data))
    assert np.array_equal(data, content) and np.array_equal(other, content)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")
def test_pages_of_a_mapped_file_that_are_let_go_of_leave_the_process(tmp_path: Path) -> None:
    def resident_kib() -> int:
        found = re.search(
            re.escape(str(directory.path / "columns")) + r"\n(?:.*\n)*?Rss: +(\d+) kB",
            Path("/proc/self/smaps").read_text(),
        )
        assert found is not None
        return int(found[1])

    directory = FileDirectory(tmp_path / "s")
    draft = directory.create()
    draft.append("columns", np.ones(64 * mmap.PAGESIZE, np.uint8))
    draft.commit()
    data = directory.map("columns")
    assert data.sum() == len(data) and resident_kib() == len(data) >> 10
    directory.release(data, 0, len(data) // 2)
    assert resident_kib() <= len(data) >> 11


def test_what_is_missing_or_too_large_is_a_typed_error(make: Make) -> None:
    directory = filled(make("s"))
    for use in (
        lambda: directory.map("columns.1"),
        lambda: directory.read("columns.1", size_max=10),
        lambda: list(directory.chunks("columns.1")),
    ):
        with pytest.raises(SegmentCorruptError, match=r"columns\.1"):
            use()
    with pytest.raises(SegmentCorruptError, match="too large"):
        directory.read("columns", size_max=6)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/fd")
def test_a_mapped_file_keeps_no_descriptor_open(tmp_path: Path) -> None:
    directory = filled(FileDirectory(tmp_path / "s"))
    before = len(os.listdir("/proc/self/fd"))
    maps = [directory.map("columns") for _ in range(20)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert all(data.tobytes() == b"abc\x01\x00\x02\x00" for data in maps)
    name = str(directory.path / "columns")
    assert Path("/proc/self/maps").read_text().count(name) == 20
    del maps
    assert name not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("kind", ["p", "d", "l", "s"])
def test_what_is_no_regular_file_is_a_typed_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    directory = filled(FileDirectory(tmp_path / "s"))
    file = directory.path / "columns"
    match kind:
        case "p":
            file.unlink()
            os.mkfifo(file)
        case "d":
            file.unlink()
            file.mkdir()
        case "l":
            file.rename(tmp_path / "elsewhere")
            file.symlink_to(tmp_path / "elsewhere")
        case _:
            file.unlink()
            with socket.socket(socket.AF_UNIX) as listener:
                monkeypatch.chdir(directory.path)  # the name of a socket is short
                listener.bind(file.name)
    for use in (
        lambda: directory.map("columns"),
        lambda: directory.read("columns", size_max=100),
        lambda: list(directory.chunks("columns")),
    ):
        with ThreadPoolExecutor(1) as pool:
            try:
                with pytest.raises(SegmentCorruptError, match="columns"):
                    pool.submit(use).result(60)
            finally:
                if kind == "p":  # lets go of a thread that waits for a writer
                    os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))


@pytest.mark.parametrize("fault", [errno.EMFILE, errno.ENFILE])
def test_a_process_without_descriptors_is_no_damage_of_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int
) -> None:
    directory = filled(FileDirectory(tmp_path / "s"))

    def refuse(path: object, flags: int) -> int:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(os, "open", refuse)
    for use in (
        lambda: directory.map("columns"),
        lambda: directory.read("columns", size_max=100),
        lambda: list(directory.chunks("columns")),
    ):
        with pytest.raises(DiskError, match=r"columns' cannot be opened: too many open files; raise .* limit"):
            use()


def test_a_marker_can_be_replaced(make: Make) -> None:
    directory = filled(make("s"))
    for text in (b"one", b"two!"):
        directory.put_marker("verified", text)
        assert directory.read("verified", size_max=100) == text
    assert set(directory.fingerprint()) == {"columns", "metadata", "verified"}


def test_a_segment_is_built_and_read_through_the_door(make: Make) -> None:
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}]})
    directory = make("s")
    build_segment_into(directory, schema, None, [pa.record_batch({"a": ["x", None, "y"]})], "s")
    with open_segment(directory) as segment:
        assert pa.Table.from_batches(segment.to_batches()).to_pydict() == {"a": ["x", None, "y"]}
        scrub(segment)
    assert open_segment(directory, verify=False).num_docs == 3


def test_a_check_of_all_bytes_leaves_them_as_they_are(make: Make) -> None:
    fields = {"text": "STRING", "raw": "LONG", "number": "DOUBLE"}
    schema = Schema.from_json(
        {"schemaName": "t", "dimensionFieldSpecs": [{"name": name, "dataType": kind} for name, kind in fields.items()]}
    )
    rows = {
        "text": [f"{n:06d}" for n in range(5000)],
        "raw": list(range(5000)),
        "number": [n % 3000 / 7 for n in range(5000)],
    }
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
    }
    config = TableConfig.from_json(document | {"tableIndexConfig": {"noDictionaryColumns": ["raw"]}})
    directory = make("s")
    build_segment_into(directory, schema, config, [pa.record_batch(rows)], "s")
    with open_segment(directory, verify=True) as segment:
        assert pa.Table.from_batches(segment.to_batches()).to_pydict() == rows


def test_a_failed_build_leaves_nothing(make: Make) -> None:
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}, {"name": "b", "dataType": "INT"}],
        }
    )
    directory = make("s")
    with pytest.raises(Exception, match="column 'b'"):
        build_segment_into(directory, schema, None, [pa.record_batch({"a": ["x"], "b": ["no number"]})], "s")
    assert not directory.exists()
    if isinstance(directory, FileDirectory):
        assert os.listdir(directory.path.parent) == []


def test_both_kinds_hold_the_same_bytes(tmp_path: Path) -> None:
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "LONG"}]})
    places: list[SegmentDirectory] = [FileDirectory(tmp_path / "s"), MemoryDirectory("s")]
    for place in places:
        build_segment_into(place, schema, None, [pa.record_batch({"a": [3, 1, 2]})], "s")
    for name in ("columns", "metadata"):
        assert places[0].read(name, size_max=1 << 20) == places[1].read(name, size_max=1 << 20)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "s").iterdir()} == {0o444}


def test_a_full_disk_fails_the_build_and_releases_its_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reliability V4."""
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "LONG"}]})
    left = 200

    def write(descriptor: int, data: memoryview) -> int:
        nonlocal left
        if left == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real_write(descriptor, data[:left])
        left -= written
        return written

    real_write = os.write
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space left"):
        build_segment_into(
            FileDirectory(tmp_path / "s"), schema, None, [pa.record_batch({"a": list(range(1000))})], "s"
        )
    assert os.listdir(tmp_path) == [] and left == 0
