"""Reads one partition by offset, in batches of columns."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pinotpy.clock import Clock
from pinotpy.errors import PinotError
from pinotpy.stream.kafka.client import EOF, RESET, KafkaClient
from pinotpy.stream.kafka.failures import is_no_failure
from pinotpy.stream.kafka.properties import KafkaProperties
from pinotpy.stream.spec import Offset, OffsetOutOfRangeError, StreamBatch, StreamLayer, StreamUnavailableError

# A wait is cut into pieces, between which failures are looked at.
_PIECE_S: Final = 0.25
# Messages are objects, which are made into columns while they lie in the processor's cache.
_PIECE_RECORDS: Final = 1_000
_PROBE_LEAST_S: Final = 0.05
# Of a new assignment, after which the topic itself is asked for: a topic that is not there sends nothing.
_SILENCE_NS: Final = 1_000_000_000
_RANGE_S: Final = 5.0  # to ask for the range that an offset is not in


class KafkaPartitionConsumer:
    """Implements PartitionConsumer. The assignment stays between fetches that go on where the last one ended, so that
    librdkafka reads ahead.
    """

    def __init__(self, properties: KafkaProperties, topic: str, partition: int, clock: Clock) -> None:
        self._properties, self._topic, self._partition, self._clock = properties, topic, partition, clock
        self._client: KafkaClient | None = None
        self._position = -1  # the next offset that the assignment gives; -1 without one
        self._silent_since_ns: int | None = None  # of an assignment that nothing has come from yet

    def fetch(self, offset: Offset, *, records_max: int, timeout_s: float) -> StreamBatch:
        assert isinstance(offset, int) and records_max > 0
        deadline_ns = self._clock.monotonic_ns() + int(timeout_s * 1e9)
        client = self._client_at(offset)
        while True:
            remaining_s = max((deadline_ns - self._clock.monotonic_ns()) / 1e9, 0)
            messages = client.receive(min(records_max, _PIECE_RECORDS), min(remaining_s, _PIECE_S))
            if messages:
                batch = self._batch(client, offset, messages, remaining_s)
                if len(batch) or batch.next_offset != offset or not remaining_s:
                    return StreamBatch.joined(self._with_more(client, batch, records_max))
            elif client.is_in_doubt():
                # No record may mean that there is none, or that no broker can be reached: one answer decides it.
                client.watermarks(self._partition, max(remaining_s, _PROBE_LEAST_S))
                self._silent_since_ns = None
            elif self._is_silent():
                client.check_partition(self._partition, max(remaining_s, _PROBE_LEAST_S))
                self._silent_since_ns = None
            elif not remaining_s:
                return StreamBatch.empty(offset)

    def _with_more(self, client: KafkaClient, batch: StreamBatch, records_max: int) -> list[StreamBatch]:
        """What else has arrived, up to the first failure: the next fetch assigns anew, and meets it if it lasts."""
        pieces, missing = [batch], records_max - len(batch)
        with suppress(PinotError):
            while missing > 0 and len(pieces[-1]) == _PIECE_RECORDS:
                messages = client.receive(min(missing, _PIECE_RECORDS), 0.0)
                if not messages:
                    break
                pieces.append(self._batch(client, self._position, messages, 0.0))
                missing -= len(pieces[-1])
        return pieces

    def close(self) -> None:
        client, self._client, self._position = self._client, None, -1
        if client is not None:
            client.close()

    def _client_at(self, offset: int) -> KafkaClient:
        if self._client is None:
            self._client = KafkaClient(self._properties, self._topic, self._clock)
        if offset != self._position:
            self._client.assign(self._partition, offset)
            self._position, self._silent_since_ns = offset, self._clock.monotonic_ns()
        return self._client

    def _is_silent(self) -> bool:
        since_ns = self._silent_since_ns
        return since_ns is not None and self._clock.monotonic_ns() - since_ns > _SILENCE_NS

    def _batch(self, client: KafkaClient, offset: int, messages: list[Any], remaining_s: float) -> StreamBatch:
        """The records before the first event that ends the reading; that event is told when nothing comes before it."""
        errors = list(map(type(messages[0]).error, messages))
        if any(errors):
            messages = self._records_before_failure(client, offset, messages, errors, remaining_s)
        else:
            self._answered(client, messages[-1].offset() + 1)
        if not messages:
            return StreamBatch.empty(self._position if self._position >= 0 else offset)
        next_offset = self._position if self._position >= 0 else messages[-1].offset() + 1
        return _columns(messages, next_offset)

    def _records_before_failure(
        self, client: KafkaClient, offset: int, messages: list[Any], errors: list[Any], remaining_s: float
    ) -> list[Any]:
        records: list[Any] = []
        for message, error in zip(messages, errors, strict=True):
            if error is None:
                records.append(message)
                self._answered(client, message.offset() + 1)
            elif error.name() == EOF:
                # It is behind markers and aborted records, which are no messages.
                self._answered(client, max(self._position, message.offset()))
            elif not is_no_failure(error.name()):
                self._position = -1  # the next fetch assigns anew, and meets the failure if it lasts
                if not records:
                    raise self._failure(client, offset, error, remaining_s)
                break
        return records

    def _answered(self, client: KafkaClient, position: int) -> None:
        """The partition's leader sent something; `position` comes next."""
        self._position, self._silent_since_ns = position, None
        client.clear_doubt()

    def _failure(self, client: KafkaClient, offset: int, error: Any, remaining_s: float) -> Exception:
        if error.name() != RESET:
            return client.error_of(error.name(), error.str())
        earliest, end = client.watermarks(self._partition, min(max(remaining_s, _PROBE_LEAST_S), _RANGE_S))
        if earliest <= offset <= end:
            # The follower that became leader may not have it yet.
            return StreamUnavailableError(
                f"Kafka refuses offset {offset} of '{self._topic}' partition {self._partition}, which is in its range "
                f"{earliest} to {end}: {self._properties.masked(error.str())[:200]}",
                layer=StreamLayer.FETCH,
            )
        return OffsetOutOfRangeError(offset, earliest, end)


def _columns(messages: list[Any], next_offset: int) -> StreamBatch:
    """The messages as columns. Each is an object, so this is a loop over rows, in C: unbound methods, mapped."""
    message = type(messages[0])
    return StreamBatch(
        pa.array(list(map(message.value, messages)), pa.binary()),
        pa.array(list(map(message.key, messages)), pa.binary()),
        np.fromiter(map(message.offset, messages), np.int64, len(messages)),
        # (type, ms); -1 where a record has none
        np.array([time_ms for _, time_ms in map(message.timestamp, messages)], np.int64),
        next_offset,
    )
