"""Proves that segments of streams begin, are sealed and are done in one write each, and that every fence refuses a
write of another time: over ZooKeeper and over its twin, in one record and in buckets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from pinotpy.cluster import buckets
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.llc_names import LlcName, llc_name
from pinotpy.cluster.memory import Fault, MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.property_store import PropertyStore, table_config_record
from pinotpy.cluster.realtime_records import RealtimeRecord, SegmentStatus
from pinotpy.cluster.realtime_segments import RealtimeSegments, StoredRealtime
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import Check, ClusterStore, Op
from pinotpy.cluster.table_changes import CreateTable
from pinotpy.cluster.table_state import apply, new_table_ideal_state
from pinotpy.cluster.write_outcome import WriteOutcome
from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.errors import StaleVersionError

TABLE = "t_REALTIME"
SERVERS = ("Server_a_1", "Server_b_1")
NOW_MS = 1_720_000_000_000
_clusters = itertools.count()


class Scene:
    """A table of a stream in a cluster of its own, and a leader of epoch `epoch`."""

    def __init__(self, store: ClusterStore, *, num_buckets: int) -> None:
        self.store, self.paths = store, ClusterPaths(f"Cluster{next(_clusters)}")
        create_cluster(store, self.paths)
        ideal = new_table_ideal_state(TABLE, 2)
        config = table_config_record(TABLE, {"tableName": TABLE, "tableType": "REALTIME"})
        apply(store, self.paths, TABLE, CreateTable(config, ideal, ()))
        if num_buckets:
            self._cut(num_buckets)
        self.epoch = store.exists(self.paths.leader_epoch)
        assert self.epoch is not None
        self.segments = self.leader(self.epoch.version)

    def leader(self, epoch: int) -> RealtimeSegments:
        return RealtimeSegments(
            self.store, self.paths, lambda: (Check(self.paths.leader_epoch, epoch),), pause=lambda _: None
        )

    def _cut(self, num_buckets: int) -> None:
        path = self.paths.ideal_state(TABLE)
        stored = buckets.read_record(self.store, path)
        assert stored is not None
        layout = buckets.Layout(num_buckets, "aa")
        for where, record in buckets._bucket_records(path, stored.record, layout):
            self.store.create(where, record.to_bytes())
        self.store.set(path, buckets._main_record(stored.record, layout, False).to_bytes())

    def states(self) -> dict[str, dict[str, str]]:
        stored = buckets.read_record(self.store, self.paths.ideal_state(TABLE))
        assert stored is not None
        return stored.record.map_fields

    def begun(self, partition: int = 0) -> StoredRealtime:
        record = in_progress(llc_name("t", partition, 0, NOW_MS), "10")
        assert self.segments.begin(record, SERVERS).outcome is WriteOutcome.WRITTEN
        return self.read(record.name)

    def read(self, name: LlcName) -> StoredRealtime:
        stored = self.segments.read(TABLE, str(name))
        assert stored is not None
        return stored

    def sealed(self, stored: StoredRealtime, end: str = "25") -> StoredRealtime:
        following = in_progress(stored.record.name.following(NOW_MS + 60_000), end)
        assert self.segments.seal(stored, end, 15, following, SERVERS).outcome is WriteOutcome.WRITTEN
        return self.read(stored.record.name)


def in_progress(name: LlcName, start: str) -> RealtimeRecord:
    return RealtimeRecord.in_progress(
        TABLE, name, start, num_replicas=2, row_threshold=100, time_threshold_ms=1_000, creation_time_ms=NOW_MS
    )


def file_of(name: LlcName, crc: int = 7) -> SegmentZkMetadata:
    return SegmentZkMetadata(str(name), TABLE, crc, 15, NOW_MS, download_url="file:/x", size_bytes=100)


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def store(request: pytest.FixtureRequest) -> Iterator[ClusterStore]:
    if request.param == "memory":
        opened: ClusterStore = MemoryStore(MemoryTree())
    else:
        opened = ZooKeeperStore(request.getfixturevalue("zookeeper"), session_timeout_s=30.0, call_timeout_s=60.0)
    yield opened
    opened.close()


@pytest.fixture(params=[0, 4], ids=["one record", "buckets"])
def scene(store: ClusterStore, request: pytest.FixtureRequest) -> Scene:
    return Scene(store, num_buckets=request.param)


def test_a_segment_begins_is_sealed_and_is_done(scene: Scene) -> None:
    first = scene.begun()
    other = scene.begun(partition=1)
    consuming = dict.fromkeys(SERVERS, "CONSUMING")
    name, other_name = str(first.record.name), str(other.record.name)
    assert scene.states() == {name: consuming, other_name: consuming}

    sealed = scene.sealed(first)
    following = str(first.record.name.following(NOW_MS + 60_000))
    assert (sealed.record.status, sealed.record.end_offset) == (SegmentStatus.COMMITTING, "25")
    assert (sealed.record.next_segment, sealed.record.record.total_docs) == (following, 15)
    assert scene.states() == {name: consuming, other_name: consuming, following: consuming}, "it consumes until DONE"
    assert [str(each) for each in scene.segments.consuming(TABLE, 0)] == [name, following]

    assert scene.segments.done(sealed, file_of(first.record.name)).outcome is WriteOutcome.WRITTEN
    done = scene.read(first.record.name).record
    assert (done.status, done.start_offset, done.end_offset) == (SegmentStatus.DONE, "10", "25")
    assert (done.record.crc, done.record.download_url, done.next_segment) == (7, "file:/x", following)
    assert scene.states()[name] == dict.fromkeys(SERVERS, "ONLINE")
    assert scene.segments.chains(TABLE)[0] == [first.record.name, first.record.name.following(NOW_MS + 60_000)]
    assert PropertyStore(scene.store, scene.paths).segment(TABLE, name) is not None


def test_a_segment_is_sealed_once_and_done_once(scene: Scene) -> None:
    first = scene.begun()
    sealed = scene.sealed(first)
    again = in_progress(first.record.name.following(NOW_MS + 120_000), "30")  # another minute: another name
    assert scene.segments.seal(first, "30", 20, again, SERVERS).outcome is WriteOutcome.REFUSED
    assert len(scene.states()) == 2 and scene.read(first.record.name).record.end_offset == "25"
    assert scene.segments.done(sealed, file_of(first.record.name)).outcome is WriteOutcome.WRITTEN
    assert scene.segments.done(sealed, file_of(first.record.name, 8)).outcome is WriteOutcome.REFUSED
    assert scene.read(first.record.name).record.record.crc == 7
    assert scene.segments.begin(in_progress(llc_name("t", 0, 0, NOW_MS + 60_000), "0"), SERVERS).outcome is (
        WriteOutcome.REFUSED
    ), "no partition gets two segments of one number, whatever their minute"


def test_each_fence_alone_refuses_a_seal_of_another_time(scene: Scene) -> None:
    first = scene.begun()
    following = in_progress(first.record.name.following(NOW_MS + 60_000), "25")
    # The record's version.
    stale = replace(first, version=first.version + 1)
    assert scene.segments.seal(stale, "25", 15, following, SERVERS).outcome is WriteOutcome.REFUSED
    # The leader's epoch.
    assert scene.epoch is not None
    deposed = scene.leader(scene.epoch.version + 1)
    assert deposed.seal(first, "25", 15, following, SERVERS).outcome is WriteOutcome.REFUSED
    # The node of the next segment's number.
    fence = f"{scene.paths.segment_fences}/{TABLE}/0_1"
    scene.store.create(fence)
    assert scene.segments.seal(first, "25", 15, following, SERVERS).outcome is WriteOutcome.REFUSED
    scene.store.delete(fence)
    assert scene.read(first.record.name).record.status is SegmentStatus.IN_PROGRESS and len(scene.states()) == 1
    assert scene.segments.seal(first, "25", 15, following, SERVERS).outcome is WriteOutcome.WRITTEN


def test_each_fence_alone_refuses_a_done_of_another_time(scene: Scene) -> None:
    sealed = scene.sealed(scene.begun())
    name, before = sealed.record.name, scene.states()
    # The record's version.
    stale = replace(sealed, version=sealed.version + 1)
    assert scene.segments.done(stale, file_of(name)).outcome is WriteOutcome.REFUSED
    # The leader's epoch.
    assert scene.epoch is not None
    deposed = scene.leader(scene.epoch.version + 1)
    assert deposed.done(sealed, file_of(name)).outcome is WriteOutcome.REFUSED
    assert scene.read(name).record.status is SegmentStatus.COMMITTING and scene.states() == before
    assert scene.segments.done(sealed, file_of(name)).outcome is WriteOutcome.WRITTEN


@pytest.mark.parametrize("write", ["seal", "done"])
def test_the_version_of_the_bucket_refuses_a_write_that_has_not_seen_another_one(scene: Scene, write: str) -> None:
    """What was read before is written nowhere; read again, both writes stand."""
    stored = scene.begun()
    if write == "done":
        stored = scene.sealed(stored)
    name, refused = stored.record.name, list[StaleVersionError]()

    class Interfering:
        """Another commit goes through between our first reading and our write."""

        def __init__(self, store: ClusterStore) -> None:
            self._store, self._num_met = store, 0

        def multi(self, ops: Sequence[Op]) -> None:
            self._num_met += 1
            if self._num_met == 1:
                scene.begun(partition=4)  # of the same bucket
            try:
                self._store.multi(ops)
            except StaleVersionError as error:
                refused.append(error)
                raise

        def __getattr__(self, attribute: str) -> object:
            return getattr(self._store, attribute)

    assert scene.epoch is not None
    checks = (Check(scene.paths.leader_epoch, scene.epoch.version),)
    segments = RealtimeSegments(
        Interfering(scene.store),  # type: ignore[arg-type]
        scene.paths,
        lambda: checks,
        pause=lambda _: None,
    )
    if write == "seal":
        following = in_progress(name.following(NOW_MS + 60_000), "25")
        assert segments.seal(stored, "25", 15, following, SERVERS).outcome is WriteOutcome.WRITTEN
    else:
        assert segments.done(stored, file_of(name)).outcome is WriteOutcome.WRITTEN
        assert scene.states()[str(name)] == dict.fromkeys(SERVERS, "ONLINE")
    assert len(refused) == 1 and str(llc_name("t", 4, 0, NOW_MS)) in scene.states() and len(scene.states()) == 3


def test_a_replica_that_stopped_is_offline_until_the_segment_is_done(scene: Scene) -> None:
    first = scene.begun()
    name = str(first.record.name)
    for _ in range(2):  # said again, it changes nothing
        assert scene.segments.mark_offline(TABLE, name, SERVERS[0]).outcome is WriteOutcome.WRITTEN
    assert scene.states()[name] == {SERVERS[0]: "OFFLINE", SERVERS[1]: "CONSUMING"}
    assert scene.segments.done(scene.sealed(first), file_of(first.record.name)).outcome is WriteOutcome.WRITTEN
    assert scene.states()[name] == dict.fromkeys(SERVERS, "ONLINE")


def test_an_order_to_commit_stays_with_the_segment_until_it_is_done(scene: Scene) -> None:
    first, other = scene.begun(), scene.begun(partition=1)
    name = str(first.record.name)
    assert scene.segments.order_commit(TABLE, name, "job").outcome is WriteOutcome.WRITTEN
    following = in_progress(first.record.name.following(NOW_MS + 60_000), "25")
    assert scene.segments.seal(first, "25", 15, following, SERVERS).outcome is WriteOutcome.REFUSED, (
        "whoever seals has read the order"
    )
    sealed = scene.sealed(scene.read(first.record.name))
    assert (sealed.record.force_commit_job, scene.read(other.record.name).record.force_commit_job) == ("job", "")
    assert scene.read(following.name).record.force_commit_job == "", "the next one takes rows as usual"
    assert scene.segments.order_commit(TABLE, name, "late").outcome is WriteOutcome.REFUSED
    assert scene.segments.done(sealed, file_of(first.record.name)).outcome is WriteOutcome.WRITTEN
    assert scene.read(first.record.name).record.force_commit_job == "job"
    assert scene.epoch is not None
    deposed = scene.leader(scene.epoch.version + 1)
    assert deposed.order_commit(TABLE, str(following.name), "deposed").outcome is WriteOutcome.REFUSED
    assert scene.read(following.name).record.force_commit_job == ""


def test_fences_of_long_ago_and_of_deleted_tables_are_removed(scene: Scene) -> None:
    stored = scene.begun()
    for number in range(20):
        scene.sealed(stored, str(100 + number))
        stored = scene.read(stored.record.name.following(NOW_MS + 60_000))
    left = scene.store.children(f"{scene.paths.segment_fences}/{TABLE}")
    assert 16 <= len(left) <= 18 and "0_20" in left
    scene.begun(partition=11)
    assert scene.segments.num_partitions(TABLE) == 2 == len(scene.segments.chains(TABLE))
    scene.segments.forget(TABLE)
    assert scene.segments.num_partitions(TABLE) == 0
    scene.segments.forget(TABLE)
    assert scene.store.exists(f"{scene.paths.segment_fences}/{TABLE}") is None


@pytest.mark.parametrize("fault", [Fault.REQUEST_LOST, Fault.REPLY_LOST])
def test_what_became_of_a_lost_write_is_unknown_and_can_be_read(fault: Fault) -> None:
    store = MemoryStore(MemoryTree())
    scene = Scene(store, num_buckets=0)
    first = scene.begun()
    following = in_progress(first.record.name.following(NOW_MS + 60_000), "25")
    store.fault = lambda operation, _: fault if operation == "multi" else None
    assert scene.segments.seal(first, "25", 15, following, SERVERS).outcome is WriteOutcome.UNKNOWN
    store.fault = None
    expected = SegmentStatus.COMMITTING if fault is Fault.REPLY_LOST else SegmentStatus.IN_PROGRESS
    assert scene.read(first.record.name).record.status is expected


def test_replicas_that_stopped_consume_again(scene: Scene) -> None:
    first = scene.begun()
    name = str(first.record.name)
    for server in SERVERS:
        assert scene.segments.mark_offline(TABLE, name, server).outcome is WriteOutcome.WRITTEN
    assert scene.states()[name] == dict.fromkeys(SERVERS, "OFFLINE")
    assert scene.segments.resume(TABLE, name) == SERVERS
    assert scene.states()[name] == dict.fromkeys(SERVERS, "CONSUMING")
    assert scene.segments.resume(TABLE, name) == () == scene.segments.resume(TABLE, "no_segment")
    sealed = scene.sealed(first)
    scene.segments.mark_offline(TABLE, name, SERVERS[0])
    assert scene.segments.resume(TABLE, name) == SERVERS[:1], "also one that is being committed"
    sealed = scene.read(sealed.record.name)
    assert scene.segments.done(sealed, file_of(first.record.name)).outcome is WriteOutcome.WRITTEN
    assert scene.segments.resume(TABLE, name) == (), "not one that is done"
