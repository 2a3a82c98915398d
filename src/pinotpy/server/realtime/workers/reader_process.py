"""A worker process: reads the partitions that its server names, into memory that both share. Started by
`process_worker` through the fork server.

It ends when the channel does, in the middle of whatever it does: with its server, however that ends.
"""

from __future__ import annotations

import gc
import os
import pickle
import threading
from collections.abc import Callable
from typing import Any, Final

from pinotpy.clock import SystemClock
from pinotpy.errors import PinotError
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.log_ranges import Watermark
from pinotpy.segment.consuming.memory import SharedMemory
from pinotpy.segment.consuming.record_counts import BatchCounts
from pinotpy.server.realtime.ingest_worker import PartitionSpec
from pinotpy.server.realtime.partition_reader import LogParts, PartitionReader
from pinotpy.server.realtime.workers.channel import Channel, send_json
from pinotpy.server.realtime.workers.idle_reader import IdleReader

_OBJECTS_UNTIL_COLLECTION: Final = 100_000


def run(channel: Channel) -> None:
    """Do what the server calls for until it hangs up."""
    # A batch is many objects that live shortly and have no circles: to look through them takes a tenth of the time.
    gc.set_threshold(_OBJECTS_UNTIL_COLLECTION, 20, 100)
    _Worker(channel).run()


class _Partition:
    """An open partition: sends what the server has to know of it."""

    def __init__(
        self,
        number: int,
        spec: PartitionSpec,
        channel: Channel,
        watermark: tuple[int, str, int],
        idle: IdleReader,
    ) -> None:
        self._number, self._channel, self._idle = number, channel, idle
        self._descriptor = -1
        self._ledger_records = -1
        self._counts: list[BatchCounts] = []  # of batches that the server has not heard of
        clock = SystemClock()
        self.reader = PartitionReader(
            spec, clock, on_change=self._changed,
            parts=LogParts(SharedMemory(self._keep), self._announce, self._counts.append),
        )  # fmt: skip
        num_rows, next_offset, last_time_ms = watermark
        offsets = self.reader.offsets
        self.reader.log.publish(Watermark(num_rows, offsets.parse(next_offset), last_time_ms))
        self.reader.start()

    def close(self) -> None:
        self.reader.close()
        # This refers to its log and is referred to by it, which keeps both for long.
        self.reader.log.forget()
        self._idle.closed(self._number)

    def _keep(self, descriptor: int) -> None:
        self._descriptor = os.dup(descriptor)

    def _announce(self, chunk: Chunk) -> None:
        rooms = {column.spec.name: (column.room.values, column.room.text_bytes) for column in chunk.layout.columns}
        try:
            send_json(self._channel, self._descriptor, kind="chunk", partition=self._number, first_row=chunk.first_row,
                  rooms=rooms)  # fmt: skip
        finally:
            os.close(self._descriptor)

    def _changed(self) -> None:
        reader = self.reader
        watermark, status, ledger = reader.log.watermark, reader.status(), reader.ledger
        # The server has the memory of full chunks too, and keeps what it needs of them.
        reader.log.give_up_before(watermark.num_rows)
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
            "is_behind": status.is_behind,
            "kept": status.kept,
            "stray": status.stray,
        }
        if ledger.records != self._ledger_records:
            # With the rows that it counts: if this process is killed now, another goes on from both.
            self._ledger_records = ledger.records
            message["ledger"] = ledger.to_json()
        if len(self._counts) == 1:
            message["counts"] = self._counts[0].to_json()
        self._counts.clear()
        send_json(self._channel, **message)
        self._idle.looked(self._number, watermark.num_rows)


class _Worker:
    """Does what the server calls for. The methods that are called from there have no underscore."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._partitions: dict[int, _Partition] = {}
        self._idle = IdleReader(SystemClock())
        self._calls: Final[dict[str, Callable[..., None]]] = {
            "open": self.open, "pause": self.pause, "close": self.close,
        }  # fmt: skip

    def run(self) -> None:
        while (received := self._channel.receive()) is not None:
            name, *arguments = pickle.loads(received[0])  # noqa: S301 (of the process that started this one)
            self._calls[name](*arguments)

    def open(self, number: int, spec: PartitionSpec, watermark: tuple[int, str, int], paused: str) -> None:
        try:
            partition = _Partition(number, spec, self._channel, watermark, self._idle)
        except Exception as error:
            reason = error.message if isinstance(error, PinotError) else f"{type(error).__name__}: {error}"
            send_json(self._channel, kind="refused", partition=number, failure=reason)
            return
        partition.reader.pause(paused)
        self._partitions[number] = partition

    def pause(self, number: int, reason: str) -> None:
        if number in self._partitions:
            self._partitions[number].reader.pause(reason)

    def close(self, number: int) -> None:
        partition = self._partitions.pop(number, None)
        if partition is not None:
            threading.Thread(target=partition.close, name=f"close-{number}", daemon=True).start()
