"""Proves that the record of a sealed segment of a stream bounds its rows once it is DONE, and says nothing of them
before, and that a broker which sees these records leaves sealed segments out by them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from completion_scene import TABLE, CompletionScene
from controller_harness import start_harness
from events_table import SCHEMA

from pinotpy.broker.cluster_catalog import ClusterCatalog
from pinotpy.broker.metrics import BrokerMetrics
from pinotpy.broker.parts import EVERY_TABLE, Broker, BrokerLimits, Question
from pinotpy.broker.routed_query import route_query
from pinotpy.clock import SystemClock
from pinotpy.cluster.column_ranges import ColumnRange, read_ranges
from pinotpy.cluster.realtime_records import SegmentStatus
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import ClusterView
from pinotpy.cluster.views import ExternalView, IdealState, InstanceConfig, LiveInstance
from pinotpy.data_types import DataType
from pinotpy.pql.ast import Dialect
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.wire import ServerRequest
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics

DAY_MS = 86_400_000
FIRST_MS = 1_600_000_000_000
ROWS = 40


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[CompletionScene]:
    harness = start_harness(tmp_path / "controller")
    yield CompletionScene(harness, tmp_path)
    harness.close()


def seal(scene: CompletionScene, name: str, number: int, *, by_metadata: bool) -> None:
    """The segment of this number has the rows of day `number`."""
    end = 50 * (number + 1)
    for replica in (scene.harness.controller.catalog.ideal_state(TABLE) or {})[name]:
        if scene.says("segmentConsumed", name, replica, end, rowCount=ROWS)["status"] == "COMMIT":
            committer = replica
    start_ms = FIRST_MS + number * DAY_MS
    archive, metadata = scene.archive(name, ROWS, start_ms, start_ms + DAY_MS - 1)
    files = {"file": (archive.name, archive.read_bytes())}
    if not by_metadata:
        assert scene.says("segmentCommit", name, committer, end, files=files)["status"] == "COMMIT_SUCCESS"
        return
    assert scene.says("segmentCommitStart", name, committer, end)["status"] == "COMMIT_CONTINUE"
    assert record_of(scene, name).column_ranges == "", "its rows are not known before it is done"
    location = scene.says("segmentUpload", name, committer, files=files)["segmentLocation"]
    files = {"metadata": ("m.tar.gz", metadata)}
    done = scene.says("segmentCommitEndWithMetadata", name, committer, end, location=location, files=files)
    assert done["status"] == "COMMIT_SUCCESS"


def record_of(scene: CompletionScene, name: str) -> SegmentZkMetadata:
    stored = scene.segments.read(TABLE, name)
    assert stored is not None
    return stored.record.record


def broker_of(scene: CompletionScene, names: list[str]) -> Broker:
    """A broker that sees what the controller has written; each segment is served as it should be."""
    states = {name: (scene.harness.controller.catalog.ideal_state(TABLE) or {})[name] for name in names}
    servers = {server for each in states.values() for server in each}
    view = ClusterView(
        external_views={TABLE: ExternalView(TABLE, states)},
        ideal_states={TABLE: IdealState(TABLE, states)},
        live_instances={server: LiveInstance(server, "1") for server in servers},
        instance_configs={server: InstanceConfig(server, "x", 1) for server in servers},
        table_configs={TABLE: scene.config},
        schemas={"events": SCHEMA},
        segments={TABLE: {name: record_of(scene, name) for name in names}},
    )

    async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        raise AssertionError("nobody is asked")

    clock = SystemClock()
    return Broker(
        "b",
        ClusterCatalog(lambda: view, clock),
        send,
        BrokerLimits(),
        clock,
        BrokerMetrics(Metrics("broker", BROKER_METRICS)),
    )


def asked(broker: Broker, condition: str) -> list[str]:
    """The segments that a query with this condition is routed to."""
    question = Question(f"SELECT COUNT(*) FROM events WHERE {condition}", Dialect.SQL)
    found = asyncio.run(route_query(broker, question, EVERY_TABLE))
    return sorted(name for names in found[TABLE].values() for name in names)


def test_a_sealed_segment_is_left_out_by_the_ranges_that_it_got_when_it_was_done(scene: CompletionScene) -> None:
    name = scene.begin()
    for number in range(3):
        assert record_of(scene, name).column_ranges == ""
        seal(scene, name, number, by_metadata=number != 1)
        name = str(scene.segments.chains(TABLE)[0][-1])
    names = [str(each) for each in scene.segments.chains(TABLE)[0]]
    assert len(names) == 4 and scene.status(names[3]) is SegmentStatus.IN_PROGRESS
    for number, each in enumerate(names[:3]):
        record = record_of(scene, each)
        start_ms = FIRST_MS + number * DAY_MS
        assert scene.status(each) is SegmentStatus.DONE
        assert (record.total_docs, record.start_time_ms, record.end_time_ms) == (ROWS, start_ms, start_ms + DAY_MS - 1)
        ranges = read_ranges(record.column_ranges)
        assert (ranges.crc, ranges.num_docs) == (record.crc, ROWS)
        assert ranges.columns["ts"] == ColumnRange(DataType.LONG, start_ms, start_ms + DAY_MS - 1, 0)
        assert ranges.columns["id"] == ColumnRange(DataType.LONG, 0, ROWS - 1, 0), "it is sorted"
    record = record_of(scene, names[3])
    assert (record.column_ranges, record.start_time_ms, record.end_time_ms) == ("", None, None)

    broker = broker_of(scene, names)
    second_ms = FIRST_MS + DAY_MS
    # What takes rows may have any time.
    assert asked(broker, f"ts BETWEEN {second_ms} AND {second_ms + DAY_MS - 1}") == [names[1], names[3]]
    assert asked(broker, f"ts < {second_ms}") == [names[0], names[3]]
    assert asked(broker, f"ts > {second_ms} AND id < {ROWS}") == names[1:]
    assert asked(broker, f"ts >= {FIRST_MS} AND id > {ROWS}") == [names[3]]
    assert asked(broker, f"ts >= {FIRST_MS} AND id = 0") == names
