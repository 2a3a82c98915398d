"""Proves that a registered segment has its archive, whatever else happens to files of its name, and what a full disk is
told.
"""

from __future__ import annotations

import errno
import gzip
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from controller_harness import PARTS_TABLE, Harness

from pinotpy.controller import multipart
from pinotpy.controller.deletion import delete_segments
from pinotpy.controller.segment_files import SegmentFiles
from pinotpy.controller.tables import delete_table
from pinotpy.segment.directory import file_directory

Builder = Callable[..., Path]


def serves(harness: Harness, archive: Path, name: str = "a") -> bool:
    found = harness.http.get(f"/segments/parts/{name}")
    return found.status_code == 200 and found.content == archive.read_bytes()


@pytest.mark.parametrize("whole_table", [False, True])
def test_a_segment_that_comes_in_while_its_namesakes_files_go_keeps_its_archive(
    harness: Harness, segment: Builder, monkeypatch: pytest.MonkeyPatch, whole_table: bool
) -> None:
    harness.add_parts()
    harness.upload(segment("a", amounts=(1,)), tableName="parts")
    new, retire = segment("a", amounts=(2,)), SegmentFiles.retire

    def with_an_upload_before(files: SegmentFiles, *args: Any, **kwargs: Any) -> None:
        monkeypatch.setattr(SegmentFiles, "retire", retire)
        if whole_table:
            harness.add_parts()
        assert harness.upload(new, tableName="parts").status_code == 200
        retire(files, *args, **kwargs)

    monkeypatch.setattr(SegmentFiles, "retire", with_an_upload_before)
    if whole_table:
        delete_table(harness.controller, "parts", None)
    else:
        delete_segments(harness.controller, "parts_OFFLINE", ["a"])
    assert serves(harness, new)
    # Of the deleted segment the file is kept for a while, as of any other.
    kept = [name for name in harness.files() if name.startswith("store/")]
    assert len(kept) == 2 and sum("/Deleted_Segments/" in name for name in kept) == 1, kept


def test_a_namesake_that_came_in_by_another_controller_is_no_concern_of_a_deletion(
    harness: Harness, segment: Builder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness.add_parts()
    harness.upload(segment("a", amounts=(1,)), tableName="parts")
    record = harness.controller.catalog.segment("parts_OFFLINE", "a")
    assert record is not None
    elsewhere, retire = (
        replace(record.segment, download_url="http://other:9000/segments/parts/a", crc=7),
        SegmentFiles.retire,
    )

    def with_a_registration_before(files: SegmentFiles, *args: Any, **kwargs: Any) -> None:
        harness.controller.catalog.add_segment(elsewhere, ["Server_s_1"])
        retire(files, *args, **kwargs)

    monkeypatch.setattr(SegmentFiles, "retire", with_a_registration_before)
    delete_segments(harness.controller, "parts_OFFLINE", ["a"])
    assert not [entry for entry in caplog.records if entry.levelname == "ERROR"]
    assert [name for name in harness.files() if name.startswith("store/segments/")] == []


def test_halves_of_a_table_do_not_take_each_others_files(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    stream = {"streamType": "file", "stream.file.topic.name": "x", "stream.file.directory": "/nowhere",
              "stream.file.decoder.class.name": "json"}  # fmt: skip
    assert (
        harness.post_json(
            "/tables", PARTS_TABLE | {"tableType": "REALTIME", "tableIndexConfig": {"streamConfigs": stream}}
        ).status_code
        == 200
    )
    harness.add_instance("Server_s_9", ("DefaultTenant_REALTIME",))
    first, second = segment("a", amounts=(1,)), segment("a", amounts=(2,))
    for half in ("OFFLINE", "REALTIME"):
        assert harness.upload(first, tableName="parts", tableType=half).status_code == 200
    assert harness.upload(second, tableName="parts", tableType="REALTIME").status_code == 200 and serves(harness, first)
    assert harness.http.delete("/segments/parts", params={"type": "REALTIME"}).status_code == 200
    assert serves(harness, first)
    assert harness.upload(first, tableName="parts", tableType="REALTIME").status_code == 200
    assert harness.http.delete("/tables/parts", params={"type": "REALTIME"}).status_code == 200
    assert serves(harness, first)


def test_an_archive_that_a_deletion_took_before_the_registration_is_stored_again(
    harness: Harness, segment: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.add_parts()
    archive, put = segment("a"), SegmentFiles.put

    def with_a_deletion_behind(files: SegmentFiles, *args: Any) -> Any:
        monkeypatch.setattr(SegmentFiles, "put", put)
        stored = put(files, *args)
        files.retire("parts_OFFLINE", "a", until_ms=None)
        return stored

    monkeypatch.setattr(SegmentFiles, "put", with_a_deletion_behind)
    assert harness.upload(archive, tableName="parts").status_code == 200 and serves(harness, archive)


def test_content_that_comes_back_at_once_keeps_its_archive(
    harness: Harness, segment: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One upload replaces the content, another brings it back before the first one has removed the old file."""
    harness.add_parts()
    first, second = segment("a", amounts=(1,)), segment("a", amounts=(2,))
    harness.upload(first, tableName="parts")
    has, answers = SegmentFiles.has, []

    def with_an_upload_before(files: SegmentFiles, *args: Any) -> bool:
        monkeypatch.setattr(SegmentFiles, "has", has)
        answers.append(harness.upload(first, tableName="parts").status_code)
        return has(files, *args)

    monkeypatch.setattr(SegmentFiles, "has", with_an_upload_before)
    assert harness.upload(second, tableName="parts").status_code == 200 and answers == [200]
    assert serves(harness, first)


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "flipped", "longer"])
def test_the_same_upload_again_repairs_what_lies_in_the_deep_store(
    harness: Harness, segment: Builder, damage: str
) -> None:
    harness.add_parts()
    archive = segment("a")
    assert harness.upload(archive, tableName="parts").status_code == 200
    (stored,) = (harness.data_dir / name for name in harness.files() if name.startswith("store/segments/"))
    whole = archive.read_bytes()
    stored.unlink()  # the store may share the bytes with a file of somebody else
    if damage != "missing":
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        stored.write_bytes({"empty": b"", "truncated": whole[:-9], "flipped": flipped, "longer": whole + b"x"}[damage])
    assert harness.upload(archive, tableName="parts").status_code == 200 and serves(harness, archive)
    assert [harness.data_dir / name for name in harness.files() if name.startswith("store/")] == [stored]


def test_an_archive_is_given_out_as_it_lies_there_whatever_length_the_record_has(
    harness: Harness, segment: Builder
) -> None:
    """Archives of one content may differ in length: by the tool that packed them, by what encrypts them."""
    harness.add_parts()
    archive = segment("a")
    harness.upload(archive, tableName="parts")
    other = gzip.compress(gzip.decompress(archive.read_bytes()), compresslevel=0)
    assert len(other) != archive.stat().st_size
    assert harness.upload(other, tableName="parts").status_code == 200
    found = harness.http.get("/segments/parts/a")
    assert found.content == other and found.headers["content-length"] == str(len(other))


def test_the_same_upload_again_leaves_a_whole_archive_alone(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    archive = segment("a")
    harness.upload(archive, tableName="parts")
    (stored,) = (harness.data_dir / name for name in harness.files() if name.startswith("store/segments/"))
    before = stored.stat().st_ino
    kept = stored.with_name("kept")
    os.link(stored, kept)  # its inode is not given to another file
    assert harness.upload(archive, tableName="parts").status_code == 200
    assert stored.stat().st_ino == before


# --- a full disk ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    ("owner", "name"), [(tempfile, "mkdtemp"), (multipart._Sink, "write"), (file_directory, "_write")]
)
def test_a_full_disk_is_told_and_may_be_tried_again(
    harness: Harness, segment: Builder, owner: Any, name: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.add_parts()
    archive = segment("a")
    room = harness.controller.check_room
    assert room.take(room.left_bytes)  # what is checked in memory meets no disk

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, full)
        answer = harness.upload(archive, tableName="parts")
    assert answer.status_code == 503 and "controller.local.temp.dir" in answer.json()["error"], answer.text
    assert answer.headers["retry-after"] and harness.files() == []
    assert harness.upload(archive, tableName="parts").status_code == 200
