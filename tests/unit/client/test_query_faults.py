"""Proves what a connection does with brokers that redirect, drip, break off, send too much, too little or something
else, and with queries on threads: each fault has its error, which names the broker, in bounded time and memory.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest
from fake_daemon import Daemon

from pinotpy.client import Request, connect
from pinotpy.client import connection as connection_module
from pinotpy.client.background import BackgroundQueries
from pinotpy.errors import (
    OutOfCapacityError,
    ParseError,
    PayloadTooLargeError,
    RemoteError,
    ServerNotRespondingError,
    ServerUnreachableError,
    UserError,
)

SELECTION = {"selectionResults": {"columns": ["a"], "results": [["1"]]}, "exceptions": []}
FAILED = {"exceptions": [{"errorCode": 150, "message": "why"}], "partialResult": True}


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    made.replies = {"POST /query": (200, SELECTION), "POST /query/sql": (200, SELECTION)}
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "ROUND_WAIT_S", 0.005)


class RawBroker:
    """Reads a request and then does on the bare socket what the test says; counts its connections."""

    def __init__(self, behave: Callable[[socket.socket], None]) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.num_connections = 0
        self.behave = behave
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            self.num_connections += 1
            with peer:
                try:
                    received = b""
                    while b"\r\n\r\n" not in received:
                        received += peer.recv(65536)
                    self.behave(peer)
                except OSError:
                    pass

    def __enter__(self) -> RawBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(60)


# --- what is sent --------------------------------------------------------------------------------------------------


def test_a_query_is_sql_unless_it_says_pql(daemon: Daemon) -> None:
    with connect(broker=daemon.url) as connection:
        connection.execute("q1")
        connection.execute(sql="q2", dialect="pql")
        connection.execute(Request("sql", "q3 ?"), [None])
        connection.execute(
            Request("pql", "q4"),
            options={"preserveType": True, "timeoutMs": 5},
            debug_options={"useStarTree": False},
            trace=True,
        )
        connection.execute_async("q5").result(60)
        connection.prepare_statement("q6").execute()
        connection.execute("q7", dialect="pql")
        connection.prepare_statement("q8", dialect="pql").execute()
        for arguments, words in (
            ((), "one query"),
            (("q", "sql"), "one query"),
            ((Request("mdx", "q"),), "dialect 'mdx'"),
            ((5,), "found int"),
        ):
            with pytest.raises(UserError, match=words):
                connection.execute(*arguments[:1], **({"sql": "q"} if len(arguments) > 1 else {}))
    assert [(request["path"], json.loads(request["body"])) for request in daemon.asked] == [
        ("/query/sql", {"sql": "q1"}),
        ("/query/sql", {"sql": "q2"}),
        ("/query/sql", {"sql": "q3 NULL"}),
        (
            "/query",
            {
                "pql": "q4",
                "queryOptions": "preserveType=true;timeoutMs=5",
                "debugOptions": "useStarTree=false",
                "trace": True,
            },
        ),
        ("/query/sql", {"sql": "q5"}),
        ("/query/sql", {"sql": "q6"}),
        ("/query", {"pql": "q7"}),
        ("/query", {"pql": "q8"}),
    ]


@pytest.mark.parametrize("options", [{"a": "1;b=2"}, {"a;b": 1}, {"a=b": 1}, {"": 1}])
def test_options_cannot_smuggle_others(daemon: Daemon, options: dict[str, Any]) -> None:
    with connect(broker=daemon.url) as connection, pytest.raises(UserError, match="cannot be sent"):
        connection.execute("q", options=options)
    assert daemon.asked == []


def test_limits_that_cannot_be_are_refused(daemon: Daemon) -> None:
    for settings in ({"timeout_s": 0}, {"answer_bytes_max": 0}):
        with pytest.raises(UserError, match="greater than 0"):
            connect(broker=daemon.url, **settings)  # type: ignore[arg-type]
    with connect(broker=daemon.url) as connection, pytest.raises(UserError, match="greater than 0, found -1"):
        connection.execute("q", timeout_s=-1)
    assert daemon.asked == []


# --- what comes back -----------------------------------------------------------------------------------------------


def test_exceptions_are_given_back_if_that_is_wanted(daemon: Daemon) -> None:
    daemon.replies["POST /query/sql"] = (200, FAILED)
    with connect(broker=daemon.url) as connection:
        with pytest.raises(ParseError, match="why") as caught:
            connection.execute("q")
        assert caught.value.context["broker"] == daemon.url
        group = connection.execute("q", fail_on_exceptions=False)
        assert (group.exceptions[0].code, group.exceptions[0].message, group.partial, group.result_set_count) == (
            150,
            "why",
            True,
            0,
        )
    with connect(broker=daemon.url, fail_on_exceptions=False) as connection:
        assert connection.execute("q").exceptions
        with pytest.raises(ParseError):
            connection.execute("q", fail_on_exceptions=True)


def test_redirects_are_refused_since_credentials_would_follow(daemon: Daemon) -> None:
    other = Daemon()
    daemon.replies["POST /query/sql"] = (307, b"", {"location": f"{other.url}/query"})
    try:
        with (
            connect(broker=daemon.url, auth="secret") as connection,
            pytest.raises(RemoteError, match=f"{daemon.url}/query/sql' redirects to '{other.url}"),
        ):
            connection.execute("q")
    finally:
        other.stop()
    assert other.asked == []


@pytest.mark.parametrize("body", [b"<html>", b"", b"[1]", b"null", b'{"selectionResults": 5}', b"\xff\xfe"])
def test_what_is_no_answer_of_a_broker_is_said(daemon: Daemon, body: bytes) -> None:
    daemon.replies["POST /query/sql"] = (200, body)
    with (
        connect(broker=daemon.url) as connection,
        pytest.raises(RemoteError, match=r"expected JSON from 'http|expected a broker's answer|cannot be read"),
    ):
        connection.execute("q")
    assert len(daemon.asked) == 1


def test_an_error_without_words_names_the_broker(daemon: Daemon) -> None:
    daemon.replies["POST /query/sql"] = (502, b"")
    with (
        connect(broker=daemon.url) as connection,
        pytest.raises(RemoteError, match=f"{daemon.url}/query/sql' answered HTTP 502"),
    ):
        connection.execute("q")


@pytest.mark.parametrize("packed", [False, True])
def test_an_answer_over_the_limit_is_given_up_while_it_arrives(daemon: Daemon, packed: bool) -> None:
    big = json.dumps({"selectionResults": {"columns": ["a"], "results": [["x" * 100]] * 1000}}).encode()
    daemon.replies["POST /query/sql"] = (
        (200, gzip.compress(big), {"content-encoding": "gzip"}) if packed else (200, big)
    )
    with connect(broker=daemon.url, answer_bytes_max=len(big)) as connection:
        assert len(connection.execute("q")) == 1000
    with (
        connect(broker=daemon.url, answer_bytes_max=len(big) - 1) as connection,
        pytest.raises(PayloadTooLargeError, match=f"answer_bytes_max = {len(big) - 1}"),
    ):
        connection.execute("q")
    assert len(daemon.asked) == 2


def test_an_endless_answer_ends_at_the_limit() -> None:
    def pour(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        while True:
            peer.sendall(b" " * 65536)

    with (
        RawBroker(pour) as broker,
        connect(broker=broker.url, answer_bytes_max=1 << 20) as connection,
        pytest.raises(PayloadTooLargeError),
    ):
        connection.execute("q")


def test_an_answer_that_drips_is_given_up_when_the_time_is_up() -> None:
    stop = threading.Event()

    def drip(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        for _ in range(10_000):
            if stop.wait(0.02):
                break
            peer.sendall(b" ")

    with RawBroker(drip) as broker, connect(broker=broker.url, timeout_s=1.0) as connection:
        with pytest.raises(ServerNotRespondingError, match="not the whole answer, within"):
            connection.execute("q")
        stop.set()


def test_an_answer_that_breaks_off_is_asked_for_again_and_then_given_up() -> None:
    def break_off(peer: socket.socket) -> None:
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")

    with RawBroker(break_off) as broker, connect(broker=broker.url) as connection:
        with pytest.raises(ServerUnreachableError, match=broker.url):
            connection.execute("q")
        assert broker.num_connections == connection_module.BROKER_ROUNDS_MAX


def test_an_answer_in_a_packing_that_is_none_is_refused(daemon: Daemon) -> None:
    daemon.replies["POST /query/sql"] = (200, b"not gzip", {"content-encoding": "gzip"})
    with connect(broker=daemon.url) as connection, pytest.raises(RemoteError, match="packed in a way"):
        connection.execute("q")


# --- threads -------------------------------------------------------------------------------------------------------


def test_queries_run_on_threads_and_in_event_loops(daemon: Daemon) -> None:
    async def several() -> list[int]:
        answers = await asyncio.gather(*(connection.execute_in_loop(sql=f"q{number}") for number in range(5)))
        return [len(answer) for answer in answers]

    with connect(broker=daemon.url, async_threads_max=3) as connection:
        futures = [connection.execute_async("q ?", [number]) for number in range(10)]
        assert [len(future.result(60)) for future in futures] == [1] * 10
        assert asyncio.run(several()) == [1] * 5
        daemon.replies["POST /query/sql"] = (200, FAILED)
        assert isinstance(connection.execute_async("q").exception(60), ParseError)
    with pytest.raises(UserError, match="closed"):
        connection.execute_async("q")


def test_what_waits_is_bounded_and_cancelled_at_the_end(daemon: Daemon) -> None:
    release = threading.Event()

    def slow(request: dict[str, Any]) -> tuple[int, Any]:
        assert release.wait(60)
        return 200, SELECTION

    daemon.replies["POST /query/sql"] = slow
    with connect(broker=daemon.url, async_threads_max=1, async_waiting_max=2) as connection:
        running, *waiting = [connection.execute_async("q") for _ in range(3)]
        with pytest.raises(OutOfCapacityError, match=r"3 queries run or wait already: .* async_waiting_max"):
            connection.execute_async("q")
        release.set()
        assert len(running.result(60)) == 1 and [len(each.result(60)) for each in waiting] == [1, 1]
        release.clear()
        running, *waiting = [connection.execute_async("q") for _ in range(3)]
    for each in waiting:
        with pytest.raises(CancelledError):
            each.result(60)
    release.set()


@pytest.mark.parametrize(("threads", "waiting"), [(0, 1), (1, -1)])
def test_bounds_that_cannot_be_are_refused(threads: int, waiting: int) -> None:
    with pytest.raises(UserError, match="async_threads_max must be at least 1"):
        BackgroundQueries(threads, waiting)
