"""Proves that a table's state changes as one piece: record and ideal state together, conflicts decided anew, a lost
reply never applied twice, a fenced leader refused. Runs over the in-memory store with injected faults.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from pinotpy.cluster import buckets
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.memory import Fault, MemoryStore, MemoryTree
from pinotpy.cluster.paths import BROKER_RESOURCE, ClusterPaths
from pinotpy.cluster.property_store import PropertyStore, table_config_record
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_deletions import SegmentDeletions
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import Check
from pinotpy.cluster.table_changes import (
    AddSegments,
    AssignSegments,
    CreateTable,
    Deletion,
    DropTable,
    RemoveSegments,
    ReplaceConfig,
    ReplaceSegment,
    SetBrokers,
    SetTableEnabled,
    TableChange,
)
from pinotpy.cluster.table_state import apply, new_table_ideal_state
from pinotpy.errors import (
    AlreadyExistsError,
    ConnectionLostError,
    NotFoundError,
    NotLeaderError,
    StaleVersionError,
    TableNotFoundError,
)

PATHS = ClusterPaths("TestCluster")
TABLE = "flights_OFFLINE"
REPLICAS = {"Server_a_1": "ONLINE", "Server_b_1": "ONLINE"}
CONFIG = {"tableName": TABLE, "tableType": "OFFLINE", "segmentsConfig": {"replication": "2"}, "isDimTable": False}


def segment(name: str, crc: int = 7) -> SegmentZkMetadata:
    return SegmentZkMetadata(name, TABLE, crc=crc, total_docs=10, creation_time_ms=1)


def added(*names: str) -> AddSegments:
    return AddSegments(tuple((segment(name), REPLICAS) for name in names))


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore(MemoryTree())
    create_cluster(store, PATHS)
    return store


@pytest.fixture
def run(store: MemoryStore) -> Callable[[TableChange], None]:
    return lambda change: apply(store, PATHS, TABLE, change, pause=lambda _: None)


@pytest.fixture
def table(run: Callable[[TableChange], None]) -> None:
    run(CreateTable(table_config_record(TABLE, CONFIG), new_table_ideal_state(TABLE, 2), ("Broker_x_1",)))


def ideal_state(store: MemoryStore, resource: str = TABLE) -> ZNRecord:
    stored = buckets.read_record(store, PATHS.ideal_state(resource))
    assert stored is not None
    return stored.record


def test_a_created_table_stands_in_all_its_places(
    store: MemoryStore, run: Callable[[TableChange], None], table: None
) -> None:
    properties = PropertyStore(store, PATHS)
    assert properties.table_names() == [TABLE]
    config = properties.table_config(TABLE)
    assert config is not None and config.value == CONFIG
    assert ideal_state(store).simple_fields["NUM_PARTITIONS"] == "0"
    assert ideal_state(store, BROKER_RESOURCE).map_fields == {TABLE: {"Broker_x_1": "ONLINE"}}
    run(SetBrokers(("Broker_y_1", "Broker_x_1")))
    assert ideal_state(store, BROKER_RESOURCE).map_fields == {TABLE: {"Broker_x_1": "ONLINE", "Broker_y_1": "ONLINE"}}
    with pytest.raises(AlreadyExistsError):
        run(CreateTable(table_config_record(TABLE, CONFIG), new_table_ideal_state(TABLE, 2), ()))


def created(name: str) -> CreateTable:
    record = table_config_record(name, {**CONFIG, "tableName": name})
    return CreateTable(record, new_table_ideal_state(name, 2), ("Broker_x_1",))


def test_a_table_whose_name_differs_from_another_ones_in_letter_case_alone_is_refused(
    store: MemoryStore, table: None
) -> None:
    for twin in ("Flights_OFFLINE", "FLIGHTS_REALTIME"):
        with pytest.raises(AlreadyExistsError) as refused:
            apply(store, PATHS, twin, created(twin))
        assert "'flights'" not in refused.value.message and refused.value.context["like"] == "flights"
    apply(store, PATHS, "flights_REALTIME", created("flights_REALTIME"))
    assert PropertyStore(store, PATHS).table_names() == ["flights_OFFLINE", "flights_REALTIME"]


@pytest.mark.parametrize("moment", ["children", "multi"])
def test_of_two_tables_made_at_the_same_time_with_twin_names_one_is_refused(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    call, others = getattr(store, moment), ["flights_OFFLINE"]

    def slow(*args: Any) -> Any:
        answer = call(*args) if moment == "children" else None
        if others:  # somebody else is faster: after the names were read, or after all that is read
            other = others.pop()
            apply(store, PATHS, other, created(other))
        return answer if moment == "children" else call(*args)

    monkeypatch.setattr(store, moment, slow)
    with pytest.raises(AlreadyExistsError, match="letter case"):
        apply(store, PATHS, "FLIGHTS_OFFLINE", created("FLIGHTS_OFFLINE"), pause=lambda _: None)
    assert PropertyStore(store, PATHS).table_names() == ["flights_OFFLINE"]


def test_segments_come_and_go_with_their_records(
    store: MemoryStore, run: Callable[[TableChange], None], table: None
) -> None:
    run(added("s0", "s1"))
    assert ideal_state(store).map_fields == {"s0": REPLICAS, "s1": REPLICAS}
    properties = PropertyStore(store, PATHS)
    assert properties.segments(TABLE) == {"s0": segment("s0"), "s1": segment("s1")}
    run(added("s0"))
    with pytest.raises(AlreadyExistsError):
        run(AddSegments(((segment("s0", crc=8), REPLICAS),)))
    run(RemoveSegments(("s0", "never-was")))
    assert list(ideal_state(store).map_fields) == properties.segment_names(TABLE) == ["s1"]
    assert ideal_state(store).simple_fields["NUM_PARTITIONS"] == "1"


def test_a_refresh_replaces_the_record_that_was_read(
    store: MemoryStore, run: Callable[[TableChange], None], table: None
) -> None:
    run(added("s0"))
    run(ReplaceSegment(segment("s0", crc=8), version=0))
    run(ReplaceSegment(segment("s0", crc=8), version=0))  # stands already
    with pytest.raises(StaleVersionError):
        run(ReplaceSegment(segment("s0", crc=9), version=0))
    with pytest.raises(NotFoundError):
        run(ReplaceSegment(segment("none")))


def test_replicas_state_and_config_change(store: MemoryStore, run: Callable[[TableChange], None], table: None) -> None:
    run(added("s0"))
    run(AssignSegments({"s0": {"Server_c_1": "ONLINE"}}))
    assert ideal_state(store).map_fields == {"s0": {"Server_c_1": "ONLINE"}}
    with pytest.raises(NotFoundError):
        run(AssignSegments({"none": {}}))
    run(SetTableEnabled(False))
    assert ideal_state(store).simple_fields["HELIX_ENABLED"] == "false"
    run(
        ReplaceConfig(
            table_config_record(TABLE, {**CONFIG, "isDimTable": True}), version=0, ideal_state_fields={"REPLICAS": "3"}
        )
    )
    assert ideal_state(store).simple_fields["REPLICAS"] == "3"
    with pytest.raises(StaleVersionError):
        run(ReplaceConfig(table_config_record(TABLE, CONFIG), version=0))


@pytest.mark.parametrize("num_segments", [0, 3, 450])
def test_a_dropped_table_leaves_nothing(
    store: MemoryStore, run: Callable[[TableChange], None], table: None, num_segments: int
) -> None:
    before = {"/TestCluster/PROPERTYSTORE/SEGMENTS"}
    run(added(*(f"s{i}" for i in range(num_segments))))
    run(DropTable())
    left = [path for path in store._tree.dump() if TABLE in path]
    assert left == [] and before <= set(store._tree.dump())
    assert ideal_state(store, BROKER_RESOURCE).map_fields == {}
    with pytest.raises(TableNotFoundError):
        run(DropTable())
    with pytest.raises(TableNotFoundError):
        run(added("s0"))


@pytest.mark.parametrize(
    "change",
    [DropTable(Deletion("d", 5)), RemoveSegments(tuple(f"s{i}" for i in range(-9, 450)), deletion=Deletion("d", 5))],
)
def test_what_goes_is_recorded_with_its_removal(
    store: MemoryStore, run: Callable[[TableChange], None], table: None, change: TableChange
) -> None:
    names = {f"s{i}" for i in range(450)}
    run(added(*sorted(names)))
    run(change)
    deletions = SegmentDeletions(store, PATHS)
    found = deletions.of(Deletion("d", 5))
    assert len(found) == 3 and deletions.of(Deletion("other", 5)) == []
    assert {name for each in found for name in each.segments} == names
    assert {(each.table, each.deletion) for each in found} == {(TABLE, Deletion("d", 5))}
    for each in found:
        deletions.forget(each)
        deletions.forget(each)
    assert deletions.all() == []


def test_a_table_whose_view_is_still_there_is_not_created_again(
    store: MemoryStore, run: Callable[[TableChange], None], table: None
) -> None:
    store.create(PATHS.external_view(TABLE), ZNRecord(TABLE).to_bytes())
    run(DropTable())
    with pytest.raises(AlreadyExistsError, match="external view"):
        run(CreateTable(table_config_record(TABLE, CONFIG), new_table_ideal_state(TABLE, 2), ()))


def test_lost_replies_never_apply_a_change_twice_nor_lose_it() -> None:
    changes: list[TableChange] = [
        CreateTable(table_config_record(TABLE, CONFIG), new_table_ideal_state(TABLE, 2), ("Broker_x_1",)),
        added("s0", "s1", "s2"),
        RemoveSegments(("s1",), deletion=Deletion("d", 1, 2)),
        ReplaceSegment(segment("s0", crc=9), version=0),
        AssignSegments({"s2": {"Server_c_1": "ONLINE"}}),
        ReplaceConfig(table_config_record(TABLE, {**CONFIG, "isDimTable": True}), version=0),
        SetTableEnabled(False),
    ]

    def outcome(seed: int | None) -> dict[str, bytes]:
        store = MemoryStore(MemoryTree())
        create_cluster(store, PATHS)
        randomness = random.Random(seed)

        def fault(operation: str, path: str) -> Fault | None:
            return randomness.choice([None, None, Fault.REQUEST_LOST, Fault.REPLY_LOST])

        for change in changes:
            store.fault = fault if seed is not None else None
            try:
                apply(store, PATHS, TABLE, change, pause=lambda _: None)
            except ConnectionLostError:
                # A caller that repeats a change whose outcome it never learned.
                store.fault = None
                if not isinstance(change, CreateTable) or not store.exists(PATHS.table_config(TABLE)):
                    apply(store, PATHS, TABLE, change, pause=lambda _: None)
        store.fault = None
        return {path: data for path, data in store._tree.dump().items() if "CONFIGS/CLUSTER" not in path}

    expected = outcome(None)
    for seed in range(200):
        assert outcome(seed) == expected, f"seed {seed}"


def test_a_conflicting_write_is_decided_anew(
    store: MemoryStore, run: Callable[[TableChange], None], table: None
) -> None:
    other = MemoryStore(store._tree)
    raced: list[str] = []

    def race(operation: str, path: str) -> Fault | None:
        if operation == "multi" and not raced:
            raced.append(path)
            apply(other, PATHS, TABLE, added("theirs"), pause=lambda _: None)
        return None

    store.fault = race
    run(added("ours"))
    assert sorted(ideal_state(store).map_fields) == ["ours", "theirs"]
    assert raced


def test_a_leader_whose_epoch_passed_is_refused_and_changes_nothing(store: MemoryStore, table: None) -> None:
    epoch = store.set(PATHS.leader_epoch, b"").version
    fence = Check(PATHS.leader_epoch, epoch)
    apply(store, PATHS, TABLE, added("s0"), fences=[fence])
    store.set(PATHS.leader_epoch, b"")
    with pytest.raises(NotLeaderError):
        apply(store, PATHS, TABLE, added("s1"), fences=[fence], pause=lambda _: None)
    assert list(ideal_state(store).map_fields) == ["s0"]


def test_a_large_table_is_cut_into_buckets_and_a_change_writes_one(
    store: MemoryStore, run: Callable[[TableChange], None], table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "BUCKET_FROM", 30)
    monkeypatch.setattr(buckets, "_PARTITIONS_PER_NEW_BUCKET", 10)
    monkeypatch.setattr(buckets, "_PARTITIONS_PER_BUCKET_MAX", 20)
    names = [f"s{i}" for i in range(200)]
    for start in range(0, 200, 20):
        run(added(*names[start : start + 20]))
    stored = buckets.read_record(store, PATHS.ideal_state(TABLE))
    assert stored is not None and stored.layout.num_buckets == 32, "cut at 40 segments into 8, and anew at 180"
    assert stored.record.map_fields == dict.fromkeys(names, REPLICAS)
    assert "BUCKET_COUNT" not in stored.record.simple_fields
    assert len(store.children(PATHS.ideal_state(TABLE))) == 32, "no bucket of the old cut is left"
    before = dict(stored.versions)
    run(AssignSegments({"s7": {"Server_c_1": "ONLINE"}}))
    after = buckets.read_record(store, PATHS.ideal_state(TABLE))
    assert after is not None
    assert [path for path in before if before[path] != after.versions[path]] == [
        stored.layout.bucket_path(PATHS.ideal_state(TABLE), buckets.bucket_of("s7", 32))
    ]
    run(RemoveSegments(tuple(names)))
    run(DropTable())
    assert [path for path in store._tree.dump() if TABLE in path] == []
