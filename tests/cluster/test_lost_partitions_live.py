"""Proves on real processes that queries need only the partitions that they ask about: of a table of files and of a
stream whose rows are not in files yet. A server that alone has some partitions is killed: queries that need these say
so, and no others notice. And a row that its producer put into another partition of the stream is found all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from events_table import SCHEMA as EVENTS
from events_table import table_config
from live_cluster import LiveCluster, wait_until

from pinotpy.clock import SystemClock
from pinotpy.segment.partition import partition_of
from pinotpy.stream.file import FileStreamProducer, create_topic

pytestmark = pytest.mark.cluster

PARTITIONS = 4
ROWS = 50
PARTS: dict[str, Any] = {"schemaName": "parts", "dimensionFieldSpecs": [{"name": "member", "dataType": "LONG"}]}
PARTS_CONFIG: dict[str, Any] = {
    "tableName": "parts",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {
        "segmentPartitionConfig": {
            "columnPartitionMap": {"member": {"functionName": "Modulo", "numPartitions": PARTITIONS}}
        }
    },
    "metadata": {},
}
# One value of each partition.
KINDS = [
    next(kind for kind in map(str, range(100)) if partition_of("Murmur", PARTITIONS, kind) == number)
    for number in range(PARTITIONS)
]


def produce(producer: FileStreamProducer, partition: int, kind: str, count: int) -> None:
    rows = [{"id": number, "kind": kind, "ts": 1_700_000_000_000 + number} for number in range(count)]
    producer.append(partition, [(None, json.dumps(row).encode()) for row in rows])


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("topics")
    create_topic(folder / "events", PARTITIONS)
    return folder


@pytest.fixture(scope="module")
def producer(topics: Path) -> Iterator[FileStreamProducer]:
    made = FileStreamProducer(topics / "events", SystemClock())
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, topics: Path, producer: FileStreamProducer
) -> Iterator[LiveCluster]:
    live = LiveCluster(tmp_path_factory.mktemp("cluster"))
    try:
        splits = [
            [pa.RecordBatch.from_pydict({"member": pa.array([number] * ROWS, pa.int64())})]
            for number in range(PARTITIONS)
        ]
        live.add_table(PARTS, PARTS_CONFIG, splits)
        live.controller.add_schema(EVENTS)
        config = table_config(topics, rows=10_000, replication=1)
        config["tableIndexConfig"]["segmentPartitionConfig"] = {
            "columnPartitionMap": {"kind": {"functionName": "Murmur", "numPartitions": PARTITIONS}}
        }
        live.controller.add_table(config)
        for number, kind in enumerate(KINDS):
            produce(producer, number, kind, ROWS)
        yield live
    finally:
        live.close()


def count(cluster: LiveCluster, table: str, number: int) -> dict[str, Any]:
    """The rows of one partition: their number is the answer."""
    condition = f"member = {number}" if table == "parts" else f"kind = '{KINDS[number]}'"
    return cluster.query(f"SELECT COUNT(*) FROM {table} WHERE {condition}", "sql")


def rows_of(answer: dict[str, Any]) -> int:
    """Of an answer that says that it is whole; -1 of others."""
    if answer["exceptions"] or answer["partialResult"]:
        return -1
    rows: int = answer["resultTable"]["rows"][0][0]
    return rows


def servers_asked(cluster: LiveCluster, number: int) -> dict[str, list[str]]:
    """Server → segments that it is asked for rows of one partition of the stream."""
    params = {"query": f"SELECT COUNT(*) FROM events WHERE kind = '{KINDS[number]}'"}
    answer = httpx.get(f"{cluster.broker_url}/debug/routingTable/sql", params=params, timeout=60, trust_env=False)
    found: dict[str, list[str]] = answer.json()["events_REALTIME"]
    return found


def segments_at(url: str) -> list[str]:
    """Of the table of files, the segments that a server serves."""
    answer = httpx.get(f"{url}/tables/parts_OFFLINE/segments", timeout=60, trust_env=False)
    return answer.json()["segments"] if answer.status_code == 200 else []


def test_the_only_server_of_some_partitions_is_missed_by_those_who_need_it(cluster: LiveCluster) -> None:
    def are_whole() -> bool:
        return all(
            rows_of(count(cluster, table, n)) == ROWS for table in ("parts", "events") for n in range(PARTITIONS)
        )

    def asks_one_each() -> bool:
        asked = [servers_asked(cluster, number) for number in range(PARTITIONS)]
        return all(
            [name.split("__")[1] for names in servers.values() for name in names] == [str(number)]
            for number, servers in enumerate(asked)
        )

    wait_until(are_whole, 300, "every partition is answered")
    wait_until(asks_one_each, 120, "rows that come are asked for by their partition")
    answer = count(cluster, "events", 1)
    assert (answer["numServersQueried"], answer["numSegmentsQueried"]) == (1, 1)
    assert answer["numSegmentsPrunedByBroker"] == PARTITIONS - 1 and rows_of(answer) == ROWS
    routing = httpx.get(f"{cluster.broker_url}/debug/routingTable/parts", timeout=60, trust_env=False)
    of_files = {name: server for server, names in routing.json()["parts_OFFLINE"].items() for name in names}
    victim = of_files["parts_0"]
    lost = {("parts", n) for n in range(PARTITIONS) if of_files[f"parts_{n}"] == victim}
    lost |= {("events", n) for n in range(PARTITIONS) if victim in servers_asked(cluster, n)}
    safe = {(table, n) for table in ("parts", "events") for n in range(PARTITIONS)} - lost
    assert {table for table, _ in lost} == {table for table, _ in safe} == {"parts", "events"}

    killed = next(
        name
        for name, daemon in cluster.processes.daemons.items()
        if name.startswith("server-") and "parts_0" in segments_at(daemon.ready["url"])
    )
    cluster.processes.kill(killed)
    for _ in range(5):
        for table, number in sorted(safe):
            assert rows_of(count(cluster, table, number)) == ROWS, (table, number)
        for table, number in sorted(lost):
            assert rows_of(count(cluster, table, number)) == -1, (table, number)

    def is_missed_by_name() -> bool:
        codes = {
            (table, n): {each["errorCode"] for each in count(cluster, table, n)["exceptions"]} for table, n in lost
        }
        return all(305 in found for found in codes.values())

    wait_until(is_missed_by_name, 180, "queries say which segments nobody serves")
    for table, number in sorted(safe):
        assert rows_of(count(cluster, table, number)) == ROWS
    cluster.processes.restart(killed)
    wait_until(are_whole, 300, "every partition is answered again")
    wait_until(asks_one_each, 120, "rows that are read again are asked for by their partition")


def test_a_row_in_another_partition_than_the_table_says_is_found(
    cluster: LiveCluster, producer: FileStreamProducer
) -> None:
    wait_until(lambda: rows_of(count(cluster, "events", 0)) == ROWS, 300, "the partition is answered")
    produce(producer, 3, KINDS[0], 1)
    wait_until(lambda: rows_of(count(cluster, "events", 0)) == ROWS + 1, 180, "the row is found")

    def partitions_asked() -> set[str]:
        return {name.split("__")[1] for names in servers_asked(cluster, 0).values() for name in names}

    assert partitions_asked() == {"0", "3"}, "only the partition that does not keep to it is asked, too"
    assert rows_of(count(cluster, "events", 1)) == ROWS
