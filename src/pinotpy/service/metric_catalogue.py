"""Every metric of every daemon, by role. Names are those of Pinot's meters, gauges and timers."""

from __future__ import annotations

from pinotpy.service.metrics import Metric, MetricKind

_COUNTER, _GAUGE, _HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM
_TABLE = ("table",)

# On every daemon, counted by the HTTP kit and the daemon.
COMMON_METRICS: tuple[Metric, ...] = (
    Metric("httpRequests", _COUNTER, "requests", "HTTP requests by status class", ("status",)),
    Metric("httpRequestLatency", _HISTOGRAM, "seconds", "time from headers to answer of an HTTP request"),
    Metric("accessDenied", _COUNTER, "requests", "requests refused by access control, by reason", ("reason",)),
    Metric("httpConnectionsGivenUp", _COUNTER, "connections", "connections at rest that were closed for newcomers"),
    Metric("httpConnectionsRefused", _COUNTER, "connections", "connections refused because all places were at work"),
    Metric("openDescriptors", _GAUGE, "descriptors", "files and connections that the process has open"),
    Metric("descriptorsLimit", _GAUGE, "descriptors", "how many it may have open"),
    Metric("uncaughtExceptions", _COUNTER, "errors", "requests that ended in a fault of ours"),
    Metric("zookeeperReconnects", _COUNTER, "sessions", "sessions with ZooKeeper that had to be built anew"),
    Metric("ready", _GAUGE, "0 or 1", "whether the daemon serves"),
    Metric("memoryLimit", _GAUGE, "bytes", "memory of the control group, else of the machine"),
    Metric("memoryBudget", _GAUGE, "bytes", "what this process with its workers may use of it"),
    Metric("memoryStanding", _GAUGE, "bytes", "part of the budget that no query gives back"),
    Metric("memoryOfQueries", _GAUGE, "bytes", "part of the budget that queries have"),
    Metric("memoryResident", _GAUGE, "bytes", "what the process and its workers use, mapped files apart"),
    Metric("memoryResidentPeak", _GAUGE, "bytes", "the most that was seen of it since the start"),
    Metric("queriesWaitedForMemory", _GAUGE, "requests", "requests for memory that waited, since the start"),
    Metric("queriesRefusedMemory", _GAUGE, "queries", "queries that waited for memory in vain, since the start"),
    Metric("queriesEndedForMemory", _GAUGE, "queries", "queries ended because their process was over its budget"),
)

BROKER_METRICS: tuple[Metric, ...] = (
    *COMMON_METRICS,
    Metric("queries", _COUNTER, "queries", "queries received", _TABLE),
    Metric("queryTotalTime", _HISTOGRAM, "seconds", "time from text to answer", _TABLE),
    Metric("requestCompilationExceptions", _COUNTER, "queries", "queries that did not parse or compile"),
    Metric("resourceMissingExceptions", _COUNTER, "queries", "queries on tables that this broker does not know"),
    Metric("queryValidationExceptions", _COUNTER, "queries", "queries refused by validation"),
    Metric("requestSendExceptions", _COUNTER, "calls", "calls to servers that could not be sent", _TABLE),
    Metric("responseFetchExceptions", _COUNTER, "calls", "calls to servers that broke or timed out", _TABLE),
    Metric("brokerResponsesWithProcessingExceptions", _COUNTER, "answers", "answers with exceptions", _TABLE),
    Metric("brokerResponsesWithPartialServersResponded", _COUNTER, "answers", "answers without all servers", _TABLE),
    Metric("brokerResponsesWithNumGroupsLimitReached", _COUNTER, "answers", "answers cut by the groups limit", _TABLE),
    Metric("documentsScanned", _COUNTER, "documents", "documents that matched filters", _TABLE),
    Metric("entriesScannedInFilter", _COUNTER, "entries", "entries read by filters", _TABLE),
    Metric("entriesScannedPostFilter", _COUNTER, "entries", "entries read after filters", _TABLE),
    Metric("segmentsPruned", _COUNTER, "segments", "segments that no server was asked for, by their records", _TABLE),
    Metric(
        "segmentRecordsNotUsed",
        _GAUGE,
        "records",
        "records of segments that exclude nothing, or less than they say, by what is wrong with them",
        ("table", "reason"),
    ),
    Metric("totalServerResponseSize", _COUNTER, "bytes", "bytes of the answers of servers"),
    Metric("noServingHostForSegment", _COUNTER, "segments", "segments without a living replica", _TABLE),
    Metric("queryLogDropped", _COUNTER, "queries", "queries that the file of the query log lacks"),
    Metric("unhealthyServers", _GAUGE, "servers", "servers that refused a connection a moment ago and are asked last"),
    Metric(
        "adaptiveServerNumInFlightRequests", _GAUGE, "requests", "requests that a server has not answered", ("server",)
    ),
    Metric("adaptiveServerLatencyEma", _GAUGE, "ms", "moving average of the times of a server's answers", ("server",)),
    Metric(
        "adaptiveServerHybridScore", _GAUGE, "score", "score of a server by queue and latency, low is good", ("server",)
    ),
    Metric("routedTables", _GAUGE, "tables", "tables that this broker serves"),
)

SERVER_METRICS: tuple[Metric, ...] = (
    *COMMON_METRICS,
    Metric("queries", _COUNTER, "queries", "queries received", _TABLE),
    Metric("totalQueryTime", _HISTOGRAM, "seconds", "time from request to answer", _TABLE),
    Metric("schedulingTimeoutExceptions", _COUNTER, "queries", "queries whose time was up before they ran"),
    Metric("queryExecutionExceptions", _COUNTER, "queries", "queries that failed while running", _TABLE),
    Metric("queriesRefused", _COUNTER, "queries", "queries refused because too many ran already"),
    Metric("numDocsScanned", _COUNTER, "documents", "documents that matched filters", _TABLE),
    Metric("numEntriesScannedInFilter", _COUNTER, "entries", "entries read by filters", _TABLE),
    Metric("numEntriesScannedPostFilter", _COUNTER, "entries", "entries read after filters", _TABLE),
    Metric("groupings", _COUNTER, "plans", "plans whose groups were found by a method", ("method",)),
    Metric("numSegmentsQueried", _COUNTER, "segments", "segments asked for", _TABLE),
    Metric("numSegmentsProcessed", _COUNTER, "segments", "segments read", _TABLE),
    Metric("numSegmentsMatched", _COUNTER, "segments", "segments with a match", _TABLE),
    Metric("numMissingSegments", _COUNTER, "segments", "segments asked for that are not here", _TABLE),
    Metric("documentCount", _GAUGE, "documents", "documents in loaded segments", _TABLE),
    Metric("segmentCount", _GAUGE, "segments", "loaded segments", _TABLE),
    Metric("deletedSegmentCount", _COUNTER, "segments", "segments dropped", _TABLE),
    Metric("segmentDownloadFailures", _COUNTER, "segments", "segments that could not be fetched", _TABLE),
    Metric("segmentLoadFailures", _COUNTER, "segments", "segments that could not be opened", _TABLE),
    Metric(
        "segmentsFetchedFromPeers",
        _COUNTER,
        "segments",
        "segments that came from another server because the deep store did not give them",
        _TABLE,
    ),
    Metric("segmentsGivenToPeers", _COUNTER, "segments", "archives of segments given to others, whole", _TABLE),
    Metric(
        "segmentsFoundDamaged",
        _COUNTER,
        "segments",
        "segments whose files were found damaged while they were served, and were fetched anew",
        _TABLE,
    ),
    Metric("segmentsToScrub", _GAUGE, "segments", "segments whose files are to be re-read in this round of the scrub"),
    Metric("scrubbedBytes", _COUNTER, "bytes", "bytes of segments that the scrub re-read"),
    Metric("consumingRowsMemory", _GAUGE, "bytes", "memory of rows of streams that are not sealed"),
    Metric("consumingRowsMemoryMax", _GAUGE, "bytes", "what they may take; at 80 % segments are committed early"),
    Metric(
        "segmentsEndedForMemory", _GAUGE, "segments", "consuming segments that were committed early, since the start"
    ),
    Metric("kernelsCompiled", _GAUGE, "kernels", "kernels that are there, of those that are being compiled now"),
    Metric("kernelsToCompile", _GAUGE, "kernels", "kernels that are still to be compiled"),
    Metric("queriesWaitedForKernels", _COUNTER, "waits", "waits of queries for a kernel that was not compiled yet"),
    Metric("refreshFailures", _COUNTER, "segments", "refreshes that failed", _TABLE),
    Metric("reloadFailures", _COUNTER, "segments", "reloads that failed; the segments are served as they were", _TABLE),
)

CONTROLLER_METRICS: tuple[Metric, ...] = (
    *COMMON_METRICS,
    Metric("pinotControllerLeader", _GAUGE, "0 or 1", "whether this controller leads"),
    Metric("offlineTableCount", _GAUGE, "tables", "OFFLINE tables"),
    Metric("realtimeTableCount", _GAUGE, "tables", "REALTIME tables"),
    Metric("disabledTableCount", _GAUGE, "tables", "disabled tables"),
    Metric("idealstateZnodeSize", _GAUGE, "bytes", "size of the ideal state record", _TABLE),
    Metric("segmentCount", _GAUGE, "segments", "segments in the ideal state that queries see", _TABLE),
    Metric(
        "segmentCountIncludingReplaced",
        _GAUGE,
        "segments",
        "segments in the ideal state, also those that others stand for",
        _TABLE,
    ),
    Metric("numberOfReplicas", _GAUGE, "replicas", "least number of serving replicas of a segment", _TABLE),
    Metric("percentOfReplicas", _GAUGE, "percent", "least share of serving replicas of a segment", _TABLE),
    Metric("segmentsInErrorState", _GAUGE, "segments", "segments in ERROR on some server", _TABLE),
    Metric("percentSegmentsAvailable", _GAUGE, "percent", "share of segments with a serving replica", _TABLE),
    Metric(
        "deepStoreArchivesMissing", _GAUGE, "archives", "archives that the deep store lost, not yet rebuilt", _TABLE
    ),
    Metric("deepStoreArchivesDamaged", _GAUGE, "archives", "archives found damaged there, not yet rebuilt", _TABLE),
    Metric("deepStoreArchivesChecked", _COUNTER, "archives", "archives read there and found sound", _TABLE),
    Metric("deepStoreArchivesRepaired", _COUNTER, "archives", "archives rebuilt there from a replica", _TABLE),
    Metric("deepStoreArchiveChecksFailed", _COUNTER, "archives", "archives that could not be checked there", _TABLE),
    Metric("controllerSegmentUploads", _COUNTER, "segments", "segments uploaded", _TABLE),
    Metric(
        "controllerSegmentsWithoutPartitions",
        _COUNTER,
        "segments",
        "segments registered without partitions of a column that the table partitions",
        _TABLE,
    ),
    Metric("controllerSegmentUploadError", _COUNTER, "uploads", "segment uploads refused or failed"),
    Metric("controllerCompletionAlarms", _COUNTER, "events", "consuming segments that need attention", _TABLE),
    Metric("controllerSchemaUploadError", _COUNTER, "uploads", "schema uploads refused or failed"),
    Metric("controllerTableAddError", _COUNTER, "requests", "table creations refused or failed"),
    Metric("controllerPeriodicTaskRun", _COUNTER, "runs", "runs of periodic tasks", ("task",)),
    Metric("controllerPeriodicTaskError", _COUNTER, "runs", "runs of periodic tasks that failed", ("task",)),
    Metric(
        "transitionMessagesSent", _GAUGE, "messages", "state transition messages written since this controller started"
    ),
)

METRICS_BY_ROLE: dict[str, tuple[Metric, ...]] = {
    "broker": BROKER_METRICS,
    "server": SERVER_METRICS,
    "controller": CONTROLLER_METRICS,
}
