"""Proves, over real sockets from several addresses, that no number of connections keeps others out: those at rest are
given up, those at work hold a part of the places, and a reserve serves health checks and daemons. The words of proxies
are believed only where the operator says so. Failed logins of others keep no right password out."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from pinotpy.service import users_file
from pinotpy.service.access import ALL_RIGHTS, AllowAll, UsersFileAccess, add_token, add_user
from pinotpy.service.addresses import TrustedProxies, counted_address
from pinotpy.service.connections import RESERVE_MIN, RESERVE_SHARE, fitting_places
from pinotpy.service.http_server import HttpServer

GREEDY, OTHER, THIRD = "127.0.0.2", "127.0.0.1", "127.0.0.3"
PLACES = 200
TOKEN = "0123456789abcdef0123456789abcdef"
WAIT = b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nwait"


@pytest.fixture
def sockets() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def connect(server: HttpServer, source: str, stack: contextlib.ExitStack) -> socket.socket:
    return stack.enter_context(
        socket.create_connection((server.host, server.port), timeout=60, source_address=(source, 0))
    )


def ask(server: HttpServer, source: str, path: str = "/version", headers: dict[str, str] | None = None) -> HTTPResponse:
    """One request on a connection of its own from the address `source`; the answer is read."""
    connection = HTTPConnection(server.host, server.port, timeout=60, source_address=(source, 0))
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        return answer


def counted(toy, what: str) -> float:
    found = re.search(rf"(?m)^pinot_broker_httpConnections{what}_total (\S+)", toy.metrics.render().decode())
    assert found is not None
    return float(found.group(1))


@pytest.mark.parametrize("connections_max", [1, 20, 32, 128, 512, 100_000])
@pytest.mark.parametrize("wanted", [1, 8, 200, 1000])
def test_places_and_their_reserve_fit(wanted: int, connections_max: int) -> None:
    places = fitting_places(wanted, connections_max)
    assert 1 <= places <= wanted
    assert places == 1 or places + max(places // RESERVE_SHARE, RESERVE_MIN) <= connections_max
    if connections_max == 100_000:
        assert places == wanted


@pytest.mark.parametrize("sent", [b"", b"GET /ver", b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n"])
def test_connections_at_rest_keep_nobody_out(serve_toy, sockets: contextlib.ExitStack, sent: bytes) -> None:
    server, toy = serve_toy(connections_max=PLACES)
    for _ in range(PLACES + PLACES // 2):
        idle = connect(server, GREEDY, sockets)
        idle.sendall(sent)
        if sent.endswith(b"\r\n\r\n"):
            assert idle.recv(12) == b"HTTP/1.1 200"
    assert [ask(server, OTHER).status for _ in range(20)] == [200] * 20
    assert [ask(server, GREEDY).status for _ in range(20)] == [200] * 20
    assert counted(toy, "GivenUp") >= PLACES and counted(toy, "Refused") == 0


def test_the_connection_longest_at_rest_is_given_up_and_one_at_work_is_not(
    serve_toy, sockets: contextlib.ExitStack, eventually: Callable[..., float]
) -> None:
    server, toy = serve_toy(connections_max=8, connections_by_address_max=3)
    working = connect(server, GREEDY, sockets)
    working.sendall(WAIT)
    eventually(lambda: toy.bodies == [b"wait"])
    request = b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n"
    older, newer = connect(server, GREEDY, sockets), connect(server, GREEDY, sockets)
    for each in (older, newer, older):  # asked again, the older one is the younger at rest
        each.sendall(request)
        assert each.recv(65536).startswith(b"HTTP/1.1 200")
    assert ask(server, GREEDY).status == 200
    with contextlib.suppress(ConnectionResetError):
        assert newer.recv(1) == b""
    older.sendall(request)
    assert older.recv(65536).startswith(b"HTTP/1.1 200")
    assert toy.bodies == [b"wait"]


def test_at_work_an_address_has_its_part_and_health_and_daemons_a_reserve(
    serve_toy, sockets: contextlib.ExitStack, eventually: Callable[..., float]
) -> None:
    server, toy = serve_toy(AllowAll(TOKEN), connections_max=8, connections_by_address_max=4)

    def hold(source: str, count: int) -> None:
        before = len(toy.bodies)
        for _ in range(count):
            connect(server, source, sockets).sendall(WAIT)
        eventually(lambda: len(toy.bodies) == before + count)

    hold(GREEDY, 4)
    refused = ask(server, GREEDY)
    assert refused.status == 503 and refused.headers["retry-after"] == "1"
    assert "too many connections" in json.loads(refused.text)["error"]
    assert ask(server, OTHER).status == 200
    hold(OTHER, 4)
    assert ask(server, THIRD).status == 503
    assert ask(server, THIRD, "/health").status == 200
    daemon = {"x-pinotpy-cluster-token": TOKEN}
    assert ask(server, THIRD, headers=daemon).status == 200
    assert ask(server, THIRD, headers={"x-pinotpy-cluster-token": TOKEN[::-1]}).status == 503
    assert counted(toy, "Refused") == 3


def test_a_trusted_proxy_is_bounded_by_the_whole_only(
    serve_toy, sockets: contextlib.ExitStack, eventually: Callable[..., float]
) -> None:
    server, toy = serve_toy(connections_max=8, connections_by_address_max=2, proxies=TrustedProxies([GREEDY]))
    for _ in range(6):
        connect(server, GREEDY, sockets).sendall(WAIT)
    eventually(lambda: len(toy.bodies) == 6)
    assert ask(server, GREEDY).status == 200


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9, 10.0.0.2"], "203.0.113.9"),  # two proxies in a row
        ("10.0.0.1", ["1.2.3.4, 203.0.113.9"], "203.0.113.9"),  # what a client wrote itself
        ("10.0.0.1", ["1.2.3.4", "203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9, rubbish"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["2001:db8::5"], "2001:db8::5"),
        ("::ffff:10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("192.0.2.1", ["203.0.113.9"], "192.0.2.1"),  # a stranger
    ],
)
def test_only_the_word_of_a_trusted_proxy_is_taken(peer: str, forwarded: list[str], client: str) -> None:
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    assert TrustedProxies(["10.0.0.0/8"]).client(peer, headers) == client
    assert TrustedProxies().client(peer, headers) == peer


def test_a_host_counts_as_one_address_however_many_it_has() -> None:
    assert counted_address("192.0.2.1") == counted_address("::ffff:192.0.2.1") == "192.0.2.1"
    assert counted_address("2001:db8::1") == counted_address("2001:db8::ffff:1:2:3") == "2001:db8::/64"
    assert counted_address("2001:db8:0:1::1") != counted_address("2001:db8::1")


@pytest.mark.parametrize("proxied", [False, True], ids=["from one address", "through one proxy"])
def test_failed_logins_of_one_address_keep_nobody_out(serve_toy, tmp_path: Path, monkeypatch, proxied: bool) -> None:
    monkeypatch.setattr(users_file, "SCRYPT_N", 1 << 4)  # the real cost is not what this is about
    file = tmp_path / "users.json"
    add_user(file, "alice", "alice password", ALL_RIGHTS)
    token = add_token(file, "alice")
    server, _ = serve_toy(UsersFileAccess(file), proxies=TrustedProxies([OTHER] if proxied else []))

    def status(authorization: str, client: str) -> int:
        return ask(server, OTHER, "/tables", {"authorization": authorization, "x-forwarded-for": client}).status

    def basic(user: str, password: str) -> str:
        return "Basic " + b64encode(f"{user}:{password}".encode()).decode()

    failed = [status(basic(f"user{i}", "guess"), "192.0.2.1") for i in range(60)]
    assert failed[:50] == [401] * 50 and failed[51:] == [429] * 9
    assert status(basic("alice", "alice password"), "192.0.2.1") == 200
    assert status(f"Bearer {token}", "192.0.2.1") == 200
    # Behind a proxy that is trusted another client has an address of its own.
    assert status(basic("somebody", "guess"), "192.0.2.2") == (401 if proxied else 429)
