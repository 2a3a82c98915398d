"""What a table's keys mean to the client: names, precedence, what has no effect, what is refused, what is secret."""

from __future__ import annotations

import re

import pytest

from pinotpy.errors import InvalidConfigError
from pinotpy.stream.kafka.properties import KafkaProperties, kafka_properties, key_of

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "hunter2-of-a-test"


def properties(**table: str) -> KafkaProperties:
    """Keys with `_` for `.`."""
    named = {key.replace("_", "."): value for key, value in table.items()}
    return kafka_properties({"streamType": "kafka", "stream.kafka.broker.list": "k1:9092", **named})


def refused(**table: str) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        properties(**table)
    assert SECRET not in str(caught.value) and SECRET not in str(caught.value.context)
    return str(caught.value)


def test_a_table_of_the_reference_gives_a_client_that_reads_by_offset() -> None:
    read = kafka_properties(
        {
            "streamType": "kafka",
            "stream.kafka.consumer.type": "lowlevel",
            "stream.kafka.topic.name": "page-views",
            "stream.kafka.broker.list": " k1:9092, k2 ",
            "stream.kafka.decoder.class.name": "org.apache.pinot.plugin.stream.kafka.KafkaJSONMessageDecoder",
            "stream.kafka.decoder.prop.schema.registry.rest.url": "http://registry",
            "stream.kafka.consumer.factory.class.name": "org.apache.pinot.plugin.stream.kafka20.KafkaConsumerFactory",
            "stream.kafka.consumer.prop.auto.offset.reset": "smallest",
            "stream.kafka.fetch.timeout.millis": "5000",
            "stream.kafka.zk.broker.url": "zk:2181/kafka",
            "stream.kafka.hlc.zk.connect.string": "zk:2181/kafka",
            "stream.kafka.fetcher.size": "1",
            "stream.kafka.socket.timeout": "1",
            "realtime.segment.flush.threshold.size": "0",
        }
    )
    assert read.addresses == ("k1:9092", "k2:9092")
    assert read.without_effect == (
        "stream.kafka.fetcher.size", "stream.kafka.hlc.zk.connect.string", "stream.kafka.socket.timeout",
        "stream.kafka.zk.broker.url",
    )  # fmt: skip
    client = dict(read.client)
    assert client.pop("bootstrap.servers") == "k1:9092, k2"
    assert client["auto.offset.reset"] == "error" and client["isolation.level"] == "read_committed"
    assert client["enable.auto.commit"] == "false" and client["fetch.queue.backoff.ms"] == "5"
    assert client == {key: value for key, value in properties().client.items() if key != "bootstrap.servers"}


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("stream.kafka.isolation.level", "read_uncommitted", "isolation.level"),
        ("stream.kafka.consumer.prop.fetch.max.wait.ms", "7", "fetch.wait.max.ms"),
        ("fetch.max.wait.ms", "7", "fetch.wait.max.ms"),
        ("request.timeout.ms", "7000", "socket.timeout.ms"),
        ("stream.kafka.consumer.prop.receive.buffer.bytes", "9", "socket.receive.buffer.bytes"),
        ("security.protocol", "SASL_SSL", "security.protocol"),
        ("sasl.mechanism", "PLAIN", "sasl.mechanisms"),
        ("stream.kafka.whatever.librdkafka.has", "x", "whatever.librdkafka.has"),
        ("group.id", "of-an-acl", "group.id"),
    ],
)
def test_properties_reach_the_client_by_its_own_names(key: str, value: str, name: str) -> None:
    table = {"stream.kafka.broker.list": "k1:9092", key: value}
    assert kafka_properties(table).client[name] == value
    assert key_of(table, name) == key


def test_the_longer_form_wins() -> None:
    names = ("fetch.min.bytes", "stream.kafka.fetch.min.bytes", "stream.kafka.consumer.prop.fetch.min.bytes")
    for count in (1, 2, 3):
        table = {"stream.kafka.broker.list": "k1:9092"} | {key: str(place) for place, key in enumerate(names[:count])}
        for keys in (table, dict(reversed(table.items()))):
            assert kafka_properties(keys).client["fetch.min.bytes"] == str(count - 1)
            assert key_of(keys, "fetch.min.bytes") == names[count - 1]


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        (f'{PLAIN} required username="u" password="{SECRET}";', {}, ("PLAIN", "u")),
        (f'{PLAIN}   required\n username="u;x y"\n password="{SECRET}" ; ', {}, ("PLAIN", "u;x y")),
        (f"{PLAIN} required password={SECRET} username=u serviceName=kafka;", {}, ("PLAIN", "u")),
        (f'{SCRAM} required username="u" password="{SECRET}";', {"sasl_mechanism": "SCRAM-SHA-512"},
         ("SCRAM-SHA-512", "u")),
    ],
)  # fmt: skip
def test_users_come_from_the_java_clients_text(text: str, more: dict[str, str], expected: tuple[str, str]) -> None:
    read = properties(sasl_jaas_config=text, **more)
    assert (read.client["sasl.mechanisms"], read.client["sasl.username"]) == expected
    assert read.client["sasl.password"] == SECRET
    assert "sasl.jaas.config" not in read.client
    assert read.masked(f"as {SECRET}") == "as ****"
    assert SECRET not in repr(read) and "****" not in repr(read)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"sasl_jaas_config": f'{PLAIN} required username="u";'}, "no password"),
        ({"sasl_jaas_config": f'{SCRAM} required username="u" password="{SECRET}";'}, "without sasl.mechanism"),
        ({"sasl_jaas_config": f'com.sun.Krb5LoginModule required password="{SECRET}";'}, "the login module Krb5Login"),
        ({"sasl_jaas_config": f'password="{SECRET}"'}, "no JAAS entry"),
        ({"ssl_truststore_password": SECRET}, r"ssl\.ca\.location"),
        ({"ssl_keystore_type": "JKS", "ssl_keystore_password": SECRET}, "'JKS', allowed: PKCS12"),
        ({"stream_kafka_plugin_library_paths": "/tmp/x.so"}, "a table cannot name code"),
        ({"sasl_kerberos_kinit_cmd": "rm"}, "a table cannot name code"),
        ({"test_mock_num_brokers": "1"}, "not for tables"),
        ({"stream_kafka_consumer_prop_sasl_login_callback_handler_class": "X"}, r"sasl\.oauthbearer"),
        ({"stream_kafka_broker_list": ""}, "0 brokers"),
        ({"stream_kafka_broker_list": ",".join(["k:1"] * 101)}, "101 brokers"),
        ({"stream_kafka_broker_list": "k1:99999"}, "'k1:99999', allowed: host:port"),
        ({"stream_kafka_broker_list": f"u:{SECRET}@k1:9092"}, "'k1:9092', allowed: host:port"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(table: dict[str, str], message: str) -> None:
    assert re.search(message, refused(**table))


def test_all_faults_are_told_at_once_by_their_keys() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        kafka_properties({"error_cb": "x", "ssl.truststore.location": "y", "stream.kafka.broker.list": "a b"})
    assert {fault.path for fault in caught.value.faults} == {
        "$.streamConfigs['error_cb']",
        "$.streamConfigs['ssl.truststore.location']",
        "$.streamConfigs['stream.kafka.broker.list']",
    }


def test_addresses_are_all_that_a_table_makes_the_daemon_ask() -> None:
    read = kafka_properties(
        {
            "bootstrap.servers": "ignored:1",
            "stream.kafka.broker.list": "SSL://k1:9093,[::1]:9094",
            "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
        }
    )
    assert read.addresses == ("k1:9093", "[::1]:9094", "id.example:443")
    assert read.client["bootstrap.servers"].startswith("SSL://k1")


@pytest.mark.parametrize(
    "key", ["sasl.password", "ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config", "ssl.key.pem"],
)  # fmt: skip
def test_secrets_are_known_by_their_names(key: str) -> None:
    for prefix in ("", "stream.kafka.", "stream.kafka.consumer.prop."):
        read = kafka_properties({"stream.kafka.broker.list": "k1:9092", prefix + key: SECRET})
        assert read.masked(SECRET) == "****" and SECRET not in repr(read)


def test_turning_the_check_of_host_names_off_is_written_as_in_java() -> None:
    read = properties(ssl_endpoint_identification_algorithm="")
    assert read.client["ssl.endpoint.identification.algorithm"] == "none"
