"""Proves consuming tables on a real cluster: every answer has exactly the records up to the offsets that it names,
before, while and after segments are sealed, on two replicas.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from events_table import PARTITIONS, SCHEMA, records, table_config
from live_cluster import LiveCluster, wait_until
from stream_truth import StreamTruth, answered_ranges

from pinotpy.clock import SystemClock
from pinotpy.stream.file import DIRECTORY, FileStreamConsumerFactory, FileStreamProducer, create_topic
from pinotpy.stream.settings import StreamSettings

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("realtime")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LiveCluster]:
    started = LiveCluster(folder)
    try:
        yield started
    finally:
        started.close()


def test_every_answer_has_exactly_the_records_up_to_its_offsets(cluster: LiveCluster, folder: Path) -> None:
    create_topic(folder / "topics" / "events", PARTITIONS)
    settings = StreamSettings("file", "events", {DIRECTORY: str(folder / "topics")})
    truth = StreamTruth(FileStreamConsumerFactory(settings, SystemClock()), PARTITIONS)
    producer = FileStreamProducer(folder / "topics" / "events", SystemClock())
    cluster.controller.add_schema(SCHEMA)
    cluster.controller.add_table(table_config(folder / "topics", rows=1_000))
    done = threading.Event()

    def produce() -> None:
        for batch in range(100):
            for partition in range(PARTITIONS):
                producer.append(partition, records(batch * 100, 100))
            done.wait(0.05)
        done.set()

    writer = threading.Thread(target=produce)
    writer.start()
    compared = 0

    def compare() -> int:
        nonlocal compared
        response = cluster.query("SELECT kind, COUNT(*), SUM(id) FROM events GROUP BY kind LIMIT 100", "sql")
        if response["exactness"] != "exact" or "partitionOffsets" not in response:
            return 0  # it says that rows are missing: on a slow machine a server may be taken for dead
        rows, total, groups = truth.count(answered_ranges(response))
        table = response["resultTable"]["rows"]
        assert {kind: count for kind, count, _ in table} == groups, response
        assert sum(number for _, _, number in table) == total
        assert sum(count for _, count, _ in table) == rows == response["totalDocs"]
        compared += 1
        return rows

    wait_until(lambda: compare() > 0, 300, "first rows are answered")
    while not done.is_set():
        compare()
    writer.join(60)
    producer.close()
    expected = truth.count(dict.fromkeys(range(PARTITIONS), (0, 10_000)))[0]
    wait_until(lambda: compare() == expected, 300, "all rows are answered")
    assert compared > 10

    def num_done() -> int:
        found = cluster.controller.segment_records("events", table_type="REALTIME")
        return sum(each.get("segment.realtime.status") == "DONE" for each in found.values())

    wait_until(lambda: num_done() >= 2 * 9, 300, "segments are done")
    url = f"{cluster.processes.daemons['server-0'].ready['url']}/tables/events_REALTIME/consumingSegmentsInfo"
    partitions: list[dict[str, Any]] = []

    def has_read_all() -> bool:
        partitions[:] = httpx.get(url, timeout=60).json()["partitions"]
        return [(each["partition"], each["currentOffset"], each["failure"]) for each in partitions] == [
            (number, "10000", "") for number in range(PARTITIONS)
        ]

    wait_until(has_read_all, 300, "the server has read both partitions")
    for each in partitions:
        ledger = each["records"]
        assert ledger["records"] == ledger["indexed"] + ledger["rejected"]
        assert ledger["rejected"] == sum(ledger["causes"].values()) and len(ledger["samples"]) <= 10
        # Unless the server was so slow that it was taken for dead, and read from a later segment on.
        if ledger["records"] == 10_000:
            assert (ledger["indexed"], ledger["rejected"], len(ledger["samples"])) == (9_800, 200, 10)
    assert compare() == expected
