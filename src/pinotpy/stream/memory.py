"""The stream door's twin for tests: a topic in memory, with retention, gaps in offsets, and silence on demand."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence

from pinotpy.clock import Clock
from pinotpy.errors import NotFoundError
from pinotpy.stream.spec import OffsetOutOfRangeError, StreamBatch, StreamRecord


class MemoryStream:
    """One topic, shared by producers and consumers; the condition guards the lists."""

    def __init__(self, clock: Clock, num_partitions: int = 1) -> None:
        self._clock = clock
        self._condition = threading.Condition()
        self._records: list[list[StreamRecord]] = [[] for _ in range(num_partitions)]
        self._earliest = [0] * num_partitions
        self._end = [0] * num_partitions

    def num_partitions(self) -> int:
        return len(self._records)

    def append(self, partition: int, records: Sequence[tuple[bytes | None, bytes | None]]) -> int:
        self._check(partition)
        with self._condition:
            for key, payload in records:
                self._records[partition].append(StreamRecord(self._end[partition], self._clock.now_ms(), key, payload))
                self._end[partition] += 1
            self._condition.notify_all()
            return self._end[partition]

    def skip_offsets(self, partition: int, count: int) -> None:
        """Leave a gap, as compaction and transaction markers do."""
        with self._condition:
            self._end[partition] += count

    def expire(self, partition: int, before_offset: int) -> None:
        """Drop records before an offset, as retention does."""
        with self._condition:
            self._records[partition] = [r for r in self._records[partition] if r.offset >= before_offset]
            self._earliest[partition] = max(self._earliest[partition], before_offset)

    def earliest_offset(self, partition: int) -> int:
        self._check(partition)
        return self._earliest[partition]

    def end_offset(self, partition: int) -> int:
        self._check(partition)
        return self._end[partition]

    def offset_at_time(self, partition: int, timestamp_ms: int) -> int:
        self._check(partition)
        with self._condition:
            records = self._records[partition]
            position = bisect_left(records, timestamp_ms, key=lambda r: r.timestamp_ms)
            return records[position].offset if position < len(records) else self._end[partition]

    def fetch(self, partition: int, offset: int, *, records_max: int, timeout_s: float) -> StreamBatch:
        self._check(partition)
        with self._condition:
            self._condition.wait_for(lambda: offset < self._end[partition], timeout_s)
            if not self._earliest[partition] <= offset <= self._end[partition]:
                raise OffsetOutOfRangeError(offset, self._earliest[partition], self._end[partition])
            records = self._records[partition]
            start = bisect_left(records, offset, key=lambda r: r.offset)
            taken = tuple(records[start : start + records_max])
            if start + records_max < len(records):
                return StreamBatch(taken, records[start + records_max].offset)
            return StreamBatch(taken, self._end[partition])

    def close(self) -> None:
        """Nothing to release."""

    def _check(self, partition: int) -> None:
        if not 0 <= partition < len(self._records):
            raise NotFoundError(f"the topic has partitions 0 to {len(self._records) - 1}, found {partition}")
