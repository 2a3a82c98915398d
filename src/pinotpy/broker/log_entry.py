"""One query's line in the query log: what is known when it ends, however it ends."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from pinotpy.broker.parts import Broker, Question
from pinotpy.broker.query_log import QueryRecord
from pinotpy.errors import QueryCancelledError
from pinotpy.query.result.reduced import ReducedResult
from pinotpy.query.result.response.envelope import Envelope

OK: Final = "OK"
PARTIAL: Final = "PARTIAL"
ERROR: Final = "ERROR"
# The client hung up, or the broker stopped.
CANCELLED: Final = "CANCELLED"


class LogEntry:
    """Filled while the query is answered; `close` adds it to the log. Of EXPLAIN ANALYZE the last run counts."""

    __slots__ = (
        "_broker",
        "_client",
        "_num_rows",
        "_question",
        "_response_bytes",
        "_start_ms",
        "_start_ns",
        "_took_ms",
        "envelope",
    )

    def __init__(self, broker: Broker, question: Question, client: str) -> None:
        self._broker = broker
        self._question = question
        self._client = client
        self._start_ms = broker.clock.now_ms()
        self._start_ns = broker.clock.monotonic_ns()
        self._num_rows = 0
        self._response_bytes = -1
        self._took_ms = 0.0
        self.envelope: Envelope | None = None

    @property
    def num_rows(self) -> int:
        """Rows of the result, whatever is shown of them."""
        return self._num_rows

    @property
    def took_ms(self) -> float:
        """Of the last run."""
        return self._took_ms

    def ran(
        self, took_ms: float, table: pa.Table | None, result: ReducedResult | None, shown: dict[str, Any] | None
    ) -> None:
        """A run has ended with these rows."""
        self._took_ms = took_ms
        self._num_rows = (
            table.num_rows if table is not None else _rows_of(result) if result is not None else _rows_shown(shown)
        )

    def wrote(self, num_bytes: int) -> None:
        """The answer was written, so nothing can go wrong with it here any more."""
        self._response_bytes = num_bytes

    def close(self) -> None:
        """The query is over: to the log with it."""
        broker, question = self._broker, self._question
        envelope = self.envelope or Envelope()
        statistics = envelope.statistics
        is_written = self._response_bytes >= 0
        code = envelope.exceptions[0].code if envelope.exceptions else None
        if not is_written:
            status, code = CANCELLED, QueryCancelledError.code
        elif code is None:
            status = PARTIAL if envelope.partial else OK
        else:
            status = PARTIAL if self._num_rows else ERROR
        broker.log.add(
            QueryRecord(
                start_ms=self._start_ms,
                request_id=envelope.request_id or "",
                user=self._client,
                dialect=question.dialect,
                text=broker.log.kept(question.text),
                tables=envelope.tables_queried,
                took_ms=(broker.clock.monotonic_ns() - self._start_ns) / 1e6,
                num_rows=self._num_rows,
                response_bytes=max(self._response_bytes, 0),
                status=status,
                error_code=code,
                num_servers_queried=envelope.num_servers_queried,
                num_servers_responded=envelope.num_servers_responded,
                num_segments_queried=statistics.num_segments_queried,
                num_segments_pruned_by_broker=envelope.num_segments_pruned_by_broker,
                num_segments_pruned_by_server=statistics.num_segments_pruned,
                num_segments_processed=statistics.num_segments_processed,
                num_segments_matched=statistics.num_segments_matched,
                num_docs_scanned=statistics.num_docs_scanned,
                total_docs=statistics.total_docs,
                num_entries_scanned_in_filter=statistics.num_entries_scanned_in_filter,
                num_entries_scanned_post_filter=statistics.num_entries_scanned_post_filter,
                server_cpu_ms=statistics.cpu_ns / 1e6,
            )
        )


def _rows_of(result: ReducedResult) -> int:
    """Rows of the table; of PQL's lists of groups those of the longest."""
    return result.num_rows or max((len(groups.value.values) for groups in result.group_lists), default=0)


def _rows_shown(shown: dict[str, Any] | None) -> int:
    """Rows of an answer that is in a dialect's form already."""
    if shown is None:
        return 0
    if "numRowsResultSet" in shown:
        return int(shown["numRowsResultSet"])
    if "selectionResults" in shown:
        return len(shown["selectionResults"]["results"])
    aggregations = shown.get("aggregationResults") or []
    return max((len(one.get("groupByResult", [None])) for one in aggregations), default=0)
