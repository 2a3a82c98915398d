"""Proves that one request waits for a ZooKeeper that hangs once, not once a call: with a client of kazoo's that never
answers, and with a store that lost its connection.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler
from kazoo.protocol.states import KazooState

from pinotpy.cluster import patience, zookeeper
from pinotpy.cluster.patience import USUAL_WAIT_S, Patience, patience_var
from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.errors import ConnectionLostError


class HungClient:
    """Connects and answers nothing."""

    state, client_id = KazooState.CONNECTED, (1, b"")

    def __init__(self, **_: Any) -> None:
        self.asked: list[str] = []

    def add_listener(self, listener: Any) -> None:
        self.listener = listener

    def start_async(self) -> threading.Event:
        started = threading.Event()
        started.set()
        return started

    def get_async(self, path: str, _watch: Any) -> AsyncResult:
        self.asked.append(path)
        return AsyncResult(SequentialThreadingHandler())

    get_children_async = exists_async = get_async

    def set_async(self, path: str, _data: bytes, _version: int) -> AsyncResult:
        return self.get_async(path, None)

    def stop(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ZooKeeperStore]:
    monkeypatch.setattr(zookeeper, "KazooClient", HungClient)
    monkeypatch.setattr(zookeeper, "_LOOK_S", 0.01)
    monkeypatch.setattr(patience, "USUAL_WAIT_S", 0.001)
    store = ZooKeeperStore("nowhere:1", call_timeout_s=600)
    yield store
    store.close()


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_request_waits_once_for_all_its_calls(store: ZooKeeperStore, is_connected: bool) -> None:
    client: Any = store._client
    if is_connected:
        client.listener(KazooState.CONNECTED)
    mine = Patience(0.05)
    token = patience_var.set(mine)
    try:
        for call in range(1, 50):
            with pytest.raises(ConnectionLostError, match="ZooKeeper") as caught:
                store.get(f"/t{call}")
            assert caught.value.http_status == 503 and mine.left_s < 0.01
    finally:
        patience_var.reset(token)
    assert bool(client.asked) is is_connected


def test_whether_it_took_effect_is_unknown_of_writes_alone(store: ZooKeeperStore) -> None:
    client: Any = store._client
    client.listener(KazooState.CONNECTED)
    token = patience_var.set(Patience(0.05))
    try:
        for read in (store.get, store.exists, store.children, lambda path: store.get_many([path])):
            with pytest.raises(ConnectionLostError, match=r"'/t' is lost \(.*\): a read, which changes nothing$"):
                read("/t")
        with pytest.raises(ConnectionLostError, match=r"set of '/t' is lost .* whether it took effect is unknown"):
            store.set("/t", b"")
    finally:
        patience_var.reset(token)


def test_quick_calls_cost_no_patience() -> None:
    mine = Patience(1.0)
    for _ in range(1000):
        mine.waited(USUAL_WAIT_S)
    assert mine.left_s == 1.0
    mine.waited(0.75)
    assert mine.left_s == 0.25
    mine.waited(600)
    assert mine.left_s == 0
