"""Proves that a check reads the same in memory and on the disk, that it takes no more memory than there is room and
gives all of it back, that nothing is written where there is room, and that all files are those of the metadata.
"""

from __future__ import annotations

import gzip
import os
import tarfile
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.controller.check_room import CheckRoom
from pinotpy.errors import DataError, UnsafeArchiveError
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.archive.archive_check import check_archive
from pinotpy.segment.archive.tar_stream import ArchiveLimits
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.immutable import load_segment

SCHEMA = Schema.from_json(
    {"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}, {"name": "b", "dataType": "LONG"}]}
)
ROWS = pa.record_batch({"a": pa.array([f"v{i % 97}" for i in range(5000)]), "b": pa.array(range(5000), pa.int64())})


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    build_segment(SCHEMA, None, [ROWS], tmp_path / "built", "s")
    return pack_segment(tmp_path / "built" / "s", tmp_path / "s.tar.gz")


def scratch(tmp_path: Path, room_bytes: int) -> Path:
    folder = tmp_path / f"scratch-{room_bytes}"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("room_bytes", [1 << 30, 5000, 0])
def test_the_metadata_are_those_of_the_segment_wherever_it_is_unpacked(
    archive: Path, tmp_path: Path, room_bytes: int
) -> None:
    folder, room = scratch(tmp_path, room_bytes), CheckRoom(room_bytes)
    found = check_archive(archive, folder, limits=ArchiveLimits(), room=room)
    assert found == load_segment(tmp_path / "built" / "s").metadata
    assert os.listdir(folder) == ([] if room_bytes > 1 << 20 else ["s"])
    assert room.left_bytes == room_bytes


@pytest.mark.parametrize("room_bytes", [1 << 30, 0])
def test_every_byte_is_under_a_check_wherever_it_is_unpacked(archive: Path, tmp_path: Path, room_bytes: int) -> None:
    plain = gzip.decompress(archive.read_bytes())
    causes = set()
    for number, position in enumerate([100, 600, 2000, len(plain) // 2, len(plain) - 12_000]):
        flipped = bytearray(plain)
        flipped[position] ^= 0x10
        damaged = tmp_path / f"damaged-{number}-{room_bytes}.tar.gz"
        damaged.write_bytes(gzip.compress(bytes(flipped), 1))
        folder, room = scratch(tmp_path, 10 + number * 2 + bool(room_bytes)), CheckRoom(room_bytes)
        with pytest.raises(DataError) as refused:
            check_archive(damaged, folder, limits=ArchiveLimits(), room=room)
        causes.add(type(refused.value))
        assert room.left_bytes == room_bytes
    assert len(causes) > 1  # of the archive, and of the segment in it


@pytest.mark.parametrize("room_bytes", [1 << 30, 0])
def test_a_file_that_the_metadata_does_not_name_is_refused_by_its_name(
    archive: Path, tmp_path: Path, room_bytes: int
) -> None:
    more = tmp_path / "more.tar.gz"
    with tarfile.open(archive) as packed, tarfile.open(more, "w:gz") as out:
        for member in packed.getmembers():
            out.addfile(member, packed.extractfile(member))
        junk = tarfile.TarInfo("s/columns.1")
        junk.size = 5
        out.addfile(junk, BytesIO(b"junk!"))
    room = CheckRoom(room_bytes)
    with pytest.raises(UnsafeArchiveError, match=r"has 'columns\.1', which .* not name: expected metadata, columns"):
        check_archive(more, scratch(tmp_path, room_bytes), limits=ArchiveLimits(), room=room)
    assert room.left_bytes == room_bytes


def test_what_a_header_announces_is_not_taken_for_granted(archive: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.tar.gz"
    short.write_bytes(gzip.compress(gzip.decompress(archive.read_bytes())[:-6000]))
    room = CheckRoom(1 << 30)
    with pytest.raises(UnsafeArchiveError, match="truncated"):
        check_archive(short, scratch(tmp_path, 1), limits=ArchiveLimits(), room=room)
    with pytest.raises(UnsafeArchiveError, match="allowed: 100"):
        check_archive(archive, scratch(tmp_path, 2), limits=ArchiveLimits(file_max_bytes=100), room=room)
    assert room.left_bytes == 1 << 30
