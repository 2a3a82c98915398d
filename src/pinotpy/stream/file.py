"""A durable stream in files: the embedded default where no Kafka runs.

A topic is a directory with two files per partition:

    partition-<n>.log   records, back to back: u32 key length + 1 (0 = no key), u32 payload length + 1 (0 = tombstone),
                        u32 CRC32 of key and payload, key, payload
    partition-<n>.idx   16 bytes per record: i64 start of the record in the log, i64 time of writing in ms
                        (never falling)

Offset = number of the record. A record exists once its index entry is whole, and that is written after the log is
synced: a reader never sees half a record, and a producer that opens a topic cuts off what a crash left behind. One
producer at a time per topic (a lock file says so), any number of readers.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pinotpy.clock import Clock
from pinotpy.errors import AlreadyExistsError, DataError, NotFoundError, UserError
from pinotpy.stream.spec import OffsetOutOfRangeError, StreamBatch, StreamRecord

_HEADER: Final = struct.Struct("<III")
_ENTRY: Final = struct.Struct("<qq")
RECORD_BYTES_MAX: Final = 16 << 20
POLL_S: Final = 0.005


def create_topic(directory: Path, num_partitions: int) -> None:
    """Make an empty topic; raises AlreadyExistsError."""
    if num_partitions < 1:
        raise UserError(f"a topic has at least one partition, found {num_partitions}")
    if (directory / "partition-0.idx").exists():
        raise AlreadyExistsError(f"the stream directory '{directory.name}' has a topic already")
    directory.mkdir(parents=True, exist_ok=True)
    for partition in reversed(range(num_partitions)):
        (directory / f"partition-{partition}.log").touch()
        (directory / f"partition-{partition}.idx").touch()


class FileStreamProducer:
    """Appends to a topic; the lock guards the files of one append."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._lock_file = (directory / "producer.lock").open("w")
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock_file.close()
            raise AlreadyExistsError(f"another producer writes the stream '{directory.name}'; stop it first") from error
        self._logs: list[int] = []
        self._indexes: list[int] = []
        self._times: list[int] = []
        for partition in range(_count_partitions(directory)):
            self._open(directory, partition)

    def append(self, partition: int, records: Sequence[tuple[bytes | None, bytes | None]]) -> int:
        if not 0 <= partition < len(self._logs):
            raise NotFoundError(f"the topic has partitions 0 to {len(self._logs) - 1}, found {partition}")
        with self._lock:
            log, index = self._logs[partition], self._indexes[partition]
            position = os.fstat(log).st_size
            now_ms = max(self._times[partition], self._clock.now_ms())
            body, entries = bytearray(), bytearray()
            for key, payload in records:
                if len(key or b"") + len(payload or b"") > RECORD_BYTES_MAX:
                    raise UserError(
                        f"a record has at most {RECORD_BYTES_MAX} bytes, found {len(key or b'') + len(payload or b'')}"
                    )
                entries += _ENTRY.pack(position + len(body), now_ms)
                body += _record(key, payload)
            _write_all(log, body)
            os.fdatasync(log)
            _write_all(index, entries)
            os.fdatasync(index)
            self._times[partition] = now_ms
            return os.fstat(index).st_size // _ENTRY.size

    def close(self) -> None:
        for descriptor in self._logs + self._indexes:
            os.close(descriptor)
        self._logs, self._indexes = [], []
        self._lock_file.close()

    def _open(self, directory: Path, partition: int) -> None:
        flags = os.O_RDWR | os.O_APPEND
        log = os.open(directory / f"partition-{partition}.log", flags)
        index = os.open(directory / f"partition-{partition}.idx", flags)
        count = os.fstat(index).st_size // _ENTRY.size
        end, time_ms = 0, 0
        if count:
            start, time_ms = _ENTRY.unpack(os.pread(index, _ENTRY.size, (count - 1) * _ENTRY.size))
            key_length, payload_length, _ = _HEADER.unpack(os.pread(log, _HEADER.size, start))
            end = start + _HEADER.size + max(key_length - 1, 0) + max(payload_length - 1, 0)
        os.ftruncate(index, count * _ENTRY.size)
        os.ftruncate(log, end)
        self._logs.append(log)
        self._indexes.append(index)
        self._times.append(time_ms)


class FileStreamConsumer:
    """Reads a topic that a producer, perhaps in another process, appends to."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        if not _count_partitions(directory):
            raise NotFoundError(f"no topic in the stream directory '{directory.name}': expected partition-0.idx")

    def num_partitions(self) -> int:
        return _count_partitions(self._directory)

    def earliest_offset(self, partition: int) -> int:
        self._size(partition)
        return 0

    def end_offset(self, partition: int) -> int:
        return self._size(partition)

    def offset_at_time(self, partition: int, timestamp_ms: int) -> int:
        low, high = 0, self._size(partition)
        with self._index(partition).open("rb") as index:
            while low < high:
                middle = (low + high) // 2
                _, time_ms = _ENTRY.unpack(os.pread(index.fileno(), _ENTRY.size, middle * _ENTRY.size))
                low, high = (middle + 1, high) if time_ms < timestamp_ms else (low, middle)
        return low

    def fetch(self, partition: int, offset: int, *, records_max: int, timeout_s: float) -> StreamBatch:
        deadline_ns = self._clock.monotonic_ns() + int(timeout_s * 1e9)
        never = threading.Event()
        while True:
            end = self._size(partition)
            if not 0 <= offset <= end:
                raise OffsetOutOfRangeError(offset, 0, end)
            if offset < end:
                return self._read(partition, offset, min(end, offset + records_max))
            if self._clock.monotonic_ns() >= deadline_ns:
                return StreamBatch((), offset)
            self._clock.wait(never, POLL_S)

    def close(self) -> None:
        """Files are opened per call: nothing to let go of."""

    def _read(self, partition: int, start: int, stop: int) -> StreamBatch:
        with self._index(partition).open("rb") as index:
            entries = os.pread(index.fileno(), (stop - start) * _ENTRY.size, start * _ENTRY.size)
        log_path = self._directory / f"partition-{partition}.log"
        records = []
        with log_path.open("rb", buffering=1 << 20) as log:
            log.seek(_ENTRY.unpack_from(entries, 0)[0])
            for number in range(stop - start):
                _, time_ms = _ENTRY.unpack_from(entries, number * _ENTRY.size)
                key_length, payload_length, expected = _HEADER.unpack(log.read(_HEADER.size))
                key = log.read(key_length - 1) if key_length else None
                payload = log.read(payload_length - 1) if payload_length else None
                found = zlib.crc32(payload or b"", zlib.crc32(key or b""))
                if found != expected:
                    raise DataError(
                        f"record {start + number} of '{log_path.name}' is damaged: expected CRC {expected:08x}, found "
                        f"{found:08x}"
                    )
                records.append(StreamRecord(start + number, time_ms, key, payload))
        return StreamBatch(tuple(records), stop)

    def _index(self, partition: int) -> Path:
        return self._directory / f"partition-{partition}.idx"

    def _size(self, partition: int) -> int:
        try:
            return self._index(partition).stat().st_size // _ENTRY.size
        except FileNotFoundError as error:
            raise NotFoundError(f"the topic '{self._directory.name}' has no partition {partition}") from error


def _count_partitions(directory: Path) -> int:
    count = 0
    while (directory / f"partition-{count}.idx").exists():
        count += 1
    return count


def _record(key: bytes | None, payload: bytes | None) -> bytes:
    crc = zlib.crc32(payload or b"", zlib.crc32(key or b""))
    lengths = (0 if key is None else len(key) + 1, 0 if payload is None else len(payload) + 1)
    return _HEADER.pack(*lengths, crc) + (key or b"") + (payload or b"")


def _write_all(descriptor: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
