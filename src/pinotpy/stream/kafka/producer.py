"""Appends to a topic: for tests and quickstarts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pinotpy.clock import Clock
from pinotpy.errors import NotFoundError, UserError
from pinotpy.stream.kafka.client import KafkaClient, library, open_producer
from pinotpy.stream.kafka.events import ClientEvents
from pinotpy.stream.kafka.failures import classified, is_not_there
from pinotpy.stream.kafka.properties import kafka_properties
from pinotpy.stream.settings import StreamSettings

RECORD_BYTES_MAX: Final = 16 << 20
_APPEND_S: Final = 60.0
_WAIT_S: Final = 0.1


class KafkaStreamProducer:
    """Implements StreamProducer; the records have the clock's time, and are with all replicas when `append` returns.
    Used by one thread at a time.
    """

    def __init__(self, settings: StreamSettings, clock: Clock) -> None:
        self._properties = kafka_properties(settings.properties)
        self._settings, self._clock = settings, clock
        self._events = ClientEvents(self._properties, clock)
        self._producer = open_producer(
            self._properties,
            {
                "enable.idempotence": "true",
                "linger.ms": "2",
                "message.max.bytes": str(RECORD_BYTES_MAX + (1 << 20)),
                "delivery.timeout.ms": str(int(_APPEND_S * 1e3)),
            },
            self._events,
        )

    def append(self, partition: int, records: Sequence[tuple[bytes | None, bytes | None]]) -> int:
        delivered, time_ms = _Delivered(), self._clock.now_ms()
        for key, payload in records:
            self._send(partition, key, payload, time_ms, delivered)
        if not records:
            return self._end(partition)
        self._producer.flush(_APPEND_S)
        if delivered.error is not None or delivered.count < len(records):
            raise self._failure(partition, delivered)
        return delivered.next_offset

    def close(self) -> None:
        """What was appended is durable already."""
        self._producer.flush(_WAIT_S)

    def _send(
        self, partition: int, key: bytes | None, payload: bytes | None, time_ms: int, delivered: _Delivered
    ) -> None:
        size_bytes = len(key or b"") + len(payload or b"")
        if size_bytes > RECORD_BYTES_MAX:
            raise UserError(f"a record has at most {RECORD_BYTES_MAX} bytes, found {size_bytes}")
        while delivered.error is None:
            try:
                self._producer.produce(self._settings.topic, payload, key, partition, delivered.take, timestamp=time_ms)
                return
            except BufferError:  # the queue is full: let it drain
                self._producer.poll(_WAIT_S)
            except library().KafkaException as error:  # the topic is known, and has no such partition
                delivered.error = error.args[0]

    def _end(self, partition: int) -> int:
        client = KafkaClient(self._properties, self._settings.topic, self._clock)
        try:
            return client.watermarks(partition, self._settings.connection_timeout_s)[1]
        finally:
            client.close()

    def _failure(self, partition: int, delivered: _Delivered) -> Exception:
        name = delivered.error.name() if delivered.error is not None else "_TIMED_OUT"
        if is_not_there(name):
            return NotFoundError(f"the Kafka topic '{self._settings.topic}' has no partition {partition}")
        text = delivered.error.str() if delivered.error is not None else f"not written within {_APPEND_S:g} s"
        failure = self._events.failure or classified(name, self._properties.masked(text))
        return failure.error(", ".join(self._properties.addresses)[:200])


class _Delivered:
    """What became of the records of one append."""

    def __init__(self) -> None:
        self.count, self.next_offset = 0, 0
        self.error: Any = None

    def take(self, error: Any, message: Any) -> None:
        """librdkafka's callback, once a record."""
        self.count += 1
        if error is not None:
            self.error = error
        else:
            self.next_offset = max(self.next_offset, message.offset() + 1)


def make_topic(settings: StreamSettings, num_partitions: int, clock: Clock) -> None:
    """Make the topic with one replica if it is not there. Raises what its brokers are asked in vain for."""
    client = KafkaClient(kafka_properties(settings.properties), settings.topic, clock)
    try:
        client.make_topic(num_partitions, _APPEND_S)
    finally:
        client.close()
