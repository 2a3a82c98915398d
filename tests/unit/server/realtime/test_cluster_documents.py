"""Proves that a server finds where the segments lie that are between two which it consumes: those that are done, those
that others consume, and those that were deleted meanwhile.
"""

from __future__ import annotations

import pytest

from pinotpy.clock import SystemClock
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.llc_names import LlcName, llc_name
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.property_store import table_config_record
from pinotpy.cluster.realtime_records import RealtimeRecord
from pinotpy.cluster.realtime_segments import RealtimeSegments
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import Check
from pinotpy.cluster.table_changes import CreateTable, RemoveSegments
from pinotpy.cluster.table_state import apply, new_table_ideal_state
from pinotpy.server.realtime.cluster_documents import ClusterDocuments

TABLE = "t_REALTIME"
OURS, OTHER = "Server_a_1", "Server_b_1"
NOW_MS = 1_720_000_000_000


class Chain:
    """A partition of a real cluster state; each segment has ten records."""

    def __init__(self) -> None:
        self.store, self.paths = MemoryStore(MemoryTree()), ClusterPaths("c")
        create_cluster(self.store, self.paths)
        config = table_config_record(TABLE, {"tableName": TABLE, "tableType": "REALTIME"})
        apply(self.store, self.paths, TABLE, CreateTable(config, new_table_ideal_state(TABLE, 1), ()))
        epoch = self.store.exists(self.paths.leader_epoch)
        assert epoch is not None
        fences = (Check(self.paths.leader_epoch, epoch.version),)
        self.segments = RealtimeSegments(self.store, self.paths, lambda: fences, pause=lambda _: None)
        self.names = [llc_name("t", 0, 0, NOW_MS)]
        self.segments.begin(self._record(self.names[0]), (OURS,))
        self.documents = ClusterDocuments(self.store, self.paths, SystemClock(), OURS)

    def _record(self, name: LlcName) -> RealtimeRecord:
        start = str(name.sequence * 10)
        return RealtimeRecord.in_progress(
            TABLE, name, start, num_replicas=1, row_threshold=100, time_threshold_ms=1_000, creation_time_ms=NOW_MS
        )

    def seal(self, server: str = OURS) -> None:
        """The last segment ends, and the next one begins on a server."""
        stored = self.segments.read(TABLE, str(self.names[-1]))
        assert stored is not None
        self.names.append(self.names[-1].following(NOW_MS))
        following = self._record(self.names[-1])
        assert self.segments.seal(stored, following.start_offset, 10, following, (server,)).outcome

    def done(self, sequence: int) -> None:
        stored = self.segments.read(TABLE, str(self.names[sequence]))
        assert stored is not None
        metadata = SegmentZkMetadata(str(self.names[sequence]), TABLE, 7, 10, NOW_MS, download_url="file:/x")
        assert self.segments.done(stored, metadata).outcome

    def delete(self, *sequences: int) -> None:
        names = tuple(str(self.names[sequence]) for sequence in sequences)
        apply(self.store, self.paths, TABLE, RemoveSegments(names))

    def between(self, first: int, last: int) -> list[tuple[int, str, str]]:
        """sequence, start, end of what the server is told to pass by."""
        records = [self.documents.record(TABLE, str(self.names[sequence])) for sequence in (first, last)]
        found = self.documents.served_between(TABLE, records[0], records[1])
        assert len({each.name for each in found}) == len(found)
        return [(each.sequence, each.start_offset, each.end_offset) for each in found]


@pytest.fixture
def chain() -> Chain:
    return Chain()


def test_done_segments_and_those_that_others_consume_lie_between(chain: Chain) -> None:
    chain.seal()
    chain.seal(OTHER)
    chain.seal()
    chain.seal()
    chain.done(1)
    assert chain.between(0, 4) == [(1, "10", "20"), (2, "20", "30")], "3 consumes here, and 2 elsewhere"
    assert chain.documents.record(TABLE, str(chain.names[1])).is_done
    assert not chain.documents.record(TABLE, str(chain.names[2])).is_done


def test_deleted_segments_lie_between_the_ends_of_their_neighbours(chain: Chain) -> None:
    for _ in range(6):
        chain.seal()
    for sequence in (1, 2, 4, 5):
        chain.done(sequence)
    chain.delete(1, 2, 5)
    assert chain.between(0, 6) == [(1, "10", "30"), (2, "30", "30"), (4, "40", "50"), (5, "50", "60")]


def test_nothing_lies_between_neighbours(chain: Chain) -> None:
    chain.seal()
    assert chain.between(0, 1) == []


def test_a_server_knows_before_it_joins_whether_it_is_to_consume() -> None:
    chain = Chain()
    other = ClusterDocuments(chain.store, chain.paths, SystemClock(), OTHER)
    assert chain.documents.any_assigned() and not other.any_assigned()
    chain.seal(OTHER)
    assert chain.documents.any_assigned() and other.any_assigned()
    chain.done(0)
    assert not chain.documents.any_assigned() and other.any_assigned()
