"""The plug-in: what pinotpy makes of a table's streamConfigs whose `streamType` is `sqlite`.

A table names the folder of its topics with `stream.sqlite.directory`; the topic `orders` is the file `orders.db` in it.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.clock import Clock
from pinotpy.errors import UserError
from pinotpy.stream.settings import StreamSettings
from pinotpy.stream.spec import LONG_OFFSETS, Offset, OffsetOutOfRangeError, OffsetType, StreamBatch
from sqlite_stream.topic import earliest_offset, end_offset, reading

DIRECTORY: Final = "stream.sqlite.directory"
POLL_S: Final = 0.01
_TOPIC: Final = re.compile(r"[A-Za-z0-9_\-]{1,200}")


class SqliteConsumerFactory:
    """The stream of one table; implements StreamConsumerFactory. Opens nothing.

    Raises UserError for settings that cannot be: tables with them are refused.

    addresses: what this plug-in will open; operators may list what tables may name.
    """

    offset_type: OffsetType = LONG_OFFSETS

    def __init__(self, settings: StreamSettings, clock: Clock) -> None:
        folder = settings.properties.get(DIRECTORY, "").strip()
        if not Path(folder).is_absolute():
            raise UserError(
                f"'{DIRECTORY}' is '{folder[:100]}': expected the absolute path of the folder of the topics"
            )
        # It becomes the name of a file: a table must not name others.
        if not _TOPIC.fullmatch(settings.topic):
            raise UserError(f"'{settings.topic[:100]}' is no topic: expected letters, digits, '_' and '-', at most 200")
        self._path = Path(folder) / f"{settings.topic}.db"
        self._clock = clock
        self.addresses = (Path(folder).as_uri(),)

    def metadata_provider(self) -> SqliteMetadata:
        return SqliteMetadata(self._path)

    def consumer(self, partition: int) -> SqliteConsumer:
        return SqliteConsumer(self._path, partition, self._clock)


class SqliteMetadata:
    """What a topic tells of itself; implements StreamMetadataProvider."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def num_partitions(self, *, timeout_s: float) -> int:
        with reading(self._path, timeout_s) as topic:
            return int(topic.execute("SELECT COUNT(*) FROM partitions").fetchone()[0])

    def earliest_offset(self, partition: int, *, timeout_s: float) -> Offset:
        with reading(self._path, timeout_s) as topic:
            return earliest_offset(topic, partition)

    def end_offset(self, partition: int, *, timeout_s: float) -> Offset:
        with reading(self._path, timeout_s) as topic:
            return end_offset(topic, partition)

    def offset_at_time(self, partition: int, timestamp_ms: int, *, timeout_s: float) -> Offset:
        with reading(self._path, timeout_s) as topic:
            end = end_offset(topic, partition)
            (first,) = topic.execute(
                "SELECT MIN(offset) FROM records WHERE partition = ? AND time_ms >= ?", (partition, timestamp_ms)
            ).fetchone()
            return end if first is None else int(first)

    def close(self) -> None:
        """Nothing is open between calls."""


class SqliteConsumer:
    """Reads one partition; implements PartitionConsumer."""

    def __init__(self, path: Path, partition: int, clock: Clock) -> None:
        self._path, self._partition, self._clock = path, partition, clock

    def fetch(self, offset: Offset, *, records_max: int, timeout_s: float) -> StreamBatch:
        assert isinstance(offset, int)
        deadline_ns, never = self._clock.monotonic_ns() + int(timeout_s * 1e9), threading.Event()
        while True:
            batch = self._read(offset, records_max, timeout_s)
            # Where only deleted records were, there is nothing new but a later place to go on.
            if len(batch) or batch.next_offset != offset or self._clock.monotonic_ns() >= deadline_ns:
                return batch
            self._clock.wait(never, POLL_S)

    def _read(self, offset: int, records_max: int, timeout_s: float) -> StreamBatch:
        with reading(self._path, timeout_s) as topic:
            earliest, end = earliest_offset(topic, self._partition), end_offset(topic, self._partition)
            if not earliest <= offset <= end:
                raise OffsetOutOfRangeError(offset, earliest, end)
            rows = topic.execute(
                "SELECT offset, time_ms, key, payload FROM records WHERE partition = ? AND offset >= ? "
                "ORDER BY offset LIMIT ?",
                (self._partition, offset, records_max),
            ).fetchall()
        if not rows:
            return StreamBatch.empty(end)
        offsets, times_ms, keys, payloads = zip(*rows, strict=True)
        return StreamBatch(
            pa.array(payloads, pa.binary()),
            pa.array(keys, pa.binary()),
            np.array(offsets, np.int64),
            np.array(times_ms, np.int64),
            # Fewer than asked for: these were all, whatever gap is behind the last one.
            offsets[-1] + 1 if len(rows) == records_max else end,
        )

    def close(self) -> None:
        """Nothing is open between fetches."""
