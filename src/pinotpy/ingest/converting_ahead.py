"""Batches of a file converted by several threads, while the next ones are read; what comes out is in the file's order.

Conversion is Arrow's and numpy's work on whole arrays, for which Python's lock is not held, so threads share the cores.
Each batch has a ledger of its own: rows, rejects and counts reach the file's in the order of the file, whatever the
number of threads, and so do failures of the reader and of the conversion.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from pinotpy.ingest.ledger import RejectedRow, RowLedger
from pinotpy.ingest.readers.spec import InputBatch

Convert = Callable[[InputBatch, RowLedger], list[pa.RecordBatch]]
"""Storage form of a batch; what becomes of its rows goes to the ledger."""


@dataclass(slots=True)
class _Part:
    """What is known of a batch until its turn comes; implements RejectSink.

    Attributes:
        left_out: rows that the reader left out before the batch, as arguments of `RowLedger.reject`.
        rejected: rows of the batch itself.
    """

    ledger: RowLedger
    is_full: bool
    left_out: list[tuple[int, str, str, str, bool]]
    batches: Future[list[pa.RecordBatch]] = field(default_factory=Future)
    rejected: list[RejectedRow] = field(default_factory=list)

    def add(self, rejected: RejectedRow) -> None:
        self.rejected.append(rejected)


class ConvertingAhead:
    """Converts the batches of one file.

    Args:
        ledger: of the file. threads: at work besides the caller; 0: the caller converts each batch itself.
    """

    def __init__(self, convert: Convert, ledger: RowLedger, threads: int) -> None:
        self._convert, self._ledger = convert, ledger
        self._left_out: list[tuple[int, str, str, str, bool]] = []
        self._waiting: deque[_Part] = deque()
        self._waiting_max = threads
        self._pool = ThreadPoolExecutor(threads, "convert") if threads else None

    def reject(self, row: int, column: str, cause: str, text: str = "", *, allowed: bool = False) -> None:
        """Implements Reject: a row that the reader left out, behind the batches that it gave by now."""
        self._left_out.append((row, column, cause, text, allowed))

    def after(self, rows: InputBatch) -> Iterator[pa.RecordBatch]:
        """Take the next batch, and give those that are ready by their turn."""
        left_out, self._left_out = self._left_out, []
        part = _Part(RowLedger(self._ledger.file), not self._ledger.keeps_text, left_out)
        part.ledger.sink = part
        if self._pool is None:
            self._fill(part, rows)
        else:
            self._pool.submit(self._fill, part, rows)
        self._waiting.append(part)
        while len(self._waiting) > self._waiting_max:
            yield from self._next()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """All that is still at work, and what the reader left out behind it."""
        while self._waiting:
            yield from self._next()
        self._take_left_out(self._left_out)
        self._left_out = []

    def close(self) -> None:
        """Wait for what is at work; nothing new is begun."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _fill(self, part: _Part, rows: InputBatch) -> None:
        try:
            part.batches.set_result(self._convert(rows, part.ledger))
        except BaseException as error:  # raised where the batch's turn is
            part.batches.set_exception(error)

    def _next(self) -> list[pa.RecordBatch]:
        part = self._waiting.popleft()
        self._take_left_out(part.left_out)
        batches = part.batches.result()
        self._ledger.take(part.ledger, part.rejected)
        return batches

    def _take_left_out(self, left_out: list[tuple[int, str, str, str, bool]]) -> None:
        for row, column, cause, text, allowed in left_out:
            self._ledger.num_rows_read += 1
            self._ledger.reject(row, column, cause, text, allowed=allowed)
