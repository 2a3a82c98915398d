"""Proves the lifecycle of daemons with a toy one in a process of its own: the ready line, clean stops on signals, clear
sentences for faults at start, nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pinotpy.errors import UserError
from pinotpy.service.daemon import Daemon, Part, _Signals, tune_process
from pinotpy.service.http_server import bind

TOY = Path(__file__).parent / "toy_daemon.py"
WAIT_S = 60.0

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    processes: list[subprocess.Popen[str]] = []

    def run(*prefix: str, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*prefix, sys.executable, str(TOY), json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def facts_of(line: str) -> dict[str, str]:
    word, *pairs = line.split()
    assert word == "ready", line
    return dict(pair.split("=", 1) for pair in pairs)


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=WAIT_S)
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_daemon_says_ready_serves_and_stops_cleanly(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    ready_file = tmp_path / "ready.json"
    process = start(ready_file=str(ready_file))
    assert process.stdout is not None
    facts = facts_of(process.stdout.readline())
    assert (
        facts["role"] == "broker" and facts["instance"].startswith("Broker_127.0.0.1_") and int(facts["took_ms"]) >= 0
    )
    assert httpx.get(facts["url"] + "/health").text == "OK"
    written = json.loads(ready_file.read_text())
    assert written["url"] == facts["url"] and written["pid"] == process.pid
    process.send_signal(number)
    status, out, err = end(process)
    assert (status, err) == (0, "")
    assert out.splitlines() == ["stopped http", "stopped store"]
    assert not ready_file.exists()
    bind("127.0.0.1", int(facts["url"].rsplit(":", 1)[1])).close()


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux")
def test_a_daemon_allows_itself_as_many_files_as_it_may(start: Start) -> None:
    process = start("prlimit", "--nofile=256:700")
    assert process.stdout is not None
    facts_of(process.stdout.readline())
    assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (700, 700)


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux")
def test_idle_connections_take_no_descriptors_that_others_need(start: Start) -> None:
    process = start("prlimit", "--nofile=256:256")
    assert process.stdout is not None
    url = facts_of(process.stdout.readline())["url"]
    address = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
    with contextlib.ExitStack() as idle:
        for _ in range(400):
            idle.enter_context(socket.create_connection(address, WAIT_S, source_address=("127.0.0.2", 0)))
        assert [httpx.get(url + "/health", timeout=WAIT_S).text for _ in range(9)] == ["OK"] * 9
        assert len(os.listdir(f"/proc/{process.pid}/fd")) < 224
    process.terminate()
    assert end(process)[0] == 0


def test_a_running_request_is_answered_before_the_end(start: Start) -> None:
    process = start()
    assert process.stdout is not None
    url = facts_of(process.stdout.readline())["url"]
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(httpx.get(url + "/slow", timeout=WAIT_S)))
    asking.start()
    assert process.stdout.readline() == "slow asked\n"
    process.terminate()
    assert end(process)[0] == 0
    asking.join(WAIT_S)
    assert answers[0].json() == {"status": "done"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"store": "unreachable"},
            "pinotpy broker: cannot start: no ZooKeeper at 'localhost:1': start one or give --zk-address",
        ),
        ({"host": "0.0.0.0"}, "pinotpy broker: cannot start: refusing to listen on '0.0.0.0' without access control"),
    ],
)
def test_a_fault_at_start_is_one_sentence_and_status_1(
    start: Start, tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    status, out, err = end(start(**options, ready_file=str(tmp_path / "ready.json")))
    assert status == 1 and "ready" not in out
    assert err.startswith(sentence) and err.count("\n") == 1
    assert "stopped store" in out and not list(tmp_path.iterdir())


def test_a_taken_port_is_told_and_what_was_started_is_stopped(start: Start) -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        status, out, err = end(start(port=port))
    assert status == 1 and f"port {port} on 127.0.0.1 is in use" in err and err.count("\n") == 1
    assert out.splitlines() == ["stopped http", "stopped store"]


def test_an_unforeseen_fault_at_start_ends_with_status_1_and_a_trace_in_the_log(start: Start) -> None:
    status, _, err = end(start(store="bug"))
    assert (
        status == 1 and "cannot start: ZeroDivisionError: division by zero" in err and "start failed role=broker" in err
    )


def test_a_signal_while_starting_stops_with_status_0(start: Start) -> None:
    process = start(store="slow")
    assert process.stdout is not None and process.stdout.readline() == "starting\n"
    process.terminate()
    status, out, err = end(process)
    assert (status, out, err) == (0, "stopped store\n", "")


def test_a_part_that_hangs_is_left_behind_with_status_1(start: Start) -> None:
    process = start(store="hangs", stop_timeout_s=0.2)
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    status, out, err = end(process)
    assert status == 1 and "stopped http" in out and "part did not stop in time role=broker part=store" in err


def test_a_second_signal_leaves_at_once(start: Start) -> None:
    process = start(store="hangs", stop_timeout_s=60.0)
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    assert process.stdout.readline() == "stopped http\n"
    process.send_signal(signal.SIGINT)
    assert end(process)[0] == 128 + signal.SIGINT


def test_a_part_that_cannot_go_on_ends_the_daemon_with_status_1(start: Start) -> None:
    process = start()
    assert process.stdout is not None
    httpx.post(facts_of(process.stdout.readline())["url"] + "/fail")
    status, out, err = end(process)
    assert status == 1 and "pinotpy broker: the session with the store is lost for good" in err
    assert out.splitlines() == ["stopped http", "stopped store"]


def test_parts_start_in_order_and_stop_in_reverse_also_after_a_fault() -> None:
    seen: list[str] = []

    def failing() -> None:
        seen.append("start c")
        raise UserError("no")

    def part(name: str, start: Callable[[], object]) -> Part:
        return Part(name, start, lambda timeout_s: seen.append(f"stop {name}"))

    daemon = Daemon(
        "server",
        [
            part("a", lambda: seen.append("start a")),
            part("b", lambda: seen.append("start b")),
            part("c", failing),
            part("d", failing),
        ],
    )
    with pytest.raises(UserError):
        daemon.start()
    assert seen == ["start a", "start b", "start c", "stop c", "stop b", "stop a"]
    assert daemon.stop()  # nothing left to stop
    assert len(seen) == 6


def test_a_part_that_fails_to_stop_does_not_keep_the_others_from_stopping(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    def broken(timeout_s: float) -> None:
        raise RuntimeError("stuck")

    daemon = Daemon(
        "server", [Part("a", lambda: None, lambda timeout_s: seen.append("a")), Part("b", lambda: None, broken)]
    )
    daemon.start()
    assert daemon.stop()
    assert seen == ["a"] and "part failed to stop role=server part=b" in caplog.text


def test_tuning_hands_the_gil_over_quickly_and_leaves_arrow_one_thread() -> None:
    import pyarrow as pa

    interval, threads, io_threads = sys.getswitchinterval(), pa.cpu_count(), pa.io_thread_count()
    try:
        pa.set_cpu_count(2)
        tune_process()
        assert sys.getswitchinterval() == pytest.approx(0.0005)
        assert (pa.cpu_count(), pa.io_thread_count()) == (1, 1)
    finally:
        sys.setswitchinterval(interval)
        pa.set_cpu_count(threads)
        pa.set_io_thread_count(io_threads)


def test_a_library_that_another_thread_is_importing_does_not_stop_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    interval = sys.getswitchinterval()
    for name in ("pyarrow", "numba", "numba.core.config"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))  # as far as an import is at its first line
    try:
        tune_process()
    finally:
        sys.setswitchinterval(interval)


def test_a_signal_is_handled_while_the_event_it_asks_for_is_locked() -> None:
    """Handlers run on the main thread, which holds the lock of its event for a moment whenever it begins to wait for
    it.
    """
    daemon = Daemon("toy")
    signals = _Signals(daemon)
    try:
        handler = threading.Thread(target=signals._handle, args=(signal.SIGTERM, None), daemon=True)
        with daemon.stop_asked._cond:  # type: ignore[attr-defined]
            handler.start()
            handler.join(60.0)
            assert not handler.is_alive(), "it waits for the lock that its own thread would hold"
        assert signals.asked
    finally:
        signals.undo()
