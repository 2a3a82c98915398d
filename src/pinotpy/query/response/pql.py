"""The answer to PQL: selectionResults, aggregationResults or resultTable, then counters in the reference's order.

Shapes and order of keys: reference pql.md §2.2-2.6 and pql-live.md. Our own keys (partialResult, exactness, …) follow.
"""

from __future__ import annotations

from typing import Any

import orjson

from pinotpy.errors import PinotError, TableNotFoundError
from pinotpy.query.context import QueryContext, QueryKind
from pinotpy.query.reduced import ReducedResult
from pinotpy.query.response import values
from pinotpy.query.response.envelope import Envelope

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


def exception_of(error: PinotError) -> dict[str, Any]:
    """One entry of `exceptions`: Pinot's code and name, then our message. An unknown table is 410 in PQL."""
    code = 410 if isinstance(error, TableNotFoundError) else error.code
    return _exception(code, error.message)


def _exception(code: int, message: str) -> dict[str, Any]:
    name = ERROR_NAMES.get(code)
    return {"errorCode": code, "message": f"{name}:\n{message}" if name and not message.startswith(name) else message}


def write(context: QueryContext | None, result: ReducedResult | None, envelope: Envelope) -> bytes:
    """The response body. `result` None (nothing could be computed) leaves the result keys out."""
    body: dict[str, Any] = {} if context is None or result is None else _result(context, result)
    if envelope.explanation is not None:
        body["explain"] = envelope.explanation.as_json()
    statistics = envelope.statistics
    body |= {
        "exceptions": [_exception(410 if e.code == TableNotFoundError.code else e.code, e.message) for e in envelope.exceptions],
        "numServersQueried": envelope.num_servers_queried,
        "numServersResponded": envelope.num_servers_responded,
        "numSegmentsQueried": statistics.num_segments_queried,
        "numSegmentsProcessed": statistics.num_segments_processed,
        "numSegmentsMatched": statistics.num_segments_matched,
        "numConsumingSegmentsQueried": 0,
        "numDocsScanned": statistics.num_docs_scanned,
        "numEntriesScannedInFilter": statistics.num_entries_scanned_in_filter,
        "numEntriesScannedPostFilter": statistics.num_entries_scanned_post_filter,
        "numGroupsLimitReached": statistics.num_groups_limit_reached,
        "totalDocs": statistics.total_docs,
        "timeUsedMs": envelope.time_used_ms,
        "segmentStatistics": [],
        "traceInfo": envelope.trace,
        "minConsumingFreshnessTimeMs": 0,
        "partialResult": envelope.partial,
        **envelope.exactness(),
        "requestId": envelope.request_id,
        "numSegmentsPrunedByBroker": envelope.num_segments_pruned_by_broker,
        "numSegmentsPrunedByServer": statistics.num_segments_pruned,
    }
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def _result(context: QueryContext, result: ReducedResult) -> dict[str, Any]:
    options = context.options
    if options.response_format_sql:
        return {"resultTable": result_table(result, pql=True)}
    match result.kind:
        case QueryKind.SELECTION:
            show = (lambda c: values.native(c, pql=True)) if options.preserve_type else values.selection_texts
            return _selection(result, [show(column) for column in result.columns])
        case QueryKind.DISTINCT:
            # DISTINCT answers with native values, whatever preserveType says (reference, pql.md §2.6).
            return _selection(result, [values.native(column, pql=True) for column in result.columns])
        case QueryKind.AGGREGATION:
            shown = [_aggregation_values(options.preserve_type, column)[0] for column in result.columns]
            return {"aggregationResults": [{"function": c.name, "value": v} for c, v in zip(result.columns, shown, strict=True)]}
        case QueryKind.GROUP_BY:
            return {"aggregationResults": _group_lists(result, options.preserve_type)}


def _selection(result: ReducedResult, columns: list[list[Any]]) -> dict[str, Any]:
    return {"selectionResults": {"columns": [c.name for c in result.columns], "results": rows_of(columns)}}


def _aggregation_values(preserve_type: bool, column: Any) -> list[Any]:
    return values.native(column, pql=True) if preserve_type else values.aggregation_texts(column)


def _group_lists(result: ReducedResult, preserve_type: bool) -> list[dict[str, Any]]:
    lists = []
    for group_list in result.group_lists:
        shown = _aggregation_values(preserve_type, group_list.value)
        groups = rows_of([values.group_texts(key) for key in group_list.keys])
        lists.append(
            {
                "groupByResult": [{"value": value, "group": group} for value, group in zip(shown, groups, strict=True)],
                "function": group_list.function,
                "groupByColumns": [key.name for key in group_list.keys],
            }
        )
    return lists


def result_table(result: ReducedResult, *, pql: bool) -> dict[str, Any]:
    """`resultTable` with native values; in PQL a BOOLEAN column is a STRING."""
    types = [
        ("STRING" if column.type.single_value else "STRING_ARRAY") if pql and "BOOLEAN" in column.type.name else column.type.name for column in result.columns
    ]
    return {
        "dataSchema": {"columnNames": [column.name for column in result.columns], "columnDataTypes": types},
        "rows": rows_of([values.native(column, pql=pql) for column in result.columns]),
    }


def rows_of(columns: list[list[Any]]) -> list[list[Any]]:
    """Columns to rows."""
    return [list(row) for row in zip(*columns, strict=True)]
