"""Proves that resources of tens of thousands of segments are written whole although one multi cannot take them: all
segments may change at once, a server writes all its states in a new session, and a table is changed and dropped.
"""

from __future__ import annotations

import threading

import pytest
from manual_dispatcher import ManualDispatcher

from pinotpy.cluster import buckets
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.leader import LeaderElection
from pinotpy.cluster.membership import Member, create_folders, write_instance_config
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.own_states import OwnStates
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.pipeline import TransitionPipeline
from pinotpy.cluster.process_identity import ProcessIdentity
from pinotpy.cluster.property_store import PropertyStore, table_config_record
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import RECORD_BYTES_MAX
from pinotpy.cluster.table_changes import (
    AddSegments,
    AssignSegments,
    CreateTable,
    DropTable,
    RemoveSegments,
    ReplaceConfig,
    SetBrokers,
    TableChange,
)
from pinotpy.cluster.table_state import apply, new_table_ideal_state
from pinotpy.cluster.views import CurrentState, IdealState, LiveInstance, PartitionState
from pinotpy.errors import RecordTooLargeError

PATHS = ClusterPaths("C")
TABLE = "flights_OFFLINE"
MODEL = "SegmentOnlineOfflineStateModel"
SERVER = "Server_server-0.servers.analytics.svc.cluster.local_8098"
REPLICAS = {SERVER: "ONLINE"}
# Cut into 64 buckets of 25 kB: each is stored as it is, and all of them are more than a multi takes.
NAMES = [f"flights_2026-11-29_{number:08}" for number in range(20_000)]
CONFIG = {"tableName": TABLE, "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}}


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore(MemoryTree(), dispatcher=ManualDispatcher())
    create_cluster(store, PATHS)
    return store


def run(store: MemoryStore, change: TableChange) -> None:
    apply(store, PATHS, TABLE, change, pause=lambda _: None)


def put_ideal_state(store: MemoryStore, names: list[str]) -> None:
    path = PATHS.ideal_state(TABLE)
    ideal = new_table_ideal_state(TABLE, 1).with_partitions(dict.fromkeys(names, REPLICAS))
    for ops in buckets.plan_write(path, buckets.read_record(store, path), ideal.to_record()).transactions():
        store.multi(ops)


def read(store: MemoryStore, path: str) -> buckets.StoredRecord:
    stored = buckets.read_record(store, path)
    assert stored is not None
    return stored


def test_one_multi_does_not_take_such_a_resource(store: MemoryStore) -> None:
    put_ideal_state(store, NAMES)
    stored = read(store, PATHS.ideal_state(TABLE))
    sizes = [len(bucket.to_bytes()) for bucket in stored.buckets]
    assert sum(sizes) > RECORD_BYTES_MAX and max(sizes) < RECORD_BYTES_MAX // 10
    long = {"Server_b_1": "ONLINE" * 9}
    other = IdealState.from_record(stored.record).with_partitions(dict.fromkeys(NAMES, long))
    with pytest.raises(RecordTooLargeError):
        store.multi(buckets.plan_write(PATHS.ideal_state(TABLE), stored, other.to_record()).commit)


def test_a_server_writes_all_states_in_each_session(store: MemoryStore) -> None:
    states = OwnStates(store, PATHS, SERVER, threading.Lock())
    for session in ("s1", "s2"):
        store.create(PATHS.current_states(SERVER, session), make_parents=True)
        states.begin_session(session)
        for now in ("OFFLINE", "ONLINE"):
            for name in NAMES:
                states.set(TABLE, MODEL, name, PartitionState(now))
            states.write(states.take_changed())
            path = PATHS.current_state(SERVER, session, TABLE)
            found = CurrentState.from_record(read(store, path).record)
            assert {name: entry.state for name, entry in found.partitions.items()} == dict.fromkeys(NAMES, now)
    states.set(TABLE, MODEL, NAMES[7], PartitionState("ERROR"))
    before = read(store, path).versions
    states.write(states.take_changed())
    after = read(store, path).versions
    assert sum(before[where] != after[where] for where in before) == 1, "one that changes writes one bucket"


def test_a_view_follows_all_segments_at_once(store: MemoryStore) -> None:
    write_instance_config(store, PATHS, Member(SERVER, ProcessIdentity(1, "h")))
    create_folders(store, PATHS, SERVER)
    store.create(PATHS.current_states(SERVER, "s1"), make_parents=True)
    store.create(PATHS.live_instance(SERVER), LiveInstance(SERVER, "s1").to_record().to_bytes(), ephemeral=True)
    pipeline = TransitionPipeline(store, PATHS, LeaderElection(store, PATHS, "Controller_a_1"), source="a")
    put_ideal_state(store, NAMES)
    states = OwnStates(store, PATHS, SERVER, threading.Lock())
    states.begin_session("s1")
    for state in ("OFFLINE", "ONLINE", "ERROR"):
        for name in NAMES:
            states.set(TABLE, MODEL, name, PartitionState(state))
        states.write(states.take_changed())
        pipeline.step(is_full=True)
        view = read(store, PATHS.external_view(TABLE)).record.map_fields
        assert view == {name: {SERVER: state} for name in NAMES}
    for name in NAMES:
        states.set(TABLE, MODEL, name, PartitionState("DROPPED"))
    states.write(states.take_changed())
    for ops in buckets.in_multis(
        buckets.plan_delete(store, PATHS.ideal_state(TABLE), read(store, PATHS.ideal_state(TABLE)))
    ):
        store.multi(ops)
    pipeline.step(is_full=True)
    assert buckets.read_record(store, PATHS.external_view(TABLE)) is None
    assert not [path for path in store._tree.dump() if PATHS.external_view(TABLE) in path]


@pytest.fixture
def table(store: MemoryStore) -> None:
    run(store, CreateTable(table_config_record(TABLE, CONFIG), new_table_ideal_state(TABLE, 1), ("Broker_x_1",)))


def test_many_segments_are_added_assigned_and_removed(store: MemoryStore, table: None) -> None:
    put_ideal_state(store, NAMES)
    new = [f"flights_new_{number:08}" for number in range(450)]
    run(store, AddSegments(tuple((SegmentZkMetadata(name, TABLE, 1, 10, 1), REPLICAS) for name in new)))
    path = PATHS.ideal_state(TABLE)
    assert read(store, path).record.map_fields == dict.fromkeys([*NAMES, *new], REPLICAS)
    assert set(PropertyStore(store, PATHS).segment_names(TABLE)) == set(new)
    moved = {"Server_b_1": "ONLINE"}
    run(store, AssignSegments(dict.fromkeys(NAMES, moved)))
    expected = dict.fromkeys(NAMES, moved) | dict.fromkeys(new, REPLICAS)
    assert read(store, path).record.map_fields == expected
    gone = [*new[:300], *NAMES[:300]]
    run(store, RemoveSegments(tuple(gone)))
    assert read(store, path).record.map_fields == {k: v for k, v in expected.items() if k not in gone}
    assert set(PropertyStore(store, PATHS).segment_names(TABLE)) == set(new[300:])


def test_a_config_that_is_changed_may_cut_the_ideal_state(store: MemoryStore, table: None) -> None:
    """Segments of a stream are added to the one node that there is: who writes the record next cuts it."""
    path = PATHS.ideal_state(TABLE)
    ideal = IdealState.from_record(read(store, path).record)
    names = NAMES[: buckets.BUCKET_FROM + 1]
    store.set(path, ideal.with_partitions(dict.fromkeys(names, REPLICAS)).to_record().to_bytes())
    changed = table_config_record(TABLE, CONFIG | {"isDimTable": True})
    run(store, ReplaceConfig(changed, ideal_state_fields={"REPLICAS": "2"}))
    stored = read(store, path)
    assert stored.layout.num_buckets > 0 and stored.record.map_fields == dict.fromkeys(names, REPLICAS)
    assert stored.record.simple_fields["REPLICAS"] == "2"


def test_brokers_of_more_tables_than_one_node_takes(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "BUCKET_FROM", 3)
    monkeypatch.setattr(buckets, "_PARTITIONS_PER_NEW_BUCKET", 2)
    tables = [f"t{number}_OFFLINE" for number in range(8)]
    for name in tables:
        config = table_config_record(name, CONFIG | {"tableName": name})
        apply(store, PATHS, name, CreateTable(config, new_table_ideal_state(name, 1), ("Broker_x_1",)))
    stored = read(store, PATHS.ideal_state("brokerResource"))
    on_broker = {"Broker_x_1": "ONLINE"}
    assert stored.layout.num_buckets and stored.record.map_fields == dict.fromkeys(tables, on_broker)
    apply(store, PATHS, tables[0], SetBrokers(()))
    for name in tables:
        apply(store, PATHS, name, DropTable())
    assert not read(store, PATHS.ideal_state("brokerResource")).record.map_fields


def test_a_table_of_more_buckets_than_a_multi_takes_is_dropped(
    store: MemoryStore, table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "BUCKET_FROM", 100)
    monkeypatch.setattr(buckets, "_PARTITIONS_PER_NEW_BUCKET", 8)
    put_ideal_state(store, NAMES[:5_000])
    assert len(store.children(PATHS.ideal_state(TABLE))) == 1_024
    run(store, DropTable())
    assert [path for path in store._tree.dump() if TABLE in path] == []
