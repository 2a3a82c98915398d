"""Proves on real daemons that annotating a table loses no row at any moment: queries that run all the while see every
row of every segment exactly once, and when it is done records, archives and servers have the partitions of the scheme
that the table was given after it was filled.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.segment.metadata_reader import read_metadata
from pinotpy.segment.partition import partition_of

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

NUM_SEGMENTS, ROWS = 8, 500
SCHEMA = {
    "schemaName": "orders",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "amount", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
CONFIG: dict[str, Any] = {
    "tableName": "orders",
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "day", "replication": "2", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {"loadMode": "MMAP"},
    "metadata": {},
}
PARTITIONS = {"columnPartitionMap": {"city": {"functionName": "Murmur", "numPartitions": 4}}}
CITIES = [f"city {number}" for number in range(NUM_SEGMENTS)]


def rows(segment: int) -> list[pa.RecordBatch]:
    """All of one city."""
    batch = pa.RecordBatch.from_pydict(
        {
            "city": pa.array([CITIES[segment]] * ROWS),
            "amount": pa.array(range(ROWS), pa.int64()),
            "day": pa.array([18_000 + segment] * ROWS, pa.int32()),
        }
    )
    return [batch]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    started = LiveCluster(tmp_path_factory.mktemp("annotate"))
    try:
        started.add_table(SCHEMA, CONFIG, [rows(number) for number in range(NUM_SEGMENTS)])
        yield started
    finally:
        started.close()


class Watch:
    """Asks for all rows without a pause, and keeps every answer that is not whole."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster, self._over = cluster, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.num_answers, self.wrong = 0, list[dict[str, Any]]()

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)

    def _run(self) -> None:
        expected = [[CITIES[number], ROWS, ROWS * (ROWS - 1) // 2] for number in range(NUM_SEGMENTS)]
        while not self._over.is_set():
            found = self._cluster.query(
                "SELECT city, COUNT(*), SUM(amount) FROM orders GROUP BY city ORDER BY city LIMIT 100", "sql"
            )
            self.num_answers += 1
            if found["exceptions"] or found["resultTable"]["rows"] != expected:
                self.wrong.append(found)


def annotate(cluster: LiveCluster, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "pinotpy", "annotate-segments", "orders", "--json", *options]
    ended = subprocess.run(
        [*command, "--controller-url", cluster.controller_url], capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def loaded(cluster: LiveCluster) -> dict[str, int]:
    """Segment → CRC of what lies on the servers' disks; without those of which the servers have different content."""
    found: dict[str, set[int]] = {}
    for file in cluster.directory.glob("server-*/index/**/metadata"):
        metadata = read_metadata(file.read_bytes(), str(file))
        found.setdefault(metadata.segment_name, set()).add(metadata.crc)
    return {name: next(iter(crcs)) for name, crcs in found.items() if len(crcs) == 1}


def test_queries_see_every_row_while_a_table_is_annotated(cluster: LiveCluster) -> None:
    before = cluster.controller.segment_records("orders")
    cluster.controller.update_table("orders", CONFIG | {"tableIndexConfig": {"segmentPartitionConfig": PARTITIONS}})
    tried = annotate(cluster, "--dry-run")
    assert tried["outcomes"]["refreshed"] == NUM_SEGMENTS
    assert cluster.controller.segment_records("orders") == before
    with Watch(cluster) as watch:
        wait_until(lambda: watch.num_answers > 2, 60, "queries run")
        done = annotate(cluster, "--parallelism", "3")
        cluster.controller.wait_until_online("orders", timeout_s=120)
        asked = watch.num_answers
        wait_until(lambda: watch.num_answers > asked + 2, 60, "queries run on")
    assert not watch.wrong, watch.wrong[:2]
    assert done["outcomes"]["refreshed"] == NUM_SEGMENTS
    assert done["partitions"]["OFFLINE"]["city"]["numOfOnePartition"] == NUM_SEGMENTS
    records = cluster.controller.segment_records("orders")
    for number in range(NUM_SEGMENTS):
        record = records[f"orders_{number}"]
        column = json.loads(record["segment.partition.metadata"])["columnPartitionMap"]["city"]
        assert column["partitions"] == [partition_of("Murmur", 4, CITIES[number])]
        assert record["segment.crc"] != before[f"orders_{number}"]["segment.crc"]
    assert annotate(cluster)["outcomes"]["complete"] == NUM_SEGMENTS
    # Servers take the new content in, and answer the same from it.
    wait_until(lambda: loaded(cluster) == {name: int(found["segment.crc"]) for name, found in records.items()}, 120,
               "servers have the new content")  # fmt: skip
    for city, count in (("city 0", ROWS), ("city 5", ROWS), ("nowhere", 0)):
        answer = cluster.query(f"SELECT COUNT(*) FROM orders WHERE city = '{city}'", "sql")
        assert not answer["exceptions"] and answer["resultTable"]["rows"] == [[count]]
