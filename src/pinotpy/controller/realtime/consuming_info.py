"""Where the servers of a table stand in its stream, by segment (Pinot: ConsumingSegmentsInfoMap)."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from pinotpy.cluster.llc_names import parse_llc_name
from pinotpy.cluster.views import CONSUMING
from pinotpy.controller.catalog import states_by_server
from pinotpy.controller.context import Controller
from pinotpy.controller.server_calls import ask_servers

SERVERS_DEADLINE_S: Final = 3.0


def consuming_info(controller: Controller, table: str) -> dict[str, Any]:
    """The answer of GET /tables/{tableName}/consumingSegmentsInfo."""
    consuming = {
        segment: {server: state for server, state in replicas.items() if state == CONSUMING}
        for segment, replicas in (controller.catalog.ideal_state(table) or {}).items()
    }
    held = states_by_server(consuming)
    path = f"/tables/{quote(table, safe='')}/consumingSegmentsInfo"
    answers = ask_servers(controller, held, path, deadline_s=SERVERS_DEADLINE_S)
    of_segment: dict[str, list[dict[str, Any]]] = {name: [] for name, servers in sorted(consuming.items()) if servers}
    for server, segments in held.items():
        told = (answers[server].document or {}).get("partitions", [])
        read = {int(each["partition"]): each for each in told}
        for segment in segments:
            name = parse_llc_name(segment)
            if name is not None and not answers[server].failure:
                of_segment[segment].append(_replica(server, segment, name.partition, read.get(name.partition)))
    silent = {server: answer.failure for server, answer in answers.items() if answer.failure}
    return {
        "serversFailingToRespond": len(silent),
        "serversUnparsableRespond": 0,
        "serversFailed": silent,
        "_segmentToConsumingInfoMap": of_segment,
    }


def _replica(server: str, segment: str, partition: int, read: dict[str, Any] | None) -> dict[str, Any]:
    """read: what the server says of the partition; None if it has not begun with it."""
    is_here = read is not None and any(each["segmentName"] == segment for each in read["segments"])
    offset = str(read["currentOffset"]) if read is not None else ""
    offsets = {str(partition): offset} if offset else {}
    return {
        "serverName": server,
        "consumerState": "CONSUMING" if is_here and read is not None and not read["failure"] else "NOT_CONSUMING",
        "lastConsumedTimestamp": read["lastFetchTimeMs"] if read is not None else 0,
        "partitionToOffsetMap": offsets,
        "partitionOffsetInfo": {"currentOffsetsMap": offsets},
        "failure": read["failure"] if read is not None else "",
    }
