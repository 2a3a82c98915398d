"""Proves that a leader stops at once when its connection breaks and never shares its epoch, and that a spectator's view
is one immutable piece that keeps what did not change.
"""

from __future__ import annotations

import os

import pytest
from manual_dispatcher import ManualDispatcher

from pinotpy.clock import ManualClock
from pinotpy.cluster import buckets
from pinotpy.cluster.buckets import plan_write, read_record
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.instance_partitions import InstancePartitions, InstancePartitionsRecords
from pinotpy.cluster.leader import LeaderElection, leader_instance
from pinotpy.cluster.memory import Fault, MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.process_identity import ProcessIdentity, start_of_process, this_process
from pinotpy.cluster.property_store import schema_record
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import ClusterView, Spectator
from pinotpy.cluster.views import LiveInstance
from pinotpy.errors import ConnectionLostError, NotLeaderError, StaleVersionError

PATHS = ClusterPaths("C")


@pytest.fixture
def tree() -> MemoryTree:
    tree = MemoryTree()
    create_cluster(MemoryStore(tree, dispatcher=ManualDispatcher()), PATHS)
    return tree


def open_store(tree: MemoryTree) -> MemoryStore:
    return MemoryStore(tree, dispatcher=ManualDispatcher())


def election(store: MemoryStore, name: str, pid: int = 1, running: dict[int, str] | None = None) -> LeaderElection:
    started = {1: "a", 2: "b"} if running is None else running
    return LeaderElection(
        store,
        PATHS,
        f"Controller_{name}_9000",
        process=ProcessIdentity(pid, "h", "space", "ab"[pid - 1]),
        start_of=started.get,
    )


def test_one_leads_and_the_next_epoch_fences_it(tree: MemoryTree) -> None:
    first_store, second_store = open_store(tree), open_store(tree)
    first, second = election(first_store, "a"), election(second_store, "b", pid=2)
    assert first.step() and not second.step()
    assert leader_instance(second_store, PATHS) == "Controller_a_9000"
    old_fence = first.fence()
    with pytest.raises(NotLeaderError, match="Controller_a_9000"):
        second.fence()
    first_store.expire(reconnect=False)
    assert second.step() and second.epoch > old_fence[0].version
    first_store.reconnect()
    with pytest.raises(StaleVersionError):
        first_store.multi(old_fence)
    assert not first.step()
    second.resign()
    assert not second.is_leading and first.step()


def test_a_broken_connection_ends_the_lead_at_once_and_healing_brings_it_back(tree: MemoryTree) -> None:
    store = open_store(tree)
    leader = election(store, "a")
    assert leader.step()
    epoch = leader.epoch
    store.suspend()
    assert not leader.is_leading, "before anybody ran a step"
    with pytest.raises(ConnectionLostError):
        leader.fence()
    assert not leader.step()
    store.resume()
    assert leader.step() and leader.epoch == epoch


def test_a_dead_leader_is_replaced_before_its_session_ends(tree: MemoryTree) -> None:
    running = {1: "a", 2: "b"}
    first_store = open_store(tree)
    assert election(first_store, "a", 1, running).step()
    second = election(open_store(tree), "b", 2, running)
    assert not second.step()
    first_store.die()
    del running[1]
    assert second.step()


def test_a_lost_reply_to_the_election_is_read_back(tree: MemoryTree) -> None:
    store = open_store(tree)
    leader = election(store, "a")
    store.fault = lambda operation, _: Fault.REPLY_LOST if operation == "multi" else None
    with pytest.raises(ConnectionLostError):
        leader.step()
    store.fault = None
    assert not leader.is_leading
    assert leader.step()
    store.multi(leader.fence())


def test_this_process_runs_and_a_reaped_one_does_not() -> None:
    me = this_process()
    assert me.pid == os.getpid() and start_of_process(me.pid) == (me.start or None)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert start_of_process(child) is None


def put(store: MemoryStore, path: str, record: ZNRecord) -> None:
    plan = plan_write(path, read_record(store, path), record)
    for ops in [*plan.prepare, plan.commit]:
        store.multi(ops)


def test_a_view_changes_as_a_whole_and_keeps_what_did_not(tree: MemoryTree) -> None:
    admin, store = open_store(tree), open_store(tree)
    views: list[ClusterView] = []
    spectator = Spectator(store, PATHS, with_segments=True, on_change=views.append)
    put(admin, PATHS.external_view("t_OFFLINE"), ZNRecord("t_OFFLINE", {}, {"s0": {"Server_a_1": "ONLINE"}}))
    put(admin, PATHS.external_view("u_OFFLINE"), ZNRecord("u_OFFLINE"))
    admin.create(PATHS.segments("t_OFFLINE"))
    put(
        admin,
        PATHS.segment("t_OFFLINE", "s0"),
        SegmentZkMetadata("s0", "t_OFFLINE", crc=1, total_docs=2, creation_time_ms=3).to_record(),
    )
    admin.create(PATHS.schema("broken"), b"no record")
    admin.create(PATHS.schema("without"), ZNRecord("without").to_bytes())
    put(admin, PATHS.schema("good"), schema_record({"schemaName": "good"}))
    spectator.step()
    assert dict(spectator.view.schemas) == {"good": {"schemaName": "good"}}, (
        "records that cannot be read hide no others"
    )
    first = spectator.view
    assert first.external_views["t_OFFLINE"].partitions == {"s0": {"Server_a_1": "ONLINE"}}
    assert first.segments["t_OFFLINE"]["s0"].crc == 1
    spectator.step(False)
    spectator.step(True)
    assert spectator.view is first and views == [first]
    put(admin, PATHS.external_view("u_OFFLINE"), ZNRecord("u_OFFLINE", {}, {"x": {"Server_a_1": "ONLINE"}}))
    admin.create(
        PATHS.live_instance("Server_a_1"), LiveInstance("Server_a_1", "1").to_record().to_bytes(), ephemeral=True
    )
    store._dispatcher.deliver()  # type: ignore[attr-defined]
    spectator.step(False)
    second = spectator.view
    assert second.version == first.version + 1
    assert second.external_views["t_OFFLINE"] is first.external_views["t_OFFLINE"]
    assert second.segments is first.segments
    assert second.external_views["u_OFFLINE"].partitions and second.live_instances["Server_a_1"].session_id == "1"
    with pytest.raises(TypeError):
        second.external_views["x"] = second.external_views["t_OFFLINE"]  # type: ignore[index]


def test_a_view_has_the_replica_groups_that_are_stored(tree: MemoryTree) -> None:
    admin, store = open_store(tree), open_store(tree)
    records, dealt = InstancePartitionsRecords(admin, PATHS), InstancePartitions(((("A",), ("B",)),))
    spectator = Spectator(store, PATHS, with_segments=True)
    spectator.step()
    assert not spectator.view.instance_partitions
    records.write("t_OFFLINE", dealt, None)
    admin.create(PATHS.instance_partitions("torn_OFFLINE"), ZNRecord("torn_OFFLINE", {}, {}, {"0_1": ["A"]}).to_bytes())
    store._dispatcher.deliver()  # type: ignore[attr-defined]
    spectator.step(False)
    assert dict(spectator.view.instance_partitions) == {"t_OFFLINE": dealt}, "one that cannot be read hides no others"
    again = InstancePartitions(((("A",), ("C",)),))
    records.write("t_OFFLINE", again, 0)
    store._dispatcher.deliver()  # type: ignore[attr-defined]
    spectator.step(False)
    assert spectator.view.instance_partitions["t_OFFLINE"] == again
    records.forget("t_OFFLINE")
    store._dispatcher.deliver()  # type: ignore[attr-defined]
    spectator.step(False)
    assert not spectator.view.instance_partitions


def test_a_view_tells_which_records_cannot_be_read(tree: MemoryTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "BUCKET_FROM", 0)
    admin, store = open_store(tree), open_store(tree)
    whole = ZNRecord("t_OFFLINE", {}, {f"s{number}": {"Server_a_1": "ONLINE"} for number in range(4)})
    plan = plan_write(PATHS.ideal_state("t_OFFLINE"), None, whole)
    for ops in plan.transactions():
        admin.multi(ops)
    put(admin, PATHS.ideal_state("other_OFFLINE"), ZNRecord("other_OFFLINE", {}, {"x": {"Server_a_1": "ONLINE"}}))
    (bucket,) = admin.children(PATHS.ideal_state("t_OFFLINE"))
    paths = {
        ("schemas", "t"): PATHS.schema("t"),
        ("table_configs", "t_OFFLINE"): PATHS.table_config("t_OFFLINE"),
        ("external_views", "t_OFFLINE"): PATHS.external_view("t_OFFLINE"),
        ("segments", "t_OFFLINE/s0"): PATHS.segment("t_OFFLINE", "s0"),
        ("ideal_states", "t_OFFLINE"): f"{PATHS.ideal_state('t_OFFLINE')}/{bucket}",
    }
    good = ZNRecord("t", {"schemaJSON": "{}"})
    for path in list(paths.values())[:4]:
        admin.create(path, good.to_bytes(), make_parents=True)
    spectator = Spectator(store, PATHS, with_segments=True)
    spectator.step()
    assert not spectator.view.unreadable and len(spectator.view.ideal_states["t_OFFLINE"].partitions) == 4
    kept = {path: admin.get(path)[0] for path in paths.values()}
    for garbage in (b"garbage", b""):
        for path in paths.values():
            admin.set(path, garbage)
        spectator.step()
        view = spectator.view
        assert view.unreadable.keys() == paths.keys()
        assert not garbage or all(paths[part] in cause for part, cause in view.unreadable.items())
        assert "t_OFFLINE" not in view.ideal_states and "other_OFFLINE" in view.ideal_states
        spectator.step()
        assert spectator.view is view
    for path, data in kept.items():
        admin.set(path, data)
    spectator.step()
    assert not spectator.view.unreadable and len(spectator.view.ideal_states["t_OFFLINE"].partitions) == 4


def test_without_hints_the_full_pass_still_finds_a_change(tree: MemoryTree) -> None:
    admin, store = open_store(tree), open_store(tree)
    spectator = Spectator(store, PATHS)
    spectator.step()
    put(admin, PATHS.external_view("t_OFFLINE"), ZNRecord("t_OFFLINE"))
    spectator.step(False)
    assert "t_OFFLINE" not in spectator.view.external_views, "the hint was not delivered"
    spectator.step(True)
    assert "t_OFFLINE" in spectator.view.external_views


def test_a_lost_store_keeps_the_last_view_and_its_age_grows(tree: MemoryTree) -> None:
    clock = ManualClock()
    store = open_store(tree)
    spectator = Spectator(store, PATHS, clock=clock)
    assert spectator.age_ms is None
    spectator.step()
    view = spectator.view
    clock.advance(500)
    spectator.step(False)
    assert spectator.age_ms == 0
    store.suspend()
    clock.advance(90_000)
    spectator.step()
    assert spectator.view is view and spectator.age_ms == 90_000
    store.resume()
    spectator.step()
    assert spectator.age_ms == 0
