"""GET /tables…: the segments that this server serves, their metadata, CRCs and sizes (reference: control-plane
§1.9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Query

from pinotpy.errors import NotFoundError, PinotError
from pinotpy.segment.immutable import ImmutableSegment
from pinotpy.server.index_upkeep import IndexUpkeep
from pinotpy.server.reload_jobs import ReloadJobs
from pinotpy.server.tables.registry import SegmentRegistry
from pinotpy.server.tables.store import SegmentStore
from pinotpy.service.routes import CLUSTER, Action, Routes, table

NEEDED_SHOWN_MAX = 100


def routes(
    registry: SegmentRegistry,
    store: SegmentStore,
    jobs: ReloadJobs,
    upkeep: IndexUpkeep,
    consuming: Callable[[str], list[dict[str, Any]]] = lambda table_name: [],
) -> Routes:
    """The admin routes over the server's segments. `consuming`: ConsumingTables.describe."""
    declared = Routes("Tables")

    def segments_of(table_name: str) -> dict[str, ImmutableSegment]:
        segments = registry.segments(table_name)
        if not segments:
            raise NotFoundError(
                f"this server has no table '{table_name[:200]}': expected a name with type, e.g. flights_OFFLINE",
                table=table_name,
            )
        return segments

    def segment_of(table_name: str, segment_name: str) -> ImmutableSegment:
        segment = segments_of(table_name).get(segment_name)
        if segment is None:
            raise NotFoundError(
                f"this server has no segment '{segment_name[:200]}' of table '{table_name[:200]}'",
                table=table_name,
                segment=segment_name,
            )
        return segment

    @declared.get(
        "/tables/{tableName}/consumingSegmentsInfo",
        Action.READ,
        table("tableName"),
        summary="Partitions of a stream that this server reads: offsets, failures, and what became of the records",
    )
    def consuming_segments(tableName: str) -> dict[str, Any]:
        partitions = consuming(tableName)
        if not partitions:
            raise NotFoundError(
                f"this server reads no stream for table '{tableName[:200]}': expected a name with type, e.g. "
                "orders_REALTIME",
                table=tableName,
            )
        return {"tableName": tableName, "partitions": partitions}

    @declared.get("/tables", Action.READ, CLUSTER, summary="Tables with segments on this server")
    def list_tables() -> dict[str, Any]:
        return {"tables": registry.tables()}

    @declared.get(
        "/tables/{tableName}/segments", Action.READ, table("tableName"), summary="Segments of a table on this server"
    )
    def list_segments(tableName: str) -> dict[str, Any]:
        return {"segments": sorted(segments_of(tableName))}

    @declared.get(
        "/tables/{tableName}/segments/crc", Action.READ, table("tableName"), summary="CRCs of a table's segments"
    )
    def segment_crcs(tableName: str) -> dict[str, str]:
        return {name: str(segment.crc) for name, segment in sorted(segments_of(tableName).items())}

    @declared.get(
        "/tables/{tableName}/segments/{segmentName}/metadata",
        Action.READ,
        table("tableName"),
        summary="Metadata of a segment; columns=* adds its columns",
    )
    def segment_metadata(tableName: str, segmentName: str, columns: list[str] = Query(default=[])) -> dict[str, Any]:
        segment = segment_of(tableName, segmentName)
        names = segment.columns() if "*" in columns else [c for c in columns if segment.has_column(c)]
        return {
            "segmentName": segment.name,
            "tableName": tableName,
            "crc": segment.crc,
            "totalDocs": segment.num_docs,
            "columns": [_column(segment, name) for name in names],
        }

    @declared.get(
        "/tables/{tableName}/size", Action.READ, table("tableName"), summary="Bytes on disk of a table's segments"
    )
    def table_size(tableName: str, detailed: bool = True) -> dict[str, Any]:
        sizes = {name: store.size_bytes(tableName, name) for name in sorted(segments_of(tableName))}
        entries = [{"segmentName": name, "diskSizeInBytes": size} for name, size in sizes.items()]
        return {"tableName": tableName, "diskSizeInBytes": sum(sizes.values()), "segments": entries if detailed else []}

    @declared.get(
        "/tables/{tableName}/reloads/{jobId}",
        Action.READ,
        table("tableName"),
        summary="How far a reload is on this server",
    )
    def reload_job(tableName: str, jobId: str) -> dict[str, Any]:
        status = jobs.status(jobId, tableName, registry.segments(tableName))
        if status is None:
            raise NotFoundError(
                f"this server knows no reload '{jobId[:100]}' of table '{tableName[:200]}'", table=tableName
            )
        try:
            beyond = upkeep.beyond(tableName, registry.segments(tableName).values())
        except PinotError:
            beyond = {}  # the documents are not valid: every segment's failure says so
        meant = {name: words for name, words in beyond.items() if jobs.means(jobId, name)}
        return status | {"rebuildSegments": _shown(meant)}

    @declared.get(
        "/tables/{tableName}/segments/needReload",
        Action.READ,
        table("tableName"),
        summary="Whether a reload would change segments, and what",
    )
    def need_reload(tableName: str) -> dict[str, Any]:
        segments = registry.segments(tableName).values()
        needed, beyond = upkeep.needed(tableName, segments), upkeep.beyond(tableName, segments)
        return {
            "needReload": bool(needed),
            "segments": _shown(needed),
            "needRebuild": bool(beyond),
            "rebuildSegments": _shown(beyond),
        }

    return declared


def _shown(words: dict[str, str]) -> dict[str, str]:
    return {name: words[name] for name in sorted(words)[:NEEDED_SHOWN_MAX]}


def _column(segment: ImmutableSegment, name: str) -> dict[str, Any]:
    column = segment.column(name)
    return {
        "columnName": name,
        "dataType": column.data_type.value,
        "fieldType": column.field_type.value,
        "singleValue": column.single_value,
        "cardinality": column.cardinality,
        "sorted": column.is_sorted,
        "hasDictionary": column.dictionary is not None,
        "hasNulls": column.has_nulls,
        "totalEntries": column.num_values,
    }
