"""Proves that a server says what it still has to load, and says it at once while ZooKeeper is silent: the loop that
asks answers liveness as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from pinotpy.clock import ManualClock, SystemClock
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import ClusterStore
from pinotpy.server import readiness
from pinotpy.server.readiness import Readiness

PATHS = ClusterPaths("c")
INSTANCE = "Server_h_1"


class Joined:
    """Of a participant, what readiness asks."""

    instance, is_live = INSTANCE, True

    def __init__(self) -> None:
        self.online: dict[str, str] = {}

    def states(self, resource: str) -> dict[str, str]:
        return self.online


class Slow(MemoryStore):
    """Silent while `answers` is not set."""

    def __init__(self, tree: MemoryTree) -> None:
        super().__init__(tree)
        self.answers = threading.Event()
        self.answers.set()
        self.num_looks = 0

    def children(self, path: str, watch: Any = None) -> list[str]:
        self.num_looks += 1
        assert self.answers.wait(120)
        return super().children(path, watch)


@pytest.fixture
def store() -> Iterator[Slow]:
    tree = MemoryTree()
    made = Slow(tree)
    path = PATHS.ideal_state("t_OFFLINE")
    made.create(
        path,
        ZNRecord(
            "t_OFFLINE", {"STATE_MODEL_DEF_REF": "SegmentOnlineOfflineStateModel"}, {"s1": {INSTANCE: "ONLINE"}}, {}
        ).to_bytes(),
        make_parents=True,
    )
    yield made
    made.answers.set()


def test_what_is_missing_is_named_until_it_is_there(
    store: Slow, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., float]
) -> None:
    monkeypatch.setattr(readiness, "CACHE_NS", 0)
    monkeypatch.setattr(readiness, "WAIT_S", 10.0)
    joined = Joined()
    looked_at = Readiness(cast(ClusterStore, store), PATHS, cast(Participant, joined), SystemClock())
    assert looked_at.reason() == "1 segments are not loaded"
    joined.online = {"s1": "ONLINE"}
    assert looked_at.reason() is None
    joined.is_live = False
    assert looked_at.reason() == "it has no session with ZooKeeper"


def test_a_silent_zookeeper_keeps_nobody_who_asks(
    store: Slow, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., float]
) -> None:
    monkeypatch.setattr(readiness, "CACHE_NS", 0)
    joined = Joined()
    joined.online = {"s1": "ONLINE"}
    looked_at = Readiness(cast(ClusterStore, store), PATHS, cast(Participant, joined), SystemClock())
    eventually(lambda: looked_at.reason() is None, what="ready")
    store.answers.clear()
    looks = store.num_looks
    assert [looked_at.reason() for _ in range(3)] == [None, None, None], "as it was when ZooKeeper answered"
    assert not store.answers.is_set() and store.num_looks <= looks + 1, "one look at a time"


def looked_at(store: Slow, joined: Joined, clock: ManualClock) -> Readiness:
    return Readiness(cast(ClusterStore, store), PATHS, cast(Participant, joined), clock)


def test_a_bad_segment_that_another_server_has_is_named_and_waited_for_by_nobody(
    store: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "CACHE_NS", 0)
    monkeypatch.setattr(readiness, "WAIT_S", 10.0)
    joined = Joined()
    joined.online = {"s1": "ERROR"}
    view = ZNRecord("t_OFFLINE", {}, {"s1": {INSTANCE: "ERROR", "Server_other_1": "ONLINE"}}, {})
    store.create(PATHS.external_view("t_OFFLINE"), view.to_bytes(), make_parents=True)
    one = looked_at(store, joined, ManualClock())
    assert one.reason() is None
    assert one.remark() == "1 segments are in ERROR here"
    joined.online = {"s1": "OFFLINE"}
    assert one.reason() is None and one.remark() == "1 segments are in ERROR here", "it is tried again"
    joined.online = {"s1": "ONLINE"}
    assert one.reason() is None and one.remark() == ""


def test_a_bad_segment_that_nobody_has_is_waited_for_a_while(store: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "CACHE_NS", 0)
    monkeypatch.setattr(readiness, "WAIT_S", 10.0)
    joined, clock = Joined(), ManualClock()
    joined.online = {"s1": "ERROR"}
    one = looked_at(store, joined, clock)
    assert one.reason() == "1 segments are not loaded" and one.remark() == ""
    clock.advance(59_000)
    assert one.reason() is not None
    clock.advance(1_000)
    assert one.reason() is None and one.remark() == "1 segments are in ERROR here"
    joined.online = {"s1": "OFFLINE"}
    assert one.reason() is None and one.remark() == "1 segments are in ERROR here", "it is tried again"
    joined.online = {"s1": "ERROR"}
    assert one.reason() is None, "known as it is, it is not waited for again"
    joined.online = {}
    assert one.reason() == "1 segments are not loaded", "one that is still to come is not bad"
    joined.online = {"s1": "ONLINE"}
    assert one.reason() is None and one.remark() == ""
    joined.online = {"s1": "OFFLINE"}
    assert one.reason() == "1 segments are not loaded", "it was served meanwhile"
