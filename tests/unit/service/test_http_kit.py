"""Proves, over real sockets, what the HTTP kit promises for every route: declared rights, uniform error bodies without
internals, limits on bodies and headers, the standard routes, and the fast path passing the same guard."""

from __future__ import annotations

import json
import logging
import re
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from pinotpy.service import http_protocol, http_server, users_file
from pinotpy.service.access import AllowAll, UsersFileAccess, add_user
from pinotpy.service.errors import StartError
from pinotpy.service.http import HttpApp, walk_routes
from pinotpy.service.http_server import bind, check_binding, check_query_binding, serve
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics
from pinotpy.service.rights import ALL_RIGHTS, Action, Rights
from pinotpy.service.tls import TlsFiles, client_context


@pytest.fixture
def open_client(shared_toy) -> Iterator[httpx.Client]:
    server, toy = shared_toy
    toy.bodies.clear()
    toy.not_ready = None
    with httpx.Client(base_url=server.url) as client:
        client.toy = toy  # type: ignore[attr-defined]
        yield client


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    file = tmp_path_factory.mktemp("users") / "users.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users_file, "SCRYPT_N", 1 << 4)  # the real cost is not what these tests are about
        add_user(file, "alice", "alice password", Rights(tables=(("flights", frozenset({Action.READ})),)))
        add_user(file, "root", "root password", ALL_RIGHTS)
        yield file


@pytest.fixture(scope="module")
def guarded_url(users: Path, toy_starter) -> Iterator[str]:
    server, _ = toy_starter(UsersFileAccess(users))
    yield server.url
    server.stop(5.0)


ALICE, ROOT = ("alice", "alice password"), ("root", "root password")


def raw(url: str, *pieces: bytes, wait_s: float = 5.0) -> bytes:
    """Send bytes as they are, read until the server closes or answers a whole response."""
    host, port = url.split("//")[1].split(":")
    with socket.create_connection((host, int(port)), timeout=wait_s) as connection:
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        try:
            while chunk := connection.recv(65536):
                answer += chunk
                head, separator, body = answer.partition(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head.lower())
                if separator and length is not None and len(body) >= int(length.group(1)):
                    break
        except ConnectionResetError:
            pass
        return answer


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("GET", "/tables/a/b/c", 404),
        ("POST", "/health", 405),
        ("DELETE", "/tables", 405),
        ("GET", "/docs/../../etc/passwd", 404),
        ("GET", "/docs/%2e%2e%2fhttp.py", 404),
    ],
)
def test_unknown_paths_and_wrong_methods_have_the_uniform_body(
    open_client: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = open_client.request(method, path)
    assert answer.status_code == status
    assert set(answer.json()) == {"code", "error"} and answer.json()["code"] == status
    assert answer.headers["content-type"] == "application/json"


def test_wrong_methods_say_what_is_allowed(open_client: httpx.Client) -> None:
    assert open_client.post("/health").headers["allow"] == "GET"


@pytest.mark.parametrize("path", ["/health", "/docs", "/metrics", "/version"])
def test_head_is_get_without_its_body(open_client: httpx.Client, path: str) -> None:
    got, head = open_client.get(path), open_client.head(path)
    assert (head.status_code, head.content, head.headers["content-type"]) == (200, b"", got.headers["content-type"])
    assert open_client.head("/nope").status_code == 404 and open_client.head("/nope").content == b""
    assert open_client.get(path).status_code == 200  # the connection is still in step


@pytest.mark.parametrize(
    ("method", "path", "body"), [("GET", "/boom", None), ("POST", "/query", b"boom")], ids=["route", "fast"]
)
def test_an_uncaught_fault_is_500_with_an_id_logged_and_counted(
    open_client: httpx.Client, caplog: pytest.LogCaptureFixture, method: str, path: str, body: bytes | None
) -> None:
    def uncaught() -> float:
        found = re.search(r"(?m)^pinot_broker_uncaughtExceptions_total (\S+)", open_client.get("/metrics").text)
        assert found is not None
        return float(found.group(1))

    before = uncaught()
    answer = open_client.request(method, path, content=body)
    assert answer.status_code == 500
    error_id = answer.json()["error"].split()[2].rstrip(":")
    assert (
        len(error_id) == 12 and "secret" not in answer.text and "Zero" not in answer.text and "/etc" not in answer.text
    )
    assert f"error_id={error_id}" in caplog.text and "ZeroDivisionError" in caplog.text
    assert uncaught() == before + 1
    assert open_client.get("/health/liveness").status_code == 200


def test_messages_hide_paths_of_this_machine_and_keep_urls(open_client: httpx.Client) -> None:
    corrupt = open_client.get("/corrupt")
    assert corrupt.status_code == 500 and "/usr" not in corrupt.text and "…/columns" in corrupt.json()["error"]
    mistake = open_client.get("/mistake")
    assert mistake.status_code == 400 and mistake.json()["error"] == "no such thing as /tables/x in '…/y'"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"name": 3, "size": "x"}', ("$.name", "$.size")),
        (b"{}", ("$.name",)),
        (b'{"name": ', ("JSON",)),
        (b"[]", ("body",)),
        (b"", ("body",)),
    ],
)
def test_a_body_that_does_not_fit_names_every_fault(
    open_client: httpx.Client, content: bytes, expected: tuple[str, ...]
) -> None:
    answer = open_client.post("/tables", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400 and answer.json()["code"] == 400
    assert all(part in answer.json()["error"] for part in expected), answer.text


def test_a_fast_route_answers_with_its_own_status_and_headers(open_client: httpx.Client) -> None:
    answer = open_client.post("/query", content=b"text")
    assert (answer.status_code, answer.text, answer.headers["content-type"], answer.headers["x-extra"]) == (
        202,
        "hello",
        "text/plain",
        "1",
    )
    assert open_client.post("/query", content=b"bad").json() == {"code": 400, "error": "no query text"}


def test_a_request_id_comes_back_unless_it_is_hostile(open_client: httpx.Client) -> None:
    assert open_client.get("/health", headers={"x-request-id": "abc-1.2_3"}).headers["x-request-id"] == "abc-1.2_3"
    assert len(open_client.get("/health", headers={"x-request-id": "a b;c"}).headers["x-request-id"]) == 16


# --- limits --------------------------------------------------------------------------------------------------------


def chunks(num: int) -> Iterator[bytes]:
    for _ in range(num):
        yield b"x" * 100


@pytest.mark.parametrize(("path", "limit"), [("/tables", 1000), ("/query", 2000)], ids=["route", "fast"])
def test_bodies_over_the_limit_are_413_by_length_and_by_stream(
    open_client: httpx.Client, path: str, limit: int
) -> None:
    headers = {"content-type": "application/json"}
    for content in (b"x" * (limit + 1), chunks(limit // 100 + 1)):
        answer = open_client.post(path, content=content, headers=headers)
        assert answer.status_code == 413 and answer.json()["code"] == 413 and str(limit) in answer.json()["error"]
    assert open_client.post("/query", content=b"y" * 2000).status_code == 200
    assert open_client.toy.bodies[-1] == b"y" * 2000  # type: ignore[attr-defined]


def test_a_body_of_ten_gigabytes_is_refused_before_it_is_sent(open_client: httpx.Client) -> None:
    answer = raw(
        str(open_client.base_url), b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10000000000\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_compressed_bodies_are_not_unpacked(open_client: httpx.Client) -> None:
    assert open_client.post("/query", content=b"\x1f\x8b", headers={"content-encoding": "gzip"}).status_code == 415


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + b"".join(b"h%d: 1\r\n" % i for i in range(150)) + b"\r\n",
        b"GET /" + b"a" * 70_000,
    ],
    ids=["large", "many", "endless"],
)
def test_headers_over_the_limit_are_refused(open_client: httpx.Client, head: bytes) -> None:
    answer = raw(str(open_client.base_url), head)
    assert answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 ", b"HTTP/1.1 414 ")), answer[:200]
    assert open_client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "head",
    [
        b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /query HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"NONSENSE\r\n\r\n",
    ],
    ids=["two lengths", "length and chunks", "negative", "bad chunk", "tls", "nonsense"],
)
def test_ambiguous_and_foreign_requests_are_refused(open_client: httpx.Client, head: bytes) -> None:
    answer = raw(str(open_client.base_url), head)
    assert answer.startswith(b"HTTP/1.1 400 ") and b'{"code":400' in answer, answer[:200]
    assert open_client.toy.bodies == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET /health HTTP/1.1\r\nhost: ",
        b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\nhalf",
    ],
    ids=["silent", "headers", "body"],
)
def test_slow_clients_are_cut_off(serve_toy, monkeypatch: pytest.MonkeyPatch, start: bytes) -> None:
    monkeypatch.setattr(http_server, "SWEEP_INTERVAL_S", 0.05)
    monkeypatch.setattr(http_protocol, "HEADER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(http_protocol, "BODY_GRACE_S", 0.2)
    server, toy = serve_toy()
    answer = raw(server.url, start, wait_s=60.0)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert toy.bodies == []


def test_an_idle_connection_kept_alive_is_not_taken_for_a_slow_one(serve_toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SWEEP_INTERVAL_S", 0.05)
    server, _ = serve_toy()
    host, port = server.url.split("//")[1].split(":")
    ask = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60.0) as connection:
        connection.sendall(ask)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.settimeout(0.4)
        with monkeypatch.context() as patched:
            patched.setattr(http_protocol, "HEADER_TIMEOUT_S", 0.05)
            with pytest.raises(TimeoutError):  # some sweeps pass and nothing is said
                connection.recv(1)
        connection.settimeout(60.0)
        connection.sendall(ask)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_what_a_client_that_hung_up_asked_for_is_ended(serve_toy, caplog: pytest.LogCaptureFixture) -> None:
    server, toy = serve_toy()
    host, port = server.url.split("//")[1].split(":")
    with socket.create_connection((host, int(port)), timeout=60.0) as connection:
        connection.sendall(b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nwait")
        poll(lambda: toy.bodies == [b"wait"])
    poll(lambda: toy.bodies == [b"wait", b"ended"])
    assert httpx.post(f"{server.url}/query", content=b"x").status_code == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def poll(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.005)


def test_too_many_parameters_are_the_callers_fault(open_client: httpx.Client) -> None:
    answer = open_client.get("/sizes?" + "tableName=a&" * 500)
    assert answer.status_code == 400 and "parameters" in answer.json()["error"]


def test_pipelined_requests_are_answered_in_order(open_client: httpx.Client) -> None:
    one = b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\n"
    answer = b""
    host, port = str(open_client.base_url).split("//")[1].split(":")
    with socket.create_connection((host, int(port)), timeout=60.0) as connection:
        connection.sendall(one + b"1" + one + b"2" + one + b"3")
        while answer.count(b"anonymous") < 3:
            answer += connection.recv(65536)
    assert open_client.toy.bodies == [b"1", b"2", b"3"]  # type: ignore[attr-defined]


# --- standard routes -----------------------------------------------------------------------------------------------


def test_health_follows_readiness_and_liveness_does_not(open_client: httpx.Client) -> None:
    assert (open_client.get("/health").status_code, open_client.get("/health").text) == (200, "OK")
    open_client.toy.not_ready = "kernels are compiled"  # type: ignore[attr-defined]
    assert open_client.get("/health").status_code == 503 and "kernels" in open_client.get("/health").text
    assert open_client.get("/health/readiness").status_code == 503
    assert open_client.get("/health/liveness").text == "OK"


def test_metrics_version_and_settings_are_served(open_client: httpx.Client) -> None:
    open_client.get("/nope")
    text = open_client.get("/metrics").text
    assert 'pinot_broker_httpRequests_total{status="4xx"}' in text and "pinot_broker_ready 1.0" in text
    assert open_client.get("/version").json()["pinotpy"]
    assert open_client.get("/debug/config").json() == {"a": "***"}


@pytest.mark.parametrize("path", ["/docs", "/help"])
def test_the_documentation_page_needs_nothing_from_elsewhere(open_client: httpx.Client, path: str) -> None:
    page = open_client.get(path)
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for file in ("docs.js", "docs.css"):
        assert f"/docs/{file}" in page.text
        content = open_client.get(f"/docs/{file}")
        assert content.status_code == 200
        assert "http://" not in content.text and "https://" not in content.text and "innerHTML" not in content.text
    assert "http://" not in page.text and "https://" not in page.text


def test_openapi_describes_every_public_operation_with_its_right(open_client: httpx.Client) -> None:
    document = open_client.get("/openapi.json").json()
    assert document["paths"]["/query"]["post"]["summary"] == "Query"
    assert document["paths"]["/tables/{tableName}"]["get"]["x-right"] == "READ on TABLE tableName"
    assert document["paths"]["/health"]["get"]["x-right"] == ""


# --- declared rights -----------------------------------------------------------------------------------------------


def test_every_route_has_a_declaration_and_an_undeclared_one_cannot_be_served(serve_toy) -> None:
    _, toy = serve_toy()
    assert {str(route) for route in walk_routes(toy.app)} >= {
        "POST /query: READ on in handler",
        "DELETE /tables/{tableName}: ADMIN on TABLE tableName",
    }
    toy.app.fastapi.get("/sneaky")(lambda: "hello")
    with pytest.raises(AssertionError, match="/sneaky is reachable"):
        walk_routes(toy.app)
    with pytest.raises(AssertionError, match="/sneaky is reachable"):
        serve(toy.app, "127.0.0.1", 0)


def test_a_mounted_application_is_found_too() -> None:
    app = HttpApp("broker", [], AllowAll(), Metrics("broker", BROKER_METRICS))
    app.fastapi.mount("/other", FastAPI())
    with pytest.raises(AssertionError, match="/other"):
        walk_routes(app)


@pytest.mark.parametrize(
    ("who", "method", "path", "body", "status"),
    [
        (None, "GET", "/tables/flights", None, 401),
        (None, "POST", "/query", b"q", 401),
        (None, "GET", "/metrics", None, 401),
        (None, "GET", "/health", None, 200),
        (None, "GET", "/docs", None, 200),
        (("alice", "wrong password"), "GET", "/tables/flights", None, 401),
        (("alice", "wrong password"), "POST", "/query", b"q", 401),
        (ALICE, "GET", "/tables/flights", None, 200),
        (ALICE, "GET", "/tables/flights_OFFLINE", None, 200),
        (ALICE, "GET", "/tables/salaries", None, 403),
        (ALICE, "GET", "/tables/no_such_table", None, 403),
        (ALICE, "DELETE", "/tables/flights", None, 403),
        (ALICE, "POST", "/tables", b'{"name": "flights"}', 403),
        (ALICE, "POST", "/query", b"q", 200),
        (ALICE, "GET", "/sizes", None, 403),
        (ALICE, "GET", "/sizes?tableName=flights", None, 200),
        (ALICE, "GET", "/sizes?tableName=salaries", None, 403),
        (ALICE, "GET", "/sizes?tableName=flights&tableName=salaries", None, 400),
        (ALICE, "GET", "/metrics", None, 403),
        (ALICE, "GET", "/debug/config", None, 403),
        (ALICE, "PUT", "/instances/Server_a_1/state", None, 403),
        (ROOT, "GET", "/tables/salaries", None, 200),
        (ROOT, "DELETE", "/tables/flights", None, 200),
        (ROOT, "POST", "/tables", b'{"name": "flights"}', 200),
        (ROOT, "GET", "/sizes", None, 200),
        (ROOT, "PUT", "/instances/Server_a_1/state", None, 200),
        (ROOT, "GET", "/debug/config", None, 200),
        (ROOT, "GET", "/nope", None, 404),
    ],
)
def test_who_may_do_what(
    guarded_url: str, who: tuple[str, str] | None, method: str, path: str, body: bytes | None, status: int
) -> None:
    answer = httpx.request(
        method, guarded_url + path, content=body, auth=who, headers={"content-type": "application/json"}
    )
    assert answer.status_code == status, answer.text
    if status == 401:
        assert answer.headers.get_list("www-authenticate")[0].startswith("Basic")


def test_lists_show_only_what_the_caller_may_see(guarded_url: str) -> None:
    assert httpx.get(guarded_url + "/tables", auth=ALICE).json() == {"tables": ["flights"]}
    assert httpx.get(guarded_url + "/tables", auth=ROOT).json() == {"tables": ["flights", "salaries"]}


@pytest.mark.parametrize("path", [b"/tables", b"/query"])
def test_a_body_is_not_read_before_its_sender_is_known(guarded_url: str, path: bytes) -> None:
    # The answer comes although not one byte of the body was sent.
    answer = raw(guarded_url, b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900\r\n\r\n" % path)
    assert answer.startswith(b"HTTP/1.1 401 ")


def test_a_handler_that_forgets_to_ask_for_a_right_is_caught(
    open_client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert open_client.post("/forgetful", json={"name": "x"}).status_code == 500
    assert "answered without asking for a right" in caplog.text


def test_failed_logins_are_throttled_with_retry_after(serve_toy, users: Path) -> None:
    server, _ = serve_toy(UsersFileAccess(users))
    with httpx.Client(base_url=server.url) as client:
        statuses = [client.post("/query", content=b"q", auth=("alice", "guess")).status_code for _ in range(6)]
        assert statuses == [401] * 5 + [429]
        assert int(client.get("/tables/flights", auth=ALICE).headers["retry-after"]) >= 1


def test_pages_of_other_origins_cannot_change_anything(open_client: httpx.Client) -> None:
    assert open_client.delete("/tables/flights", headers={"origin": "http://evil.example"}).status_code == 403
    assert open_client.post("/query", content=b"q", headers={"origin": "null"}).status_code == 403
    own = str(open_client.base_url).rstrip("/")
    assert open_client.delete("/tables/flights", headers={"origin": own}).status_code == 200


def test_redirects_name_no_host(guarded_url: str) -> None:
    for path in ("/version/", "//version/", "/tables/flights/?a=b"):
        head = f"GET {path} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n".encode()
        answer = raw(guarded_url, head)
        location = re.search(rb"(?i)\r\nlocation: (\S*)\r\n", answer)
        assert b"evil" not in answer
        assert location is None if path.startswith("//") else location is not None, answer
        if location is not None:
            assert location[1].decode() == path.replace("/?", "?").rstrip("/")


def test_an_open_daemon_answers_to_this_machines_names_only(open_client: httpx.Client) -> None:
    for host, status in (
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost:9000", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("127.0.0.1:x@evil.example", 400),
        ("127.0.0.1:80:80", 400),
        ("localhost/evil.example", 400),
        ("[::1", 400),
    ):
        assert open_client.get("/tables/flights", headers={"host": host}).status_code == status, host


def test_changes_and_denials_are_on_the_audit_trail_without_secrets(
    serve_toy, users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="pinotpy.audit")
    server, _ = serve_toy(UsersFileAccess(users))
    httpx.delete(server.url + "/tables/flights", auth=ROOT)
    httpx.delete(server.url + "/tables/flights", auth=ALICE)
    httpx.post(server.url + "/tables", json={"name": "sales"}, auth=ROOT)
    httpx.get(server.url + "/tables/flights", auth=("alice", "guess guess"))
    httpx.get(server.url + "/tables/flights", auth=ALICE)
    lines = [json.loads(record.message) for record in caplog.records if record.name == "pinotpy.audit"]
    assert [(line["event"], line["principal"], line["action"], line["resource"], line["status"]) for line in lines] == [
        ("change", "root", "ADMIN", "table 'flights'", 200),
        ("denied", "alice", "ADMIN", "table 'flights'", 403),
        ("change", "root", "WRITE", "table 'sales'", 200),
        ("unauthenticated", "anonymous", "READ", "TABLE tableName", 401),
    ]
    assert all(line["peer"] == "127.0.0.1" and line["request_id"] for line in lines)
    assert "password" not in caplog.text and "guess" not in caplog.text


# --- listening -----------------------------------------------------------------------------------------------------


def test_other_addresses_than_loopback_need_access_control_or_insecure() -> None:
    for host in ("0.0.0.0", "::", "10.1.2.3", "example.org"):
        with pytest.raises(StartError, match="--insecure"):
            check_binding(host, is_open=True, insecure=False)
        check_binding(host, is_open=True, insecure=True)
        check_binding(host, is_open=False, insecure=False)
    for host in ("127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]"):
        check_binding(host, is_open=True, insecure=False)


def test_the_query_port_needs_a_cluster_token_on_other_addresses_than_loopback() -> None:
    with pytest.raises(StartError, match="cluster token"):
        check_query_binding("10.1.2.3", None, insecure=False)
    check_query_binding("10.1.2.3", "t" * 32, insecure=False)
    check_query_binding("10.1.2.3", None, insecure=True)
    check_query_binding("127.0.0.1", None, insecure=False)


def test_a_taken_port_is_told_in_one_sentence() -> None:
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(StartError, match=f"port {port} on 127.0.0.1 is in use"):
            bind("127.0.0.1", port)
    bind("127.0.0.1", port).close()


def test_a_stopped_server_lets_running_requests_end_and_frees_its_port(serve_toy) -> None:
    server, _ = serve_toy()
    with httpx.Client(base_url=server.url) as client:
        assert client.get("/health").status_code == 200
        server.stop(5.0)
        with pytest.raises(httpx.HTTPError):
            client.get("/health")
    bind("127.0.0.1", server.port).close()


def test_the_advertised_address_is_the_url(serve_toy) -> None:
    server, _ = serve_toy(advertised_host="db.example", advertised_port=443)
    assert server.url == "http://db.example:443"


# --- TLS -----------------------------------------------------------------------------------------------------------


def context(ca: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(ca))


def test_tls_serves_and_wrong_trust_is_refused(serve_toy, certificates) -> None:
    server, _ = serve_toy(tls=TlsFiles(certificates.daemon, certificates.daemon_key))
    assert server.url.startswith("https://")
    assert httpx.get(server.url + "/health", verify=context(certificates.ca)).text == "OK"
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(server.url + "/health", verify=context(certificates.foreign_ca))
    with pytest.raises(httpx.HTTPError):
        httpx.get(server.url.replace("https", "http") + "/health")


def test_a_certificate_of_another_host_is_refused_by_callers(serve_toy, certificates) -> None:
    server, _ = serve_toy(tls=TlsFiles(certificates.other_host, certificates.other_host_key))
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(server.url + "/health", verify=context(certificates.ca))


def test_callers_without_certificate_are_refused_where_one_is_asked_for(serve_toy, certificates) -> None:
    server, _ = serve_toy(
        tls=TlsFiles(certificates.daemon, certificates.daemon_key, certificates.ca, client_certificates=True)
    )
    with pytest.raises(httpx.HTTPError):
        httpx.get(server.url + "/health", verify=context(certificates.ca))
    own = client_context(TlsFiles(certificates.daemon, certificates.daemon_key, certificates.ca))
    assert httpx.get(server.url + "/health", verify=own).text == "OK"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_protocols_are_refused(serve_toy, certificates) -> None:
    server, _ = serve_toy(tls=TlsFiles(certificates.daemon, certificates.daemon_key))
    old = context(certificates.ca)
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url + "/health", verify=old)


def test_a_renewed_certificate_is_taken_up_without_restart(
    serve_toy, certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "SWEEP_INTERVAL_S", 0.05)
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    shutil.copy(certificates.other_host, certificate)
    shutil.copy(certificates.other_host_key, key)
    server, _ = serve_toy(tls=TlsFiles(certificate, key))
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url + "/health", verify=context(certificates.ca))
    shutil.copy(certificates.daemon_key, key)
    shutil.copy(certificates.daemon, certificate)
    ends, pause = time.monotonic() + 60, threading.Event()
    while True:
        try:
            assert httpx.get(server.url + "/health", verify=context(certificates.ca)).text == "OK"
            break
        except httpx.ConnectError:
            assert time.monotonic() < ends, "the renewed certificate was not taken up"
            pause.wait(0.05)


def test_unusable_certificates_stop_the_start(serve_toy, certificates, tmp_path: Path) -> None:
    for certificate, key in (
        (certificates.daemon, certificates.other_host_key),
        (tmp_path / "none.pem", certificates.daemon_key),
        (certificates.daemon, None),
    ):
        with pytest.raises(StartError):
            serve_toy(tls=TlsFiles(certificate, key))
