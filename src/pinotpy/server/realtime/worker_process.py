"""A worker process: reads the partitions that its server names, into memory that both share. Started by
`process_worker`.

It ends when the channel does, in the middle of whatever it does: with its server, however that ends.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pinotpy.clock import SystemClock
from pinotpy.errors import PinotError
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.chunk_layout import ColumnRoom, chunk_layout
from pinotpy.segment.consuming.log_ranges import Watermark
from pinotpy.segment.consuming.memory import GivenMemory, SharedMemory, map_block
from pinotpy.server.realtime.ingest_worker import PartitionSpec
from pinotpy.server.realtime.partition_reader import LogParts, PartitionReader
from pinotpy.server.realtime.worker_channel import Channel

LEDGER_EVERY_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """A chunk that is there already: its rows, and the rooms that its layout was made with (values, bytes of texts)."""

    first_row: int
    num_rows: int
    rooms: Mapping[str, tuple[int, int]]


def main(arguments: list[str]) -> int:
    """`worker_process <descriptor of the socket> <builds at once>`."""
    descriptor, builds_max = map(int, arguments)
    # Ctrl-C reaches the whole group of processes; the server decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=descriptor))
    handler = _LogHandler(channel)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    _Worker(channel, builds_max).run()
    # Threads of librdkafka and builds are not waited for.
    os._exit(0)


def mapped_chunk(spec: PartitionSpec, offset_dtype: Any, place: ChunkPlace, descriptor: int) -> Chunk:
    """The chunk whose block is behind a descriptor, which is closed. Raises DataError if it has another size."""
    try:
        rooms = {name: ColumnRoom(*room) for name, room in place.rooms.items()}
        layout = chunk_layout(spec.schema, resolve_indexing(spec.schema, spec.config), offset_dtype, rooms=rooms)
        block = map_block(descriptor, os.fstat(descriptor).st_size)
        chunk = Chunk(layout, GivenMemory(block), place.first_row, f"{spec.table}-{spec.partition}")
        chunk.num_rows = place.num_rows
        return chunk
    finally:
        os.close(descriptor)


class _LogHandler(logging.Handler):
    """Log lines go to the server, which masks and writes them."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + logging.Formatter().formatException(record.exc_info)
        with suppress(OSError):
            _send(self._channel, kind="log", level=record.levelno, name=record.name, message=message)


def _send(channel: Channel, descriptor: int | None = None, **message: Any) -> None:
    channel.send(json.dumps(message).encode(), descriptor)


class _Partition:
    """An open partition: sends what the server has to know of it."""

    def __init__(
        self,
        number: int,
        spec: PartitionSpec,
        channel: Channel,
        builds: threading.BoundedSemaphore,
        chunks: list[tuple[ChunkPlace, int]],
        watermark: tuple[int, str, int],
    ) -> None:
        self._number, self._channel = number, channel
        self._descriptor = -1
        self._ledger_ns, self._ledger_records = 0, -1
        clock = SystemClock()
        # The type of offsets is known once there is a reader: mapped afterwards, before it starts.
        self.reader = PartitionReader(
            spec, clock, builds, on_change=self._changed,
            parts=LogParts(memory=SharedMemory(self._keep), on_chunk=self._announce),
        )  # fmt: skip
        num_rows, next_offset, last_time_ms = watermark
        offsets = self.reader.offsets
        mapped = [mapped_chunk(spec, offsets.dtype, place, descriptor) for place, descriptor in chunks]
        for chunk in mapped:
            chunk.close()
        self.reader.log.resume(tuple(mapped), Watermark(num_rows, offsets.parse(next_offset), last_time_ms))
        self.reader.start()

    def _keep(self, descriptor: int) -> None:
        self._descriptor = os.dup(descriptor)

    def _announce(self, chunk: Chunk) -> None:
        rooms = {column.spec.name: (column.room.values, column.room.text_bytes) for column in chunk.layout.columns}
        try:
            _send(self._channel, self._descriptor, kind="chunk", partition=self._number, first_row=chunk.first_row,
                  rooms=rooms)  # fmt: skip
        finally:
            os.close(self._descriptor)

    def _changed(self) -> None:
        reader = self.reader
        watermark, status, ledger = reader.log.watermark, reader.status(), reader.ledger
        message: dict[str, Any] = {
            "kind": "state",
            "partition": self._number,
            "rows": watermark.num_rows,
            "next_offset": reader.offsets.text(watermark.next_offset),
            "last_time_ms": watermark.last_time_ms,
            "last_fetch_ms": status.last_fetch_ms,
            "failure": status.failure,
            "layer": status.layer,
            "is_final": status.is_final,
        }
        now_ns = time.monotonic_ns()
        if ledger.records != self._ledger_records and now_ns - self._ledger_ns > LEDGER_EVERY_S * 1e9:
            self._ledger_records, self._ledger_ns = ledger.records, now_ns
            message["ledger"] = ledger.to_json()
        _send(self._channel, **message)


class _Worker:
    """Does what the server calls for. The methods that are called from there have no underscore."""

    def __init__(self, channel: Channel, builds_max: int) -> None:
        self._channel = channel
        self._builds = threading.BoundedSemaphore(max(builds_max, 1))
        self._partitions: dict[int, _Partition] = {}
        self._chunks: list[tuple[ChunkPlace, int]] = []  # of the partition that is opened next
        self._calls: Final[dict[str, Callable[..., None]]] = {
            "chunk": self.chunk, "open": self.open, "pause": self.pause, "release": self.release,
            "build": self.build, "close": self.close,
        }  # fmt: skip

    def run(self) -> None:
        while (received := self._channel.receive()) is not None:
            content, descriptor = received
            name, *arguments = pickle.loads(content)  # noqa: S301 (of the process that started this one)
            if descriptor is not None:
                arguments.append(descriptor)
            self._calls[name](*arguments)

    def chunk(self, place: ChunkPlace, descriptor: int) -> None:
        """Rows that are there already."""
        self._chunks.append((place, descriptor))

    def open(self, number: int, spec: PartitionSpec, watermark: tuple[int, str, int], paused: str) -> None:
        chunks, self._chunks = self._chunks, []
        try:
            partition = _Partition(number, spec, self._channel, self._builds, chunks, watermark)
        except Exception as error:
            reason = error.message if isinstance(error, PinotError) else f"{type(error).__name__}: {error}"
            _send(self._channel, kind="refused", partition=number, failure=reason)
            return
        partition.reader.pause(paused)
        self._partitions[number] = partition

    def pause(self, number: int, reason: str) -> None:
        if number in self._partitions:
            self._partitions[number].reader.pause(reason)

    def release(self, number: int, row: int) -> None:
        if number in self._partitions:
            self._partitions[number].reader.log.give_up_before(row)

    def build(self, number: int, call: int, name: str, rows: tuple[int, int], folder: Path, created_ms: int) -> None:
        partition = self._partitions.get(number)

        def run() -> None:
            try:
                if partition is None:
                    raise PinotError("the partition is not open")
                built = partition.reader.build(name, *rows, folder, created_ms)
                _send(self._channel, **{**asdict(built), "kind": "built", "call": call,
                                        "directory": str(built.directory)})  # fmt: skip
            except Exception as error:
                reason = error.message if isinstance(error, PinotError) else f"{type(error).__name__}: {error}"
                with suppress(OSError):
                    _send(self._channel, kind="failed", call=call, reason=reason)

        threading.Thread(target=run, name=f"build-{name}", daemon=True).start()

    def close(self, number: int) -> None:
        partition = self._partitions.pop(number, None)
        if partition is not None:
            threading.Thread(target=partition.reader.close, name=f"close-{number}", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
