"""The answer to PQL: selectionResults, aggregationResults or resultTable, then counters in the reference's order.

Shapes and order of keys: reference pql.md §2.2-2.6 and pql-live.md. Our own keys (partialResult, exactness, …) follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import orjson

from pinotpy.errors import TableNotFoundError
from pinotpy.query.model.context import QueryContext, QueryKind
from pinotpy.query.model.deadline import Check, no_deadline
from pinotpy.query.result.reduced import ReducedResult
from pinotpy.query.result.response import values
from pinotpy.query.result.response.envelope import Envelope
from pinotpy.query.result.response.rows import Show, json_rows

ERROR_NAMES = {
    150: "PQLParsingError",
    180: "AccessDenied",
    200: "QueryExecutionError",
    211: "ServerOutOfCapacityError",
    250: "ExecutionTimeoutError",
    305: "ServerSegmentMissing",
    400: "BrokerTimeoutError",
    410: "BrokerResourceMissingError",
    425: "BrokerRequestSendError",
    427: "ServerNotResponding",
    429: "TooManyRequests",
    450: "InternalError",
    503: "QueryCancelled",
    700: "QueryValidationError",
    710: "UnknownColumnError",
}


def _exception(code: int, message: str) -> dict[str, Any]:
    name = ERROR_NAMES.get(code)
    return {"errorCode": code, "message": f"{name}:\n{message}" if name and not message.startswith(name) else message}


def result_keys(context: QueryContext, result: ReducedResult, check: Check = no_deadline) -> dict[str, Any]:
    """The keys of the answer that hold its rows. Raises what `check`, called all the while, raises."""
    options = context.options
    if options.response_format_sql:
        return {"resultTable": result_table(result, pql=True, check=check)}
    match result.kind:
        case QueryKind.SELECTION:
            return _selection(
                result, partial(values.native, pql=True) if options.preserve_type else values.selection_texts, check
            )
        case QueryKind.DISTINCT:
            # DISTINCT answers with native values, whatever preserveType says (reference, pql.md §2.6).
            return _selection(result, partial(values.native, pql=True), check)
        case QueryKind.AGGREGATION:
            show = _aggregation_values(options.preserve_type)
            return {"aggregationResults": [{"function": c.name, "value": show(c)[0]} for c in result.columns]}
        case QueryKind.GROUP_BY:
            return {"aggregationResults": _group_lists(result, _aggregation_values(options.preserve_type), check)}


def write(shown: dict[str, Any] | None, envelope: Envelope) -> bytes:
    """The response body. `shown` are the `result_keys`; None (nothing could be computed) leaves them out."""
    body: dict[str, Any] = dict(shown or {})
    if envelope.explanation is not None:
        body["explain"] = envelope.explanation.as_json()
    statistics = envelope.statistics
    body |= {
        "exceptions": [
            _exception(410 if e.code == TableNotFoundError.code else e.code, e.message) for e in envelope.exceptions
        ],
        "numServersQueried": envelope.num_servers_queried,
        "numServersResponded": envelope.num_servers_responded,
        "numSegmentsQueried": statistics.num_segments_queried,
        "numSegmentsProcessed": statistics.num_segments_processed,
        "numSegmentsMatched": statistics.num_segments_matched,
        "numConsumingSegmentsQueried": envelope.num_consuming_segments,
        "numDocsScanned": statistics.num_docs_scanned,
        "numEntriesScannedInFilter": statistics.num_entries_scanned_in_filter,
        "numEntriesScannedPostFilter": statistics.num_entries_scanned_post_filter,
        "numGroupsLimitReached": statistics.num_groups_limit_reached,
        "totalDocs": statistics.total_docs,
        "timeUsedMs": envelope.time_used_ms,
        "segmentStatistics": [],
        "traceInfo": envelope.trace,
        "minConsumingFreshnessTimeMs": envelope.consuming_freshness_ms,
        "partialResult": envelope.partial,
        **envelope.exactness(),
        "requestId": envelope.request_id,
        "numSegmentsPrunedByBroker": envelope.num_segments_pruned_by_broker,
        "numSegmentsPrunedByServer": statistics.num_segments_pruned,
        "numSegmentsPrunedByBloomFilter": statistics.num_segments_pruned_by_bloom_filter,
        "numSegmentsPrunedByPartition": statistics.num_segments_pruned_by_partition,
        **envelope.offsets_as_json(),
    }
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def _selection(result: ReducedResult, show: Show, check: Check) -> dict[str, Any]:
    rows = json_rows(result.columns, [show] * len(result.columns), check)
    return {"selectionResults": {"columns": [c.name for c in result.columns], "results": rows}}


def _aggregation_values(preserve_type: bool) -> Show:
    return partial(values.native, pql=True) if preserve_type else values.aggregation_texts


def _group_lists(result: ReducedResult, show: Show, check: Check) -> list[dict[str, Any]]:
    lists = []
    for group_list in result.group_lists:
        shows: list[Show] = [show, *[values.group_texts] * len(group_list.keys)]
        lists.append(
            {
                "groupByResult": json_rows([group_list.value, *group_list.keys], shows, check, _groups),
                "function": group_list.function,
                "groupByColumns": [key.name for key in group_list.keys],
            }
        )
    return lists


def _groups(rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    return [{"value": value, "group": group} for value, *group in rows]


def result_table(result: ReducedResult, *, pql: bool, check: Check = no_deadline) -> dict[str, Any]:
    """`resultTable` with native values; in PQL a BOOLEAN column is a STRING."""
    types = [
        ("STRING" if column.type.single_value else "STRING_ARRAY")
        if pql and "BOOLEAN" in column.type.name
        else column.type.name
        for column in result.columns
    ]
    return {
        "dataSchema": {"columnNames": [column.name for column in result.columns], "columnDataTypes": types},
        "rows": json_rows(result.columns, [partial(values.native, pql=pql)] * len(result.columns), check),
    }
