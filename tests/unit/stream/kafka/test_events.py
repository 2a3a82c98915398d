"""What librdkafka tells reaches Python's logging without secrets and in measure; the reason is kept, not the echo."""

from __future__ import annotations

import logging

import pytest

from pinotpy.clock import ManualClock
from pinotpy.stream.kafka.events import ClientEvents
from pinotpy.stream.kafka.properties import kafka_properties
from pinotpy.stream.spec import StreamLayer

TABLE = {"stream.kafka.broker.list": "k1:9092", "sasl.password": "hunter2"}
REFUSED = "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)"


def events(clock: ManualClock | None = None) -> ClientEvents:
    return ClientEvents(kafka_properties(TABLE), clock or ManualClock())


def test_a_line_is_logged_once_a_minute_and_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    clock = ManualClock()
    told = events(clock)
    for attempt in range(50):
        told.log(logging.ERROR, "%s [%s] %s", "FAIL", "c", f"[thrd:x]: x: refused after {attempt}ms as hunter2")
    told.log(logging.INFO, "another line")
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]
    assert "hunter2" not in caplog.text and "as ****" in caplog.text
    clock.advance(60_000)
    told.log(logging.ERROR, "%s [%s] %s", "FAIL", "c", "[thrd:x]: x: refused after 99ms as hunter2")
    assert len(caplog.records) == 3


def test_lines_that_never_repeat_are_not_all_remembered() -> None:
    told = events()
    for number in range(5_000):
        told.log(logging.DEBUG, "line " + "x" * number)
    assert len(told._logged_ns) <= 200


def test_the_reason_stays_when_its_consequence_is_told() -> None:
    told = events()
    told.note("_ALL_BROKERS_DOWN", "1/1 brokers are down")
    assert told.failure is not None and told.failure.layer is StreamLayer.TCP
    told.note("_AUTHENTICATION", "SASL authentication error: as hunter2 (after 1ms in state AUTH_REQ)")
    told.note("_ALL_BROKERS_DOWN", "1/1 brokers are down")
    assert told.failure.layer is StreamLayer.SASL and "hunter2" not in told.failure.text
    told.note("_TRANSPORT", REFUSED)
    assert told.failure.layer is StreamLayer.TCP
    told.clear()
    told.note("GROUP_AUTHORIZATION_FAILED", "Group authorization failed.")
    assert told.failure is None


def test_a_line_of_the_log_is_a_reason_where_no_error_gives_one() -> None:
    told = events()
    told.note("_ALL_BROKERS_DOWN", "1/1 brokers are down")
    line = "[thrd:k1:9092/bootstrap]: k1:9092/bootstrap: Disconnected: connection closed by peer (after 4ms in state "
    told.log(logging.INFO, "%s [%s] %s", "FAIL", "rdkafka#consumer-1", line + "APIVERSION_QUERY)")
    assert told.failure is not None and told.failure.text.startswith("k1:9092/bootstrap: Disconnected")
    told.note("_RESOLVE", "Failed to resolve")
    told.log(logging.INFO, "%s [%s] %s", "FAIL", "rdkafka#consumer-1", line + "APIVERSION_QUERY)")
    assert told.failure.layer is StreamLayer.DNS
