"""The answer to SQL: resultTable, then the keys of the reference's current release in its order (sql-live.md §1).

Our own keys follow them: exactness and its reasons. Rows that did arrive are kept beside 305, 425 and 427.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.deadline import Check, no_deadline
from pinotpy.query.result.explained_answer import TABLE_COLUMNS
from pinotpy.query.result.reduced import ReducedResult
from pinotpy.query.result.response.envelope import Envelope
from pinotpy.query.result.response.pql import ERROR_NAMES, result_table

_NAMES = {**ERROR_NAMES, 150: "SQLParsingError", 190: "TableDoesNotExistError"}


def _numbers(*names: str, zero: bool = False) -> bytes:
    return b"".join(b',"%s":%s' % (name.encode(), b"0" if zero else b"%d") for name in names)


# Half of the keys of the reference's answer say nothing here. As text they cost nothing: as a dictionary more than all
# the rest.
_COUNTERS: Final = b"".join(
    (
        _numbers(
            "numDocsScanned",
            "totalDocs",
            "numEntriesScannedInFilter",
            "numEntriesScannedPostFilter",
            "numServersQueried",
            "numServersResponded",
        ),
        _numbers("numSegmentsQueried", "numSegmentsProcessed", "numSegmentsMatched"),
        _numbers("numConsumingSegmentsQueried", "numConsumingSegmentsProcessed", "numConsumingSegmentsMatched"),
        _numbers("minConsumingFreshnessTimeMs"),
        _numbers("numSegmentsPrunedByBroker", "numSegmentsPrunedByServer"),
        _numbers("numSegmentsPrunedInvalid", "numSegmentsPrunedByLimit", zero=True),
        _numbers("numSegmentsPrunedByValue", "brokerReduceTimeMs", "offlineThreadCpuTimeNs"),
        _numbers(
            "realtimeThreadCpuTimeNs",
            "offlineSystemActivitiesCpuTimeNs",
            "realtimeSystemActivitiesCpuTimeNs",
            zero=True,
        ),
        _numbers("offlineResponseSerializationCpuTimeNs", "realtimeResponseSerializationCpuTimeNs", zero=True),
        _numbers("offlineTotalCpuTimeNs"),
        _numbers("realtimeTotalCpuTimeNs", zero=True),
        _numbers("explainPlanNumEmptyFilterSegments", "explainPlanNumMatchAllFilterSegments"),
        b",",
    )
)
_UNUSED: Final = b"".join(
    (
        _numbers(
            "offlineThreadMemAllocatedBytes",
            "realtimeThreadMemAllocatedBytes",
            "offlineResponseSerMemAllocatedBytes",
            zero=True,
        ),
        _numbers(
            "realtimeResponseSerMemAllocatedBytes",
            "offlineTotalMemAllocatedBytes",
            "realtimeTotalMemAllocatedBytes",
            zero=True,
        ),
        b',"pools":[-1],"rlsFiltersApplied":false,"groupsTrimmed":false,',
    )
)


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
    }
    end: dict[str, Any] = {"traceInfo": envelope.trace, "tablesQueried": envelope.tables_queried}
    last: dict[str, Any] = {
        **envelope.exactness(),
        "numSegmentsPrunedByBloomFilter": statistics.num_segments_pruned_by_bloom_filter,
        "numSegmentsPrunedByPartition": statistics.num_segments_pruned_by_partition,
        **envelope.offsets_as_json(),
    }
    if explained is not None:
        last["explain"] = explained.as_json()
    counters = _COUNTERS % (
        statistics.num_docs_scanned,
        statistics.total_docs,
        statistics.num_entries_scanned_in_filter,
        statistics.num_entries_scanned_post_filter,
        envelope.num_servers_queried,
        envelope.num_servers_responded,
        statistics.num_segments_queried,
        statistics.num_segments_processed,
        statistics.num_segments_matched,
        envelope.num_consuming_segments,
        statistics.num_consuming_segments_processed,
        statistics.num_consuming_segments_matched,
        envelope.consuming_freshness_ms,
        envelope.num_segments_pruned_by_broker,
        statistics.num_segments_pruned,
        statistics.num_segments_pruned,
        envelope.reduce_time_ms,
        statistics.cpu_ns,
        statistics.cpu_ns,
        num_empty,
        num_match_all,
    )
    return b"".join((_dumps(body)[:-1], counters, _dumps(end)[1:-1], _UNUSED, _dumps(last)[1:]))


def _dumps(part: dict[str, Any]) -> bytes:
    return orjson.dumps(part, option=orjson.OPT_SERIALIZE_NUMPY)
