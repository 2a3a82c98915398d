"""Proves uploads whose bytes lie elsewhere: the controller fetches only what its operator allows, checks it as if it
had been sent, keeps or leaves it where the form of the upload says, and a metadata push moves no bytes. Over real HTTP,
from real files and a real web server.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from controller_harness import Harness

from pinotpy.segment.archive.archive import pack_metadata, read_archive_metadata

Builder = Callable[..., Path]
Starter = Callable[..., Harness]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The folder that the operator allows."""
    folder = tmp_path / "files"
    folder.mkdir()
    return folder


@pytest.fixture
def harness(start: Starter, files: Path) -> Harness:
    harness = start(settings={"segment_uris_allowed": f"file://{files}/"})
    harness.add_parts()
    return harness


@pytest.fixture
def web(files: Path) -> Iterator[str]:
    """`files` behind a web server on loopback; `/away` redirects to the metadata service of clouds."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(files))  # type: ignore[arg-type]

        def do_GET(self) -> None:
            if self.path == "/away":
                self.send_response(302)
                self.send_header("location", "http://169.254.169.254/latest/meta-data/")
                self.end_headers()
                return
            super().do_GET()

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join(60)


def placed(archive: Path, files: Path, name: str = "parts_0.tar.gz") -> str:
    (files / name).write_bytes(archive.read_bytes())
    return f"file://{files}/{name}"


def by_uri(harness: Harness, uri: str, path: str = "/v2/segments", **headers: str) -> httpx.Response:
    sent = {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": uri, "content-type": "application/json", **headers}
    return harness.http.post(path, headers=sent, params={"tableName": "parts"})


def by_metadata(
    harness: Harness, archive: Path, uri: str, *, part: bytes | None = None, **headers: str
) -> httpx.Response:
    with archive.open("rb") as source:
        metadata, data = read_archive_metadata(source)
    sent = {"UPLOAD_TYPE": "METADATA", "DOWNLOAD_URI": uri, **headers}
    content = pack_metadata(data, metadata.segment_name) if part is None else part
    return harness.http.post("/v2/segments", headers=sent, params={"tableName": "parts"}, files={"file": content})


def stored(harness: Harness) -> list[str]:
    return [name for name in harness.files() if name.startswith("store/")]


def record(harness: Harness, name: str = "parts_0") -> dict[str, str]:
    return dict(harness.http.get(f"/segments/parts/{name}/metadata").json())


# --- the forms --------------------------------------------------------------------------------------------------------


def test_an_upload_by_uri_takes_the_segment_into_the_deep_store(
    harness: Harness, segment: Builder, files: Path
) -> None:
    archive = segment()
    answer = by_uri(harness, placed(archive, files))
    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "Successfully uploaded segment: parts_0 of table: parts_OFFLINE"},
    )
    found = record(harness)
    assert found["segment.download.url"] == "http://localhost:9000/segments/parts/parts_0"
    assert stored(harness) == [f"store/segments/parts/parts_0/{found['segment.crc']}.tar.gz"]
    assert harness.http.get("/segments/parts/parts_0").content == archive.read_bytes()
    assert set(harness.http.get("/tables/parts/idealstate").json()["OFFLINE"]) == {"parts_0"}


def test_the_older_path_leaves_the_segment_where_it_is(harness: Harness, segment: Builder, files: Path) -> None:
    archive, uri = segment(), ""
    uri = placed(archive, files)
    assert by_uri(harness, uri, "/segments").status_code == 200
    found = record(harness)
    assert (found["segment.download.url"], found["segment.size.in.bytes"]) == (uri, str(archive.stat().st_size))
    assert stored(harness) == []
    # Servers that have no list of their own get it from here.
    assert harness.http.get("/segments/parts/parts_0").content == archive.read_bytes()


def test_a_metadata_push_moves_no_bytes(harness: Harness, segment: Builder, files: Path) -> None:
    archive = segment()
    uri = placed(archive, files)
    sent = segment()
    assert by_metadata(harness, sent, uri).status_code == 200
    with archive.open("rb") as source:
        metadata, _ = read_archive_metadata(source)
    found = record(harness)
    assert (found["segment.download.url"], found["segment.crc"], found["segment.total.docs"]) == (
        uri,
        str(metadata.crc),
        "3",
    )
    assert found["segment.size.in.bytes"] == str(archive.stat().st_size)
    assert (found["segment.start.time.raw"], found["segment.end.time.raw"]) == ("18000", "18002")
    assert stored(harness) == []
    assert harness.http.get("/segments/parts/parts_0").content == archive.read_bytes()


def test_a_metadata_push_with_a_copy_fills_the_deep_store(harness: Harness, segment: Builder, files: Path) -> None:
    archive = segment()
    assert by_metadata(harness, archive, placed(archive, files), COPY_SEGMENT_TO_DEEP_STORE="true").status_code == 200
    assert record(harness)["segment.download.url"] == "http://localhost:9000/segments/parts/parts_0"
    assert len(stored(harness)) == 1
    assert by_metadata(harness, archive, placed(archive, files), COPY_SEGMENT_TO_DEEP_STORE="maybe").status_code == 400


def test_the_same_content_by_another_way_changes_times_only(harness: Harness, segment: Builder, files: Path) -> None:
    archive = segment()
    uri = placed(archive, files)
    assert by_metadata(harness, archive, uri).status_code == 200
    before = record(harness)
    assert harness.upload(archive, tableName="parts").status_code == 200
    after = record(harness)
    assert {key for key in after if after[key] != before.get(key)} == {"segment.refresh.time"}
    assert (stored(harness), harness.messages("Server_localhost_8098")) == ([], [])


def test_new_content_by_another_way_refreshes(harness: Harness, segment: Builder, files: Path) -> None:
    assert harness.upload(segment(), tableName="parts").status_code == 200
    other = segment(amounts=(7, 8))
    uri = placed(other, files)
    assert by_metadata(harness, other, uri).status_code == 200
    assert (record(harness)["segment.download.url"], stored(harness)) == (uri, [])
    assert harness.messages("Server_localhost_8098")[0]["MSG_SUBTYPE"] == "REFRESH_SEGMENT"
    assert harness.upload(segment(amounts=(5,)), tableName="parts").status_code == 200
    assert record(harness)["segment.download.url"] == "http://localhost:9000/segments/parts/parts_0"
    assert (files / "parts_0.tar.gz").exists(), "what is not ours is never deleted"


def test_conditions_hold_for_every_form(harness: Harness, segment: Builder, files: Path) -> None:
    archive = segment()
    uri = placed(archive, files)
    refused = by_uri(harness, uri, REFRESH_ONLY="true")
    assert (refused.status_code, refused.json()["error"]) == (
        410,
        "Cannot refresh non-existing segment: parts_0 for table: parts_OFFLINE",
    )
    assert by_metadata(harness, archive, uri, **{"IF-MATCH": "1"}).status_code == 412
    assert (stored(harness), harness.http.get("/segments/parts").json()) == ([], [{"OFFLINE": []}])
    assert by_uri(harness, uri).status_code == 200
    assert by_uri(harness, uri, REFRESH_ONLY="true").status_code == 200
    headers = {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": uri}
    assert (
        harness.http.post(
            "/v2/segments", headers=headers, params={"tableName": "parts", "allowRefresh": "false"}
        ).status_code
        == 409
    )


def test_by_web_address(start: Starter, segment: Builder, files: Path, web: str) -> None:
    harness = start(settings={"segment_uris_allowed": f"{web}/"})
    harness.add_parts()
    archive = segment()
    placed(archive, files)
    assert by_uri(harness, f"{web}/parts_0.tar.gz").status_code == 200
    assert harness.http.get("/segments/parts/parts_0").content == archive.read_bytes()
    gone = by_uri(harness, f"{web}/nothing.tar.gz")
    assert gone.status_code == 404, gone.text
    away = by_uri(harness, f"{web}/away")
    assert away.status_code == 403, away.text
    assert len(stored(harness)) == 1


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/hostname",
        "file://{files}/../secret.tar.gz",
        "file://{files}-beside/parts_0.tar.gz",
        "{files}/parts_0.tar.gz",
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:9000/health",
        "http://localhost:2181/",
        "http://[::1]:9000/",
        "http://10.0.0.1/parts_0.tar.gz",
        "https://example.com/parts_0.tar.gz",
        "s3://bucket/parts_0.tar.gz",
        "hdfs://namenode/parts_0.tar.gz",
        "gopher://x/",
        "memory://x/y",
    ],
)
@pytest.mark.parametrize("upload_type", ["URI", "METADATA"])
def test_addresses_that_nobody_allowed_are_refused_before_the_body(
    harness: Harness, segment: Builder, files: Path, uri: str, upload_type: str
) -> None:
    archive, asked = segment(), uri.format(files=files)
    answer = by_uri(harness, asked) if upload_type == "URI" else by_metadata(harness, archive, asked)
    assert answer.status_code in (400, 403), answer.text
    assert (harness.files(), harness.http.get("/segments/parts").json()) == ([], [{"OFFLINE": []}])


def test_a_link_in_the_allowed_folder_leads_nowhere(
    harness: Harness, segment: Builder, files: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.tar.gz"
    secret.write_bytes(segment().read_bytes())
    (files / "link.tar.gz").symlink_to(secret)
    assert by_uri(harness, f"file://{files}/link.tar.gz").status_code == 403


def test_a_listed_name_does_not_open_loopback(start: Starter, web: str) -> None:
    """`localhost.localdomain`-like names that lead to this machine stay closed unless its network is listed, too."""
    port = web.rpartition(":")[2]
    harness = start(settings={"segment_uris_allowed": f"http://files.example.internal:{port}/"})
    harness.add_parts()
    resolved = harness.controller.fetchers.allowed
    resolved._resolve = lambda host, port: ["127.0.0.1"]
    answer = by_uri(harness, f"http://files.example.internal:{port}/parts_0.tar.gz")
    assert answer.status_code == 403, answer.text
    assert "not public" in answer.json()["error"]


@pytest.mark.parametrize("kind", ["text", "torn", "flipped"])
def test_what_was_fetched_is_checked_like_what_was_sent(
    harness: Harness, segment: Builder, files: Path, kind: str
) -> None:
    whole = segment().read_bytes()
    content = {
        "text": b"no archive, honestly",
        "torn": whole[: len(whole) // 2],
        "flipped": whole[:-30] + bytes([whole[-30] ^ 64]) + whole[-29:],
    }[kind]
    (files / "parts_0.tar.gz").write_bytes(content)
    for path in ("/segments", "/v2/segments"):
        answer = by_uri(harness, f"file://{files}/parts_0.tar.gz", path)
        assert answer.status_code == 400, answer.text
        assert str(harness.data_dir) not in answer.text
    assert harness.files() == []


def test_a_fetch_beyond_the_limit_is_refused(start: Starter, segment: Builder, files: Path) -> None:
    harness = start(settings={"segment_uris_allowed": f"file://{files}/", "upload_bytes_max": 1024})
    harness.add_parts()
    archive = segment(amounts=range(5000))
    assert archive.stat().st_size > 1024
    uri = placed(archive, files)
    answer = by_uri(harness, uri)
    assert (answer.status_code, "longer than the 1024 bytes" in answer.text) == (400, True), answer.text
    assert by_metadata(harness, archive, uri).status_code == 413
    assert harness.files() == []


def test_a_metadata_push_needs_its_segment_to_be_there(harness: Harness, segment: Builder, files: Path) -> None:
    answer = by_metadata(harness, segment(), f"file://{files}/nothing.tar.gz")
    assert answer.status_code == 404, answer.text
    assert harness.http.get("/segments/parts").json() == [{"OFFLINE": []}]


@pytest.mark.parametrize("part", [b"", b"text", b"whole"])
def test_a_metadata_push_has_metadata_and_nothing_else(
    harness: Harness, segment: Builder, files: Path, part: bytes
) -> None:
    archive = segment()
    content = archive.read_bytes() if part == b"whole" else part
    answer = by_metadata(harness, archive, placed(archive, files), part=content)
    assert answer.status_code == 400, answer.text
    assert "metadata" in answer.json()["error"]
    assert harness.http.get("/segments/parts").json() == [{"OFFLINE": []}]


def test_metadata_of_another_table_are_refused_with_the_reason(harness: Harness, segment: Builder, files: Path) -> None:
    archive = segment(table="other")
    answer = by_metadata(harness, archive, placed(archive, files))
    assert (answer.status_code, "built for table 'other'" in answer.text) == (400, True)


def test_forms_that_contradict_themselves(harness: Harness, segment: Builder, files: Path) -> None:
    uri = placed(segment(), files)
    no_uri = harness.http.post("/v2/segments?tableName=parts", headers={"UPLOAD_TYPE": "URI"})
    assert (no_uri.status_code, "DOWNLOAD_URI" in no_uri.text) == (400, True)
    no_part = harness.http.post(
        "/v2/segments?tableName=parts",
        headers={"UPLOAD_TYPE": "METADATA", "DOWNLOAD_URI": uri, "content-type": "application/json"},
    )
    assert (no_part.status_code, "multipart" in no_part.text) == (400, True)
    assert by_uri(harness, uri, CRYPTER="NoSuchCrypter").status_code in (400, 500)
    assert by_uri(harness, uri, CRYPTER="NoOpPinotCrypter").status_code == 200
    long_body = harness.http.post(
        "/v2/segments?tableName=parts", headers={"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": uri}, content=b"x" * (2 << 20)
    )
    assert long_body.status_code == 413


def test_a_copy_must_be_the_segment_that_was_announced(harness: Harness, segment: Builder, files: Path) -> None:
    first, second = segment("parts_0"), segment("parts_1")
    answer = by_metadata(harness, first, placed(second, files), COPY_SEGMENT_TO_DEEP_STORE="true")
    assert (
        answer.status_code == 400
        and "expected segment 'parts_0'" in answer.json()["error"]
        and "found 'parts_1'" in answer.json()["error"]
    )
    other = segment("parts_0", amounts=(9,))
    assert (
        "with CRC"
        in by_metadata(harness, first, placed(other, files), COPY_SEGMENT_TO_DEEP_STORE="true").json()["error"]
    )
    junk = by_metadata(harness, first, placed(first, files), part=b"junk", COPY_SEGMENT_TO_DEEP_STORE="true")
    assert junk.status_code == 400 and "no segment's metadata" in junk.json()["error"]
    assert stored(harness) == [] and harness.http.get("/segments/parts").json() == [{"OFFLINE": []}]
    assert by_metadata(harness, first, placed(first, files), COPY_SEGMENT_TO_DEEP_STORE="true").status_code == 200


def test_a_full_disk_is_not_the_fault_of_who_named_the_address(
    harness: Harness, segment: Builder, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = placed(segment(), files)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        answer = by_uri(harness, uri)
    assert answer.status_code == 503 and "controller.local.temp.dir" in answer.json()["error"], answer.text
    assert by_uri(harness, uri).status_code == 200
