"""What a server counts of each query and of its segments."""

from __future__ import annotations

from pinotpy.query.partial import Statistics
from pinotpy.service.metrics import Metrics


class ServerMetrics:
    """Counts queries and segments; `metrics` is the daemon's registry."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def query_done(self, table: str, took_ms: float, statistics: Statistics, *, failed: bool) -> None:
        """One query was executed."""
        count = self._metrics.count
        count("queries", table=table)
        self._metrics.observe("totalQueryTime", took_ms / 1000, table=table)
        count("numDocsScanned", statistics.num_docs_scanned, table=table)
        count("numEntriesScannedInFilter", statistics.num_entries_scanned_in_filter, table=table)
        count("numEntriesScannedPostFilter", statistics.num_entries_scanned_post_filter, table=table)
        count("numSegmentsQueried", statistics.num_segments_queried, table=table)
        count("numSegmentsProcessed", statistics.num_segments_processed, table=table)
        count("numSegmentsMatched", statistics.num_segments_matched, table=table)
        if failed:
            count("queryExecutionExceptions", table=table)

    def segments_missing(self, table: str, number: int) -> None:
        """A query named segments that are not here."""
        if number:
            self._metrics.count("numMissingSegments", number, table=table)

    def refused(self) -> None:
        """Too many queries ran and waited already."""
        self._metrics.count("queriesRefused")

    def waited_too_long(self) -> None:
        """A query's time was up before it ran."""
        self._metrics.count("schedulingTimeoutExceptions")

    def table_holds(self, table: str, num_segments: int, num_docs: int) -> None:
        """The segments of a table changed."""
        self._metrics.set("segmentCount", num_segments, table=table)
        self._metrics.set("documentCount", num_docs, table=table)

    def segment_dropped(self, table: str) -> None:
        self._metrics.count("deletedSegmentCount", table=table)

    def download_failed(self, table: str) -> None:
        self._metrics.count("segmentDownloadFailures", table=table)

    def load_failed(self, table: str) -> None:
        self._metrics.count("segmentLoadFailures", table=table)

    def reload_failed(self, table: str) -> None:
        self._metrics.count("reloadFailures", table=table)

    def refresh_failed(self, table: str) -> None:
        self._metrics.count("refreshFailures", table=table)
