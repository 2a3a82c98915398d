"""What a server counts of each query and of its segments."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.result.partial import Statistics
from pinotpy.service.metrics import TABLES_MAX, Metrics, Tally, Timings


class _OfTable:
    """What is counted of every query of one table."""

    __slots__ = ("docs", "filter_entries", "matched", "other_entries", "processed", "queried", "queries", "times")

    def __init__(self, metrics: Metrics, table: str) -> None:
        self.queries: Tally = metrics.tally("queries", table=table)
        self.times: Timings = metrics.timings("totalQueryTime", table=table)
        self.docs: Tally = metrics.tally("numDocsScanned", table=table)
        self.filter_entries: Tally = metrics.tally("numEntriesScannedInFilter", table=table)
        self.other_entries: Tally = metrics.tally("numEntriesScannedPostFilter", table=table)
        self.queried: Tally = metrics.tally("numSegmentsQueried", table=table)
        self.processed: Tally = metrics.tally("numSegmentsProcessed", table=table)
        self.matched: Tally = metrics.tally("numSegmentsMatched", table=table)


class ServerMetrics:
    """Counts queries and segments; `metrics` is the daemon's registry. The lock guards what is counted of every query,
    on whatever thread it ran.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._tables: dict[str, _OfTable] = {}
        self._generation = metrics.generation
        self._groupings = {one.value: metrics.tally("groupings", method=one.value) for one in GroupingMethod}

    def query_done(
        self, table: str, took_ms: float, statistics: Statistics, methods: Sequence[str] = (), *, failed: bool
    ) -> None:
        """One query was executed; its groups were found by these methods, one a plan."""
        with self._lock:
            counters = self._tables.get(table)
            if counters is None or self._generation != self._metrics.generation:
                counters = self._of_table(table)
            counters.queries.add()
            counters.times.add(took_ms / 1000)
            counters.docs.add(statistics.num_docs_scanned)
            counters.filter_entries.add(statistics.num_entries_scanned_in_filter)
            counters.other_entries.add(statistics.num_entries_scanned_post_filter)
            counters.queried.add(statistics.num_segments_queried)
            counters.processed.add(statistics.num_segments_processed)
            counters.matched.add(statistics.num_segments_matched)
            for method in methods:
                self._groupings[method].add()
        if failed:
            self._metrics.count("queryExecutionExceptions", table=table)

    def _of_table(self, table: str) -> _OfTable:
        if self._generation != self._metrics.generation or len(self._tables) > TABLES_MAX:
            self._tables.clear()
            self._generation = self._metrics.generation
        metrics_of_table = self._tables[table] = _OfTable(self._metrics, table)
        return metrics_of_table

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

    def kernels_compiled(self, done: int, total: int) -> None:
        """So many kernels of those that are being compiled are there."""
        self._metrics.set("kernelsCompiled", done)
        self._metrics.set("kernelsToCompile", total - done)

    def waited_for_kernel(self) -> None:
        """A query called a kernel that was not compiled yet."""
        self._metrics.count("queriesWaitedForKernels")

    def table_holds(self, table: str, num_segments: int, num_docs: int) -> None:
        """The segments of a table changed."""
        self._metrics.set("segmentCount", num_segments, table=table)
        self._metrics.set("documentCount", num_docs, table=table)

    def segment_dropped(self, table: str) -> None:
        self._metrics.count("deletedSegmentCount", table=table)

    def scrubbed(self, num_segments_left: int, num_bytes: int) -> None:
        self._metrics.set("segmentsToScrub", num_segments_left)
        self._metrics.count("scrubbedBytes", num_bytes)

    def segment_damaged(self, table: str) -> None:
        self._metrics.count("segmentsFoundDamaged", table=table)

    def fetched_from_peer(self, table: str) -> None:
        self._metrics.count("segmentsFetchedFromPeers", table=table)

    def given_to_peer(self, table: str) -> None:
        self._metrics.count("segmentsGivenToPeers", table=table)

    def download_failed(self, table: str) -> None:
        self._metrics.count("segmentDownloadFailures", table=table)

    def load_failed(self, table: str) -> None:
        self._metrics.count("segmentLoadFailures", table=table)

    def reload_failed(self, table: str) -> None:
        self._metrics.count("reloadFailures", table=table)

    def refresh_failed(self, table: str) -> None:
        self._metrics.count("refreshFailures", table=table)
