"""Bytes of a table's segments on its servers, asked over their admin REST (Pinot: TableSizeReader).

A server that does not answer gives -1 for its segments; what it holds is estimated by the largest size that others
report.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pinotpy.controller.catalog import states_by_server
from pinotpy.controller.context import Controller
from pinotpy.controller.server_calls import ServerAnswer, ask_servers
from pinotpy.names import TableType, split_table_name

UNKNOWN = -1

Sizes = Mapping[str, Mapping[str, int]]  # server → segment → bytes


def table_size(controller: Controller, name: str, halves: list[str], *, detailed: bool) -> dict[str, Any]:
    """The answer of GET /tables/{name}/size."""
    parts: dict[TableType, dict[str, Any] | None] = {TableType.OFFLINE: None, TableType.REALTIME: None}
    for half in halves:
        ideal = controller.catalog.ideal_state(half) or {}
        servers = states_by_server(ideal)
        reported = {
            server: _sizes(answer)
            for server, answer in ask_servers(controller, servers, f"/tables/{half}/size").items()
        }
        table_type = split_table_name(half)[1]
        assert table_type is not None
        parts[table_type] = half_size(ideal, reported, detailed=detailed)
    known = [document for document in parts.values() if document is not None and document["segments_known"] > 0]

    def total(key: str) -> int:
        return sum(document[key] for document in known) if known else UNKNOWN

    answer = {
        "tableName": name,
        "reportedSizeInBytes": total("reportedSizeInBytes"),
        "estimatedSizeInBytes": total("estimatedSizeInBytes"),
        "reportedSizePerReplicaInBytes": total("reportedSizePerReplicaInBytes"),
        "offlineSegments": parts[TableType.OFFLINE],
        "realtimeSegments": parts[TableType.REALTIME],
    }
    for document in parts.values():
        if document is not None:
            del document["segments_known"]
    return answer


def half_size(ideal: Mapping[str, Mapping[str, str]], reported: Sizes, *, detailed: bool = True) -> dict[str, Any]:
    """Sizes of one half of a table, from what its servers reported."""
    segments: dict[str, Any] = {}
    missing = reported_total = estimated_total = per_replica_total = 0
    for segment, replicas in sorted(ideal.items()):
        sizes = {server: reported.get(server, {}).get(segment, UNKNOWN) for server in sorted(replicas)}
        known = [size for size in sizes.values() if size != UNKNOWN]
        entry = {
            "reportedSizeInBytes": UNKNOWN,
            "estimatedSizeInBytes": UNKNOWN,
            "maxReportedSizePerReplicaInBytes": UNKNOWN,
        }
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


def _sizes(answer: ServerAnswer) -> dict[str, int]:
    return {
        str(entry["segmentName"]): int(entry["diskSizeInBytes"])
        for entry in (answer.document or {}).get("segments", ())
    }
