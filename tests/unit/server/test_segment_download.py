"""Proves what bounds a segment's download: tries, time, bytes and entries; and that archives arrive in the folder that
the settings name while the segment appears beside the others. A real HTTP server on loopback plays the controller.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pyarrow as pa
import pytest
from scripted_web import NoWaiting, Web, fails, gives

from pinotpy.clock import ManualClock, SystemClock
from pinotpy.config.schema import Schema
from pinotpy.errors import DataError, RemoteError, UnsafeArchiveError
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.archive.tar_stream import ArchiveLimits
from pinotpy.segment.build.builder import build_segment
from pinotpy.server.tables.fetcher import ControllerFetcher
from pinotpy.server.tables.store import SegmentStore
from pinotpy.service.archive_download import DownloadLimits

SCHEMA = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "INT"}]})
URL, PATH = "http://elsewhere:9000/segments/t/t_0", "/segments/t/t_0"


@pytest.fixture
def controller() -> Iterator[Web]:
    web = Web()
    yield web
    web.close()


def fetcher_of(
    controller: Web, limits: DownloadLimits, clock: SystemClock | ManualClock | None = None
) -> ControllerFetcher:
    return ControllerFetcher(lambda: [controller.url], dict, clock or NoWaiting(), limits=limits)


def test_a_failed_download_is_tried_again_as_often_as_the_setting_says(controller: Web, tmp_path: Path) -> None:
    controller.answers = [fails(500), fails(500), gives(b"archive")]
    fetcher_of(controller, DownloadLimits(retries_max=2)).fetch(URL, tmp_path / "a", PATH)
    assert (tmp_path / "a").read_bytes() == b"archive"

    controller.answers = [fails(500)]
    controller.seen.clear()
    clock = NoWaiting()
    with pytest.raises(RemoteError, match="in 13 attempts"):
        fetcher_of(controller, DownloadLimits(retries_max=12), clock).fetch(URL, tmp_path / "b", PATH)
    assert len(controller.seen) == 13
    assert len(clock.waits) == 12, "no wait after the last try"
    assert max(clock.waits) <= 45, "waits grow to a bound"


def test_no_retries_means_one_try(controller: Web, tmp_path: Path) -> None:
    controller.answers = [fails(500), gives(b"archive")]
    with pytest.raises(RemoteError, match="in 1 attempts"):
        fetcher_of(controller, DownloadLimits(retries_max=0)).fetch(URL, tmp_path / "a", PATH)


def test_a_segment_that_no_controller_has_is_given_up_soon(controller: Web, tmp_path: Path) -> None:
    controller.answers = [fails(404)]
    clock = NoWaiting()
    with pytest.raises(RemoteError, match=r"in 4 attempts.*HTTP 404"):
        fetcher_of(controller, DownloadLimits(), clock).fetch(URL, tmp_path / "a", PATH)
    assert sum(clock.waits) < 3


def test_a_controller_that_is_away_is_waited_for_longer_than_its_restart(tmp_path: Path) -> None:
    clock = NoWaiting()
    with pytest.raises(RemoteError, match="in 9 attempts"):
        ControllerFetcher(lambda: ["http://127.0.0.1:1"], dict, clock).fetch(URL, tmp_path / "a", PATH)
    assert 25 <= sum(clock.waits) <= 80


def test_a_download_that_takes_too_long_is_broken_off(controller: Web, tmp_path: Path) -> None:
    clock = ManualClock()

    def drips(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("content-length", "1000000")
        request.end_headers()
        request.wfile.write(b"x" * 500)
        clock.advance(2_001)
        request.wfile.write(b"x" * 999_500)

    controller.answers = [drips]
    with pytest.raises(RemoteError, match="took longer than 2000 ms"):
        fetcher_of(controller, DownloadLimits(timeout_ms=2_000, retries_max=0), clock).fetch(URL, tmp_path / "a", PATH)


def test_an_archive_over_the_limit_is_not_asked_for_twice(controller: Web, tmp_path: Path) -> None:
    controller.answers = [gives(b"x" * 2_000)]
    with pytest.raises(DataError, match="over 1999 bytes"):
        fetcher_of(controller, DownloadLimits(archive_bytes_max=1_999)).fetch(URL, tmp_path / "a", PATH)
    assert len(controller.seen) == 1


class _Copier:
    """A fetcher that has the archive already and notes where it is asked to put it."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.targets: list[Path] = []

    def fetch(self, url: str, target: Path, rest_path: str) -> None:
        self.targets.append(target)
        target.write_bytes(self.archive.read_bytes())


@pytest.fixture
def built(tmp_path: Path) -> tuple[_Copier, int]:
    metadata = build_segment(
        SCHEMA, None, [pa.record_batch({"a": pa.array(range(100), pa.int32())})], tmp_path / "built", "t_0"
    )
    return _Copier(pack_segment(tmp_path / "built" / "t_0", tmp_path / "t_0.tar.gz")), metadata.crc


def test_archives_arrive_in_the_segment_dir_and_leave_nothing_there(built: tuple[_Copier, int], tmp_path: Path) -> None:
    copier, crc = built
    arrivals, own = tmp_path / "arrivals", tmp_path / "arrivals" / "something of the operator"
    left = arrivals / "arriving" / "of a crash"
    left.mkdir(parents=True)
    own.touch()
    store = SegmentStore(tmp_path / "data", copier, segment_dir=arrivals)
    assert own.exists() and not left.exists(), "only the store's own folder is swept"

    segment = store.open("t_OFFLINE", "t_0", crc, URL)
    assert segment.num_docs == 100
    segment.close()
    assert copier.targets[0].is_relative_to(arrivals)
    assert list((arrivals / "arriving").iterdir()) == []
    assert sorted(path.name for path in (tmp_path / "data" / "t_OFFLINE").iterdir()) == ["t_0"]
    assert list((tmp_path / "data" / ".incoming").iterdir()) == []


@pytest.mark.parametrize("name", ["verified", "columns", "metadata"])
def test_a_pipe_among_a_segments_files_holds_no_load(built: tuple[_Copier, int], tmp_path: Path, name: str) -> None:
    copier, crc = built
    store = SegmentStore(tmp_path / "data", copier)
    store.open("t_OFFLINE", "t_0", crc, URL).close()
    file = tmp_path / "data" / "t_OFFLINE" / "t_0" / name
    file.unlink()
    os.mkfifo(file)
    with ThreadPoolExecutor(1) as pool:
        try:
            segment = pool.submit(store.open, "t_OFFLINE", "t_0", crc, URL).result(60)
        finally:
            if file.is_fifo():  # lets go of a thread that waits for a writer
                os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))
    assert segment.num_docs == 100 and file.is_file()
    segment.close()
    assert len(copier.targets) == (1 if name == "verified" else 2), "only a marker is no part of the segment"


def test_without_a_segment_dir_archives_arrive_within_the_data_dir(built: tuple[_Copier, int], tmp_path: Path) -> None:
    copier, crc = built
    SegmentStore(tmp_path / "data", copier).open("t_OFFLINE", "t_0", crc, URL).close()
    assert copier.targets[0].is_relative_to(tmp_path / "data")


@pytest.mark.parametrize("limits", [ArchiveLimits.of(1, 1 << 30), ArchiveLimits.of(100, 200)], ids=["entries", "bytes"])
def test_a_downloaded_archive_is_held_to_the_servers_limits(
    built: tuple[_Copier, int], tmp_path: Path, limits: ArchiveLimits
) -> None:
    copier, crc = built
    with pytest.raises(UnsafeArchiveError):
        SegmentStore(tmp_path / "data", copier, limits=limits).open("t_OFFLINE", "t_0", crc, URL)
    assert not (tmp_path / "data" / "t_OFFLINE" / "t_0").exists()
