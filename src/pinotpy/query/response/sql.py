"""The answer to SQL: resultTable, then the keys of the reference's current release in its order (sql-live.md §1).

Our own keys follow them: exactness and its reasons. Rows that did arrive are kept beside 305, 425 and 427.
"""

from __future__ import annotations

from typing import Any

import orjson

from pinotpy.errors import PinotError
from pinotpy.query.context import QueryContext
from pinotpy.query.explain.answer import TABLE_COLUMNS
from pinotpy.query.reduced import ReducedResult
from pinotpy.query.response.envelope import Envelope
from pinotpy.query.response.pql import ERROR_NAMES, result_table
from pinotpy.query.response.rows import Check, no_deadline

_NAMES = {**ERROR_NAMES, 150: "SQLParsingError", 190: "TableDoesNotExistError"}
_THREAD_COUNTERS = (
    "offlineThreadCpuTimeNs",
    "realtimeThreadCpuTimeNs",
    "offlineSystemActivitiesCpuTimeNs",
    "realtimeSystemActivitiesCpuTimeNs",
    "offlineResponseSerializationCpuTimeNs",
    "realtimeResponseSerializationCpuTimeNs",
    "offlineTotalCpuTimeNs",
    "realtimeTotalCpuTimeNs",
)
_MEMORY_COUNTERS = (
    "offlineThreadMemAllocatedBytes",
    "realtimeThreadMemAllocatedBytes",
    "offlineResponseSerMemAllocatedBytes",
    "realtimeResponseSerMemAllocatedBytes",
    "offlineTotalMemAllocatedBytes",
    "realtimeTotalMemAllocatedBytes",
)


def exception_of(error: PinotError) -> dict[str, Any]:
    """One entry of `exceptions`."""
    return _exception(error.code, error.message)


def _exception(code: int, message: str) -> dict[str, Any]:
    name = _NAMES.get(code)
    return {"errorCode": code, "message": f"{name}: {message}" if name and not message.startswith(name) else message}


def result_keys(context: QueryContext, result: ReducedResult, check: Check = no_deadline) -> dict[str, Any]:
    """The keys of the answer that hold its rows. Raises what `check`, called all the while, raises."""
    return {"resultTable": result_table(result, pql=False, check=check), "numRowsResultSet": result.num_rows}


def write(shown: dict[str, Any] | None, envelope: Envelope) -> bytes:
    """The response body. `shown` are the `result_keys`; None leaves resultTable out, but for what EXPLAIN answers."""
    statistics = envelope.statistics
    body: dict[str, Any] = {}
    num_empty, num_match_all = 0, 0
    explained = envelope.explanation
    if shown is not None:
        body |= shown
    elif explained is not None:
        rows = explained.rows()
        names, types = zip(*TABLE_COLUMNS, strict=True)
        body["resultTable"] = {"dataSchema": {"columnNames": names, "columnDataTypes": types}, "rows": rows}
        body["numRowsResultSet"] = len(rows)
    if explained is not None:
        num_empty, num_match_all = explained.num_segments("nothing"), explained.num_segments("everything")
    body |= {
        "numRowsResultSet": body.get("numRowsResultSet", 0),
        "partialResult": envelope.partial,
        "exceptions": [_exception(e.code, e.message) for e in envelope.exceptions],
        "numGroupsLimitReached": statistics.num_groups_limit_reached,
        "numGroupsWarningLimitReached": False,
        "timeUsedMs": envelope.time_used_ms,
        "requestId": envelope.request_id,
        "clientRequestId": None,
        "brokerId": envelope.broker_id,
        "numDocsScanned": statistics.num_docs_scanned,
        "totalDocs": statistics.total_docs,
        "numEntriesScannedInFilter": statistics.num_entries_scanned_in_filter,
        "numEntriesScannedPostFilter": statistics.num_entries_scanned_post_filter,
        "numServersQueried": envelope.num_servers_queried,
        "numServersResponded": envelope.num_servers_responded,
        "numSegmentsQueried": statistics.num_segments_queried,
        "numSegmentsProcessed": statistics.num_segments_processed,
        "numSegmentsMatched": statistics.num_segments_matched,
        "numConsumingSegmentsQueried": 0,
        "numConsumingSegmentsProcessed": 0,
        "numConsumingSegmentsMatched": 0,
        "minConsumingFreshnessTimeMs": 0,
        "numSegmentsPrunedByBroker": envelope.num_segments_pruned_by_broker,
        "numSegmentsPrunedByServer": statistics.num_segments_pruned,
        "numSegmentsPrunedInvalid": 0,
        "numSegmentsPrunedByLimit": 0,
        "numSegmentsPrunedByValue": statistics.num_segments_pruned,
        "brokerReduceTimeMs": envelope.reduce_time_ms,
        **dict.fromkeys(_THREAD_COUNTERS, 0),
        "explainPlanNumEmptyFilterSegments": num_empty,
        "explainPlanNumMatchAllFilterSegments": num_match_all,
        "traceInfo": envelope.trace,
        "tablesQueried": list(envelope.tables_queried),
        **dict.fromkeys(_MEMORY_COUNTERS, 0),
        "pools": [-1],
        "rlsFiltersApplied": False,
        "groupsTrimmed": False,
        **envelope.exactness(),
        "numSegmentsPrunedByBloomFilter": statistics.num_segments_pruned_by_bloom_filter,
        "numSegmentsPrunedByPartition": statistics.num_segments_pruned_by_partition,
    }
    if explained is not None:
        body["explain"] = explained.as_json()
    body["offlineThreadCpuTimeNs"] = body["offlineTotalCpuTimeNs"] = statistics.cpu_ns
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
