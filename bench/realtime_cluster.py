"""Queries beside ingestion, freshness and recovery on a cluster of real daemons that reads a real Kafka, as JSON.

    python -m bench.realtime_cluster --kafka-broker-list 127.0.0.1:9092

beside: a table of `--segments` sealed segments and one that consumes is queried while nothing comes, and while rows
come at a steady rate and segments end, are built, and committed: median and throughput of both, and how late the
newest row is that an answer counts.
killed: a server with `--unsealed` rows that are not sealed is killed; seconds from its start until all are counted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.daemons import start_one_of_each
from bench.http import Connection
from bench.machine import commit_name, machine
from bench.realtime_ingest import SCHEMA_DOCUMENT
from bench.stream_kafka import preload, remove
from pinotpy.cli.asking import ask
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.client.controller import ControllerClient
from pinotpy.errors import PinotError

TIMEOUT_S: Final = 600.0
QUERIES: Final = (
    "SELECT COUNT(*), MAX(id) FROM t",
    "SELECT country, COUNT(*), SUM(price) FROM t GROUP BY country ORDER BY country LIMIT 10",
    "SELECT SUM(cost) FROM t WHERE device = 'd3' AND clicks > 5",
    'SELECT id, "user", price FROM t ORDER BY ts DESC LIMIT 20',
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--kafka-broker-list", required=True)
    arguments.add_argument("--segments", type=int, default=100)
    arguments.add_argument("--segment-rows", type=int, default=100_000)
    arguments.add_argument("--live-segment-rows", type=int, default=500_000, help="of segments that end beside queries")
    arguments.add_argument("--rate", type=int, default=50_000, help="rows a second")
    arguments.add_argument("--seconds", type=int, default=20, help="of queries, of each kind")
    arguments.add_argument("--unsealed", type=int, default=2_000_000)
    asked = arguments.parse_args()
    shown = {
        "commit": commit_name(),
        "machine": machine(),
        "beside": beside(asked),
        "killed": killed(asked.kafka_broker_list, asked.unsealed),
    }
    print(json.dumps(shown, indent=1))


@contextmanager
def reading(brokers: str, topic: str, segment_rows: int) -> Iterator[tuple[LocalCluster, str]]:
    """A cluster with one server whose table reads the topic; with the broker's address."""
    folder = Path(tempfile.mkdtemp(prefix="pinotpy-bench-"))
    cluster = LocalCluster(folder / "daemons")
    try:
        controller_url, broker_url = start_one_of_each(cluster, folder)
        client = ControllerClient(controller_url)
        client.add_schema(SCHEMA_DOCUMENT)
        client.add_table(table_config(brokers, topic, segment_rows))
        yield cluster, broker_url
    finally:
        cluster.stop_all()
        shutil.rmtree(folder, ignore_errors=True)


def table_config(brokers: str, topic: str, segment_rows: int) -> dict[str, Any]:
    return {
        "tableName": "t", "tableType": "REALTIME", "tenants": {}, "metadata": {},
        "segmentsConfig": {"timeColumnName": "ts", "replication": "1", "schemaName": "t"},
        "tableIndexConfig": {
            "streamConfigs": {
                "streamType": "kafka", "stream.kafka.topic.name": topic, "stream.kafka.broker.list": brokers,
                "stream.kafka.decoder.class.name": "json",
                "stream.kafka.consumer.prop.auto.offset.reset": "smallest",
                "realtime.segment.flush.threshold.segment.rows": str(segment_rows),
                "realtime.segment.flush.threshold.time": "24h",
            }
        },
    }  # fmt: skip


def beside(asked: Any) -> dict[str, Any]:
    brokers, topic = asked.kafka_broker_list, f"pinotpy-bench-{uuid.uuid4().hex[:12]}"
    num_rows = asked.segments * asked.segment_rows
    preload(brokers, topic, num_rows, "lz4")
    try:
        with reading(brokers, topic, asked.segment_rows) as (cluster, url):
            wait_for_rows(url, num_rows)
            wait_until_committed(cluster, asked.segments)
            client = ControllerClient(cluster.daemons["controller"].ready["url"])
            # From the segment on that follows the one which takes rows.
            client.update_table("t", table_config(brokers, topic, asked.live_segment_rows))
            idle = queried(url, asked.seconds)
            producer = subprocess.Popen(
                [sys.executable, "-m", "bench.realtime_ingest", "--kafka-broker-list", brokers, "--produce", topic,
                 "--rate", str(asked.rate), "--seconds", str(asked.seconds + 10)]
            )  # fmt: skip
            wait_for_rows(url, num_rows + 2 * asked.rate)
            busy = queried(url, asked.seconds)
            producer.wait(TIMEOUT_S)
            wait_for_rows(url, num_rows + asked.rate * (asked.seconds + 10))
            return {
                "segments": asked.segments,
                "segment_rows": asked.segment_rows,
                "live_segment_rows": asked.live_segment_rows,
                "rate": asked.rate,
                "idle": idle,
                "busy": busy,
                "p50_ratio": round(busy["p50_ms"] / idle["p50_ms"], 2),
                "throughput_ratio": round(busy["queries_per_s"] / idle["queries_per_s"], 2),
            }
    finally:
        remove(brokers, topic)


def killed(brokers: str, num_rows: int) -> dict[str, Any]:
    topic = f"pinotpy-bench-{uuid.uuid4().hex[:12]}"
    preload(brokers, topic, num_rows, "lz4")
    try:
        with reading(brokers, topic, 10 * num_rows) as (cluster, url):
            wait_for_rows(url, num_rows)
            cluster.kill("server")
            began_s = time.monotonic()
            cluster.restart("server")
            started_s = time.monotonic() - began_s
            wait_for_rows(url, num_rows)
            return {
                "rows": num_rows,
                "process_ready_s": round(started_s, 2),
                "all_rows_s": round(time.monotonic() - began_s, 2),
            }
    finally:
        remove(brokers, topic)


def wait_for_rows(url: str, num_rows: int) -> None:
    """Until an exact answer counts so many, or more."""
    deadline, answer = time.monotonic() + TIMEOUT_S, None
    while time.monotonic() < deadline:
        try:
            answer = ask(url, QUERIES[0], "sql")
        except PinotError:
            time.sleep(0.05)
            continue
        if not answer["exceptions"] and answer["exactness"] == "exact":
            found = answer["resultTable"]["rows"][0][0]
            if found >= num_rows:
                return
        time.sleep(0.02)
    raise AssertionError(f"not {num_rows} rows within {TIMEOUT_S} s: {answer}")


def wait_until_committed(cluster: LocalCluster, num_segments: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    client = ControllerClient(cluster.daemons["controller"].ready["url"])
    while time.monotonic() < deadline:
        records = client.segment_records("t", table_type="REALTIME").values()
        if sum(each.get("segment.realtime.status") == "DONE" for each in records) >= num_segments:
            return
        time.sleep(0.1)
    raise AssertionError(f"not {num_segments} segments are committed within {TIMEOUT_S} s")


def queried(url: str, seconds: int) -> dict[str, float]:
    """Two clients ask one query after the other."""
    took_ms: list[float] = []
    late_ms: list[float] = []
    failures: list[Any] = []
    end_s = time.monotonic() + seconds

    def run(number: int) -> None:
        connection = Connection(url, timeout_s=TIMEOUT_S)
        while time.monotonic() < end_s:
            number += 1
            began_s = time.perf_counter()
            answer = connection.post("/query/sql", {"sql": QUERIES[number % len(QUERIES)]})
            took_ms.append((time.perf_counter() - began_s) * 1e3)
            late_ms.append(time.time() * 1e3 - answer.get("minConsumingFreshnessTimeMs", 0))
            failures.extend(answer["exceptions"])
        connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:2]
    late_ms.sort()
    return {
        "queries": len(took_ms),
        "queries_per_s": round(len(took_ms) / seconds, 1),
        "p50_ms": round(statistics.median(took_ms), 2),
        "newest_row_late_p50_ms": round(late_ms[len(late_ms) // 2], 1),
        "newest_row_late_p99_ms": round(late_ms[int(len(late_ms) * 0.99)], 1),
    }


if __name__ == "__main__":
    main()
