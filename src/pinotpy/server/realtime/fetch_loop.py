"""Reads one partition on a thread: fetch, decode, append, again. Failures of the stream are told and waited out."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import traceback
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.clock import Clock
from pinotpy.cluster.completion_messages import Offset
from pinotpy.errors import DataError, NotFoundError, PinotError
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.spec import DecodedRows, RowDecoder
from pinotpy.segment.consuming.partition_log import PartitionLog
from pinotpy.segment.consuming.record_counts import BatchCounts, RecordFates
from pinotpy.server.realtime.catching_up import CatchingUp
from pinotpy.stream.spec import (
    OffsetOutOfRangeError,
    PartitionConsumer,
    StreamBatch,
    StreamConsumerFactory,
    StreamLayer,
    StreamUnavailableError,
    layer_of,
)

log = logging.getLogger(__name__)

RECORDS_MAX: Final = 10_000
FETCH_TIMEOUT_S_MAX: Final = 0.5  # the loop looks that often whether it is to stop
BACKOFF_S_FIRST: Final = 0.1
BACKOFF_S_MAX: Final = 10.0
# A fetch returns with the first record that comes. After a small one the next records are given some time to gather:
# each batch costs about as much as some hundred records, here and where it is published.
GATHER_RECORDS: Final = 2_000
GATHER_S: Final = 0.02
_TELL_AGAIN_NS: Final = 60_000_000_000
_PAUSED_S: Final = 0.1
NO_FAILURE: Final = ("", "")  # message and layer


class FetchLoop:
    """The thread of one partition. `failure`, with its layer, `is_final` and `last_fetch_ms` are read by other threads.

    Args:
        on_change: after each batch, each failure, and each fetch without records.
        look: is shown rows before they are appended.
        on_rows: after rows were appended, on this thread: makes what queries would otherwise have to.
        on_counts: takes what became of each batch's records, when its rows are published; None: the log does.
        shown: a failure's text as it may be shown: without passwords.
        fetch_timeout_s: longest wait for records in one fetch.
        idle_timeout_s: a consumer that brought nothing for so long is made anew.
    """

    def __init__(
        self,
        name: str,
        factory: StreamConsumerFactory,
        partition: int,
        decoder: RowDecoder,
        rows: PartitionLog,
        ledger: StreamLedger,
        clock: Clock,
        *,
        on_change: Callable[[], None],
        look: Callable[[pa.RecordBatch], None],
        on_rows: Callable[[], None],
        on_counts: Callable[[BatchCounts], None] | None,
        shown: Callable[[str], str],
        fetch_timeout_s: float,
        idle_timeout_s: float,
    ) -> None:
        self._name = name
        self._factory = factory
        self._partition = partition
        self._decoder = decoder
        self._log = rows
        self._ledger = ledger
        self._clock = clock
        self._on_change = on_change
        self._look = look
        self._on_rows = on_rows
        self._on_counts = on_counts
        self._shown = shown
        self._fetch_timeout_s = min(fetch_timeout_s, FETCH_TIMEOUT_S_MAX)
        self._idle_ns = int(idle_timeout_s * 1e9)
        self.catching_up = CatchingUp(factory, partition, clock)
        self._stopping = threading.Event()
        self._consumer: PartitionConsumer | None = None
        self._last_records_ns = 0
        self._told = ("", 0)
        self._is_decoding = False
        self.failure = NO_FAILURE
        self.is_final = False
        self.paused = ""
        self.last_fetch_ms = 0
        self._thread = threading.Thread(target=self._run, name=f"fetch-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Ends after the fetch that is under way."""
        self._stopping.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        backoff_s = BACKOFF_S_FIRST
        while not self._stopping.is_set():
            if self.paused or self.is_final:
                self._on_change()  # else nobody would hear of it
                self._clock.wait(self._stopping, _PAUSED_S if self.paused else BACKOFF_S_MAX)
                continue
            try:
                num_records = self._read_once()
                backoff_s = BACKOFF_S_FIRST
                if 0 < num_records < GATHER_RECORDS:
                    self._clock.wait(self._stopping, GATHER_S)
                continue
            except Exception as error:
                self._failed(error)
            self._close_consumer()
            self._on_change()
            self._clock.wait(self._stopping, backoff_s * random.uniform(0.5, 1.0))
            backoff_s = min(backoff_s * 2, BACKOFF_S_MAX)
        self._close_consumer()

    def _read_once(self) -> int:
        """Fetch and append; gives the number of records."""
        offset: Offset = self._log.watermark.next_offset
        if self._consumer is None:
            self._consumer = self._factory.consumer(self._partition)
            self._last_records_ns = self._clock.monotonic_ns()
        batch = self._consumer.fetch(offset, records_max=RECORDS_MAX, timeout_s=self._fetch_timeout_s)
        self.last_fetch_ms = self._clock.now_ms()
        # Until its records are rows as well, a decoder that failed on them counts as failing.
        if self.failure[1] != StreamLayer.DECODE:
            self._recovered()
        if len(batch) or batch.next_offset != offset:
            self._last_records_ns = self._clock.monotonic_ns()
            self._append(batch)
            self._recovered()
            self.catching_up.fetched(batch.next_offset, is_empty=False)
        else:
            self.catching_up.fetched(offset, is_empty=True)
            if self._clock.monotonic_ns() - self._last_records_ns > self._idle_ns:
                # A connection that broke without a word looks like a stream without records.
                self._close_consumer()
        self._on_change()
        return len(batch)

    def _recovered(self) -> None:
        if self.failure[0]:
            log.info("stream is read again partition=%s", self._name)
        self.failure = NO_FAILURE

    def _append(self, batch: StreamBatch) -> None:
        ledger = StreamLedger()
        self._is_decoding = True
        decoded = self._decoder.decode(batch, ledger)
        if decoded.rows.num_rows != ledger.indexed:
            raise DataError(
                f"the decoder gave {decoded.rows.num_rows} rows of the records from offset {batch.offsets[:1]} on, and "
                f"counted {ledger.indexed}"
            )
        self._is_decoding = False
        records: Int64Array = decoded.records
        self._look(decoded.rows)
        counts = _counts_of(batch, decoded, ledger)
        times_ms = np.asarray(batch.times_ms)[records]
        kept = counts if self._on_counts is None else None
        self._log.append(decoded.rows, batch.offsets[records], times_ms, batch.next_offset, kept)
        if self._on_counts is not None:
            self._on_counts(counts)
        # Not before its rows are there: if they cannot be appended, the batch is read again.
        self._ledger.take(ledger)
        self._on_rows()

    def _failed(self, error: Exception) -> None:
        layer = layer_of(error)
        if self._is_decoding:
            layer, self._is_decoding = StreamLayer.DECODE, False
        if isinstance(error, PinotError):
            message = error.message
            is_lasting = isinstance(error, StreamUnavailableError | NotFoundError)
            self.is_final = isinstance(error, OffsetOutOfRangeError)
        else:
            message, is_lasting = f"{type(error).__name__}: {error}", False
        message = self._shown(message)
        self.failure = message, "" if layer is None else layer.value
        now_ns = self._clock.monotonic_ns()
        if self._told[0] == message and now_ns - self._told[1] < _TELL_AGAIN_NS:
            return
        self._told = (message, now_ns)
        if is_lasting or self.is_final:
            log.warning("stream is not read partition=%s reason=%s", self._name, message)
        else:
            trace = self._shown("".join(traceback.format_exception(error)))
            log.error("stream is not read partition=%s reason=%s\n%s", self._name, message, trace)

    def _close_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with contextlib.suppress(Exception):
                consumer.close()


def _counts_of(batch: StreamBatch, decoded: DecodedRows, ledger: StreamLedger) -> BatchCounts:
    counts = ledger.counts()
    if counts.is_plain or counts.added or ledger.reject_rows is None or batch.offsets.dtype.kind != "i":
        return BatchCounts(counts)
    tombstones = np.flatnonzero(np.asarray(batch.payloads.is_null()))
    rejected = np.unique(np.array(ledger.reject_rows, np.int64) - 1)
    is_other = np.ones(len(batch), np.bool_)
    for numbers in (decoded.records, tombstones, rejected):
        is_other[numbers] = False
    filtered = np.flatnonzero(is_other)
    if (len(tombstones), len(filtered), len(rejected)) != (counts.tombstones, counts.filtered, counts.rejected):
        return BatchCounts(counts)  # of a decoder that counts otherwise
    return BatchCounts(counts, RecordFates.of(batch.offsets, filtered, rejected, tombstones))
