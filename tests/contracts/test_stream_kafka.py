"""The cases of every stream over Kafka: librdkafka's mock brokers in the fast tier, and a real broker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from kafka_mock import MockKafka
from kafka_server import KafkaServer
from tests.contracts import stream_cases
from tests.contracts.stream_cases import *  # noqa: F403
from tests.contracts.stream_cases import PATIENCE_S, START_MS, Topic

from pinotpy.clock import ManualClock, SystemClock
from pinotpy.errors import NotFoundError
from pinotpy.stream.kafka.producer import KafkaStreamProducer
from pinotpy.stream.registry import consumer_factory
from pinotpy.stream.settings import StreamSettings

_numbers = itertools.count()


@dataclass
class Brokers:
    """address: host:port. has_times: whether records can be searched by time."""

    address: str
    server: MockKafka | KafkaServer

    @property
    def has_times(self) -> bool:
        return isinstance(self.server, KafkaServer)


@pytest.fixture(scope="module", params=["mock", pytest.param("broker", marks=pytest.mark.cluster)])
def brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    if request.param == "mock":
        with MockKafka() as mock:
            yield Brokers(mock.address, mock)
        return
    server = request.getfixturevalue("kafka")
    yield Brokers(server.address, server)


@pytest.fixture
def topic(brokers: Brokers) -> Iterator[Topic]:
    name = f"topic-{next(_numbers)}"
    # The cases' times are years ago: retention would take such records.
    if isinstance(brokers.server, KafkaServer):
        brokers.server.create_topic(name, 2, {"retention.ms": "-1"})
    else:
        brokers.server.create_topic(name, 2)
    # An empty fetch of the mock sleeps the whole time.
    properties = {"stream.kafka.broker.list": brokers.address, "stream.kafka.fetch.wait.max.ms": "10"}
    settings, clock = StreamSettings("kafka", name, properties), ManualClock(START_MS)
    producer, factory = KafkaStreamProducer(settings, clock), consumer_factory(settings, SystemClock())
    metadata = factory.metadata_provider()
    yield Topic(producer, factory, metadata, clock)
    metadata.close()
    producer.close()


def test_time_finds_the_first_record_not_older(brokers: Brokers, topic: Topic) -> None:
    if brokers.has_times:
        stream_cases.test_time_finds_the_first_record_not_older(topic)
        return
    # The mock answers that there is none, which is the end.
    topic.producer.append(0, [(None, b"a")])
    assert topic.metadata.offset_at_time(0, START_MS, timeout_s=PATIENCE_S) == topic.end(0)


def test_an_append_of_nothing_and_to_no_partition(topic: Topic) -> None:
    topic.producer.append(0, [(None, b"a")])
    assert topic.producer.append(0, []) == topic.end(0)
    with pytest.raises(NotFoundError, match="no partition 7"):
        topic.producer.append(7, [(None, b"a")])


def test_a_large_record_comes_whole(topic: Topic) -> None:
    payload = bytes(range(256)) * (4 << 10)  # the mock keeps 5 MB
    topic.producer.append(1, [(None, b"before"), (None, payload), (None, b"after")])
    offset, payloads = topic.start(1), []
    consumer = topic.factory.consumer(1)
    while offset < topic.end(1):
        batch = consumer.fetch(offset, records_max=100, timeout_s=PATIENCE_S)
        payloads += batch.payloads.to_pylist()
        offset = batch.next_offset
    consumer.close()
    assert payloads == [b"before", payload, b"after"]
