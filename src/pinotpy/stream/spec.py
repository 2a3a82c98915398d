"""The stream interface: partitions of records that are read by offset.

Offsets ascend but need not be contiguous: continue with the batch's `next_offset`, never with last + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pinotpy.errors import DataError


class OffsetOutOfRangeError(DataError):
    """The offset has expired or was never written; the caller decides what to do, and reports it."""

    def __init__(self, offset: int, earliest: int, end: int) -> None:
        super().__init__(
            f"offset {offset} is not in the stream: expected {earliest} to {end}",
            offset=offset,
            earliest=earliest,
            end=end,
        )
        self.offset, self.earliest, self.end = offset, earliest, end


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """One record: payload None is a tombstone; `timestamp_ms` is when it was written."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """Records from the asked offset on, and the offset to ask for next (equal to the asked one if nothing new came)."""

    records: tuple[StreamRecord, ...]
    next_offset: int


class StreamConsumer(Protocol):
    """Reads one topic. Every call returns within its deadline; a fetch may return fewer records, or none."""

    def num_partitions(self) -> int: ...

    def earliest_offset(self, partition: int) -> int: ...

    def end_offset(self, partition: int) -> int:
        """The offset that the next record written will have."""
        ...

    def offset_at_time(self, partition: int, timestamp_ms: int) -> int:
        """First offset whose record is not older than `timestamp_ms`; the end offset if there is none."""
        ...

    def fetch(self, partition: int, offset: int, *, records_max: int, timeout_s: float) -> StreamBatch:
        """Raises OffsetOutOfRangeError when `offset` is before the earliest or behind the end."""
        ...

    def close(self) -> None: ...


class StreamProducer(Protocol):
    """Appends to one topic; returns when the records are durable."""

    def append(self, partition: int, records: Sequence[tuple[bytes | None, bytes | None]]) -> int:
        """Append (key, payload) pairs in order; return the offset after the last one."""
        ...

    def close(self) -> None: ...
