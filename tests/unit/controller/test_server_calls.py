"""Proves that a server which hangs holds up nobody but who asks it: one call for a question at a time, on other threads
than those of requests, and none at all once it has failed several times in a row.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from controller_harness import Harness

from pinotpy.clock import ManualClock
from pinotpy.controller import server_calls
from pinotpy.controller.call_board import FAILURES_TO_OPEN, LEFT_ALONE_MS, CallBoard, ServerLeftAloneError

NUM_REQUESTS = 40
PARTS_0 = "parts_0"


class HungServer:
    """Takes connections and says nothing."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.accepted: list[socket.socket] = []
        self.is_asked = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.accepted.append(self._listener.accept()[0])
            except OSError:
                return
            self.is_asked.set()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # closed before
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.accepted:
            connection.close()


@pytest.fixture
def hung() -> Iterator[HungServer]:
    server = HungServer()
    yield server
    server.close()


def test_a_server_that_hangs_leaves_the_threads_of_requests_free(
    start: Callable[..., Harness], segment: Callable[..., object], hung: HungServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SERVER_TIMEOUT_S", "ALL_SERVERS_TIMEOUT_S"):
        monkeypatch.setattr(server_calls, name, 600.0)
    monkeypatch.setattr(server_calls.ask_servers, "__kwdefaults__", {"deadline_s": 600.0})
    harness = start(servers=1)  # which has no admin port
    name = "Server_127.0.0.1_8198"
    harness.add_instance(
        name, ["DefaultTenant_OFFLINE", "DefaultTenant_REALTIME"], fields={"adminPort": str(hung.port)}
    )
    harness.add_parts()
    assert harness.upload(segment(PARTS_0), tableName="parts").status_code == 200  # type: ignore[arg-type]
    with ThreadPoolExecutor(NUM_REQUESTS) as pool:
        asked = [pool.submit(harness.http.get, "/tables/parts/size", timeout=600) for _ in range(NUM_REQUESTS)]
        assert hung.is_asked.wait(60)
        assert harness.http.get("/tables", timeout=60).json() == {"tables": ["parts"]}
        assert len(hung.accepted) == 1
        assert not any(request.done() for request in asked)
        hung.close()
        sizes = [request.result(60).json() for request in asked]
    assert all(size["reportedSizeInBytes"] == -1 for size in sizes)


def test_equal_questions_are_asked_once_and_others_beside_them() -> None:
    board: CallBoard[str] = CallBoard(ManualClock())
    release = threading.Event()
    calls: list[str] = []

    def call(question: str) -> str:
        calls.append(question)
        assert release.wait(60)
        return question

    def ask(server: str, question: str):
        return board.ask(server, question, lambda: call(f"{server} {question}"), is_silence=lambda answer: False)

    asked = [ask("s1", "size"), ask("s1", "size"), ask("s2", "size"), ask("s1", "reload")]
    release.set()
    assert [each.result(60) for each in asked] == ["s1 size", "s1 size", "s2 size", "s1 reload"]
    assert sorted(calls) == ["s1 reload", "s1 size", "s2 size"]
    assert ask("s1", "size").result(60) == "s1 size" and len(calls) == 4


def test_a_silent_server_is_left_alone_then_tried_once_and_asked_again_when_it_answers() -> None:
    clock = ManualClock()
    board: CallBoard[str] = CallBoard(clock)
    release = threading.Event()
    release.set()

    def ask(server: str, answer: str, question: str = "size"):
        def call() -> str:
            assert release.wait(60)
            return answer

        return board.ask(server, question, call, is_silence=lambda answer: answer == "")

    for _ in range(FAILURES_TO_OPEN):
        ask("s1", "").result(60)
    with pytest.raises(ServerLeftAloneError, match="last 3 times"):
        ask("s1", "here")
    assert ask("s2", "here").result(60) == "here"
    clock.advance(LEFT_ALONE_MS)
    release.clear()
    trial = ask("s1", "")
    with pytest.raises(ServerLeftAloneError):
        ask("s1", "here", "another question")
    release.set()
    trial.result(60)
    clock.advance(LEFT_ALONE_MS)
    with pytest.raises(ServerLeftAloneError):  # left alone for longer now
        ask("s1", "here")
    clock.advance(LEFT_ALONE_MS)
    assert ask("s1", "here").result(60) == "here"
    assert ask("s1", "here", "another question").result(60) == "here"
