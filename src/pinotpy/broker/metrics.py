"""What a broker counts of each query."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pinotpy.query.result.response.envelope import Envelope
from pinotpy.service.metrics import TABLES_MAX, Metrics, Tally, Timings

# Which counter an exception code belongs to.
_BY_CODE = {
    150: "requestCompilationExceptions",
    190: "resourceMissingExceptions",
    410: "resourceMissingExceptions",
    700: "queryValidationExceptions",
    710: "queryValidationExceptions",
}
_BY_CODE_AND_TABLE = {305: "noServingHostForSegment", 425: "requestSendExceptions", 427: "responseFetchExceptions"}


class _OfTable:
    """What is counted of every query of one table."""

    __slots__ = ("docs", "filter_entries", "other_entries", "pruned", "queries", "times")

    def __init__(self, metrics: Metrics, table: str) -> None:
        self.queries: Tally = metrics.tally("queries", table=table)
        self.times: Timings = metrics.timings("queryTotalTime", table=table)
        self.docs: Tally = metrics.tally("documentsScanned", table=table)
        self.filter_entries: Tally = metrics.tally("entriesScannedInFilter", table=table)
        self.other_entries: Tally = metrics.tally("entriesScannedPostFilter", table=table)
        self.pruned: Tally = metrics.tally("segmentsPruned", table=table)


class BrokerMetrics:
    """Counts queries; `metrics` is the daemon's registry. Used by one event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._tables: dict[str, _OfTable] = {}
        self._generation = metrics.generation

    def query_done(self, table: str, took_ms: float, envelope: Envelope) -> None:
        """One query was answered (or refused)."""
        counters = self._tables.get(table)
        if counters is None or self._generation != self._metrics.generation:
            counters = self._of_table(table)
        statistics = envelope.statistics
        counters.queries.add()
        counters.times.add(took_ms / 1000)
        counters.docs.add(statistics.num_docs_scanned)
        counters.filter_entries.add(statistics.num_entries_scanned_in_filter)
        counters.other_entries.add(statistics.num_entries_scanned_post_filter)
        if envelope.num_segments_pruned_by_broker:
            counters.pruned.add(envelope.num_segments_pruned_by_broker)
        if (
            not statistics.num_groups_limit_reached
            and not envelope.exceptions
            and envelope.num_servers_responded >= envelope.num_servers_queried
        ):
            return
        count = self._metrics.count
        if statistics.num_groups_limit_reached:
            count("brokerResponsesWithNumGroupsLimitReached", table=table)
        if envelope.num_servers_responded < envelope.num_servers_queried:
            count("brokerResponsesWithPartialServersResponded", table=table)
        if not envelope.exceptions:
            return
        count("brokerResponsesWithProcessingExceptions", table=table)
        for fault in envelope.exceptions:
            if fault.code in _BY_CODE:
                count(_BY_CODE[fault.code])
            elif fault.code in _BY_CODE_AND_TABLE:
                count(_BY_CODE_AND_TABLE[fault.code], table=table)

    def _of_table(self, table: str) -> _OfTable:
        if self._generation != self._metrics.generation or len(self._tables) > TABLES_MAX:
            self._tables.clear()
            self._generation = self._metrics.generation
        metrics_of_table = self._tables[table] = _OfTable(self._metrics, table)
        return metrics_of_table


class UnusedRecords:
    """Shows by table and reason how many records of segments exclude nothing, or less than they say. Any thread may
    tell.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._shown: dict[str, frozenset[str]] = {}

    def tell(self, table: str, unused: Mapping[str, int]) -> None:
        """What stands now; reasons that stood before and do not any more are 0. table: name with type."""
        with self._lock:
            gone = self._shown.pop(table, frozenset()).difference(unused)
            if unused:
                self._shown[table] = frozenset(unused)
            for reason, number in {**dict.fromkeys(gone, 0), **unused}.items():
                self._metrics.set("segmentRecordsNotUsed", number, table=table, reason=reason)
