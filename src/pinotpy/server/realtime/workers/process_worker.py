"""The ingest worker in processes of its own: they read, decode and append; rows lie in memory that both share.

A process that ends is begun again, and goes on behind the rows that were published, whose memory is this process's,
too. One that ends again within a minute reads from the start of its partitions' segments.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from pinotpy.clock import Clock
from pinotpy.errors import DataError
from pinotpy.server.realtime.ingest_worker import PartitionSpec
from pinotpy.server.realtime.segment_build import BuildQueue
from pinotpy.server.realtime.workers.channel import Channel
from pinotpy.server.realtime.workers.fork_server import ForkedProcess, ForkServer
from pinotpy.server.realtime.workers.freezing import Freezer
from pinotpy.server.realtime.workers.process_partition import ProcessPartition

log = logging.getLogger(__name__)

_BACKOFF_S_FIRST: Final = 0.1
_BACKOFF_S_MAX: Final = 10.0
_HEALTHY_NS: Final = 60_000_000_000  # a process that lived so long is begun again at once, where it was
_STOP_S: Final = 10.0


class ProcessWorker:
    """Implements IngestWorker.

    Args:
        num_processes: among which partitions are spread; each starts with its first partition.
        builds_max: segments that are built at once, each in a process of its own; more wait.
    """

    def __init__(self, clock: Clock, *, num_processes: int = 1, builds_max: int = 2) -> None:
        assert num_processes > 0
        self._clock = clock
        self._fork_server = ForkServer()
        self._builds = BuildQueue(builds_max)
        self._freezer = Freezer()
        self._processes = [_Process(number, clock, self._fork_server) for number in range(num_processes)]
        self._lock = threading.Lock()

    def prepare(self) -> None:
        self._fork_server.prepare()

    def open(self, spec: PartitionSpec, on_change: Callable[[], None]) -> ProcessPartition:
        partition = ProcessPartition(spec, self._clock, on_change, self._fork_server, self._builds, self._freezer)
        with self._lock:
            process = min(self._processes, key=lambda each: each.num_partitions)
            process.add(partition)
        return partition

    def close(self) -> None:
        for process in self._processes:
            process.close()
        self._freezer.close()
        self._fork_server.close()

    def pids(self) -> list[int]:
        """Of the processes that read."""
        return [process.pid for process in self._processes if process.pid]

    @property
    def fork_server_pid(self) -> int:
        """Of the process that the others are forked from; 0 if it does not run."""
        return self._fork_server.pid


class _Process:
    """Implements Reader: one process, and the thread that listens to it and begins it again."""

    def __init__(self, number: int, clock: Clock, fork_server: ForkServer) -> None:
        self._name = f"ingest-worker-{number}"
        self._clock = clock
        self._fork_server = fork_server
        self._lock = threading.RLock()  # a partition is opened once: when it is added, or when the process begins
        self._channel: Channel | None = None
        self._partitions: dict[int, ProcessPartition] = {}
        self._refusals: dict[int, float] = {}  # seconds after which a refused partition is opened again
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self.pid = 0

    @property
    def num_partitions(self) -> int:
        return len(self._partitions)

    def add(self, partition: ProcessPartition) -> None:
        with self._lock:
            partition.reader = self
            self._partitions[partition.number] = partition
            if self._channel is not None:
                self._open(self._channel, partition)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def remove(self, partition: ProcessPartition) -> None:
        with self._lock:
            self._refusals.pop(partition.number, None)
            if self._partitions.pop(partition.number, None) is not None:
                self.call("close", partition.number)

    def close(self) -> None:
        self._stopping.set()
        with self._lock:
            if self._channel is not None:
                self._channel.shut()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def call(self, *call: Any) -> None:
        """Nothing if the process does not run: what it has to know it gets when it begins."""
        with self._lock:
            if self._channel is not None:
                with suppress(OSError):
                    self._channel.send(pickle.dumps(call))

    # --- The thread

    def _run(self) -> None:
        backoff_s, is_repeated = _BACKOFF_S_FIRST, False
        while not self._stopping.is_set():
            began_ns = self._clock.monotonic_ns()
            try:
                process = self._fork_server.fork("read")
            except OSError as error:
                reason = f"the ingest worker cannot be started: {error}"
            else:
                self._begun(process, from_start=is_repeated)
                self._listen(process.channel)
                reason = self._ended(process)
                is_healthy = self._clock.monotonic_ns() - began_ns > _HEALTHY_NS
                backoff_s = _BACKOFF_S_FIRST if is_healthy else backoff_s
                # The first end may be anything; rows are only doubted when another one follows.
                is_repeated = not is_healthy and backoff_s > _BACKOFF_S_FIRST
            if self._stopping.is_set():
                return
            log.error("ingest worker ended worker=%s reason=%s", self._name, reason)
            for partition in list(self._partitions.values()):
                partition.of_process_failed(reason)
            self._clock.wait(self._stopping, backoff_s * random.uniform(0.5, 1.0))
            backoff_s = min(2 * backoff_s, _BACKOFF_S_MAX)

    def _begun(self, process: ForkedProcess, *, from_start: bool) -> None:
        with self._lock:
            self._channel, self.pid = process.channel, process.pid
            self._refusals.clear()
            for partition in self._partitions.values():
                self._open(process.channel, partition, from_start=from_start)
            if self._stopping.is_set():
                process.channel.shut()
        log.info("ingest worker started worker=%s pid=%d from_start=%s", self._name, process.pid, from_start)

    def _open(self, channel: Channel, partition: ProcessPartition, *, from_start: bool = False) -> None:
        watermark = partition.of_process_begun(from_start=from_start)
        with suppress(OSError):
            channel.send(pickle.dumps(("open", partition.number, partition.spec, watermark, partition.paused)))

    def _listen(self, channel: Channel) -> None:
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
                self._refusals.pop(partition.number, None)
                partition.of_process_state(message)
            case "refused" if partition is not None:
                partition.of_process_failed(message["failure"])
                self._open_later(partition)
            case "log":
                logging.getLogger(message["name"]).log(message["level"], "%s", message["message"])

    def _open_later(self, partition: ProcessPartition) -> None:
        """What the process lacks to open it, memory or a module, may come."""
        delay_s = self._refusals.get(partition.number, _BACKOFF_S_FIRST)
        self._refusals[partition.number] = min(2 * delay_s, _BACKOFF_S_MAX)
        channel = self._channel

        def open_again() -> None:
            with self._lock:
                if channel is not None and channel is self._channel and partition.number in self._partitions:
                    self._open(channel, partition)

        timer = threading.Timer(delay_s * random.uniform(0.5, 1.0), open_again)
        timer.daemon = True
        timer.start()

    def _ended(self, process: ForkedProcess) -> str:
        """Make sure that it is gone; returns how it ended."""
        with self._lock:
            self._channel, self.pid = None, 0
        return f"the ingest worker ended with status {process.end()}, and is begun again"
