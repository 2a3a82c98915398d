"""Bytes of a table's segments on its servers, asked over their admin REST (Pinot: TableSizeReader).

A server that does not answer gives -1 for its segments; what it holds is estimated by the largest size that others report.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import orjson

from pinotpy.controller.catalog import states_by_server
from pinotpy.controller.context import Controller
from pinotpy.names import TableType, split_table_name

LOG = logging.getLogger(__name__)

SERVER_TIMEOUT_S = 10.0
SERVERS_AT_ONCE_MAX = 16
UNKNOWN = -1

Sizes = Mapping[str, Mapping[str, int]]  # server → segment → bytes


def table_size(controller: Controller, name: str, halves: list[str], *, detailed: bool) -> dict[str, Any]:
    """The answer of GET /tables/{name}/size."""
    parts: dict[TableType, dict[str, Any] | None] = {TableType.OFFLINE: None, TableType.REALTIME: None}
    for half in halves:
        ideal = controller.catalog.ideal_state(half) or {}
        servers = states_by_server(ideal)
        with ThreadPoolExecutor(SERVERS_AT_ONCE_MAX, thread_name_prefix="table-size") as pool:
            reported = dict(zip(servers, pool.map(lambda server, half=half: _ask(controller, server, half), servers), strict=True))
        table_type = split_table_name(half)[1]
        assert table_type is not None
        parts[table_type] = half_size(ideal, reported, detailed=detailed)
    known = [part for part in parts.values() if part is not None and part["segments_known"] > 0]

    def total(key: str) -> int:
        return sum(part[key] for part in known) if known else UNKNOWN

    answer = {
        "tableName": name,
        "reportedSizeInBytes": total("reportedSizeInBytes"),
        "estimatedSizeInBytes": total("estimatedSizeInBytes"),
        "reportedSizePerReplicaInBytes": total("reportedSizePerReplicaInBytes"),
        "offlineSegments": parts[TableType.OFFLINE],
        "realtimeSegments": parts[TableType.REALTIME],
    }
    for part in parts.values():
        if part is not None:
            del part["segments_known"]
    return answer


def half_size(ideal: Mapping[str, Mapping[str, str]], reported: Sizes, *, detailed: bool = True) -> dict[str, Any]:
    """Sizes of one half of a table, from what its servers reported."""
    segments: dict[str, Any] = {}
    missing = reported_total = estimated_total = per_replica_total = 0
    for segment, replicas in sorted(ideal.items()):
        sizes = {server: reported.get(server, {}).get(segment, UNKNOWN) for server in sorted(replicas)}
        known = [size for size in sizes.values() if size != UNKNOWN]
        entry = {"reportedSizeInBytes": UNKNOWN, "estimatedSizeInBytes": UNKNOWN, "maxReportedSizePerReplicaInBytes": UNKNOWN}
        if known:
            entry = {
                "reportedSizeInBytes": sum(known),
                "estimatedSizeInBytes": sum(known) + max(known) * (len(sizes) - len(known)),
                "maxReportedSizePerReplicaInBytes": max(known),
            }
            reported_total += entry["reportedSizeInBytes"]
            estimated_total += entry["estimatedSizeInBytes"]
            per_replica_total += entry["maxReportedSizePerReplicaInBytes"]
        else:
            missing += 1
        server_info = {server: {"segmentName": segment, "diskSizeInBytes": size} for server, size in sizes.items()}
        segments[segment] = {**entry, "serverInfo": server_info}
    nothing_known = bool(ideal) and missing == len(ideal)
    return {
        "reportedSizeInBytes": UNKNOWN if nothing_known else reported_total,
        "estimatedSizeInBytes": UNKNOWN if nothing_known else estimated_total,
        "missingSegments": missing,
        "reportedSizePerReplicaInBytes": UNKNOWN if nothing_known else per_replica_total,
        "segments": segments if detailed else {},
        "segments_known": len(ideal) - missing,
    }


def _ask(controller: Controller, server: str, half: str) -> dict[str, int]:
    config = controller.catalog.instance(server)
    port = config.port_of("adminPort") if config is not None else None
    if config is None or port is None:
        return {}
    try:
        answer = controller.peers.get(f"{controller.scheme}://{config.host}:{port}/tables/{half}/size", timeout=SERVER_TIMEOUT_S)
        answer.raise_for_status()
        return {entry["segmentName"]: int(entry["diskSizeInBytes"]) for entry in orjson.loads(answer.content)["segments"]}
    except (httpx.HTTPError, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        LOG.warning("server does not report sizes server=%s table=%s error=%s", server, half, type(error).__name__)
        return {}
