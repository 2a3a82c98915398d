"""Streams of CSV in dialects that Arrow's reader does not know, as plain CSV; rows that are no CSV are set aside."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np

from pinotpy.ingest.readers.csv_config import CsvReaderConfig
from pinotpy.kernels import csv_dialects as kernel

_CHUNK_BYTES: Final = 1 << 20
RECORD_BYTES_MAX: Final = 64 << 20
_BAD_ROWS: Final = 4096


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that is no CSV. `records_before`: how many were written before it; `is_open`: the rest of the file is in its quotes."""

    records_before: int
    text: str
    cause: str
    is_open: bool


class RecordTooLongError(ValueError):
    """A record of more than RECORD_BYTES_MAX bytes, such as after a quote that is never closed."""


class RewrittenCsv(io.RawIOBase):
    """Plain CSV (comma, double quotes, LF) of a stream in another dialect. `bad` grows while it is read."""

    def __init__(self, below: BinaryIO, config: CsvReaderConfig) -> None:
        super().__init__()
        self._below = below
        self._rest = b""
        self._ready = memoryview(b"")
        self._ended = False
        self._records = 0
        self.bad: list[BadRecord] = []
        self._lines_alone = config.skip_un_parseable_lines
        marks = (config.effective_delimiter, config.quote, config.escape, config.comment_marker)
        words = [ord(mark) if mark is not None else -1 for mark in marks]
        self._dialect = np.array([*words, config.skips_empty_lines, config.trims, self._lines_alone], np.int64)
        self._bad_words = np.empty((_BAD_ROWS, kernel.BAD_WORDS), np.int64)

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._ready and not (self._ended and not self._rest):
            self._rewrite_more()
        part = self._ready[: len(target)]
        self._ready = self._ready[len(part) :]
        target[: len(part)] = part
        return len(part)

    def _rewrite_more(self) -> None:
        if not self._ended:
            chunk = self._below.read(_CHUNK_BYTES)
            self._ended = not chunk
            self._rest += chunk
        if len(self._rest) > RECORD_BYTES_MAX:
            raise RecordTooLongError(f"a record of more than {RECORD_BYTES_MAX} bytes; is a quote never closed?")
        data = np.frombuffer(self._rest, np.uint8)
        out = np.empty(3 * len(data) + 16, np.uint8)
        state = np.zeros(kernel.STATE_WORDS, np.int64)
        kernel.rewrite(data, self._ended, self._dialect, out, self._bad_words, state)
        read, written, records, bad = (int(state[word]) for word in (kernel.READ, kernel.WRITTEN, kernel.RECORDS, kernel.BAD))
        for before, begin, end, fault in self._bad_words[:bad].tolist():
            is_open = fault == kernel.OPEN_QUOTE
            cause = "a quote that is opened and never closed" if is_open else "text behind a closing quote, expected the delimiter or the end of the line"
            text = self._rest[begin : min(end, begin + 8192)].decode("utf-8", "replace")
            self.bad.append(BadRecord(self._records + before, text, cause, is_open and not self._lines_alone))
        self._records += records
        self._ready = memoryview(out[:written].tobytes())
        self._rest = self._rest[read:]
