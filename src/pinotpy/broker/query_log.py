"""The queries that a broker answered: the last ones in memory (system.queries), all of them in a file if one is set.

A query costs the event loop one record and one place in a queue. A thread of its own masks, writes and rotates; where
it cannot keep up, or the disk is full, records are dropped, counted (`queryLogDropped`) and named in the file itself.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from pinotpy.broker.rotating_file import RotatingFile
from pinotpy.config.query_log import QueryLogSettings
from pinotpy.pql.ast import Dialect
from pinotpy.pql.masking import CUT, masked
from pinotpy.service.logs import mask_secrets

# Records that wait to be written; their texts are cut, so that they take some tens of MiB at most.
WAITING_MAX: Final = 4_096
# Records that are written with one call.
BATCH_MAX: Final = 512
# Beyond this many characters the literals of a text are not looked for: a text is cut here first.
MASKED_CHARACTERS_MAX: Final = 64 << 10
STOP_TIMEOUT_S: Final = 5.0

log = logging.getLogger(__name__)


class QueryRecord(NamedTuple):
    """One answered query; a tuple, since every query makes one (1 instead of 5 µs). Times in ms; `start_ms` since the
    epoch.

    text: as it came, cut to what may be shown of it at most. tables: true names, without type, that were found and
    allowed. response_bytes: of JSON its length, of Arrow the size of the columns. status: OK, PARTIAL (rows and
    exceptions) or ERROR. error_code: of the first exception; None: there is none.
    """

    start_ms: int
    request_id: str
    user: str
    dialect: Dialect
    text: str
    tables: tuple[str, ...]
    took_ms: float
    num_rows: int
    response_bytes: int
    status: str
    error_code: int | None
    num_servers_queried: int
    num_servers_responded: int
    num_segments_queried: int
    num_segments_pruned_by_broker: int
    num_segments_pruned_by_server: int
    num_segments_processed: int
    num_segments_matched: int
    num_docs_scanned: int
    total_docs: int
    num_entries_scanned_in_filter: int
    num_entries_scanned_post_filter: int
    server_cpu_ms: float


@dataclass(frozen=True, slots=True)
class TextRules:
    """How texts are shown. length: characters; masks: whether literals are."""

    length: int = 4_096
    masks: bool = False

    @property
    def kept_characters(self) -> int:
        """So much of a text is kept in memory: what can be shown of it."""
        return MASKED_CHARACTERS_MAX if self.masks else self.length + 1

    def shown(self, text: str, dialect: Dialect) -> str:
        """The text as logs and tables show it: without what looks like a credential, literals masked, cut."""
        text = text.encode("utf-8", "replace").decode()
        if self.masks:
            text = masked(text, dialect)
        text = mask_secrets(text)
        return text if len(text) <= self.length else text[: self.length - len(CUT)] + CUT


class QueryLog:
    """Used by the event loop (`add`, `recent`); the file is its thread's alone.

    Args:
        on_drop: told how many records were dropped, from any thread.
    """

    def __init__(
        self,
        *,
        recent_max: int = 1_000,
        rules: TextRules | None = None,
        slow_ms: int = 1_000,
        file: RotatingFile | None = None,
        slow_file: RotatingFile | None = None,
        on_drop: Callable[[int], None] = lambda count: None,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self.rules = rules or TextRules()
        self.slow_ms = slow_ms
        self._recent: deque[QueryRecord] = deque(maxlen=recent_max)
        self._file, self._slow_file = file, slow_file
        self._on_drop = on_drop
        self._waiting: queue.Queue[QueryRecord | None] = queue.Queue(waiting_max)
        self._lock = threading.Lock()
        self._num_dropped = 0  # since the file was last told of it
        self._has_failed = False
        self._thread: threading.Thread | None = None

    @staticmethod
    def of(settings: QueryLogSettings, on_drop: Callable[[int], None]) -> QueryLog:
        """The log that the settings ask for."""
        file = settings.query_log_file

        def rotating(path: Path) -> RotatingFile:
            return RotatingFile(path, settings.query_log_bytes_max, settings.query_log_files_max)

        return QueryLog(
            recent_max=settings.query_log_recent,
            rules=TextRules(settings.query_log_text_length, settings.query_log_mask_literals),
            slow_ms=settings.query_log_slow_ms,
            file=None if file is None else rotating(file),
            slow_file=None if file is None else rotating(file.with_name(f"{file.stem}-slow{file.suffix}")),
            on_drop=on_drop,
        )

    def start(self) -> None:
        """Begin to write, if there is a file. Raises OSError if it cannot be opened."""
        if self._file is None or self._slow_file is None:
            return
        self._file.open()
        self._slow_file.open()
        self._thread = threading.Thread(target=self._run, name="query-log", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Write what waits, and end; what is not written by then is lost."""
        thread = self._thread
        if thread is None:
            return
        try:
            self._waiting.put(None, timeout=timeout_s)
        except queue.Full:
            log.warning("query log is stopped with records that wait count=%d", self._waiting.qsize())
            return
        thread.join(timeout_s)

    def kept(self, text: str) -> str:
        """What a record keeps of a text."""
        return text[: self.rules.kept_characters]

    def add(self, record: QueryRecord) -> None:
        """One query was answered."""
        self._recent.append(record)
        if self._thread is None:
            return
        try:
            self._waiting.put_nowait(record)
        except queue.Full:
            self._dropped(1)

    def recent(self) -> list[QueryRecord]:
        """The last queries, oldest first."""
        return list(self._recent)

    def is_slow(self, record: QueryRecord) -> bool:
        return record.took_ms >= self.slow_ms

    # --- the writer ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch = [self._waiting.get()]
            while len(batch) < BATCH_MAX and not self._waiting.empty():
                batch.append(self._waiting.get())
            is_open = None not in batch
            self._write([record for record in batch if record is not None])
        for file in (self._file, self._slow_file):
            if file is not None:
                file.close()

    def _write(self, records: list[QueryRecord]) -> None:
        assert self._file is not None and self._slow_file is not None
        try:
            lines = [(self._line(record), self.is_slow(record)) for record in records]
            with self._lock:
                num_dropped = self._num_dropped
            told = [] if not num_dropped else [orjson.dumps({"dropped": num_dropped}) + b"\n"]
            self._file.write([*told, *(line for line, _ in lines)])
            self._slow_file.write([line for line, is_slow in lines if is_slow])
            with self._lock:
                self._num_dropped -= num_dropped
            self._has_failed = False
        except Exception as problem:  # a full disk, a folder that was taken away; and the next records must not wait
            self._dropped(len(records))
            if not self._has_failed:
                log.error("query log cannot be written, its records are dropped reason=%s", problem)
            self._has_failed = True

    def _dropped(self, count: int) -> None:
        with self._lock:
            self._num_dropped += count
        self._on_drop(count)

    def _line(self, record: QueryRecord) -> bytes:
        return orjson.dumps(self.shown(record)) + b"\n"

    def shown(self, record: QueryRecord) -> dict[str, Any]:
        """A record as the file and system.queries show it: column → value."""
        return {
            "start_time": record.start_ms,
            "request_id": record.request_id,
            "user_name": record.user,
            "dialect": record.dialect.value,
            "query": self.rules.shown(record.text, record.dialect),
            "table_name": ", ".join(record.tables) or None,
            "status": record.status,
            "error_code": record.error_code,
            "is_slow": self.is_slow(record),
            "took_ms": round(record.took_ms, 3),
            "server_cpu_ms": round(record.server_cpu_ms, 3),
            "num_rows": record.num_rows,
            "response_bytes": record.response_bytes,
            "servers_queried": record.num_servers_queried,
            "servers_responded": record.num_servers_responded,
            "segments_queried": record.num_segments_queried,
            "segments_pruned_by_broker": record.num_segments_pruned_by_broker,
            "segments_pruned_by_server": record.num_segments_pruned_by_server,
            "segments_processed": record.num_segments_processed,
            "segments_matched": record.num_segments_matched,
            "docs_scanned": record.num_docs_scanned,
            "total_docs": record.total_docs,
            "entries_scanned_in_filter": record.num_entries_scanned_in_filter,
            "entries_scanned_post_filter": record.num_entries_scanned_post_filter,
        }
