"""What a broker counts of each query."""

from __future__ import annotations

from pinotpy.query.response.envelope import Envelope
from pinotpy.service.metrics import Metrics

# Which counter an exception code belongs to.
_BY_CODE = {
    150: "requestCompilationExceptions",
    190: "resourceMissingExceptions",
    410: "resourceMissingExceptions",
    700: "queryValidationExceptions",
    710: "queryValidationExceptions",
}
_BY_CODE_AND_TABLE = {305: "noServingHostForSegment", 425: "requestSendExceptions", 427: "responseFetchExceptions"}


class BrokerMetrics:
    """Counts queries; `metrics` is the daemon's registry."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def query_done(self, table: str, took_ms: float, envelope: Envelope) -> None:
        """One query was answered (or refused)."""
        count, statistics = self._metrics.count, envelope.statistics
        count("queries", table=table)
        self._metrics.observe("queryTotalTime", took_ms / 1000, table=table)
        count("documentsScanned", statistics.num_docs_scanned, table=table)
        count("entriesScannedInFilter", statistics.num_entries_scanned_in_filter, table=table)
        count("entriesScannedPostFilter", statistics.num_entries_scanned_post_filter, table=table)
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
