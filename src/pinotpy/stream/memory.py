"""The twin of the stream interface for tests: a topic in memory, with retention, gaps in offsets, growth, and failures
on demand.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pinotpy.clock import Clock
from pinotpy.errors import NotFoundError
from pinotpy.stream.spec import LONG_OFFSETS, Offset, OffsetOutOfRangeError, OffsetType, StreamBatch


@dataclass(slots=True)
class _Partition:
    """Lists of one length, a record in each place."""

    payloads: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    earliest: int = 0
    end: int = 0
    failures: list[Exception] = field(default_factory=list)


class MemoryStream:
    """One topic, shared by producers and consumers; the condition guards the partitions. Implements
    StreamConsumerFactory, StreamMetadataProvider and StreamProducer.
    """

    offset_type: OffsetType = LONG_OFFSETS

    def __init__(self, clock: Clock, num_partitions: int = 1) -> None:
        self._clock = clock
        self._condition = threading.Condition()
        self._partitions = [_Partition() for _ in range(num_partitions)]

    # --- what a test does to the topic --------------------------------------------------------------------------------

    def append(self, partition: int, records: Sequence[tuple[bytes | None, bytes | None]]) -> int:
        with self._condition:
            log = self._partition(partition)
            for key, payload in records:
                log.payloads.append(payload)
                log.keys.append(key)
                log.offsets.append(log.end)
                log.times_ms.append(self._clock.now_ms())
                log.end += 1
            self._condition.notify_all()
            return log.end

    def skip_offsets(self, partition: int, count: int) -> None:
        """Leave a gap, as compaction and transaction markers do."""
        with self._condition:
            self._partition(partition).end += count
            self._condition.notify_all()

    def expire(self, partition: int, before_offset: int) -> None:
        """Drop records before an offset, as retention does."""
        with self._condition:
            log = self._partition(partition)
            num_expired = bisect_left(log.offsets, before_offset)
            for column in (log.payloads, log.keys, log.offsets, log.times_ms):
                del column[:num_expired]
            log.earliest = max(log.earliest, before_offset)

    def grow(self, num_partitions: int) -> None:
        """Add partitions, without records."""
        with self._condition:
            self._partitions += [_Partition() for _ in range(num_partitions - len(self._partitions))]

    def fail(self, partition: int, error: Exception, times: int = 1) -> None:
        """Let the next fetches of a partition raise `error`."""
        with self._condition:
            self._partition(partition).failures += [error] * times
            self._condition.notify_all()

    # --- StreamConsumerFactory and StreamMetadataProvider -------------------------------------------------------------

    def metadata_provider(self) -> MemoryStream:
        return self

    def consumer(self, partition: int) -> _MemoryConsumer:
        return _MemoryConsumer(self, partition)

    def num_partitions(self, *, timeout_s: float) -> int:
        return len(self._partitions)

    def earliest_offset(self, partition: int, *, timeout_s: float) -> Offset:
        return self._partition(partition).earliest

    def end_offset(self, partition: int, *, timeout_s: float) -> Offset:
        return self._partition(partition).end

    def offset_at_time(self, partition: int, timestamp_ms: int, *, timeout_s: float) -> Offset:
        with self._condition:
            log = self._partition(partition)
            position = bisect_left(log.times_ms, timestamp_ms)
            return log.offsets[position] if position < len(log.offsets) else log.end

    def close(self) -> None:
        """Nothing to release."""

    def fetch(self, partition: int, offset: Offset, *, records_max: int, timeout_s: float) -> StreamBatch:
        assert isinstance(offset, int)
        with self._condition:
            log = self._partition(partition)
            # At the end rows may come; an offset behind it is wrong at once.
            self._condition.wait_for(lambda: offset != log.end or log.failures, timeout_s)
            if log.failures:
                raise log.failures.pop(0)
            if not log.earliest <= offset <= log.end:
                raise OffsetOutOfRangeError(offset, log.earliest, log.end)
            first = bisect_left(log.offsets, offset)
            taken = slice(first, first + records_max)
            is_rest = first + records_max >= len(log.offsets)
            return StreamBatch(
                pa.array(log.payloads[taken], pa.binary()),
                pa.array(log.keys[taken], pa.binary()),
                np.array(log.offsets[taken], np.int64),
                np.array(log.times_ms[taken], np.int64),
                log.end if is_rest else log.offsets[first + records_max],
            )

    def _partition(self, partition: int) -> _Partition:
        if not 0 <= partition < len(self._partitions):
            raise NotFoundError(f"the topic has partitions 0 to {len(self._partitions) - 1}, found {partition}")
        return self._partitions[partition]


class _MemoryConsumer:
    """One partition of a MemoryStream; implements PartitionConsumer."""

    def __init__(self, stream: MemoryStream, partition: int) -> None:
        self._stream, self._partition = stream, partition

    def fetch(self, offset: Offset, *, records_max: int, timeout_s: float) -> StreamBatch:
        return self._stream.fetch(self._partition, offset, records_max=records_max, timeout_s=timeout_s)

    def close(self) -> None:
        """Nothing to release."""
