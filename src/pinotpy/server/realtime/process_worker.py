"""The ingest worker in processes of its own: they read, decode, append and build; rows lie in memory that both share.

A process that ends is begun again, and goes on behind the rows that were published: their memory is this process's,
too, and is handed over anew.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import pickle
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pinotpy
from pinotpy.clock import Clock
from pinotpy.cluster.completion_messages import Offset
from pinotpy.errors import DataError, RemoteError
from pinotpy.ingest.decoders.ledger import StreamLedger, summed
from pinotpy.ingest.decoders.registry import make_decoder
from pinotpy.segment.consuming.log_pieces import LogPieces, PieceView
from pinotpy.segment.consuming.log_ranges import LogRanges, LogView, SegmentRange, Watermark
from pinotpy.server.realtime.ingest_worker import BuiltSegment, PartitionSpec, PartitionStatus
from pinotpy.server.realtime.worker_channel import Channel
from pinotpy.server.realtime.worker_process import ChunkPlace, mapped_chunk
from pinotpy.stream.registry import consumer_factory
from pinotpy.stream.settings import StreamSettings

log = logging.getLogger(__name__)

_BACKOFF_S_FIRST: Final = 0.1
_BACKOFF_S_MAX: Final = 10.0
_HEALTHY_NS: Final = 60_000_000_000  # a process that lived so long is begun again at once
_STOP_S: Final = 5.0
BUILD_TIMEOUT_S: Final = 1_800.0
_BUILD_TRIES: Final = 3


class ProcessWorker:
    """Implements IngestWorker.

    Args:
        num_processes: among which partitions are spread; each starts with its first partition.
        builds_max: segments that are built at once in each; more wait.
    """

    def __init__(self, clock: Clock, *, num_processes: int = 1, builds_max: int = 2) -> None:
        assert num_processes > 0
        self._clock = clock
        self._processes = [_Process(number, clock, builds_max) for number in range(num_processes)]
        self._lock = threading.Lock()

    def open(self, spec: PartitionSpec, on_change: Callable[[], None]) -> ProcessPartition:
        partition = ProcessPartition(spec, self._clock, on_change)
        with self._lock:
            process = min(self._processes, key=lambda each: each.num_partitions)
            process.add(partition)
        return partition

    def close(self) -> None:
        for process in self._processes:
            process.close()

    def pids(self) -> list[int]:
        """Of the processes that run."""
        return [process.pid for process in self._processes if process.pid]


class ProcessPartition:
    """Implements IngestPartition: boundaries of segments and pieces are made here, rows in the process.

    Methods with `of_process` are called by the thread that listens to it.
    """

    _numbers = itertools.count(1)

    def __init__(self, spec: PartitionSpec, clock: Clock, on_change: Callable[[], None]) -> None:
        self.number = next(self._numbers)
        self.spec = spec
        self._clock = clock
        self._on_change = on_change
        # Made here as well, so that a fault is told at once.
        self._offsets = consumer_factory(StreamSettings.from_config(spec.stream), clock).offset_type
        make_decoder(spec.stream, spec.schema, spec.config)
        self._log = LogRanges(spec.segment_name, self.parse_offset(spec.start_offset))
        self._pieces = LogPieces(self._log, spec.table, clock=clock)
        self._status = PartitionStatus("", False, 0)
        self._ledger: dict[str, Any] = StreamLedger().to_json()
        self._ledger_before: dict[str, Any] = self._ledger  # of processes that ended
        self._lock = threading.Lock()  # of descriptors and places
        self._places: dict[int, tuple[ChunkPlace, int]] = {}  # by first row; with the descriptor of its memory
        self.paused = ""
        self.process: _Process | None = None

    def parse_offset(self, text: str) -> Offset:
        return self._offsets.parse(text)

    def offset_text(self, offset: Offset) -> str:
        return self._offsets.text(offset)

    def log_view(self) -> LogView:
        return self._log.view()

    def piece_view(self) -> PieceView:
        return self._pieces.view()

    def status(self) -> PartitionStatus:
        return self._status

    def ledger(self) -> dict[str, Any]:
        """Of a process that was killed, counts of its last LEDGER_EVERY_S may be missing."""
        return summed(self._ledger_before, self._ledger)

    def seal(self, end_offset: Offset, next_name: str) -> SegmentRange:
        return self._log.seal(end_offset, next_name)

    def rename(self, name: str, new_name: str) -> None:
        self._log.rename(name, new_name)

    def release(self, name: str) -> None:
        self._log.release(name)
        row = self._log.segments[0].first_row
        self._drop_places()
        self._call("release", self.number, row)

    def pause(self, reason: str) -> None:
        if reason != self.paused:
            self.paused = reason
            self._call("pause", self.number, reason)

    def build(self, name: str, folder: Path, creation_time_ms: int) -> BuiltSegment:
        rows = self._log.ended_range(name)
        for attempt in range(_BUILD_TRIES):
            assert self.process is not None
            if attempt:  # what a process that ended left behind is in the way
                folder = folder.with_name(f"{folder.name}-{attempt}")
            built = self.process.build(self.number, name, rows, folder, creation_time_ms)
            if built is not None:
                return built
        raise RemoteError(f"segment '{name}': the ingest worker ended {_BUILD_TRIES} times while it was built")

    def close(self) -> None:
        if self.process is not None:
            self.process.remove(self)
        self._drop_places(all_of_them=True)

    # --- What the process says

    def of_process_chunk(self, first_row: int, rooms: dict[str, list[int]], descriptor: int) -> None:
        """Rows go to another chunk from now on."""
        self._close_last_chunk(first_row)
        place = ChunkPlace(first_row, 0, {name: (values, size) for name, (values, size) in rooms.items()})
        kept = os.dup(descriptor)
        chunk = mapped_chunk(self.spec, self._offsets.dtype, place, descriptor)
        self._log.add_chunk(chunk)
        with self._lock:
            before = self._places.pop(first_row, None)
            self._places[first_row] = (place, kept)
        if before is not None:
            os.close(before[1])
        self._pieces.freeze()

    def of_process_state(self, message: dict[str, Any]) -> None:
        """Rows were published, or reading failed, or nothing came."""
        num_rows = message["rows"]
        view = self._log.view()
        if num_rows > view.watermark.num_rows:
            last = view.chunks[-1]
            last.num_rows = num_rows - last.first_row
        if num_rows >= view.watermark.num_rows:
            next_offset = self.parse_offset(message["next_offset"])
            self._log.publish(Watermark(num_rows, next_offset, message["last_time_ms"]))
        self._ledger = message.get("ledger", self._ledger)
        self._status = PartitionStatus(
            message["failure"], message["is_final"], message["last_fetch_ms"], message["layer"]
        )
        self._on_change()

    def of_process_failed(self, reason: str) -> None:
        """Nothing is read until the process is begun again."""
        self._ledger_before, self._ledger = self.ledger(), {}
        self._status = PartitionStatus(reason, False, self._status.last_fetch_ms)
        self._on_change()

    def opening(self) -> tuple[list[tuple[ChunkPlace, int]], tuple[int, str, int]]:
        """What a process needs to go on behind the published rows: chunks with their memory, and the watermark."""
        view = self._log.view()
        self._close_last_chunk(view.watermark.num_rows)
        chunks = tuple(chunk for chunk in self._log.view().chunks if chunk.num_rows)
        self._log.resume(chunks, view.watermark)
        self._drop_places()
        with self._lock:
            places = [
                (ChunkPlace(chunk.first_row, chunk.num_rows, self._places[chunk.first_row][0].rooms),
                 self._places[chunk.first_row][1])
                for chunk in chunks
            ]  # fmt: skip
        watermark = view.watermark
        return places, (watermark.num_rows, self.offset_text(watermark.next_offset), watermark.last_time_ms)

    def _close_last_chunk(self, end_row: int) -> None:
        chunks = self._log.view().chunks
        if chunks and not chunks[-1].is_closed:
            chunks[-1].num_rows = max(end_row - chunks[-1].first_row, 0)
            chunks[-1].close()

    def _drop_places(self, *, all_of_them: bool = False) -> None:
        present = set() if all_of_them else {chunk.first_row for chunk in self._log.view().chunks}
        with self._lock:
            gone = [self._places.pop(row)[1] for row in list(self._places) if row not in present]
        for descriptor in gone:
            os.close(descriptor)

    def _call(self, *call: Any) -> None:
        if self.process is not None:
            self.process.call(*call)


class _Process:
    """One process and the thread that listens to it, and begins it again."""

    def __init__(self, number: int, clock: Clock, builds_max: int) -> None:
        self._name = f"ingest-worker-{number}"
        self._clock = clock
        self._builds_max = builds_max
        self._lock = threading.RLock()  # a partition is opened once: when it is added, or when the process begins
        self._channel: Channel | None = None
        self._partitions: dict[int, ProcessPartition] = {}
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._builds: dict[int, _Build] = {}
        self._numbers = itertools.count(1)
        self._began = threading.Event()
        self.pid = 0

    @property
    def num_partitions(self) -> int:
        return len(self._partitions)

    def add(self, partition: ProcessPartition) -> None:
        with self._lock:
            partition.process = self
            self._partitions[partition.number] = partition
            if self._channel is not None:
                self._open(partition)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def remove(self, partition: ProcessPartition) -> None:
        with self._lock:
            if self._partitions.pop(partition.number, None) is not None:
                self.call("close", partition.number)

    def close(self) -> None:
        self._stopping.set()
        self._began.set()
        with self._lock:
            if self._channel is not None:
                self._channel.shut()
        if self._thread is not None:
            self._thread.join(2 * _STOP_S)

    def call(self, *call: Any) -> None:
        """Nothing if the process does not run: what it has to know it gets when it begins."""
        with self._lock:
            if self._channel is not None:
                with suppress(OSError):
                    self._channel.send(pickle.dumps(call))

    def build(
        self, partition: int, name: str, rows: tuple[int, int], folder: Path, creation_time_ms: int
    ) -> BuiltSegment | None:
        """None if the process ended meanwhile. Raises RemoteError with the reason why it could not be built."""
        if not self._began.wait(BUILD_TIMEOUT_S):
            raise RemoteError(f"segment '{name}': the ingest worker does not run")
        build = _Build()
        with self._lock:
            number = next(self._numbers)
            self._builds[number] = build
            self.call("build", partition, number, name, rows, folder, creation_time_ms)
            if self._channel is None:
                build.done.set()
        try:
            if not build.done.wait(BUILD_TIMEOUT_S):
                raise RemoteError(f"segment '{name}' was not built in {BUILD_TIMEOUT_S:.0f} s")
        finally:
            self._builds.pop(number, None)
        if build.reason:
            raise RemoteError(build.reason)
        return build.built

    # --- The thread

    def _run(self) -> None:
        backoff_s = _BACKOFF_S_FIRST
        while not self._stopping.is_set():
            began_ns = self._clock.monotonic_ns()
            try:
                process = self._begin()
            except OSError as error:
                reason = f"the ingest worker cannot be started: {error}"
            else:
                self._listen()
                reason = self._ended(process)
            if self._stopping.is_set():
                return
            log.error("ingest worker ended worker=%s reason=%s", self._name, reason)
            for partition in list(self._partitions.values()):
                partition.of_process_failed(reason)
            if self._clock.monotonic_ns() - began_ns > _HEALTHY_NS:
                backoff_s = _BACKOFF_S_FIRST
            self._clock.wait(self._stopping, backoff_s * random.uniform(0.5, 1.0))
            backoff_s = min(2 * backoff_s, _BACKOFF_S_MAX)

    def _begin(self) -> subprocess.Popen[bytes]:
        ours, theirs = socket.socketpair()
        # The worker imports this very package, however this process found it.
        path = os.pathsep.join(filter(None, [str(Path(pinotpy.__file__).parent.parent), os.environ.get("PYTHONPATH")]))
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "pinotpy.server.realtime.worker_process", str(theirs.fileno()),
                 str(self._builds_max)],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        with self._lock:
            self._channel = Channel(ours)
            self.pid = process.pid
            for partition in self._partitions.values():
                self._open(partition)
            if self._stopping.is_set():
                self._channel.shut()
        self._began.set()
        log.info("ingest worker started worker=%s pid=%d", self._name, process.pid)
        return process

    def _open(self, partition: ProcessPartition) -> None:
        assert self._channel is not None
        places, watermark = partition.opening()
        with suppress(OSError):
            for place, descriptor in places:
                self._channel.send(pickle.dumps(("chunk", place)), descriptor)
            self._channel.send(pickle.dumps(("open", partition.number, partition.spec, watermark, partition.paused)))

    def _listen(self) -> None:
        channel = self._channel
        assert channel is not None
        while True:
            try:
                received = channel.receive()
            except (OSError, DataError):
                received = None
            if received is None:
                return
            content, descriptor = received
            try:
                self._take(json.loads(content), descriptor)
            except Exception:
                log.exception("a message of the ingest worker cannot be taken, it is begun again worker=%s", self._name)
                return

    def _take(self, message: dict[str, Any], descriptor: int | None) -> None:
        partition = self._partitions.get(message.get("partition", 0))
        match message["kind"]:
            case "chunk" if descriptor is not None:
                if partition is None:
                    os.close(descriptor)
                else:
                    partition.of_process_chunk(message["first_row"], message["rooms"], descriptor)
            case "state" if partition is not None:
                partition.of_process_state(message)
            case "refused" if partition is not None:
                partition.of_process_failed(message["failure"])
            case "built" | "failed" as kind:
                build = self._builds.get(message["call"])
                if build is not None:
                    build.end(message, is_built=kind == "built")
            case "log":
                logging.getLogger(message["name"]).log(message["level"], "%s", message["message"])

    def _ended(self, process: subprocess.Popen[bytes]) -> str:
        """Make sure that it is gone; returns how it ended."""
        self._began.clear()
        with self._lock:
            channel, self._channel, self.pid = self._channel, None, 0
            assert channel is not None
            channel.shut()
            builds, self._builds = self._builds, {}
        for build in builds.values():
            build.done.set()
        try:
            code = process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        channel.close()
        return f"the ingest worker ended with status {code}, and is begun again"


class _Build:
    """A build that a process was asked for; done without anything if the process ended."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.built: BuiltSegment | None = None
        self.reason = ""

    def end(self, message: dict[str, Any], *, is_built: bool) -> None:
        if is_built:
            self.built = BuiltSegment(
                Path(message["directory"]), message["crc"], message["num_rows"], message["size_bytes"],
                message["build_time_ms"], message["wait_time_ms"],
            )  # fmt: skip
        else:
            self.reason = message["reason"]
        self.done.set()
