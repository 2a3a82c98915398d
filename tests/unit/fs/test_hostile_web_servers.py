"""Proves that a web server that misbehaves makes no wrong file and no foreign error: every answer ends in the file as
it is stored or in one of our errors, within the limit of time. Answers are written byte by byte to the socket.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from botocore.exceptions import HTTPClientError

from pinotpy.clock import SystemClock
from pinotpy.errors import DataError, NotFoundError, PinotError, RemoteError, UserError
from pinotpy.fs.allowed_uris import AllowedUris
from pinotpy.fs.fetchers import SegmentFetchers, settings_of
from pinotpy.fs.file_system import FileSystem
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.guarded_http import GuardedHttpFiles
from pinotpy.fs.s3_files import S3Files
from pinotpy.fs.settings import FileSystemSettings

MIB = 1 << 20
OLD, NEW = b"A" * (20 * MIB), b"B" * (20 * MIB)
Answer = Callable[[str], bytes]
"""Head of a request → all that is sent."""


class RawServer:
    """`answer` may be replaced at any time; `seen` counts requests. With `pause_s`, lines go out one by one."""

    def __init__(self) -> None:
        self.answer: Answer = lambda head: b""
        self.seen, self.pause_s, self.closed = 0, 0.0, threading.Event()
        self.num_pieces = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    received = connection.recv(1 << 16)
                    if not received:
                        return
                    head += received
                self.seen += 1
                content = self.answer(head.decode("latin1"))
                for line in content.splitlines(keepends=True) if self.pause_s else [content]:
                    connection.sendall(line)
                    self.num_pieces += 1
                    if self.pause_s and self.closed.wait(self.pause_s):
                        return
            except OSError:
                return

    def close(self) -> None:
        self.closed.set()
        self._listener.close()


@pytest.fixture
def server() -> Iterator[RawServer]:
    found = RawServer()
    yield found
    found.close()


def answer(status: int, body: bytes = b"", **headers: object) -> bytes:
    lines = [
        f"HTTP/1.1 {status} X",
        "connection: close",
        *(f"{key.replace('_', '-')}: {value}" for key, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def ranged(content: bytes, shift: int = 0, **headers: object) -> Answer:
    """A server of one file that knows ranges; `shift`: it gives others than it was asked for."""

    def of(head: str) -> bytes:
        found = re.search(r"range: bytes=(\d+)-(\d+)", head, re.IGNORECASE)
        if not found:
            return answer(200, content, content_length=len(content), **headers)
        first, last = int(found[1]) + shift, min(int(found[2]) + shift, len(content) - 1)
        piece = content[first : last + 1]
        return answer(
            206, piece, content_range=f"bytes {first}-{last}/{len(content)}", content_length=len(piece), **headers
        )

    return of


def fetchers(*allowed: str, timeout_ms: int = 10_000, **keys: str) -> SegmentFetchers:
    protocols = {"http.retry.count": "0", **{key.replace("__", "."): value for key, value in keys.items()}}
    return SegmentFetchers(settings_of(allowed, protocols, {}, bytes_max=1 << 30, timeout_ms=timeout_ms), SystemClock())


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (answer(200, b"abcd", content_length=-3), RemoteError),
        (answer(200, b"abcd", content_length="9" * 30), RemoteError),
        (answer(200, b"abcd", content_length=9), RemoteError),
        (answer(202, b"", content_length=0), RemoteError),
        (answer(204), RemoteError),
        (answer(206, b"abc", content_range="bytes 0-2/*", content_length=3), RemoteError),
        (answer(206, b"abc", content_range="bytes 0-2/" + "9" * 5000, content_length=3), RemoteError),
        (answer(304), DataError),
        (answer(302, content_length=0), DataError),
        (answer(302, content_length=0, location=""), RemoteError),
        (answer(302, content_length=0, location="http://["), RemoteError),
        (answer(302, content_length=0, location="http://127.0.0.1:999999/"), UserError),
        (answer(302, content_length=0, location="http://user:hunter2@127.0.0.1/"), PinotError),
        (answer(200, b"a", x="y" * 300_000), RemoteError),
        (b"no protocol\r\n\r\n", RemoteError),
        (b"", RemoteError),
    ],
)
@pytest.mark.parametrize("call", ["fetch", "open"])
def test_a_wrong_answer_is_an_error_of_ours_and_no_file(
    server: RawServer, tmp_path: Path, wrong: bytes, kind: type[PinotError], call: str
) -> None:
    server.answer = lambda head: wrong
    found, uri = fetchers(server.url), f"{server.url}/a"
    with pytest.raises(kind) as told:
        if call == "fetch":
            found.fetch(uri, tmp_path / "a")
        else:
            found.files(uri).open(uri).close()
    assert "hunter2" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("header", ["etag", "last_modified"])
@pytest.mark.parametrize("is_guarded", [True, False])
def test_pieces_of_two_versions_are_no_file(server: RawServer, header: str, is_guarded: bool) -> None:
    versions = {
        "etag": ('"1"', '"2"'),
        "last_modified": ("Sun, 01 Nov 2026 00:00:00 GMT", "Mon, 02 Nov 2026 00:00:00 GMT"),
    }[header]
    uri = f"{server.url}/a"
    files = fetchers(server.url).files(uri) if is_guarded else file_system_for(uri)
    server.answer = ranged(OLD, **{header: versions[0]})
    with files.open(uri) as reader:
        assert reader.read(MIB) == OLD[:MIB]
        server.answer = ranged(NEW, **{header: versions[1]})
        with pytest.raises(RemoteError, match="replaced while it was read"):
            reader.read()
        server.answer = lambda head: answer(404, content_length=0)
        with pytest.raises(RemoteError, match="replaced or deleted"):
            reader.read()


def test_a_range_that_was_not_asked_for_is_refused(server: RawServer) -> None:
    server.answer = ranged(OLD)
    with file_system_for(server.url).open(f"{server.url}/a") as reader:
        server.answer = ranged(OLD, shift=5)
        with pytest.raises(RemoteError, match="broke off or was replaced"):
            reader.read(10)


def test_a_file_is_read_to_its_end_in_few_requests(server: RawServer) -> None:
    server.answer = ranged(OLD)
    with file_system_for(server.url).open(f"{server.url}/a") as reader:
        assert reader.read() == OLD
    assert server.seen <= 5


def test_an_answer_whose_headers_drip_meets_the_limit_of_time(server: RawServer, tmp_path: Path) -> None:
    server.pause_s = 0.05
    server.answer = lambda head: answer(200, b"late", content_length=4, **{f"x{number}": "y" for number in range(100)})
    with pytest.raises(RemoteError, match="no answer within"):
        fetchers(server.url, timeout_ms=300).fetch(f"{server.url}/a", tmp_path / "a")
    assert server.num_pieces < 100, "given up while the headers came"
    # The try that was given up ends some time, and leaves nothing either.
    deadline = time.monotonic() + 60
    while any(thread.name == "file-system-call" for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(tmp_path.iterdir()) == []


def test_credentials_go_by_no_weaker_protocol() -> None:
    seen: list[tuple[str, str | None]] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append((request.url.scheme, request.headers.get("authorization")))
        return (
            httpx.Response(302, headers={"location": "http://127.0.0.1:4430/b"})
            if len(seen) == 1
            else httpx.Response(404)
        )

    allowed = AllowedUris(("https://127.0.0.1:4430/", "http://127.0.0.1:4430/"))
    files = GuardedHttpFiles(allowed, {"authorization": "Bearer of-the-operator"})
    files._client = httpx.Client(transport=httpx.MockTransport(reply))
    with pytest.raises(NotFoundError):
        files.open("https://127.0.0.1:4430/a")
    assert seen == [("https", "Bearer of-the-operator"), ("http", None)]


def s3_at(server: RawServer) -> FileSystem:
    configs = {"endpoint": server.url, "accessKey": "AKID", "secretKey": "hunter2", "requestTimeoutMs": "2000"}
    return file_system_for("s3://bucket/", FileSystemSettings.from_specs([{"scheme": "s3", "configs": configs}]))


@pytest.mark.parametrize("call", ["stat", "open", "fetch", "delete", "list", "put"])
@pytest.mark.parametrize(
    "wrong", [answer(200, content_length=0), answer(200, b"<html>", content_length=6)], ids=["nothing", "a page"]
)
def test_an_endpoint_that_is_no_s3_is_no_empty_bucket(
    server: RawServer, tmp_path: Path, call: str, wrong: bytes
) -> None:
    server.answer = lambda head: wrong
    files, uri = s3_at(server), "s3://bucket/a"
    (tmp_path / "source").write_bytes(b"x")
    calls: dict[str, Callable[[], object]] = {
        "stat": lambda: files.stat(uri),
        "open": lambda: files.open(uri),
        "fetch": lambda: files.fetch(uri, tmp_path / "target"),
        "delete": lambda: files.delete(uri),
        "list": lambda: list(files.list("s3://bucket/")),
        "put": lambda: files.put(uri, tmp_path / "source"),
    }
    with pytest.raises(RemoteError):
        calls[call]()
    assert not (tmp_path / "target").exists()


def test_an_endpoint_of_s3_that_redirects_is_told(server: RawServer) -> None:
    """As load balancers do from http to https; the library asked itself for the region of the bucket until the stack
    was full.
    """
    server.answer = lambda head: answer(301, content_length=0, location="https://127.0.0.1:1/")
    for call in (lambda: s3_at(server).stat("s3://bucket/a"), lambda: list(s3_at(server).list("s3://bucket/"))):
        with pytest.raises(DataError, match="redirects"):
            call()


def test_a_full_stack_is_told_as_a_redirect_wherever_it_is_met() -> None:
    """Met within a request, the library wraps it into an error of its own."""

    class Full:
        def head_object(self, **_: object) -> None:
            try:
                raise RecursionError("maximum recursion depth exceeded")
            except RecursionError as error:
                raise HTTPClientError(error=error)  # noqa: B904 - as the library does

    with pytest.raises(DataError, match="redirects"):
        S3Files(Full(), "bucket").stat("s3://bucket/a")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"FileStatus": 5}',
        '{"FileStatus": {"type": "FILE"}}',
        '{"FileStatus": {"type": "FILE", "length": "x"}}',
    ],
)
@pytest.mark.parametrize("call", ["stat", "open", "list"])
def test_an_answer_of_webhdfs_that_is_none_is_told(server: RawServer, text: str, call: str) -> None:
    server.answer = lambda head: answer(200, text.encode(), content_length=len(text))
    uri = server.url.replace("http:", "webhdfs:") + "/a"
    files = file_system_for(uri)
    calls: dict[str, Callable[[], object]] = {
        "stat": lambda: files.stat(uri),
        "open": lambda: files.open(uri),
        "list": lambda: list(files.list(uri)),
    }
    with pytest.raises(RemoteError, match="answer of WebHDFS"):
        calls[call]()
