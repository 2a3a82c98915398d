"""Streams of CSV as what Arrow's reader knows: dialects as plain CSV; rows that are no CSV, which it would read
somehow, are set aside.
"""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np

from pinotpy.ingest.readers.csv_config import CsvReaderConfig
from pinotpy.kernels.ingest import csv_dialects as kernel

# Who wants the first rows only does not pay for a large block; the next ones are twice as large each: in blocks of
# 4 MiB a call into Arrow costs nothing a row.
_FIRST_CHUNK_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 22
RECORD_BYTES_MAX: Final = 64 << 20
_BAD_ROWS: Final = 4096
_LF: Final = 10
_CR: Final = 13


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that is no CSV. `records_before`: how many were written before it; `is_open`: the rest of the file is in
    its quotes.
    """

    records_before: int
    text: str
    cause: str
    is_open: bool


class RecordTooLongError(ValueError):
    """A record of more than RECORD_BYTES_MAX bytes, such as after a quote that is never closed."""


class RewrittenCsv(io.RawIOBase):
    """Plain CSV of a stream, by Commons CSV's rules. `bad` grows while it is read.

    Attributes:
        marks: delimiter and quote of what is read from here: comma and double quote for dialects that Arrow does not
            know; else the dialect's own (no quote: None), and parts without any quote are handed on as they are.

    Args:
        lines_alone: whether a quoted field ends with its line at the latest; default: as the config says.
    """

    def __init__(self, below: BinaryIO, config: CsvReaderConfig, *, lines_alone: bool | None = None) -> None:
        super().__init__()
        self._below = below
        self._chunk_bytes = _FIRST_CHUNK_BYTES
        self._rest = b""
        self._ready = memoryview(b"")
        self._ended = False
        self._records = 0
        self.bad: list[BadRecord] = []
        self._lines_alone = config.skip_un_parseable_lines if lines_alone is None else lines_alone
        self._skips_empty_lines = config.skips_empty_lines
        self._is_plain = not config.needs_rewriting
        self.marks: tuple[str, str | None] = (
            (config.effective_delimiter, config.quote) if self._is_plain else (",", '"')
        )
        self._quote = self.marks[1].encode() if self.marks[1] is not None else None
        characters = (config.effective_delimiter, config.quote, config.escape, config.comment_marker)
        words = [ord(mark) if mark is not None else -1 for mark in characters]
        self._dialect = np.array(
            [
                *words,
                self._skips_empty_lines,
                config.trims,
                self._lines_alone,
                *(ord(mark or '"') for mark in self.marks),
            ],
            np.int64,
        )
        self._bad_words = np.empty((_BAD_ROWS, kernel.BAD_WORDS), np.int64)

    def readable(self) -> bool:
        return True

    def next_records(self) -> bytes:
        """The next records, whole but for those of which `readinto` gave the beginning; nothing at the end."""
        self._fill()
        records, self._ready = bytes(self._ready), memoryview(b"")
        return records

    def _fill(self) -> None:
        while not self._ready and not (self._ended and not self._rest):
            self._rewrite_more()

    def readinto(self, target: Any) -> int:
        self._fill()
        chunk = self._ready[: len(target)]
        self._ready = self._ready[len(chunk) :]
        target[: len(chunk)] = chunk
        return len(chunk)

    def _rewrite_more(self) -> None:
        if not self._ended:
            # As much again as waits: a record of many chunks is tried only a few times.
            chunk = self._read(max(self._chunk_bytes, len(self._rest)))
            self._chunk_bytes = min(2 * self._chunk_bytes, _CHUNK_BYTES)
            self._ended = not chunk
            self._rest += chunk
        if self._is_plain and (self._quote is None or self._quote not in self._rest) and self._hand_on():
            return
        if len(self._rest) > RECORD_BYTES_MAX:
            raise RecordTooLongError(f"a record of more than {RECORD_BYTES_MAX} bytes; is a quote never closed?")
        if self._is_plain and self._quote is None:
            return
        data = np.frombuffer(self._rest, np.uint8)
        out = np.empty(3 * len(data) + 16, np.uint8)
        state = np.zeros(kernel.STATE_WORDS, np.int64)
        kernel.rewrite(data, self._ended, self._dialect, out, self._bad_words, state)
        read, written, records, bad = (
            int(state[word]) for word in (kernel.READ, kernel.WRITTEN, kernel.RECORDS, kernel.BAD)
        )
        for before, begin, end, fault in self._bad_words[:bad].tolist():
            is_open = fault == kernel.OPEN_QUOTE
            cause = (
                "a quote that is opened and never closed"
                if is_open
                else "text behind a closing quote, expected the delimiter or the end of the line"
            )
            text = self._rest[begin : min(end, begin + 8192)].decode("utf-8", "replace")
            self.bad.append(BadRecord(self._records + before, text, cause, is_open and not self._lines_alone))
        self._records += records
        self._ready = memoryview(out[:written].tobytes())
        self._rest = self._rest[read:]

    def _read(self, size: int) -> bytes:
        """As many bytes, fewer only at the end: streams of other encodings and packed ones give little at a time."""
        pieces: list[bytes] = []
        while size > 0 and (piece := self._below.read(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _hand_on(self) -> bool:
        """Give the whole lines that wait as they are; False where there is none."""
        # A line feed may follow the carriage return at the end.
        cut = len(self._rest) if self._ended else max(self._rest.rfind(b"\n"), self._rest.rfind(b"\r", 0, -1)) + 1
        if not cut:
            return False
        data = np.frombuffer(self._rest, np.uint8, cut)
        is_end = (data == _LF) | (data == _CR)
        if self._skips_empty_lines:
            self._records += int(np.count_nonzero(~is_end[1:] & is_end[:-1])) + int(not is_end[0])
        else:
            pairs = np.count_nonzero((data[:-1] == _CR) & (data[1:] == _LF))
            self._records += int(np.count_nonzero(is_end) - pairs) + int(not is_end[-1])
        self._ready = memoryview(self._rest[:cut])
        self._rest = self._rest[cut:]
        return True


class WithoutByteOrderMark(io.RawIOBase):
    """A stream of UTF-8 without the mark that some tools put before it. `start`: its first bytes."""

    def __init__(self, below: BinaryIO) -> None:
        super().__init__()
        self._below = below
        start = b""
        while len(start) < 3 and (more := below.read(3 - len(start))):
            start += more
        self.start = start
        self._waiting = start.removeprefix(codecs.BOM_UTF8)

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        chunk = self._waiting[: len(target)] or self._below.read(len(target)) or b""
        self._waiting = self._waiting[len(target) :]
        target[: len(chunk)] = chunk
        return len(chunk)
