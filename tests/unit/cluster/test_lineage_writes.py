"""Proves that a step of a replacement is written only if nothing came between its decision and its write, is never
applied twice when its reply is lost, is refused to a leader whose epoch has passed, and that clean-ups and uploads keep
to the lineage as it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pinotpy.cluster import buckets
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.lineage import SETTLE_MS, EndReplace, LineageEvent, RevertReplace, StartReplace
from pinotpy.cluster.memory import Fault, MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.property_store import table_config_record
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_lineage import SegmentLineage
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import Check
from pinotpy.cluster.table_changes import (
    AddSegments,
    ChangeLineage,
    CreateTable,
    DropTable,
    RemoveSegments,
    ReplaceSegment,
    TableChange,
)
from pinotpy.cluster.table_reading import Reading
from pinotpy.cluster.table_state import apply, new_table_ideal_state
from pinotpy.cluster.views import InstanceConfig, LiveInstance
from pinotpy.errors import (
    AlreadyExistsError,
    ConnectionLostError,
    NotLeaderError,
    PinotError,
    RecordTooLargeError,
    StaleVersionError,
    TableNotFoundError,
)

PATHS, TABLE, SERVER = ClusterPaths("C"), "t_OFFLINE", "Server_a_1"
START_MS = 10**12


class Table:
    """A table with segment `a`; what is added is served at once."""

    def __init__(self) -> None:
        self.store = MemoryStore(MemoryTree())
        create_cluster(self.store, PATHS)
        self.store.create(PATHS.instance_config(SERVER), InstanceConfig(SERVER, "a", 1, (), {}).to_record().to_bytes())
        self.store.create(PATHS.live_instance(SERVER), LiveInstance(SERVER, "1").to_record().to_bytes())
        self.store.create(
            PATHS.external_view(TABLE), ZNRecord(TABLE, {}, {name: {SERVER: "ONLINE"} for name in "abcd"}).to_bytes()
        )
        self.change(
            CreateTable(table_config_record(TABLE, {"tableName": TABLE}), new_table_ideal_state(TABLE, 1), ()),
            other=True,
        )
        self.add("a")

    def change(self, change: TableChange, *, other: bool = False, fences: tuple[Check, ...] = ()) -> None:
        """`other`: by another client, whom injected faults do not meet."""
        store = MemoryStore(self.store._tree) if other else self.store
        view = store.get(PATHS.external_view(TABLE))[0]
        if isinstance(change, CreateTable):
            store.delete(PATHS.external_view(TABLE))
        try:
            apply(store, PATHS, TABLE, change, fences=fences, pause=lambda _: None)
        finally:
            if isinstance(change, CreateTable):
                store.create(PATHS.external_view(TABLE), view)

    def add(self, *names: str, other: bool = False) -> None:
        self.change(AddSegments(tuple((segment(name), {SERVER: "ONLINE"}) for name in names)), other=other)

    def step(self, event: LineageEvent, now_ms: int = START_MS) -> None:
        self.change(ChangeLineage(event, now_ms))

    @property
    def lineage(self) -> SegmentLineage:
        return Reading(MemoryStore(self.store._tree), PATHS, TABLE).lineage()[0]

    @property
    def states(self) -> list[str]:
        return [entry.state.value for entry in self.lineage.entries.values()]

    def race(self, meanwhile: Callable[[], None]) -> list[str]:
        """Do something once, just before the first write of this client."""
        done: list[str] = []

        def fault(operation: str, path: str) -> Fault | None:
            if operation == "multi" and not done:
                done.append(path)
                meanwhile()
            return None

        self.store.fault = fault
        return done


def segment(name: str, crc: int = 7) -> SegmentZkMetadata:
    return SegmentZkMetadata(name, TABLE, crc=crc, total_docs=10, creation_time_ms=1)


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_segment_that_is_deleted_just_before_the_end_is_missed(table: Table) -> None:
    table.step(StartReplace("e", ("a",), ("b", "c")))
    table.add("b", "c")
    raced = table.race(lambda: table.change(RemoveSegments(("c",)), other=True))
    with pytest.raises(AlreadyExistsError, match="1 of 2 segments of entry 'e' are not in table 't_OFFLINE': 'c'"):
        table.step(EndReplace("e"))
    assert raced and table.states == ["IN_PROGRESS"]


def test_a_segment_that_comes_just_before_the_start_is_not_hidden(table: Table) -> None:
    raced = table.race(lambda: table.add("b", other=True))
    with pytest.raises(AlreadyExistsError, match="in table 't_OFFLINE' already: 'b'"):
        table.step(StartReplace("e", ("a",), ("b",)))
    assert raced and table.lineage.entries == {}


def test_old_segments_that_go_just_before_the_revert_are_missed(table: Table) -> None:
    table.step(StartReplace("e", ("a",), ("b",)))
    table.add("b")
    table.step(EndReplace("e"))
    raced = table.race(lambda: table.change(RemoveSegments(("a",)), other=True))
    with pytest.raises(AlreadyExistsError, match="old segments are deleted"):
        table.step(RevertReplace("e"))
    assert raced and table.states == ["COMPLETED"]


def test_a_clean_up_decided_before_a_revert_deletes_nothing(table: Table) -> None:
    table.step(StartReplace("e", ("a",), ("b",)))
    table.add("b")
    table.step(EndReplace("e"))
    version = Reading(table.store, PATHS, TABLE).lineage()[1]
    raced = table.race(lambda: table.change(ChangeLineage(RevertReplace("e"), START_MS), other=True))
    with pytest.raises(StaleVersionError):
        table.change(RemoveSegments(("a",), version))
    assert raced and table.states == ["REVERTED"]
    assert set(Reading(table.store, PATHS, TABLE).ideal_state().record.map_fields) == {"a", "b"}
    with pytest.raises(StaleVersionError):
        table.change(RemoveSegments(("a",), version))


def test_two_starts_at_once_are_decided_one_after_the_other(table: Table) -> None:
    raced = table.race(
        lambda: table.change(ChangeLineage(StartReplace("theirs", ("a",), ("c",)), START_MS), other=True)
    )
    with pytest.raises(AlreadyExistsError, match="entry 'theirs', in progress"):
        table.step(StartReplace("ours", ("a",), ("b",)))
    assert raced and list(table.lineage.entries) == ["theirs"]
    table.race(lambda: table.change(ChangeLineage(StartReplace("more", (), ("d",)), START_MS), other=True))
    table.step(StartReplace("ours", (), ("b",)))
    assert sorted(table.lineage.entries) == ["more", "ours", "theirs"]


def test_a_leader_whose_epoch_passed_changes_no_lineage(table: Table) -> None:
    fence = Check(PATHS.leader_epoch, table.store.set(PATHS.leader_epoch, b"").version)
    table.change(ChangeLineage(StartReplace("e", ("a",), ("b",)), START_MS), fences=(fence,))
    table.store.set(PATHS.leader_epoch, b"")
    with pytest.raises(NotLeaderError):
        table.change(ChangeLineage(RevertReplace("e", force=True), START_MS), fences=(fence,))
    assert table.states == ["IN_PROGRESS"]


def test_lost_replies_never_apply_a_step_twice_nor_lose_it() -> None:
    steps: list[tuple[LineageEvent, int]] = [
        (StartReplace("one", ("a",), ("b",), custom_map={"job": "1"}), 0),
        (EndReplace("one"), 1),
        (StartReplace("two", ("b",), ("c",)), 2),
        (StartReplace("three", ("b",), ("c", "d"), force_cleanup=True), 3),
        (EndReplace("three", ("c",)), 4),
        (RevertReplace("three"), 5),
        (StartReplace("four", ("b",), ("c",)), 6 + SETTLE_MS),
    ]

    def outcome(seed: int | None) -> dict[str, bytes]:
        table, randomness = Table(), random.Random(seed)

        def fault(_operation: str, _path: str) -> Fault | None:
            return randomness.choice([None, None, Fault.REQUEST_LOST, Fault.REPLY_LOST])

        for event, at_ms in steps:
            table.store.fault = fault if seed is not None else None
            try:
                table.step(event, START_MS + at_ms)
            except ConnectionLostError:
                table.store.fault = None
                table.step(event, START_MS + at_ms)  # a client that repeats what it had no answer to
            table.store.fault = None
            coming = next(
                (entry.segments_to for entry in table.lineage.entries.values() if entry.state == "IN_PROGRESS"), ()
            )
            present = Reading(table.store, PATHS, TABLE).ideal_state().record.map_fields
            table.add(*(name for name in coming if name != "d" and name not in present))
        return {
            path: data
            for path, data in table.store._tree.dump().items()
            if path in (PATHS.segment_lineage(TABLE), PATHS.ideal_state(TABLE))
        }

    expected = outcome(None)
    assert len(expected) == 2
    for seed in range(100):
        assert outcome(seed) == expected, f"seed {seed}"


def test_rows_that_nobody_would_see_do_not_come_in(table: Table) -> None:
    table.step(StartReplace("e", ("a",), ("b",)))
    table.add("b")
    table.change(ReplaceSegment(segment("a", crc=8)))
    table.change(ReplaceSegment(segment("b", crc=8)))
    table.step(EndReplace("e"))
    with pytest.raises(AlreadyExistsError, match="has been replaced"):
        table.change(ReplaceSegment(segment("a", crc=9)))
    table.change(RemoveSegments(("a",)))
    with pytest.raises(AlreadyExistsError, match="has been replaced"):
        table.add("a")
    table.add("c")


def test_a_table_of_many_buckets_is_watched_in_all_of_them(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "BUCKET_FROM", 10)
    monkeypatch.setattr(buckets, "_PARTITIONS_PER_NEW_BUCKET", 4)
    table.add(*(f"s{number}" for number in range(30)))
    raced = table.race(lambda: table.add("b", other=True))
    with pytest.raises(AlreadyExistsError, match="already: 'b'"):
        table.step(StartReplace("e", ("s7",), ("b",)))
    assert raced
    table.step(StartReplace("e", tuple(f"s{number}" for number in range(30)), ("c",)))


def test_a_table_takes_its_lineage_with_it_and_inherits_none(table: Table) -> None:
    with pytest.raises(TableNotFoundError):
        apply(table.store, PATHS, "none_OFFLINE", ChangeLineage(StartReplace("e", (), ("b",)), START_MS))
    table.step(StartReplace("e", ("a",), ("b",)))
    table.change(DropTable())
    assert table.store.exists(PATHS.segment_lineage(TABLE)) is None
    table.store.create(
        PATHS.segment_lineage(TABLE), ZNRecord(TABLE, {}, {}, {"left": ["", "a", "REVERTED", "1"]}).to_bytes()
    )
    table.change(CreateTable(table_config_record(TABLE, {"tableName": TABLE}), new_table_ideal_state(TABLE, 1), ()))
    assert table.lineage.entries == {}


def test_a_record_over_the_limit_is_refused_before_it_is_sent(table: Table) -> None:
    randomness = random.Random(1)
    names = tuple(f"{randomness.getrandbits(1400):x}"[:350] for _ in range(6_000))
    with pytest.raises(RecordTooLargeError, match="over the limit"):
        table.step(StartReplace("e", (), names))
    assert table.lineage.entries == {}


def test_a_cluster_of_an_earlier_version_gets_its_folder(table: Table) -> None:
    table.store.delete(PATHS.segment_lineages)
    table.step(StartReplace("e", (), ("b",)))
    assert table.states == ["IN_PROGRESS"]


def test_a_lineage_that_cannot_be_read_lets_nothing_in(table: Table) -> None:
    table.store.create(PATHS.segment_lineage(TABLE), ZNRecord(TABLE, {}, {}, {"e": ["a"]}).to_bytes())
    for change in (
        AddSegments(((segment("b"), {SERVER: "ONLINE"}),)),
        ChangeLineage(StartReplace("e", (), ("b",)), START_MS),
    ):
        with pytest.raises(PinotError, match="entry 'e' of the segment lineage"):
            table.change(change)
