"""Which layer an error of librdkafka means; the texts are those that it was seen to give."""

from __future__ import annotations

import pytest

from pinotpy.stream.kafka.failures import classified, is_no_failure, is_not_there, is_vague
from pinotpy.stream.spec import StreamLayer


@pytest.mark.parametrize(
    ("name", "text", "layer", "is_transient"),
    [
        ("_RESOLVE", "Failed to resolve 'h:9092': Name or service not known (after 1ms in state CONNECT)",
         StreamLayer.DNS, True),
        ("_TRANSPORT", "Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)",
         StreamLayer.TCP, True),
        ("_TIMED_OUT", "h:1/bootstrap: Connection setup timed out in state CONNECT (after 30026ms in state CONNECT)",
         StreamLayer.TCP, True),
        ("_TRANSPORT", "Disconnected: connection closed by peer: receive 0 after POLLIN (after 4ms in state "
         "APIVERSION_QUERY)", StreamLayer.TCP, True),
        ("_BAD_MSG", "Receive failed: Invalid response size 1213486160 (0..100000000): increase "
         "receive.message.max.bytes (after 0ms in state APIVERSION_QUERY)", StreamLayer.TCP, False),
        ("_SSL", "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate "
         "could not be verified (after 3ms in state SSL_HANDSHAKE)", StreamLayer.TLS, False),
        ("_TRANSPORT", "SSL handshake failed: Disconnected: SSL connection closed by peer: connecting to a PLAINTEXT "
         "broker listener? (after 1ms in state SSL_HANDSHAKE)", StreamLayer.TLS, False),
        ("_TRANSPORT", "Disconnected: SSL connection closed by peer (after 1ms in state SSL_HANDSHAKE)",
         StreamLayer.TLS, True),
        ("_AUTHENTICATION", "SASL authentication error: Authentication failed: Invalid username or password (after 5ms "
         "in state AUTH_REQ)", StreamLayer.SASL, False),
        ("_TIMED_OUT", "Connection setup timed out in state AUTH_REQ (after 30000ms in state AUTH_REQ)",
         StreamLayer.SASL, True),
        ("_BAD_MSG", "MessageSet at offset 1 (66 bytes) failed CRC32C check (original 0x0 != calculated 0x8c5a95ec)",
         StreamLayer.FETCH, True),
        ("TOPIC_AUTHORIZATION_FAILED", "Broker: Topic authorization failed", StreamLayer.TOPIC, False),
        ("NOT_LEADER_FOR_PARTITION", "Broker: Not leader for partition", StreamLayer.FETCH, True),
        ("_TIMED_OUT", "Local: Timed out", StreamLayer.FETCH, True),
        ("_ALL_BROKERS_DOWN", "1/1 brokers are down", StreamLayer.TCP, True),
    ],
)  # fmt: skip
def test_an_error_has_a_layer(name: str, text: str, layer: StreamLayer, is_transient: bool) -> None:
    failure = classified(name, text)
    assert (failure.layer, failure.is_transient) == (layer, is_transient)
    error = failure.error("k1:9092")
    assert (error.layer, error.is_transient) == (layer, is_transient)
    assert error.message.startswith(f"{layer.value}: Kafka at k1:9092: ") and error.message.count(": ") >= 3


def test_some_errors_say_nothing_or_that_nothing_is_there() -> None:
    assert is_no_failure("GROUP_AUTHORIZATION_FAILED") and not is_no_failure("_TRANSPORT")
    assert is_not_there("UNKNOWN_TOPIC_OR_PART") and not is_not_there("_TRANSPORT")
    assert is_vague(classified("_ALL_BROKERS_DOWN", "0/2 brokers are down"))
    assert not is_vague(classified("_RESOLVE", "Failed to resolve"))
