"""Proves tables over a real Kafka: the demonstration, and a broker that dies and returns while rows come: every answer
has exactly the records up to its offsets, and none is lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from events_table import PARTITIONS, SCHEMA, records, table_config
from kafka_server import KafkaServer
from live_cluster import LiveCluster, wait_until
from quickstart_process import TIMEOUT_S, QuickstartProcess
from stream_truth import StreamTruth, answered_ranges

from pinotpy.clock import SystemClock
from pinotpy.stream.kafka.factory import KafkaConsumerFactory
from pinotpy.stream.kafka.producer import KafkaStreamProducer
from pinotpy.stream.settings import StreamSettings

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

APPENDED, BATCH = 1_500, 100
AWAY_S = float(os.environ.get("PINOTPY_KAFKA_AWAY_SECONDS", "20"))  # 60 in a run by hand


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    started = LiveCluster(tmp_path_factory.mktemp("kafka"))
    try:
        yield started
    finally:
        started.close()


def test_the_demonstration_runs_on_kafka(kafka: KafkaServer, tmp_path: Path) -> None:
    run = QuickstartProcess(tmp_path, "realtime", "--exit", "--kafka-broker-list", kafka.address)
    run.process.wait(TIMEOUT_S)
    run.wait_for("all daemons stopped")
    assert run.process.returncode == 0 and f"Kafka at {kafka.address}" in run.output, run.output


def test_no_record_is_lost_while_kafka_is_gone(kafka: KafkaServer, cluster: LiveCluster, tmp_path: Path) -> None:
    properties = {"stream.kafka.broker.list": kafka.address}
    settings = StreamSettings("kafka", "events", {"streamType": "kafka", **properties})
    kafka.create_topic("events", PARTITIONS)
    truth = StreamTruth(KafkaConsumerFactory(settings, SystemClock()), PARTITIONS)
    config = table_config(tmp_path, rows=800)
    stream = config["tableIndexConfig"]["streamConfigs"]
    del stream["stream.file.directory"]
    config["tableIndexConfig"]["streamConfigs"] = {
        **{key.replace("stream.file.", "stream.kafka."): value for key, value in stream.items()},
        **properties,
        "streamType": "kafka",
    }
    cluster.controller.add_schema(SCHEMA)
    cluster.controller.add_table(config)
    producer = KafkaStreamProducer(settings, SystemClock())

    def exact_rows() -> int:
        """Rows of an answer, which is compared with the topic; -1 if it says that rows are missing."""
        response = cluster.query("SELECT kind, COUNT(*), SUM(id) FROM events GROUP BY kind LIMIT 100", "sql")
        if response["exactness"] != "exact" or len(response.get("partitionOffsets", {})) != PARTITIONS:
            return -1
        rows, total, groups = truth.count(answered_ranges(response))
        table = response["resultTable"]["rows"]
        assert {kind: count for kind, count, _ in table} == groups and sum(row[2] for row in table) == total, response
        return rows

    def append(first: int) -> int:
        """Append records to each partition; return the rows that all records so far make."""
        for number in range(first, first + APPENDED, BATCH):
            for partition in range(PARTITIONS):
                producer.append(partition, records(number, BATCH))
        return truth.count(dict.fromkeys(range(PARTITIONS), (0, first + APPENDED)))[0]

    before = append(0)
    wait_until(lambda: exact_rows() == before, 120, "all rows are answered")
    kafka.kill()
    wait_until(lambda: ailing(cluster) == ("UNHEALTHY", {"TCP"}), 120, "/debug/tables says that Kafka is gone")
    print(f"Kafka stays away for {AWAY_S:.0f} s")
    end_s = time.monotonic() + AWAY_S
    while time.monotonic() < end_s:
        assert exact_rows() == before, "rows that were read are answered without Kafka"
        time.sleep(0.5)
    assert ailing(cluster) == ("UNHEALTHY", {"TCP"})
    kafka.start()
    after = append(APPENDED)
    producer.close()
    wait_until(lambda: exact_rows() == after, 300, "all rows are answered")
    wait_until(lambda: ailing(cluster) == ("HEALTHY", set()), 120, "nothing ails the table any more")


def ailing(cluster: LiveCluster) -> tuple[str, set[str]]:
    """What the controller says of the table's ingestion: its state, and the layers of what keeps partitions from being
    read.
    """
    (half,) = httpx.get(f"{cluster.controller_url}/debug/tables/events", timeout=60).json()
    servers = {(each["partition"], each["layer"]) for each in half["failures"] if each["source"] == "server"}
    if servers and {partition for partition, _ in servers} != set(range(PARTITIONS)):
        return "one partition after the other", set()
    return half["ingestionStatus"]["ingestionState"], {layer for _, layer in servers}
