"""Proves that packing is deterministic and unpacking gives the same segment, that archives of GNU tar and Python's
tarfile are read, and that every archive which is no plain segment is refused with its reason, writes nothing outside
and leaves nothing.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.errors import AlreadyExistsError, UnsafeArchiveError, UserError
from pinotpy.segment.archive.archive import pack_segment, unpack_segment
from pinotpy.segment.archive.tar_stream import ArchiveLimits
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.immutable import load_segment

SCHEMA = Schema.from_json(
    {"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}, {"name": "b", "dataType": "LONG"}]}
)
ROWS = pa.record_batch({"a": pa.array([f"v{i % 97}" for i in range(5000)]), "b": pa.array(range(5000), pa.int64())})


@pytest.fixture
def segment_dir(tmp_path: Path) -> Path:
    build_segment(SCHEMA, None, [ROWS], tmp_path / "built", "flights_2013-01")
    return tmp_path / "built" / "flights_2013-01"


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "world" / "into"
    folder.mkdir(parents=True)
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_packed_segment_comes_back_equal_and_read_only(segment_dir: Path, into: Path, tmp_path: Path) -> None:
    load_segment(segment_dir)  # leaves its marker, which must stay at home
    archive = pack_segment(segment_dir, tmp_path / "s.tar.gz")
    found = unpack_segment(archive, into)
    assert found == into / "flights_2013-01"
    assert files_of(found) == {name: (segment_dir / name).read_bytes() for name in ("columns", "metadata")}
    assert {path.stat().st_mode & 0o777 for path in found.iterdir()} == {0o444}
    assert pa.Table.from_batches(load_segment(found).to_batches()).column("b").to_pylist() == list(range(5000))
    assert os.listdir(into) == ["flights_2013-01"]
    with pytest.raises(AlreadyExistsError):
        unpack_segment(archive, into)
    assert os.listdir(into) == ["flights_2013-01"]


def test_equal_segments_give_equal_archives(segment_dir: Path, tmp_path: Path) -> None:
    build_segment(SCHEMA, None, [ROWS.slice(0, 77), ROWS.slice(77)], tmp_path / "again", "flights_2013-01")
    os.utime(tmp_path / "again" / "flights_2013-01" / "columns", (5, 5))
    first = pack_segment(segment_dir, tmp_path / "first.tar.gz").read_bytes()
    assert first == pack_segment(tmp_path / "again" / "flights_2013-01", tmp_path / "second.tgz").read_bytes()
    # An independent reader sees what the format page says.
    with tarfile.open(tmp_path / "first.tar.gz") as tar:
        assert tar.getnames() == ["flights_2013-01", "flights_2013-01/metadata", "flights_2013-01/columns"]
        assert {(member.mtime, member.uid, member.uname) for member in tar} == {(0, 0, "")}


def test_a_segment_name_as_long_as_a_folder_may_be_survives(into: Path, tmp_path: Path) -> None:
    name = "s" * 255  # Linux; tar needs an extended header from 155 on
    with pytest.raises(UserError, match="255"):
        build_segment(SCHEMA, None, [ROWS], tmp_path, name + "s")
    build_segment(SCHEMA, None, [ROWS], tmp_path, name)
    assert unpack_segment(pack_segment(tmp_path / name, tmp_path / "s.tar.gz"), into).name == name


@pytest.mark.parametrize("tar_format", ["gnu", "pax", "ustar", "v7", "oldgnu"])
def test_archives_of_gnu_tar_are_read(segment_dir: Path, into: Path, tmp_path: Path, tar_format: str) -> None:
    command = ["tar", f"--format={tar_format}", "-czf", str(tmp_path / "s.tar.gz"), "-C", str(segment_dir.parent)]
    subprocess.run([*command, "./flights_2013-01" if tar_format == "gnu" else "flights_2013-01"], check=True)
    load_segment(unpack_segment(tmp_path / "s.tar.gz", into))


def write_tar(path: Path, fill: Callable[[tarfile.TarFile], None], tar_format: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w:gz", format=tar_format) as tar:
        fill(tar)
    return path


def add(tar: tarfile.TarFile, name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data) if kind == tarfile.REGTYPE else 0
    tar.addfile(info, io.BytesIO(data))


def names(*entries: str) -> Callable[[tarfile.TarFile], None]:
    def fill(tar: tarfile.TarFile) -> None:
        for name in entries:
            add(tar, name)

    return fill


def special(kind: bytes, link: str = "/etc/passwd") -> Callable[[tarfile.TarFile], None]:
    return lambda tar: add(tar, "s/columns", kind=kind, link=link)


HOSTILE: dict[str, tuple[Callable[[tarfile.TarFile], None], str]] = {
    "parent": (names("../columns"), "leaves its directory"),
    "parent below": (names("s/../../columns"), "leaves its directory"),
    "absolute": (names("/s/columns"), "leaves its directory"),
    "backslash": (names("s\\..\\columns"), "leaves its directory"),
    "no directory": (names("columns"), "stands outside"),
    "dot": (names("./columns"), "stands outside"),
    "nested": (names("s/t/columns"), "no part of a segment"),
    "double slash": (names("s//columns"), "no part of a segment"),
    "two roots": (names("s/columns", "t/metadata"), "two directories"),
    "foreign file": (names("s/columns", "s/.bashrc"), "no part of a segment"),
    "marker": (names("s/verified"), "no part of a segment"),
    "columns.0": (names("s/columns.0"), "no part of a segment"),
    "wrong name": (names("s*t/columns"), "cannot be a segment name"),
    "newline": (names("s\nt/columns"), "cannot be a segment name"),
    "twice": (names("s/columns", "s/columns"), "twice"),
    "case": (names("s/Columns"), "no part of a segment"),
    "no metadata": (names("s/columns"), "'metadata' is missing"),
    "nothing": (names(), "is missing"),
    "symlink": (special(tarfile.SYMTYPE), "symbolic link"),
    "hard link": (special(tarfile.LNKTYPE), "hard link"),
    "character device": (special(tarfile.CHRTYPE), "character device"),
    "block device": (special(tarfile.BLKTYPE), "block device"),
    "fifo": (special(tarfile.FIFOTYPE), "fifo"),
    "sparse": (special(tarfile.GNUTYPE_SPARSE), "sparse file"),
    "contiguous": (special(tarfile.CONTTYPE), "contiguous"),
    "unknown type": (special(b"Z"), "unknown type"),
    "file in a directory's place": (lambda tar: add(tar, "s/columns", kind=tarfile.DIRTYPE), "no part of a segment"),
    "symlink as root": (
        lambda tar: (add(tar, "s", kind=tarfile.SYMTYPE, link="/tmp"), add(tar, "s/columns"))[0],
        "symbolic link",
    ),
    "many entries": (names(*(f"s/columns.{i}" for i in range(1, 100))), "more than 64 entries"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_archive_is_refused_with_its_reason(what: str, into: Path, tmp_path: Path) -> None:
    fill, reason = HOSTILE[what]
    for tar_format in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        refuse(write_tar(tmp_path / "a.tar.gz", fill, tar_format), into, reason)


def refuse(archive: Path, into: Path, reason: str, limits: ArchiveLimits | None = None) -> None:
    with pytest.raises(UnsafeArchiveError, match=reason):
        unpack_segment(archive, into, limits=limits)
    assert [path.relative_to(into.parent) for path in into.parent.rglob("*")] == [Path("into")], (
        "something was left behind"
    )


def test_a_pax_header_can_neither_smuggle_a_path_nor_a_sparse_map(into: Path, tmp_path: Path) -> None:
    for headers, reason in (
        ({"path": "../../columns"}, "leaves its directory"),
        ({"GNU.sparse.major": "1"}, "sparse"),
        ({"size": "-5"}, "no number"),
        ({"path": "s/" + "x" * 5000}, "extended header"),
    ):

        def fill(tar: tarfile.TarFile, headers: dict[str, str] = headers) -> None:
            info = tarfile.TarInfo("s/columns")
            info.pax_headers = headers
            tar.addfile(info)

        refuse(write_tar(tmp_path / "a.tar.gz", fill), into, reason)

    def global_header(tar: tarfile.TarFile) -> None:
        add(tar, "s/columns")

    with tarfile.open(tmp_path / "g.tar.gz", "w:gz", format=tarfile.PAX_FORMAT, pax_headers={"path": "/etc/x"}) as tar:
        global_header(tar)
    refuse(tmp_path / "g.tar.gz", into, "global pax header")


def test_bombs_end_at_their_limits_and_not_at_their_size(into: Path, tmp_path: Path) -> None:
    def zeros(size: int) -> Path:
        path = tmp_path / "bomb.tar.gz"
        with gzip.open(path, "wb", compresslevel=9) as out:
            info = tarfile.TarInfo("s/columns")
            info.size = size
            out.write(info.tobuf())
            for _ in range(size >> 20):
                out.write(bytes(1 << 20))
        return path

    # 200 MB of zeros in 200 kB: stopped by the ratio long before the end of its 200 MB.
    refuse(zeros(200 << 20), into, "more than 100 times its size")
    refuse(zeros(8 << 20), into, "more than 100 times", ArchiveLimits(ratio_floor_bytes=1 << 20))
    refuse(zeros(8 << 20), into, "has 8388608 bytes, allowed: 1000000", ArchiveLimits(file_max_bytes=1_000_000))
    refuse(zeros(8 << 20), into, "unpacks to more than 1000000 bytes", ArchiveLimits(total_max_bytes=1_000_000))
    # Two files within the limit of one, over the limit of all.
    two = write_tar(
        tmp_path / "two.tar.gz",
        lambda tar: (add(tar, "s/columns", os.urandom(70_000)), add(tar, "s/metadata", os.urandom(70_000)))[0],
    )
    refuse(two, into, "unpacks to more than 100000 bytes", ArchiveLimits(total_max_bytes=100_000))


def test_tens_of_thousands_of_entries_are_refused_after_the_64th(into: Path, tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "many.tar.gz", names(*["s/columns"], *(f"s/columns.{i}" for i in range(1, 30_000))))

    class Counting(io.FileIO):
        num_read = 0

        def read(self, size: int | None = -1, /) -> bytes:
            data = super().read(size)
            Counting.num_read += len(data)
            return data

    from pinotpy.segment.archive.tar_stream import read_entries

    with pytest.raises(UnsafeArchiveError, match="more than 64 entries"):
        for _ in read_entries(Counting(archive), ArchiveLimits()):
            pass
    assert Counting.num_read <= 128 << 10 < archive.stat().st_size
    refuse(archive, into, "more than 64 entries|no part of a segment")


def test_truncated_and_damaged_archives_are_refused(segment_dir: Path, into: Path, tmp_path: Path) -> None:
    sound = pack_segment(segment_dir, tmp_path / "s.tar.gz").read_bytes()
    bad = tmp_path / "bad.tar.gz"
    for length in [0, 1, 5, 20, len(sound) // 2, len(sound) - 9, len(sound) - 1]:
        bad.write_bytes(sound[:length])
        refuse(bad, into, "truncated|not a gzip")
    for content in (
        b"PK\x03\x04" * 100,
        b"\x1f\x8b\x08\x00" + bytes(500),
        gzip.compress(os.urandom(5000)),
        gzip.compress(b"short"),
    ):
        bad.write_bytes(content)
        refuse(bad, into, "not a gzip|not a tar|truncated")
    bad.write_bytes(sound + b"tail")
    refuse(bad, into, "behind its gzip stream")
    plain = gzip.decompress(sound)
    for position in range(0, 512, 7):
        flipped = bytearray(plain)
        flipped[512 + position] ^= 0x41
        bad.write_bytes(gzip.compress(bytes(flipped), 1))
        refuse(bad, into, "checksum")
    # The last blocks cut off, the end mark gone, or something behind it.
    for tail in (plain[: len(plain) - 1024], plain[: len(plain) // 512 // 2 * 512]):
        bad.write_bytes(gzip.compress(tail, 1))
        refuse(bad, into, "truncated")
    bad.write_bytes(gzip.compress(plain + b"more", 1))
    refuse(bad, into, "behind its end mark")


def test_a_link_that_waits_in_the_folder_is_not_followed(segment_dir: Path, into: Path, tmp_path: Path) -> None:
    archive = pack_segment(segment_dir, tmp_path / "s.tar.gz")
    outside = tmp_path / "outside"
    outside.mkdir()
    (into / "flights_2013-01").symlink_to(outside)
    with pytest.raises(AlreadyExistsError):
        unpack_segment(archive, into)
    assert not list(outside.iterdir())
