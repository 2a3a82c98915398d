"""Reading a real Kafka into rows that queries see, as JSON: CPU a row, rows a second, latency, gaps, builds, memory.

    python -m bench.realtime_ingest --kafka-broker-list 127.0.0.1:9092 --rows 1000000

preloaded: topics of one and two partitions are read from the start by one and two worker processes, until all rows can
be queried. CPU is that of the workers and of this process, which is the server's part; the broker's is its own.
    Then the first million rows are ended and built.
live: rows are produced at a steady rate; how late the newest one is when it is published. While rows come,
segments are ended and built one after the other: `longest_gap_ms` is the longest time without new rows.
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
from pathlib import Path
from typing import Any, Final

from bench.machine import commit_name, machine
from bench.stream_kafka import payload, preload, remove
from pinotpy.clock import SystemClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.server.realtime.ingest_worker import IngestPartition, PartitionSpec
from pinotpy.server.realtime.workers.process_worker import ProcessWorker

TIMEOUT_S: Final = 600.0
POLL_S: Final = 0.002
BUILD_ROWS: Final = 1_000_000
_TICKS: Final = 100  # a second, in /proc/*/stat
SCHEMA_DOCUMENT: Final[dict[str, Any]] = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        *({"name": name, "dataType": "STRING"} for name in ("country", "city", "user", "device", "text")),
        {"name": "id", "dataType": "LONG"},
        {"name": "ok", "dataType": "BOOLEAN"},
    ],
    "metricFieldSpecs": [
        {"name": "price", "dataType": "DOUBLE"},
        {"name": "cost", "dataType": "DOUBLE"},
        {"name": "clicks", "dataType": "INT"},
        {"name": "campaign", "dataType": "INT"},
    ],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
    ],
}
SCHEMA: Final = Schema.from_json(SCHEMA_DOCUMENT)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--kafka-broker-list", required=True)
    arguments.add_argument("--rows", type=int, default=2_000_000)
    arguments.add_argument("--times", type=int, default=3)
    arguments.add_argument("--rate", type=int, default=50_000, help="rows a second of the live part")
    arguments.add_argument("--seconds", type=int, default=30, help="of the live part")
    arguments.add_argument("--produce", help=argparse.SUPPRESS)  # the live part's producer is a process of its own
    asked = arguments.parse_args()
    if asked.produce:
        produce(asked.kafka_broker_list, asked.produce, asked.rate, asked.seconds)
        return
    topics = [f"pinotpy-bench-{uuid.uuid4().hex[:12]}" for _ in range(2)]
    shown: dict[str, Any] = {"commit": commit_name(), "machine": machine(), "rows": asked.rows}
    for topic in topics:
        preload(asked.kafka_broker_list, topic, asked.rows, "lz4")
    try:
        for number in (1, 2):
            readings = [read(asked.kafka_broker_list, topics[:number], asked.rows) for _ in range(asked.times)]
            shown[f"preloaded_{number}"] = {
                "median": {key: statistics.median(reading[key] for reading in readings) for key in readings[0]},
                "readings": readings,
            }
    finally:
        for topic in topics:
            remove(asked.kafka_broker_list, topic)
    shown["live"] = live(asked.kafka_broker_list, asked.rate, asked.seconds)
    print(json.dumps(shown, indent=1))


def spec(brokers: str, topic: str, name: str = "s0") -> PartitionSpec:
    """Partition 0 of a topic, as a table reads it."""
    config = TableConfig.from_json(
        {
            "tableName": "t", "tableType": "REALTIME", "tenants": {}, "metadata": {},
            "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
            "tableIndexConfig": {
                "streamConfigs": {
                    "streamType": "kafka", "stream.kafka.topic.name": topic, "stream.kafka.broker.list": brokers,
                    "stream.kafka.decoder.class.name": "json",
                }
            },
        }
    )  # fmt: skip
    assert config.stream_config is not None
    return PartitionSpec("t_REALTIME", 0, SCHEMA, config, config.stream_config, name, "0")


def read(brokers: str, topics: list[str], num_rows: int) -> dict[str, float]:
    """Read topics with a worker each, then build a segment in the first one."""
    worker = ProcessWorker(SystemClock(), num_processes=len(topics))
    folder = Path(tempfile.mkdtemp())
    try:
        warm = [worker.open(spec(brokers, topic), lambda: None) for topic in topics]
        wait_for(warm, 1)
        for partition in warm:
            partition.close()
        before_s, workers_s, ours_s = time.monotonic(), sum(map(_cpu_s, worker.pids())), time.process_time()
        partitions = [worker.open(spec(brokers, topic), lambda: None) for topic in topics]
        wait_for(partitions, num_rows)
        took_s = time.monotonic() - before_s
        workers_s, ours_s = sum(map(_cpu_s, worker.pids())) - workers_s, time.process_time() - ours_s
        total = num_rows * len(topics)
        build_rows = min(BUILD_ROWS, num_rows)
        partitions[0].seal(build_rows, "s1")
        built = partitions[0].build("s0", folder / "built", 0)
        return {
            "cpu_us_a_row_worker": round(workers_s / total * 1e6, 3),
            "cpu_us_a_row_server": round(ours_s / total * 1e6, 3),
            "rows_per_s": round(total / took_s),
            "worker_mib": round(max(map(_memory_bytes, worker.pids())) / 2**20, 1),
            "build_rows": build_rows,
            "build_s": built.build_time_ms / 1e3,
            "segment_mib": round(built.size_bytes / 2**20, 1),
        }
    finally:
        worker.close()
        shutil.rmtree(folder)


def live(brokers: str, rate: int, seconds: int) -> dict[str, float]:
    """Rows at a steady rate; the worker's segments are ended and built meanwhile, all in all five of them."""
    topic = f"pinotpy-bench-{uuid.uuid4().hex[:12]}"
    preload(brokers, topic, 1, "lz4")
    worker = ProcessWorker(SystemClock(), num_processes=1)
    worker.prepare()  # as a server does
    folder = Path(tempfile.mkdtemp())
    try:
        partition = worker.open(spec(brokers, topic), lambda: None)
        wait_for([partition], 1)
        idle_bytes = _memory_bytes(*worker.pids())
        producer = subprocess.Popen(
            [sys.executable, "-m", "bench.realtime_ingest", "--kafka-broker-list", brokers, "--produce", topic,
             "--rate", str(rate), "--seconds", str(seconds)]
        )  # fmt: skip
        sealing = threading.Thread(target=_seal_often, args=(partition, rate * seconds, folder), daemon=True)
        wait_for([partition], rate // 10)
        sealing.start()
        late_ms: list[float] = []
        rows, last_ns, longest_ns = 0, time.monotonic_ns(), 0
        while rows < rate * seconds * 0.98 and producer.poll() is None:
            view = partition.log_view()
            now_ns = time.monotonic_ns()
            if view.watermark.num_rows > rows:
                longest_ns = max(longest_ns, now_ns - last_ns) if rows else 0
                rows, last_ns = view.watermark.num_rows, now_ns
                late_ms.append(time.time() * 1e3 - view.watermark.last_time_ms)
            time.sleep(POLL_S)
        producer.wait(TIMEOUT_S)
        sealing.join(TIMEOUT_S)
        late_ms.sort()
        return {
            "idle_worker_mib": round(idle_bytes / 2**20, 1),
            "rate": rate,
            "rows": rows,
            "newest_row_late_p50_ms": round(late_ms[len(late_ms) // 2], 1),
            "newest_row_late_p99_ms": round(late_ms[int(len(late_ms) * 0.99)], 1),
            "longest_gap_ms": round(longest_ns / 1e6, 1),
        }
    finally:
        worker.close()
        shutil.rmtree(folder, ignore_errors=True)
        remove(brokers, topic)


def _seal_often(partition: IngestPartition, num_rows: int, folder: Path) -> None:
    for number in range(5):
        end = num_rows // 6 * (number + 1)
        wait_for([partition], end)
        partition.seal(end, f"s{number + 1}")
        partition.build(f"s{number}", folder / f"built-{number}", 0)
        partition.release(f"s{number}")


def produce(brokers: str, topic: str, rate: int, seconds: int) -> None:
    """Rows at a steady rate, a hundredth of a second's at once."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 5, "compression.type": "lz4"})
    at_once = max(rate // 100, 1)
    began = time.monotonic()
    for step in range(seconds * rate // at_once):
        for number in range(at_once):
            producer.produce(topic, payload(step * at_once + number), partition=0)
        producer.poll(0)
        time.sleep(max(began + (step + 1) * at_once / rate - time.monotonic(), 0))
    assert producer.flush(TIMEOUT_S) == 0


def wait_for(partitions: list[IngestPartition], num_rows: int) -> None:
    """Until every partition has so many rows."""
    deadline = time.monotonic() + TIMEOUT_S
    while any(partition.log_view().watermark.num_rows < num_rows for partition in partitions):
        assert time.monotonic() < deadline, [partition.status() for partition in partitions]
        time.sleep(POLL_S)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("RssAnon", "RssShmem")))


if __name__ == "__main__":
    main()
