"""Reading over librdkafka's mock brokers: gaps, failures and their ends, properties that the library refuses."""

from __future__ import annotations

import itertools
import socket
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kafka_mock import MockKafka

from pinotpy.clock import SystemClock
from pinotpy.errors import InvalidConfigError, NotFoundError, UserError
from pinotpy.service.ports import free_port
from pinotpy.stream.kafka import client as client_module
from pinotpy.stream.kafka import consumer as consumer_module
from pinotpy.stream.kafka.factory import KafkaConsumerFactory
from pinotpy.stream.kafka.producer import RECORD_BYTES_MAX, KafkaStreamProducer
from pinotpy.stream.registry import consumer_factory, known_streams
from pinotpy.stream.settings import StreamSettings
from pinotpy.stream.spec import Offset, StreamLayer, StreamUnavailableError

PATIENCE_S = 60.0
FETCHES_MAX = 2_000
OFFSET_OUT_OF_RANGE, NOT_LEADER = 1, 6  # codes of Kafka's protocol
_numbers = itertools.count()


@pytest.fixture(scope="module")
def mock() -> Iterator[MockKafka]:
    with MockKafka() as cluster:
        yield cluster


def settings_of(address: str, topic: str, **properties: str) -> StreamSettings:
    table = {"stream.kafka.broker.list": address, "fetch.wait.max.ms": "10"}
    return StreamSettings("kafka", topic, table | {key.replace("_", "."): value for key, value in properties.items()})


def factory_of(address: str, topic: str, **properties: str) -> KafkaConsumerFactory:
    factory = consumer_factory(settings_of(address, topic, **properties), SystemClock())
    assert isinstance(factory, KafkaConsumerFactory)
    return factory


def new_topic(mock: MockKafka, payloads: list[bytes]) -> str:
    topic = f"read-{next(_numbers)}"
    mock.create_topic(topic, 1)
    producer = KafkaStreamProducer(settings_of(mock.address, topic), SystemClock())
    producer.append(0, [(None, payload) for payload in payloads])
    producer.close()
    return topic


def test_kafka_is_built_in() -> None:
    assert "kafka" in known_streams()


def test_gaps_are_stepped_over(mock: MockKafka) -> None:
    topic = new_topic(mock, [])
    producer = Producer({"bootstrap.servers": mock.address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    written: list[int] = []
    for number in range(5):  # each with a marker behind it, where the mock is as new as 2.16
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=lambda _, sent: written.append(sent.offset()))
        producer.commit_transaction(PATIENCE_S)
    factory = factory_of(mock.address, topic, check_crcs="false")  # the mock's markers have none
    payloads, offsets, _ = read_all(factory)
    assert (payloads, offsets) == ([b"0", b"1", b"2", b"3", b"4"], written)


def read_all(factory: KafkaConsumerFactory) -> tuple[list[bytes | None], list[int], Offset]:
    """Payloads and offsets of partition 0, and where reading ended: at the end."""
    consumer, provider, offset, payloads, offsets = factory.consumer(0), factory.metadata_provider(), 0, [], []
    try:
        end = provider.end_offset(0, timeout_s=PATIENCE_S)
        for _ in range(FETCHES_MAX):
            batch = consumer.fetch(offset, records_max=2, timeout_s=1)
            payloads += batch.payloads.to_pylist()
            offsets += batch.offsets.tolist()
            offset = batch.next_offset
            if offset == end:
                return payloads, offsets, offset
        raise AssertionError(f"read to {offset} of {end}")
    finally:
        consumer.close()
        provider.close()


def test_a_broker_that_comes_back_is_read_on(mock: MockKafka) -> None:
    payloads = [b"%d" % number for number in range(100)]
    topic = new_topic(mock, payloads)
    factory = factory_of(mock.address, topic, reconnect_backoff_max_ms="100")
    consumer, provider = factory.consumer(0), factory.metadata_provider()
    batch = consumer.fetch(0, records_max=100, timeout_s=PATIENCE_S)
    seen, offset = batch.payloads.to_pylist(), batch.next_offset
    mock.set_reachable(False)
    try:
        caught = None
        for _ in range(FETCHES_MAX):
            try:
                batch = consumer.fetch(offset, records_max=100, timeout_s=0.5)
            except StreamUnavailableError as error:
                caught = error
                break
            seen, offset = seen + batch.payloads.to_pylist(), batch.next_offset
        assert caught is not None and (caught.layer, caught.is_transient) == (StreamLayer.TCP, True)
        with pytest.raises(StreamUnavailableError, match="TCP"):
            provider.num_partitions(timeout_s=0.5)
    finally:
        mock.set_reachable(True)
    producer = KafkaStreamProducer(settings_of(mock.address, topic), SystemClock())
    end = producer.append(0, [(None, b"later")])
    producer.close()
    for _ in range(FETCHES_MAX):
        if offset == end:
            break
        try:
            batch = consumer.fetch(offset, records_max=100, timeout_s=5)
        except StreamUnavailableError as error:
            assert error.is_transient
            continue
        seen, offset = seen + batch.payloads.to_pylist(), batch.next_offset
    assert seen == [*payloads, b"later"]
    assert provider.num_partitions(timeout_s=PATIENCE_S) == 1
    consumer.close()
    provider.close()


def test_an_offset_in_range_that_a_broker_refuses_is_a_failure_that_passes(mock: MockKafka) -> None:
    topic = new_topic(mock, [b"a", b"b"])
    consumer = factory_of(mock.address, topic).consumer(0)
    mock.fail_fetches(OFFSET_OUT_OF_RANGE, 1)
    with pytest.raises(StreamUnavailableError, match=r"FETCH: Kafka refuses offset 1 .* range 0 to 2") as caught:
        consumer.fetch(1, records_max=10, timeout_s=PATIENCE_S)
    assert caught.value.is_transient
    assert consumer.fetch(1, records_max=10, timeout_s=PATIENCE_S).payloads.to_pylist() == [b"b"]
    mock.fail_fetches(NOT_LEADER, 1)
    assert consumer.fetch(0, records_max=10, timeout_s=PATIENCE_S).payloads.to_pylist() == [b"a", b"b"]
    consumer.close()
    consumer.close()


def test_a_leader_that_is_just_chosen_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with MockKafka() as mock:
        topic = new_topic(mock, [b"a", b"b"])
        provider = factory_of(mock.address, topic).metadata_provider()
        mock.fail_offsets(NOT_LEADER, 8)
        assert provider.end_offset(0, timeout_s=PATIENCE_S) == 2
        monkeypatch.setattr(client_module, "_PATIENCE_S", 0.0)
        mock.fail_offsets(NOT_LEADER, 100)
        with pytest.raises(StreamUnavailableError, match=r"FETCH: .*NOT_LEADER_FOR_PARTITION") as caught:
            provider.end_offset(0, timeout_s=PATIENCE_S)
        assert caught.value.is_transient
        provider.close()


def test_wrong_ports_topics_and_silence_are_told(mock: MockKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_module, "_SILENCE_NS", 100_000_000)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address in (f"127.0.0.1:{free_port()}", f"127.0.0.1:{silent.getsockname()[1]}"):
            factory = factory_of(address, "t")
            provider, consumer = factory.metadata_provider(), factory.consumer(0)
            for call in (
                lambda provider=provider: provider.num_partitions(timeout_s=0.3),
                lambda consumer=consumer: consumer.fetch(0, records_max=1, timeout_s=0.4),
            ):
                with pytest.raises(StreamUnavailableError, match=f"TCP: Kafka at {address}: ") as caught:
                    call()
                assert caught.value.is_transient
            provider.close()
            consumer.close()
    consumer = factory_of(mock.address, "no-such-topic").consumer(0)
    with pytest.raises(NotFoundError, match="no topic 'no-such-topic'"):
        consumer.fetch(0, records_max=1, timeout_s=PATIENCE_S)
    consumer.close()


def test_properties_that_the_library_does_not_know_or_take_are_named_by_their_keys() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        factory_of(
            "k1:9092", "t", stream_kafka_no_such_thing="hunter2", fetch_min_bytes="many", also_unknown="x",
            sasl_password="hunter2", stream_kafka_consumer_prop_security_protocol="TLS",
        )  # fmt: skip
    paths = {fault.path for fault in caught.value.faults}
    assert paths == {
        f"$.streamConfigs['{key}']"
        for key in ("stream.kafka.no.such.thing", "fetch.min.bytes", "also.unknown",
                    "stream.kafka.consumer.prop.security.protocol")
    }  # fmt: skip
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("topic", ["", "a b", "a/b", "..", "t\n", "t" * 250])
def test_a_topic_that_kafka_cannot_have_is_refused(topic: str) -> None:
    with pytest.raises(UserError, match="cannot be a topic of Kafka"):
        factory_of("k1:9092", topic)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(InvalidConfigError, match=r"pip install 'pinotpy\[kafka\]'"):
        factory_of("k1:9092", "t")


def test_a_record_that_is_too_large_is_refused(mock: MockKafka) -> None:
    producer = KafkaStreamProducer(settings_of(mock.address, "t"), SystemClock())
    with pytest.raises(UserError, match="at most"):
        producer.append(0, [(None, b"x" * (RECORD_BYTES_MAX + 1))])
    producer.close()


def test_a_factory_tells_whom_it_will_ask() -> None:
    factory = factory_of("k1:9092,k2:9093", "t", stream_kafka_zk_broker_url="zk:2181")
    assert factory.addresses == ("k1:9092", "k2:9093")
    assert factory.without_effect == ("stream.kafka.zk.broker.url",)
