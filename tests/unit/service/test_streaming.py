"""Proves answers in pieces over real sockets: whole and in order for every kind of request; made no faster than they
are read; given up when the client leaves, reads nothing, or reads too slowly; and visibly broken where a piece fails.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from pinotpy.service import http_protocol, streaming
from pinotpy.service.tls import TlsFiles, client_context

WHOLE = b"onetwo" + b"x" * 300_000
HEAD = b"POST /query HTTP/1.1\r\nhost: localhost\r\n"


@pytest.fixture
def toy(serve_toy) -> tuple[str, list[bytes]]:
    server, made = serve_toy()
    return server.url, made.bodies


def connected(url: str, receive_bytes: int | None = None) -> socket.socket:
    host, port = url.split("//")[1].split(":")
    connection = socket.socket()
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(60.0)
    connection.connect((host, int(port)))
    return connection


def wait_until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    ends = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def read_all(connection: socket.socket) -> bytes:
    content = b""
    while piece := connection.recv(1 << 16):
        content += piece
    return content


def chunks_of(body: bytes) -> Iterator[bytes]:
    """The chunks of a body; AssertionError if it does not end with the empty one."""
    while True:
        size, _, body = body.partition(b"\r\n")
        number = int(size, 16)
        chunk, end, body = body[:number], body[number : number + 2], body[number + 2 :]
        assert end == b"\r\n" and len(chunk) == number
        if not number:
            assert body == b""
            return
        yield chunk


def test_pieces_are_chunks_on_a_connection_that_lives_on(toy: tuple[str, list[bytes]]) -> None:
    with httpx.Client(base_url=toy[0]) as client:
        for _ in range(3):  # the second request's head is known
            answer = client.post("/query", content=b"stream")
            assert (answer.status_code, answer.content, answer.headers["content-type"], answer.headers["x-extra"]) == (
                200,
                WHOLE,
                "text/plain",
                "1",
            )
            assert answer.headers["transfer-encoding"] == "chunked" and "content-length" not in answer.headers
            assert client.post("/query", content=b"text").content == b"hello"


def test_pieces_of_nothing_are_no_end(toy: tuple[str, list[bytes]]) -> None:
    with connected(toy[0]) as connection:
        connection.sendall(HEAD + b"connection: close\r\ncontent-length: 6\r\n\r\nstream")
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert b"connection: close" in head and list(chunks_of(body)) == [b"one", b"two", b"x" * 300_000]


@pytest.mark.parametrize(
    "request_bytes",
    [
        HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n6\r\nstream\r\n0\r\n\r\n",
        HEAD + b"content-length: 4\r\n\r\ntext" + HEAD + b"connection: close\r\ncontent-length: 6\r\n\r\nstream",
    ],
    ids=["body in chunks", "two requests at once"],
)
def test_requests_on_the_longer_way_get_the_same(toy: tuple[str, list[bytes]], request_bytes: bytes) -> None:
    with connected(toy[0]) as connection:
        connection.sendall(request_bytes)
        content = read_all(connection)
    body = content[content.rindex(b"HTTP/1.1 200") :].partition(b"\r\n\r\n")[2]
    assert b"".join(chunks_of(body)) == WHOLE


def test_requests_that_follow_wait_for_the_last_piece(toy: tuple[str, list[bytes]]) -> None:
    with connected(toy[0]) as connection:
        connection.sendall(
            HEAD + b"content-length: 6\r\n\r\nstream" + HEAD + b"connection: close\r\ncontent-length: 4\r\n\r\ntext"
        )
        content = read_all(connection)
    assert content.endswith(b"0\r\n\r\n" + content[content.rindex(b"HTTP/1.1 202") :]) and content.endswith(b"hello")


def test_a_client_of_http_1_0_gets_a_length(toy: tuple[str, list[bytes]]) -> None:
    with connected(toy[0]) as connection:
        connection.sendall(b"POST /query HTTP/1.0\r\nhost: localhost\r\ncontent-length: 6\r\n\r\nstream")
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(WHOLE) in head and b"chunked" not in head and body == WHOLE


def test_pieces_over_tls(serve_toy, certificates) -> None:
    server, _ = serve_toy(tls=TlsFiles(certificates.daemon, certificates.daemon_key))
    with httpx.Client(base_url=server.url, verify=client_context(TlsFiles(ca=certificates.ca))) as client:
        assert client.post("/query", content=b"stream").content == WHOLE


@pytest.mark.parametrize(
    "framing", [b"content-length: 5\r\n\r\nbreak", b"transfer-encoding: chunked\r\n\r\n5\r\nbreak\r\n0\r\n\r\n"]
)
def test_a_piece_that_fails_breaks_the_connection_and_shows_nothing(
    toy: tuple[str, list[bytes]], framing: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(toy[0]) as connection:
        connection.sendall(HEAD + framing)
        content = b""
        with contextlib.suppress(ConnectionResetError):
            content = read_all(connection)
    assert b"secret" not in content and not content.endswith(b"0\r\n\r\n")
    wait_until(lambda: "answer broke off" in caplog.text)
    with pytest.raises(httpx.HTTPError):
        httpx.post(f"{toy[0]}/query", content=b"break")


def test_a_client_that_reads_nothing_costs_a_few_pieces_and_others_nothing(toy: tuple[str, list[bytes]]) -> None:
    url, made = toy
    with connected(url, receive_bytes=4096) as connection:
        connection.sendall(HEAD + b"content-length: 7\r\n\r\nendless")
        wait_until(lambda: made.count(b"piece") > 0)
        with httpx.Client(base_url=url) as other:
            seen = -1
            while (now := made.count(b"piece")) != seen:  # until no more are made
                seen = now
                for _ in range(20):
                    assert other.post("/query", content=b"text").content == b"hello"
        # The sockets' own buffers take some; ours at most one piece and what the transport holds.
        assert seen < 200
        assert b"given up" not in made
    wait_until(lambda: b"given up" in made)


@pytest.mark.parametrize(
    "framing", [b"content-length: 7\r\n\r\nendless", b"transfer-encoding: chunked\r\n\r\n7\r\nendless\r\n0\r\n\r\n"]
)
def test_a_client_that_reads_too_slowly_is_cut_off(
    toy: tuple[str, list[bytes]], framing: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(streaming, "STREAM_GRACE_S", 0.5)
    monkeypatch.setattr(streaming, "STREAM_MIN_BYTES_PER_S", 1 << 40)
    url, made = toy
    with caplog.at_level("INFO"), connected(url, receive_bytes=4096) as connection:
        connection.sendall(HEAD + framing)
        wait_until(lambda: b"given up" in made)
        with pytest.raises(
            (ConnectionResetError, AssertionError)
        ):  # cut off at once, or after what was under way: never with an end
            list(chunks_of(read_all(connection).partition(b"\r\n\r\n")[2]))
    assert "reads too slowly" in caplog.text


def test_a_client_that_stops_reading_is_swept_away(
    toy: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "READ_TIMEOUT_S", 1.5)
    url, made = toy
    with connected(url, receive_bytes=4096) as connection:
        connection.sendall(HEAD + b"content-length: 7\r\n\r\nendless")
        wait_until(lambda: b"given up" in made)


def test_a_client_that_hangs_up_ends_the_pieces(toy: tuple[str, list[bytes]]) -> None:
    url, made = toy
    connection = connected(url)
    connection.sendall(HEAD + b"content-length: 7\r\n\r\nendless")
    assert len(connection.recv(1000)) > 0
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    wait_until(lambda: b"given up" in made)
