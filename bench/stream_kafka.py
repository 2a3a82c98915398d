"""Reading a preloaded topic of a real Kafka: microseconds of CPU a row, rows a second, as JSON.

    python -m bench.stream_kafka --kafka-broker-list 127.0.0.1:9092 --rows 1000000

Writes a topic of one partition with JSON of 12 columns, reads it from the start some times, takes it away. CPU is that
of this process, librdkafka's threads included; the broker's is its own. Each reading is shown, and the median.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
import uuid
from typing import Any, Final

from bench.machine import commit_name, machine
from pinotpy.clock import SystemClock
from pinotpy.stream.registry import consumer_factory
from pinotpy.stream.settings import StreamSettings

PAYLOAD_BYTES: Final = 260
WRITE_TIMEOUT_S: Final = 600.0
FETCH_TIMEOUT_S: Final = 30.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--kafka-broker-list", required=True)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--times", type=int, default=5)
    arguments.add_argument("--records-max", type=int, default=1000, help="of one fetch")
    arguments.add_argument("--compression", default="lz4")
    asked = arguments.parse_args()
    topic = f"pinotpy-bench-{uuid.uuid4().hex[:12]}"
    preload(asked.kafka_broker_list, topic, asked.rows, asked.compression)
    try:
        readings = [read(asked.kafka_broker_list, topic, asked.rows, asked.records_max) for _ in range(asked.times)]
    finally:
        remove(asked.kafka_broker_list, topic)
    median = {key: statistics.median(reading[key] for reading in readings) for key in readings[0]}
    shown = {
        "commit": commit_name(), "machine": machine(), "rows": asked.rows, "payload_bytes": PAYLOAD_BYTES,
        "records_max": asked.records_max, "compression": asked.compression, "median": median, "readings": readings,
    }  # fmt: skip
    print(json.dumps(shown, indent=1))


def read(brokers: str, topic: str, num_rows: int, records_max: int) -> dict[str, float]:
    """One reading of the whole topic, by a consumer of its own."""
    factory = consumer_factory(StreamSettings("kafka", topic, {"stream.kafka.broker.list": brokers}), SystemClock())
    consumer = factory.consumer(0)
    offset, count, num_bytes = 0, 0, 0
    before_cpu_s, before_s = _cpu_s(), time.monotonic()
    while count < num_rows:
        batch = consumer.fetch(offset, records_max=records_max, timeout_s=FETCH_TIMEOUT_S)
        assert len(batch), f"nothing came within {FETCH_TIMEOUT_S} s at {offset}"
        offset, count = int(batch.next_offset), count + len(batch)
        num_bytes += batch.payloads.nbytes
    took_s, cpu_s = time.monotonic() - before_s, _cpu_s() - before_cpu_s
    consumer.close()
    return {
        "cpu_us_a_row": round(cpu_s / count * 1e6, 3),
        "rows_per_s": round(count / took_s),
        "arrow_bytes_a_row": round(num_bytes / count, 1),
    }


def preload(brokers: str, topic: str, num_rows: int, compression: str) -> None:
    """Write the rows; returns when all are acknowledged."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": brokers, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "-1"})])[topic].result(WRITE_TIMEOUT_S)
    producer = Producer(
        {"bootstrap.servers": brokers, "linger.ms": 20, "compression.type": compression, "acks": "all",
         "enable.idempotence": True}
    )  # fmt: skip
    failures: list[Any] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failures.append(error)

    for number in range(num_rows):
        while True:
            try:
                producer.produce(topic, payload(number), partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(WRITE_TIMEOUT_S) == 0 and not failures, f"the topic could not be written: {failures[:1]}"


def remove(brokers: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": brokers, "log_level": 0})
    admin.delete_topics([topic])[topic].result(WRITE_TIMEOUT_S)


def payload(number: int) -> bytes:
    """JSON of 12 columns, PAYLOAD_BYTES long."""
    text = (
        f'{{"id":{number},"ts":{1_700_000_000_000 + number},"country":"c{number % 50}","city":"city-{number % 997}",'
        f'"user":"u{number * 7919 % 100_003}","device":"d{number % 11}","price":{number % 1009}.25,'
        f'"clicks":{number % 13},"cost":{number % 317}.5,"ok":{"true" if number % 3 else "false"},'
        f'"campaign":{number % 4001},"text":"'
    )
    return (text + "x" * (PAYLOAD_BYTES - 2 - len(text)) + '"}').encode()


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
