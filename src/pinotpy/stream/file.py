"""A durable stream in files: the embedded default where no Kafka runs.

A topic is a directory with two files per partition:

    partition-<n>.log   records, back to back: u32 CRC32 of all that follows, u32 key length + 1 (0 = no key), u32
                        payload length + 1 (0 = tombstone), i64 time of writing in ms (never falling), key, payload
    partition-<n>.idx   16 bytes per record: i64 start of the record in the log, i64 its time again, to search

Offset = number of the record. A record exists once its index entry is whole, and that is written after the log is
synced: a reader never sees half a record, and a producer that opens a topic cuts off what a crash left behind. One
producer at a time per topic (a lock file says so), any number of readers.

A table names it by `streamType` `file`; `stream.file.directory` is the folder of the topics.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.clock import Clock
from pinotpy.errors import AlreadyExistsError, DataError, Fault, InvalidConfigError, NotFoundError, UserError
from pinotpy.stream.settings import StreamSettings
from pinotpy.stream.spec import LONG_OFFSETS, Offset, OffsetOutOfRangeError, OffsetType, StreamBatch

_HEADER: Final = struct.Struct("<IIIq")
_HEADERS: Final = np.dtype([("crc", "<u4"), ("key", "<u4"), ("payload", "<u4"), ("time", "<i8")])
_CRC_BYTES: Final = 4
_ENTRY: Final = struct.Struct("<qq")
_TOPIC: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}")
RECORD_BYTES_MAX: Final = 16 << 20
BATCH_BYTES_MAX: Final = 32 << 20  # of the log, read at once; a longer record comes alone
POLL_S: Final = 0.005
DIRECTORY: Final = "stream.file.directory"


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
                body += _record(key, payload, now_ms)
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
            end = start + _record_bytes(os.pread(log, _HEADER.size, start))
        os.ftruncate(index, count * _ENTRY.size)
        os.ftruncate(log, end)
        self._logs.append(log)
        self._indexes.append(index)
        self._times.append(time_ms)


class FileStreamConsumerFactory:
    """The topic `settings.topic` in the folder that `stream.file.directory` names; implements StreamConsumerFactory.

    Raises UserError for settings without that folder, or a topic that cannot be a folder's name.

    addresses, place: the folder, see StreamConsumerFactory.
    """

    offset_type: OffsetType = LONG_OFFSETS

    def __init__(self, settings: StreamSettings, clock: Clock) -> None:
        folder = settings.properties.get(DIRECTORY, "")
        if not folder:
            raise UserError(f"a stream of type 'file' needs the key '{DIRECTORY}': the folder that has its topics")
        if not _TOPIC.fullmatch(settings.topic) or ".." in settings.topic:
            raise UserError(
                f"'{settings.topic[:80]}' cannot be a topic of a file stream: letters, digits, '_', '-' and '.' are "
                "allowed, at most 200, no '..'"
            )
        unknown = sorted(settings.consumer_properties().keys() - {DIRECTORY.removeprefix("stream.file.")})
        if unknown:
            raise InvalidConfigError(
                "the settings of a file stream are not valid:",
                tuple(
                    Fault(f"$.streamConfigs['{key}']", "an unknown key", f"{DIRECTORY} and keys that all streams have")
                    for key in sorted(settings.properties)
                    if key.removeprefix("stream.file.").removeprefix("consumer.prop.") in unknown
                ),
            )
        if not Path(folder).is_absolute():
            raise UserError(
                f"'{DIRECTORY}' is '{folder[:200]}': expected an absolute path, since all servers read there"
            )
        self.addresses = (Path(folder).absolute().as_uri(),)
        self.place = {DIRECTORY: os.path.normpath(folder)}
        self._directory = Path(folder) / settings.topic
        self._clock = clock

    def metadata_provider(self) -> _FileMetadata:
        return _FileMetadata(self._directory)

    def consumer(self, partition: int) -> _FileConsumer:
        return _FileConsumer(self._directory, partition, self._clock)


class _FileMetadata:
    """Implements StreamMetadataProvider; files are opened for each call, and no call waits."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def num_partitions(self, *, timeout_s: float) -> int:
        count = _count_partitions(self._directory)
        if not count:
            parent, topic = self._directory.parent, self._directory.name
            if not parent.is_dir():
                raise NotFoundError(f"there is no stream directory '{parent}', where topic '{topic}' should be")
            raise NotFoundError(
                f"no topic '{topic}' in the stream directory '{parent}': expected {topic}/partition-0.idx"
            )
        return count

    def earliest_offset(self, partition: int, *, timeout_s: float) -> Offset:
        _count_records(self._directory, partition)
        return 0

    def end_offset(self, partition: int, *, timeout_s: float) -> Offset:
        return _count_records(self._directory, partition)

    def offset_at_time(self, partition: int, timestamp_ms: int, *, timeout_s: float) -> Offset:
        low, high = 0, _count_records(self._directory, partition)
        with _index(self._directory, partition).open("rb") as index:
            while low < high:
                middle = (low + high) // 2
                _, time_ms = _ENTRY.unpack(os.pread(index.fileno(), _ENTRY.size, middle * _ENTRY.size))
                low, high = (middle + 1, high) if time_ms < timestamp_ms else (low, middle)
        return low

    def close(self) -> None:
        """Nothing is open."""


class _FileConsumer:
    """Reads a partition that a producer, perhaps in another process, appends to; implements PartitionConsumer."""

    def __init__(self, directory: Path, partition: int, clock: Clock) -> None:
        self._directory, self._partition, self._clock = directory, partition, clock

    def fetch(self, offset: Offset, *, records_max: int, timeout_s: float) -> StreamBatch:
        assert isinstance(offset, int)
        deadline_ns = self._clock.monotonic_ns() + int(timeout_s * 1e9)
        never = threading.Event()
        while True:
            end = _count_records(self._directory, self._partition)
            if not 0 <= offset <= end:
                raise OffsetOutOfRangeError(offset, 0, end)
            if offset < end:
                return self._read(offset, min(end, offset + records_max))
            if self._clock.monotonic_ns() >= deadline_ns:
                return StreamBatch.empty(offset)
            self._clock.wait(never, POLL_S)

    def close(self) -> None:
        """Files are opened for each fetch: nothing to let go of."""

    def _read(self, first: int, stop: int) -> StreamBatch:
        with _index(self._directory, self._partition).open("rb") as index:
            entries = np.frombuffer(
                os.pread(index.fileno(), (stop - first) * _ENTRY.size, first * _ENTRY.size), np.int64
            ).reshape(-1, 2)
        if not len(entries):
            raise OffsetOutOfRangeError(first, 0, _count_records(self._directory, self._partition))  # just cut off
        log_path = self._directory / f"partition-{self._partition}.log"
        starts = entries[:, 0] - entries[0, 0]
        # The last record that begins within the limit comes whole.
        entries = entries[: max(1, int(starts.searchsorted(BATCH_BYTES_MAX)))]
        with log_path.open("rb") as log:
            body = _records_of(log.fileno(), entries[:, 0], first, log_path.name)
        starts = entries[:, 0] - entries[0, 0]
        heads = np.frombuffer(body, np.uint8)[starts[:, None] + np.arange(_HEADER.size)].view(_HEADERS)[:, 0]
        has_key, has_payload = heads["key"] > 0, heads["payload"] > 0
        keys = starts + _HEADER.size
        payloads = keys + heads["key"].astype(np.int64) - has_key
        ends = payloads + heads["payload"].astype(np.int64) - has_payload
        _check(body, first, starts, ends, heads["crc"], log_path.name)
        # Head, key and payload of a record follow each other: all are values of one Arrow array over the log's bytes.
        cuts = np.append(np.column_stack([starts, keys, payloads]).ravel(), len(body)).astype(np.int32)
        parts = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), pa.py_buffer(body)])
        numbers = np.arange(len(entries)) * 3
        return StreamBatch(
            parts.take(pa.array(numbers + 2, mask=~has_payload)),
            parts.take(pa.array(numbers + 1, mask=~has_key)),
            np.arange(first, first + len(entries), dtype=np.int64),
            np.ascontiguousarray(heads["time"]),
            first + len(entries),
        )


def _check(body: bytes, first: int, starts: Int64Array, ends: Int64Array, crcs: NDArray[np.uint32], name: str) -> None:
    """Raise DataError for the first record whose lengths or bytes are not those that were written."""
    view, begins = memoryview(body), starts + _CRC_BYTES
    found = [zlib.crc32(view[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    fits = (ends == np.append(starts[1:], len(body))) & (np.array(found, np.uint32) == crcs)
    if not fits.all():
        row = int(fits.argmin())
        raise DataError(
            f"record {first + row} of '{name}' is damaged: expected {int(ends[row] - starts[row])} bytes with CRC "
            f"{int(crcs[row]):08x}, found CRC {found[row]:08x}",
            offset=first + row,
        )


def _records_of(log: int, starts: Int64Array, first: int, name: str) -> bytes:
    """The bytes of the log from the first of `starts` to the end of the record at the last one.

    Raises DataError where the log has not got them.
    """
    begin, last, size = int(starts[0]), int(starts[-1]), os.fstat(log).st_size
    end = last
    if begin >= 0 and bool((np.diff(starts) >= _HEADER.size).all()) and last + _HEADER.size <= size:
        end += _record_bytes(os.pread(log, _HEADER.size, last))
    if not last < end <= size:
        raise DataError(
            f"records {first} to {first + len(starts) - 1} of '{name}' are cut off or damaged: expected them to end at "
            f"byte {end}, found {size} bytes",
            offset=first,
        )
    return os.pread(log, end - begin, begin)


def _index(directory: Path, partition: int) -> Path:
    return directory / f"partition-{partition}.idx"


def _count_records(directory: Path, partition: int) -> int:
    try:
        return _index(directory, partition).stat().st_size // _ENTRY.size
    except FileNotFoundError as error:
        raise NotFoundError(f"the topic '{directory.name}' has no partition {partition}") from error


def _count_partitions(directory: Path) -> int:
    count = 0
    while (directory / f"partition-{count}.idx").exists():
        count += 1
    return count


def _record(key: bytes | None, payload: bytes | None, time_ms: int) -> bytes:
    lengths = (0 if key is None else len(key) + 1, 0 if payload is None else len(payload) + 1)
    checked = _HEADER.pack(0, *lengths, time_ms)[_CRC_BYTES:] + (key or b"") + (payload or b"")
    return zlib.crc32(checked).to_bytes(_CRC_BYTES, "little") + checked


def _record_bytes(head: bytes) -> int:
    _, key_length, payload_length, _ = _HEADER.unpack(head)
    return int(_HEADER.size + max(key_length - 1, 0) + max(payload_length - 1, 0))


def _write_all(descriptor: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
