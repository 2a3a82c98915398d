"""Proves that the in-memory store behaves as ZooKeeper does: one suite of rules, run over both."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.store import (
    ANY_VERSION,
    RECORD_BYTES_MAX,
    Check,
    ClusterStore,
    Create,
    Delete,
    SessionState,
    SetData,
)
from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.errors import (
    ClusterError,
    ConnectionLostError,
    NodeExistsError,
    NoNodeError,
    RecordTooLargeError,
    StaleVersionError,
)

_roots = itertools.count()
Open = Callable[[], ClusterStore]


class Hints:
    """Collects hints; `at` waits for the first one of a path."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self.paths: list[str] = []

    def __call__(self, path: str) -> None:
        with self._condition:
            self.paths.append(path)
            self._condition.notify_all()

    def at(self, path: str, timeout_s: float = 60.0) -> bool:
        with self._condition:
            return self._condition.wait_for(lambda: path in self.paths, timeout_s)


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def open_store(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens sessions on one ensemble; closes them at the end."""
    opened: list[ClusterStore] = []
    if request.param == "memory":
        tree = MemoryTree()
        make: Open = lambda: MemoryStore(tree)  # noqa: E731
    else:
        address = request.getfixturevalue("zookeeper")
        make = lambda: ZooKeeperStore(address, session_timeout_s=2.0, call_timeout_s=5.0)  # noqa: E731

    def open_one() -> ClusterStore:
        opened.append(make())
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Open) -> ClusterStore:
    return open_store()


@pytest.fixture
def root(store: ClusterStore) -> str:
    path = f"/contract{next(_roots)}"
    store.delete(path, recursive=True)
    store.create(path)
    return path


def test_a_created_node_is_read_back_with_its_stat(store: ClusterStore, root: str) -> None:
    store.create(f"{root}/a", b"one")
    data, stat = store.get(f"{root}/a")
    assert (data, stat.version, stat.ephemeral_owner, stat.num_children) == (b"one", 0, "", 0)
    assert store.exists(f"{root}/a") == stat


def test_a_missing_node_is_told_apart(store: ClusterStore, root: str) -> None:
    missing = f"{root}/none"
    assert store.exists(missing) is None
    assert store.get_many([missing, root]) == [None, store.get(root)]
    assert store.children_many([missing, root]) == [None, []]
    for call in (
        lambda: store.get(missing),
        lambda: store.set(missing, b""),
        lambda: store.delete(missing),
        lambda: store.children(missing),
    ):
        with pytest.raises(NoNodeError):
            call()


def test_create_wants_a_parent_or_makes_it(store: ClusterStore, root: str) -> None:
    with pytest.raises(NoNodeError):
        store.create(f"{root}/x/y/z", b"")
    store.create(f"{root}/x/y/z", b"deep", make_parents=True)
    assert store.get(f"{root}/x/y/z")[0] == b"deep"
    with pytest.raises(NodeExistsError):
        store.create(f"{root}/x/y/z", b"again", make_parents=True)


def test_writes_are_versioned(store: ClusterStore, root: str) -> None:
    path = f"{root}/v"
    store.create(path, b"0")
    first = store.set(path, b"1", 0)
    assert first.version == 1
    with pytest.raises(StaleVersionError):
        store.set(path, b"x", 0)
    with pytest.raises(StaleVersionError):
        store.delete(path, 0)
    assert store.set(path, b"2", ANY_VERSION).version == 2
    assert store.get(path)[0] == b"2"
    store.delete(path, 2)
    assert store.exists(path) is None


def test_modified_id_names_a_content_also_across_delete_and_create(store: ClusterStore, root: str) -> None:
    path = f"{root}/m"
    seen = []
    for _ in range(3):
        store.create(path, b"same")
        seen.append(store.get(path)[1].modified_id)
        store.delete(path)
    assert seen == sorted(set(seen))


def test_children_are_sorted_and_a_parent_cannot_be_deleted_before_them(store: ClusterStore, root: str) -> None:
    for name in ("b", "a", "c"):
        store.create(f"{root}/{name}")
    assert store.children(root) == ["a", "b", "c"]
    with pytest.raises(ClusterError):
        store.delete(root)
    store.create(f"{root}/a/deep/er", make_parents=True)
    store.delete(root, recursive=True)
    assert store.exists(root) is None
    store.delete(root, recursive=True)


def test_a_multi_is_all_or_nothing_and_names_its_cause(store: ClusterStore, root: str) -> None:
    store.create(f"{root}/a", b"old")
    cases: list[tuple[Any, type[ClusterError]]] = [
        (Create(f"{root}/a", b""), NodeExistsError),
        (SetData(f"{root}/a", b"", 7), StaleVersionError),
        (Check(f"{root}/a", 7), StaleVersionError),
        (Delete(f"{root}/none"), NoNodeError),
        (Check(f"{root}/none", ANY_VERSION), NoNodeError),
    ]
    for bad, error in cases:
        with pytest.raises(error):
            store.multi(
                [SetData(f"{root}/a", b"new", 0), Create(f"{root}/b"), bad]
                if not isinstance(bad, SetData | Check)
                else [Create(f"{root}/b"), bad]
            )
        assert store.get(f"{root}/a")[0] == b"old"
        assert store.exists(f"{root}/b") is None
    store.multi(
        [
            Check(f"{root}/a", 0),
            SetData(f"{root}/a", b"new", 0),
            Create(f"{root}/b"),
            Create(f"{root}/b/c"),
            Delete(f"{root}/b/c"),
        ]
    )
    assert store.get(f"{root}/a")[0] == b"new"
    assert store.children(root) == ["a", "b"]
    store.multi([])


def test_a_record_near_the_node_limit_is_refused_before_it_is_sent(store: ClusterStore, root: str) -> None:
    fits, too_large = b"x" * (RECORD_BYTES_MAX - 1), b"x" * RECORD_BYTES_MAX
    store.create(f"{root}/fits", fits)
    for call in (
        lambda: store.create(f"{root}/large", too_large),
        lambda: store.set(f"{root}/fits", too_large),
        lambda: store.multi([Create(f"{root}/p", fits), Create(f"{root}/q", fits)]),
        lambda: store.multi([Create(f"{root}/n{i}") for i in range(501)]),
    ):
        with pytest.raises(RecordTooLargeError):
            call()
    assert store.children(root) == ["fits"]
    assert store.get(f"{root}/fits")[1].version == 0


def test_an_ephemeral_node_goes_with_its_session(open_store: Open, store: ClusterStore, root: str) -> None:
    other = open_store()
    other.create(f"{root}/e", b"", ephemeral=True)
    stat = store.exists(f"{root}/e")
    assert stat is not None and stat.ephemeral_owner == other.session_id != store.session_id
    with pytest.raises(ClusterError):
        other.create(f"{root}/e/child")
    gone = Hints()
    store.exists(f"{root}/e", gone)
    other.close()
    assert gone.at(f"{root}/e")
    assert store.exists(f"{root}/e") is None


def test_another_session_may_take_over_an_ephemeral_node_in_one_step(
    open_store: Open, store: ClusterStore, root: str
) -> None:
    other = open_store()
    other.create(f"{root}/e", b"theirs", ephemeral=True)
    store.multi([Delete(f"{root}/e", 0), Create(f"{root}/e", b"ours", ephemeral=True)])
    other.close()
    data, stat = store.get(f"{root}/e")
    assert (data, stat.ephemeral_owner) == (b"ours", store.session_id)


def test_watches_are_one_shot_hints_armed_by_reads(open_store: Open, store: ClusterStore, root: str) -> None:
    writer = open_store()
    data_hints, child_hints, birth_hints, many_hints = Hints(), Hints(), Hints(), Hints()
    store.create(f"{root}/w", b"")
    store.get(f"{root}/w", data_hints)
    store.children(root, child_hints)
    store.exists(f"{root}/unborn", birth_hints)
    store.get_many([f"{root}/w", f"{root}/gone"], many_hints)
    writer.set(f"{root}/w", b"1")
    assert data_hints.at(f"{root}/w") and many_hints.at(f"{root}/w")
    assert child_hints.paths == [], "data of a child is no change of its parent's children"
    writer.create(f"{root}/unborn")
    assert birth_hints.at(f"{root}/unborn") and child_hints.at(root)
    writer.set(f"{root}/w", b"2")
    # A hint for a later change proves that none came for the one in between.
    later = Hints()
    store.get(f"{root}/w", later)
    writer.delete(f"{root}/w")
    assert later.at(f"{root}/w")
    assert data_hints.paths == [f"{root}/w"]
    assert many_hints.paths == [f"{root}/w"], "a read of a missing node arms nothing"


def test_armed_twice_with_one_callback_fires_once(open_store: Open, store: ClusterStore, root: str) -> None:
    hints, after = Hints(), Hints()
    store.get(root, hints)
    store.get(root, hints)
    open_store().set(root, b"1")
    assert hints.at(root)
    store.get(root, after)
    open_store().set(root, b"2")
    assert after.at(root)
    assert hints.paths == [root]


def test_a_failed_multi_wakes_nobody(open_store: Open, store: ClusterStore, root: str) -> None:
    store.create(f"{root}/w", b"")
    hints = Hints()
    store.get(f"{root}/w", hints)
    with pytest.raises(NoNodeError):
        open_store().multi([SetData(f"{root}/w", b"1"), Delete(f"{root}/none")])
    later = Hints()
    store.get(f"{root}/w", later)
    open_store().set(f"{root}/w", b"2")
    assert later.at(f"{root}/w") and hints.at(f"{root}/w")
    assert hints.paths == [f"{root}/w"]


def test_many_reads_come_in_the_order_asked(store: ClusterStore, root: str) -> None:
    names = [f"{root}/n{i:04d}" for i in range(1200)]
    for start in range(0, len(names), 400):
        store.multi([Create(name, name.encode()) for name in names[start : start + 400]])
    found = store.get_many(names)
    assert [each[0].decode() for each in found if each] == names


def test_a_closed_session_refuses_calls(open_store: Open, root: str) -> None:
    other = open_store()
    assert other.state is SessionState.CONNECTED
    other.close()
    other.close()
    assert other.state is SessionState.LOST
    with pytest.raises(ConnectionLostError):
        other.get(root)


def test_sync_returns(store: ClusterStore, root: str) -> None:
    store.sync(root)
