"""Which layer is named when a Kafka stream cannot be read, and that a table with the right settings reads: TLS, SASL,
rights, topics. Against a real broker; secrets are in no message and no log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest
from kafka_server import PASSWORDS, KafkaServer
from kafka_topics import PATIENCE_S, Reading, append, end_of, factory_of, new_topic

from pinotpy.errors import NotFoundError
from pinotpy.service.ports import free_port
from pinotpy.stream.spec import StreamConsumerFactory, StreamLayer, StreamUnavailableError

pytestmark = pytest.mark.cluster

WRONG_PASSWORD = "wrong-secret-3"


def login(user: str, password: str, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{password}";',
    }  # fmt: skip


@pytest.mark.parametrize(
    ("listener", "properties", "layer", "is_transient"),
    [
        pytest.param("no-such-host.invalid:9092", {}, StreamLayer.DNS, True, id="wrong host"),
        pytest.param("closed", {}, StreamLayer.TCP, True, id="wrong port"),
        pytest.param("ssl", {}, StreamLayer.TCP, True, id="a TLS listener without TLS"),
        pytest.param("ssl", {"security.protocol": "SSL"}, StreamLayer.TLS, False, id="a certificate of nobody"),
        pytest.param("plaintext", {"security.protocol": "SSL"}, StreamLayer.TLS, None, id="TLS where there is none"),
        pytest.param("sasl_plaintext", login("reader", WRONG_PASSWORD), StreamLayer.SASL, False, id="wrong password"),
        pytest.param("sasl_plaintext", login("reader", PASSWORDS["reader"], "SCRAM-SHA-256"), StreamLayer.SASL, False,
                     id="a mechanism that the broker has not"),
        pytest.param("sasl_plaintext", login("stranger", PASSWORDS["stranger"]), StreamLayer.TOPIC, False,
                     id="no right"),
    ],
)  # fmt: skip
def test_a_failure_is_named_by_layer_without_secrets(
    kafka: KafkaServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], listener: str,
    properties: Mapping[str, str], layer: StreamLayer, is_transient: bool | None,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    address = kafka.addresses.get(listener, f"127.0.0.1:{free_port()}" if listener == "closed" else listener)
    topic = new_topic(kafka)
    factory = factory_of(address, topic, **properties)
    provider, consumer = factory.metadata_provider(), factory.consumer(0)
    for call in (
        lambda: provider.num_partitions(timeout_s=5),
        lambda: provider.end_offset(0, timeout_s=5),
        lambda: provider.offset_at_time(0, 0, timeout_s=5),
        lambda: consumer.fetch(0, records_max=10, timeout_s=5),
    ):
        with pytest.raises(StreamUnavailableError) as caught:
            call()
        assert caught.value.layer is layer, caught.value.message
        assert is_transient in (None, caught.value.is_transient), caught.value.message
        assert address in caught.value.message
        told = f"{caught.value.message} {caught.value.context}"
        assert not [secret for secret in (WRONG_PASSWORD, *PASSWORDS.values()) if secret in told]
    consumer.close()
    provider.close()
    assert not [secret for secret in (WRONG_PASSWORD, *PASSWORDS.values()) if secret in caplog.text]
    assert "FAIL" not in capfd.readouterr().err  # as librdkafka writes where nobody takes its log


def test_a_wrong_topic_or_partition_is_not_found(kafka: KafkaServer) -> None:
    factory = factory_of(kafka.address, "no-such-topic")
    provider, consumer = factory.metadata_provider(), factory.consumer(0)
    for call in (
        lambda: provider.num_partitions(timeout_s=PATIENCE_S),
        lambda: provider.end_offset(0, timeout_s=PATIENCE_S),
        lambda: provider.offset_at_time(0, 0, timeout_s=PATIENCE_S),
        lambda: consumer.fetch(0, records_max=10, timeout_s=PATIENCE_S),
    ):
        with pytest.raises(NotFoundError, match="no topic 'no-such-topic'"):
            call()
    consumer.close()
    provider.close()
    absent = factory_of(kafka.address, new_topic(kafka, 2)).consumer(5)
    with pytest.raises(NotFoundError, match="partitions 0 to 1, found 5"):
        absent.fetch(0, records_max=10, timeout_s=PATIENCE_S)
    absent.close()


def test_who_may_read_the_topic_and_no_group_reads_it(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    end = append(kafka, topic, [b"a", b"b", b"c"])
    kafka.allow_reading(topic, "reader")
    for listener, properties in (
        ("sasl_plaintext", login("reader", PASSWORDS["reader"])),
        ("sasl_ssl", login("reader", PASSWORDS["reader"])
         | {"security.protocol": "SASL_SSL", "ssl.ca.location": str(kafka.ca_file)}),
    ):  # fmt: skip
        factory = factory_of(kafka.addresses[listener], topic, **properties)
        assert end_of(factory) == end
        assert payloads_of(factory, end) == [b"a", b"b", b"c"]


def test_tls_reads(kafka: KafkaServer) -> None:
    topic = new_topic(kafka)
    end = append(kafka, topic, [b"a", b"b"])
    factory = factory_of(
        kafka.addresses["ssl"], topic, security_protocol="SSL", **{"ssl.ca.location": str(kafka.ca_file)}
    )
    assert payloads_of(factory, end) == [b"a", b"b"]


def payloads_of(factory: StreamConsumerFactory, end: int) -> list[bytes | None]:
    consumer = factory.consumer(0)
    reading = Reading(consumer, 0, [], [])
    reading.to(end)
    consumer.close()
    return reading.payloads
