"""Proves forced commits on a real cluster: segments end where their replicas stand and nothing is lost or counts
twice, also when the order was given while no server was there, and a segment without rows ends when it has one. A
reload of what is sealed then ends, whatever consumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from events_table import PARTITIONS, SCHEMA, records, table_config
from live_cluster import LiveCluster, wait_until
from stream_truth import StreamTruth, question

from pinotpy.clock import SystemClock
from pinotpy.stream.file import DIRECTORY, FileStreamConsumerFactory, FileStreamProducer, create_topic
from pinotpy.stream.settings import StreamSettings

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    started = LiveCluster(tmp_path_factory.mktemp("forced"))
    try:
        yield started
    finally:
        started.close()


def test_segments_end_now_and_no_record_is_lost(cluster: LiveCluster, tmp_path: Path) -> None:
    create_topic(tmp_path / "events", PARTITIONS)
    settings = StreamSettings("file", "events", {DIRECTORY: str(tmp_path)})
    truth = StreamTruth(FileStreamConsumerFactory(settings, SystemClock()), PARTITIONS)
    producer = FileStreamProducer(tmp_path / "events", SystemClock())
    cluster.controller.add_schema(SCHEMA)
    cluster.controller.add_table(table_config(tmp_path, rows=1_000_000))
    ends = dict.fromkeys(range(PARTITIONS), 120)
    for partition in ends:
        producer.append(partition, records(0, 120, partition))

    def is_all_answered() -> bool:
        return truth.compare(cluster.query(question(), "sql")) == truth.rows_before(*ends.values())

    def force(**params: str) -> dict[str, Any]:
        answer = httpx.post(f"{cluster.controller_url}/tables/events/forceCommit", params=params, timeout=60)
        told: dict[str, Any] = answer.raise_for_status().json()
        return told

    def pending(job: dict[str, Any]) -> list[str]:
        url = f"{cluster.controller_url}/tables/forceCommitStatus/{job['forceCommitJobId']}"
        names: list[str] = httpx.get(url, timeout=60).raise_for_status().json()["segmentsYetToBeCommitted"]
        return names

    def record(name: str) -> dict[str, Any]:
        fields: dict[str, Any] = cluster.controller.segment_records("events", table_type="REALTIME")[name]
        return fields

    wait_until(is_all_answered, PATIENCE_S, "all rows are answered")
    job = force(partitions="0")
    (forced,) = job["segmentsForceCommitted"]
    wait_until(lambda: pending(job) == [], PATIENCE_S, "the segment is committed")
    found = record(forced)
    assert (found["segment.realtime.status"], found["segment.realtime.endOffset"]) == ("DONE", "120")
    wait_until(is_all_answered, PATIENCE_S, "all rows are answered")

    (reload,) = cluster.controller.reload_segments("events")["reloadJobIds"]
    status = cluster.controller.wait_until_reloaded(reload, timeout_s=PATIENCE_S)
    assert (status["status"], status["successCount"], status["totalSegmentCount"]) == ("COMPLETED", 2, 2)

    def where() -> dict[str, list[tuple[str, dict[str, str]]]]:
        told = httpx.get(f"{cluster.controller_url}/tables/events/consumingSegmentsInfo", timeout=60).json()
        return {
            name: [(each["consumerState"], each["partitionToOffsetMap"]) for each in replicas]
            for name, replicas in told["_segmentToConsumingInfoMap"].items()
        }

    def all_stand_at(end: int) -> bool:
        replicas = [[("CONSUMING", {str(partition): str(end)})] * 2 for partition in range(PARTITIONS)]
        return list(where().values()) == replicas

    wait_until(lambda: all_stand_at(120), PATIENCE_S, "both servers read both partitions")

    for server in ("server-0", "server-1"):
        cluster.processes.kill(server)
    job = force()  # nobody hears of it
    empty, full = job["segmentsForceCommitted"]
    assert "__0__1__" in empty and "__1__0__" in full
    for server in ("server-0", "server-1"):
        cluster.processes.restart(server)
    wait_until(lambda: pending(job) == [empty], PATIENCE_S, "the segment with rows is committed")
    assert int(record(full)["segment.realtime.endOffset"]) <= 120
    wait_until(is_all_answered, PATIENCE_S, "all rows are answered")
    producer.append(0, records(120, 30))
    ends[0] = 150
    wait_until(lambda: pending(job) == [], PATIENCE_S, "the other one had no rows before")
    wait_until(is_all_answered, PATIENCE_S, "all rows are answered")
    producer.close()
