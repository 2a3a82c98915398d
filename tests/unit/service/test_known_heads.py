"""Proves, over real sockets, that a request whose head came before is answered as the first one was, without parsing;
that heads which name who asks are not kept; and that nothing but the very same bytes of one whole request counts as
known.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from pinotpy.service import http_server, known_heads
from pinotpy.service.http_protocol import GuardedHttpProtocol


def request(body: bytes, *headers: bytes) -> bytes:
    lines = [b"host: localhost", *headers, b"content-length: %d" % len(body)]
    return b"POST /query HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The URLs of the messages that the parser saw."""
    seen: list[bytes] = []
    complete = GuardedHttpProtocol.on_headers_complete

    def noted(self: GuardedHttpProtocol) -> None:
        seen.append(self.url)
        complete(self)

    monkeypatch.setattr(GuardedHttpProtocol, "on_headers_complete", noted)
    yield seen


class Client:
    """One connection."""

    def __init__(self, url: str) -> None:
        host, port = url.split("//")[1].split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60.0)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *problem: object) -> None:
        self.socket.close()

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.socket.sendall(piece)

    def answers(self, count: int = 1) -> list[tuple[bytes, bytes]]:
        """(head without its date, body) of the next answers."""
        received, found = b"", []
        while len(found) < count:
            head, separator, rest = received.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) if separator else 0
            if not separator or len(rest) < length:
                more = self.socket.recv(65536)
                assert more, f"hung up after {received!r}"
                received += more
                continue
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"date:")]
            found.append((b"\r\n".join(lines), rest[:length]))
            received = rest[length:]
        assert received == b""
        return found

    def ask(self, *pieces: bytes) -> tuple[bytes, bytes]:
        self.send(*pieces)
        return self.answers()[0]


def test_a_head_is_parsed_once_and_answered_alike_on_every_connection(serve_toy: Any, parsed: list[bytes]) -> None:
    server, toy = serve_toy()
    with Client(server.url) as one, Client(server.url) as other:
        answers = [one.ask(request(b"a")), one.ask(request(b"b")), other.ask(request(b"c")), one.ask(request(b"d"))]
    assert answers[0][1] == b'{"who":"anonymous"}' and answers == [answers[0]] * 4
    assert toy.bodies == [b"a", b"b", b"c", b"d"] and len(parsed) == 1 and len(toy.app.known_heads) == 1
    text = toy.metrics.render().decode()
    assert 'pinot_broker_httpRequests_total{status="2xx"} 4.0' in text


def test_faults_of_a_known_head_s_request_are_answered_as_ever(serve_toy: Any, parsed: list[bytes]) -> None:
    server, toy = serve_toy()
    with Client(server.url) as client:
        first = [client.ask(request(body)) for body in (b"fine", b"boom", b"text", b"bad")]
        again = [client.ask(request(body)) for body in (b"fine", b"boom", b"text", b"bad")]
    assert [head.split(b" ")[1] for head, _ in first] == [b"200", b"500", b"202", b"400"]
    assert [head.split(b" ")[1] for head, _ in again] == [b"200", b"500", b"202", b"400"]
    assert again[0] == first[0] and again[2] == first[2] and again[3][1] == first[3][1]
    # "fine", "boom" and "text" have one head: it was known from the first on.
    assert len(parsed) == 3 and toy.bodies[:4] == toy.bodies[4:]


@pytest.mark.parametrize(
    "header",
    [
        b"authorization: Basic YTpi",
        b"x-request-id: mine",
        b"connection: upgrade",
        b"cookie: a=b",
        b"x-pinotpy-cluster-token: " + b"t" * 32,
    ],
)
def test_heads_that_name_who_asks_are_not_kept(serve_toy: Any, parsed: list[bytes], header: bytes) -> None:
    server, toy = serve_toy()
    with Client(server.url) as client:
        assert client.ask(request(b"a", header))[1] == client.ask(request(b"a", header))[1]
    assert len(parsed) == 2 and len(toy.app.known_heads) == 0


def test_a_head_that_lets_the_connection_live_by_name_is_kept(serve_toy: Any, parsed: list[bytes]) -> None:
    server, toy = serve_toy()
    with Client(server.url) as client:
        first = client.ask(request(b"a", b"Connection: Keep-Alive"))
        assert client.ask(request(b"b", b"Connection: Keep-Alive")) == first
    assert len(parsed) == 1 and toy.bodies == [b"a", b"b"]


def test_refused_heads_and_urls_with_the_text_are_not_kept(serve_toy: Any, parsed: list[bytes]) -> None:
    server, toy = serve_toy()
    with Client(server.url) as client:
        for refused in (
            request(b"a").replace(b"localhost", b"evil.example"),
            request(b"a", b"origin: http://evil.example"),
            request(b"a", b"content-encoding: gzip"),
        ):
            assert [client.ask(refused)[0].split(b" ")[1] for _ in range(2)] in ([b"403"] * 2, [b"415"] * 2)
        client.ask(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert len(toy.app.known_heads) == 0 and toy.bodies == []


def test_a_known_head_in_pieces_or_with_more_behind_it_is_parsed(serve_toy: Any, parsed: list[bytes]) -> None:
    server, toy = serve_toy()
    whole = request(b"12345678")
    with Client(server.url) as client:
        expected = client.ask(whole)
        for cut in (1, 20, len(whole) - 9, len(whole) - 8, len(whole) - 1):
            client.send(whole[:cut])
            # The first part is read alone: the server answers others meanwhile.
            with Client(server.url) as other:
                assert other.ask(whole) == expected
            assert client.ask(whole[cut:]) == expected
        client.send(whole * 3)
        assert client.answers(3) == [expected] * 3
        client.send(b"\r\n" + whole)
        assert client.answers() == [expected]
        client.send(whole + whole[:30])
        assert client.answers() == [expected]
        assert client.ask(whole[30:]) == expected
        assert client.ask(whole) == expected
    assert set(toy.bodies) == {b"12345678"} and len(toy.bodies) == 18
    assert len(toy.app.known_heads) <= 2


def test_a_known_request_behind_one_that_is_answered_waits_for_its_turn(serve_toy: Any) -> None:
    server, toy = serve_toy()
    with Client(server.url) as client:
        expected = client.ask(request(b"a"))
        client.send(request(b"b") + request(b"c"), request(b"d"), request(b"e"))
        assert client.answers(4) == [expected] * 4
    assert toy.bodies == [b"a", b"b", b"c", b"d", b"e"]


def test_no_more_heads_are_kept_than_allowed(serve_toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_heads, "HEADS_MAX", 5)
    server, toy = serve_toy()
    with Client(server.url) as client:
        for length in range(1, 30):
            client.ask(request(b"x" * length))
            assert len(toy.app.known_heads) == min(length, 5)
        client.ask(request(b"x", b"x-long: " + b"y" * known_heads.HEAD_MAX_BYTES))
    assert len(toy.app.known_heads) == 5 and len(toy.bodies) == 30


def test_an_idle_connection_is_closed_after_its_time(serve_toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SWEEP_INTERVAL_S", 0.02)
    monkeypatch.setattr(http_server, "KEEP_ALIVE_S", 0.3)
    server, _ = serve_toy()
    with Client(server.url) as client:
        for _ in range(2):
            client.ask(request(b"a"))
        assert client.socket.recv(1) == b""
