"""What a topic tells of itself: partitions, ends, offsets at times."""

from __future__ import annotations

from pinotpy.clock import Clock
from pinotpy.stream.kafka.client import KafkaClient
from pinotpy.stream.kafka.properties import KafkaProperties
from pinotpy.stream.spec import Offset


class KafkaMetadataProvider:
    """Implements StreamMetadataProvider; used by one thread at a time. The end is, for `read_committed`, before the
    first record of an open transaction: nothing behind it can be read yet.
    """

    def __init__(self, properties: KafkaProperties, topic: str, clock: Clock) -> None:
        self._properties, self._topic, self._clock = properties, topic, clock
        self._opened: KafkaClient | None = None

    def num_partitions(self, *, timeout_s: float) -> int:
        return self._client().num_partitions(timeout_s)

    def earliest_offset(self, partition: int, *, timeout_s: float) -> Offset:
        return self._client().watermarks(partition, timeout_s)[0]

    def end_offset(self, partition: int, *, timeout_s: float) -> Offset:
        return self._client().watermarks(partition, timeout_s)[1]

    def offset_at_time(self, partition: int, timestamp_ms: int, *, timeout_s: float) -> Offset:
        deadline_ns = self._clock.monotonic_ns() + int(timeout_s * 1e9)
        offset = self._client().offset_at_time(partition, timestamp_ms, timeout_s)
        if offset is not None:
            return offset
        remaining_s = max((deadline_ns - self._clock.monotonic_ns()) / 1e9, 0)
        return self.end_offset(partition, timeout_s=remaining_s)

    def close(self) -> None:
        client, self._opened = self._opened, None
        if client is not None:
            client.close()

    def _client(self) -> KafkaClient:
        if self._opened is None:
            self._opened = KafkaClient(self._properties, self._topic, self._clock)
        return self._opened
