"""Writes records to a stream, a steady number a second, for demonstrations."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Final

from pinotpy.clock import Clock, SystemClock
from pinotpy.stream.spec import StreamProducer

_TICKS: Final = 10  # appends a second


class SteadyProducer:
    """Appends records on a thread until it is closed.

    num_sent (from `first` on), failure: may be read by other threads.

    Args:
        record: (number, time in ms) → the record; numbers count from `first` over all partitions.
        rate: records a second, of all partitions.
    """

    def __init__(
        self,
        producer: StreamProducer,
        record: Callable[[int, int], dict[str, Any]],
        num_partitions: int,
        *,
        rate: int,
        first: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self._producer = producer
        self._record = record
        self._num_partitions = num_partitions
        self._per_append = max(rate // (_TICKS * num_partitions), 1)
        self._clock = clock or SystemClock()
        self._stopping = threading.Event()
        self.num_sent = first
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(30)
        self._producer.close()

    def append(self, count: int) -> None:
        """As many records for each partition, at once."""
        now_ms = self._clock.now_ms()
        for partition in range(self._num_partitions):
            numbers = range(self.num_sent, self.num_sent + count)
            self._producer.append(
                partition,
                [(f"{number}".encode(), json.dumps(self._record(number, now_ms)).encode()) for number in numbers],
            )
            self.num_sent += count

    def _run(self) -> None:
        try:
            while not self._clock.wait(self._stopping, 1 / _TICKS):
                self.append(self._per_append)
        except Exception as error:
            self.failure = error
