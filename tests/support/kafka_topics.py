"""Topics of a real Kafka, and a reader that goes on where the last fetch said, for tests of the plug-in."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from kafka_server import KafkaServer

from pinotpy.clock import SystemClock
from pinotpy.stream.kafka.producer import KafkaStreamProducer
from pinotpy.stream.registry import consumer_factory
from pinotpy.stream.settings import StreamSettings
from pinotpy.stream.spec import Offset, PartitionConsumer, StreamConsumerFactory

PATIENCE_S = 60.0
FETCHES_MAX = 2_000
_numbers = itertools.count()


def new_topic(kafka: KafkaServer, num_partitions: int = 1, **settings: str) -> str:
    name = f"live-{next(_numbers)}"
    kafka.create_topic(name, num_partitions, {key.replace("_", "."): value for key, value in settings.items()})
    return name


def settings_of(address: str, topic: str, **properties: str) -> StreamSettings:
    table = {"stream.kafka.broker.list": address, **{key.replace("_", "."): value for key, value in properties.items()}}
    return StreamSettings("kafka", topic, table)


def factory_of(address: str, topic: str, **properties: str) -> StreamConsumerFactory:
    return consumer_factory(settings_of(address, topic, **properties), SystemClock())


def append(kafka: KafkaServer, topic: str, payloads: list[bytes]) -> int:
    producer = KafkaStreamProducer(settings_of(kafka.address, topic), SystemClock())
    end = producer.append(0, [(None, payload) for payload in payloads])
    producer.close()
    return end


@dataclass
class Reading:
    """A consumer of partition 0, where it stands, and what it has read."""

    consumer: PartitionConsumer
    next_offset: Offset
    payloads: list[bytes | None]
    offsets: list[int]

    def to(self, end: Offset, records_max: int = 100) -> None:
        """Fetch until `end` is reached; a fetch goes on where the one before said."""
        for _ in range(FETCHES_MAX):
            if self.next_offset >= end:
                return
            self.once(records_max)
        pytest.fail(f"read to {self.next_offset} of {end} in {FETCHES_MAX} fetches")

    def once(self, records_max: int = 100, timeout_s: float = 5.0) -> int:
        batch = self.consumer.fetch(self.next_offset, records_max=records_max, timeout_s=timeout_s)
        assert len(batch) <= records_max and batch.next_offset >= self.next_offset
        self.payloads += batch.payloads.to_pylist()
        self.offsets += batch.offsets.tolist()
        self.next_offset = batch.next_offset
        return len(batch)


def end_of(factory: StreamConsumerFactory) -> Offset:
    provider = factory.metadata_provider()
    try:
        return provider.end_offset(0, timeout_s=PATIENCE_S)
    finally:
        provider.close()
