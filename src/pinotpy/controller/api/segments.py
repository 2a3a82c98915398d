"""REST of segments: lists, records, downloads, resets, deletes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, BinaryIO
from urllib.parse import quote

import orjson
from fastapi import Header, Query
from fastapi.responses import Response, StreamingResponse

from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.views import CONSUMING
from pinotpy.controller import deletion, reset
from pinotpy.controller.api.answers import java_list, success, table_type_of
from pinotpy.controller.api.aside import aside, pieces_of
from pinotpy.controller.api.bodies import RawBody, json_body
from pinotpy.controller.catalog import states_by_server
from pinotpy.controller.context import Controller
from pinotpy.controller.periods import period_ms
from pinotpy.controller.segment_inputs import input_list, read_inputs, set_inputs
from pinotpy.controller.tables import existing_halves, halves_named
from pinotpy.errors import AccessDeniedError, NotFoundError, UserError
from pinotpy.names import TableType, raw_table_name, split_table_name, table_name_with_type
from pinotpy.segment.input_list import INPUT_LIST_MAX_BYTES
from pinotpy.service.errors import ConflictingChangeError
from pinotpy.service.routes import Action, Routes, table

TYPE = Query(None, alias="type", description="OFFLINE or REALTIME; without it, both.")
RETENTION = Query(None, description="How long the files are kept, e.g. 7d, 3h30m; 0d deletes them at once.")
NAMES_BODY = {
    "requestBody": {
        "description": "A JSON list of segment names.",
        "required": True,
        "content": {"application/json": {"schema": {"type": "array", "items": {"type": "string"}}}},
    }
}
NAMES_MAX = 100_000


def segment_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Segment")
    catalog = controller.catalog

    @routes.get("/segments/{tableName}", Action.READ, table("tableName"), summary="Names of a table's segments")
    def list_segments(
        tableName: str,
        type: str | None = TYPE,
        startTimestamp: int | None = Query(
            None, description="Only segments with rows at or after this time, ms since the epoch."
        ),
        endTimestamp: int | None = Query(
            None, description="Only segments with rows before this time, ms since the epoch."
        ),
        excludeOverlapping: bool = Query(
            False, description="true: leave out segments that lie only partly within these times."
        ),
        excludeReplacedSegments: bool = Query(
            False, description="true: only segments that queries see, as others stand for the rest."
        ),
    ) -> list[dict[str, list[str]]]:
        answer = []
        for half in halves_asked(controller, tableName, type):
            names = catalog.segment_names(half)
            if excludeReplacedSegments:
                hidden = catalog.hidden_segments(half)
                names = [name for name in names if name not in hidden]
            if startTimestamp is not None or endTimestamp is not None:
                names = _within(
                    controller, half, names, startTimestamp, endTimestamp, exclude_overlapping=excludeOverlapping
                )
            answer.append({str(split_table_name(half)[1]): names})
        return answer

    @routes.get(
        "/segments/{tableName}/servers",
        Action.READ,
        table("tableName"),
        summary="Which server should hold which segments",
    )
    def servers(
        tableName: str, type: str | None = TYPE, verbose: bool = Query(True, description="false: counts only.")
    ) -> list[dict[str, Any]]:
        answer = []
        for half in halves_asked(controller, tableName, type):
            by_server = states_by_server(catalog.ideal_state(half) or {})
            entry: dict[str, Any] = {"tableName": half}
            if verbose:
                entry["serverToSegmentsMap"] = by_server
            entry["serverToSegmentsCountMap"] = {server: len(names) for server, names in by_server.items()}
            answer.append(entry)
        return answer

    @routes.get(
        "/segments/{tableName}/crc", Action.READ, table("tableName"), summary="CRC of each segment of the OFFLINE table"
    )
    def crcs(tableName: str) -> dict[str, str]:
        half = table_name_with_type(raw_table_name(tableName), TableType.OFFLINE)
        if catalog.table_config(half) is None:
            raise NotFoundError(f"Table '{half[:200]}' not found.")
        records = catalog.segments(half, catalog.segment_names(half))
        return {name: str(segment.crc) for name, segment in sorted(records.items())}

    @routes.get(
        "/segments/{tableName}/zkmetadata",
        Action.READ,
        table("tableName"),
        summary="Record of each segment, as it lies in the cluster",
    )
    def zk_metadata(tableName: str, type: str | None = TYPE) -> dict[str, dict[str, str]]:
        answer: dict[str, dict[str, str]] = {}
        for half in halves_asked(controller, tableName, type):
            records = catalog.segments(half, catalog.segment_names(half))
            answer |= {name: segment.to_record().simple_fields for name, segment in sorted(records.items())}
        return answer

    @routes.get(
        "/segments/{tableName}/{segmentName}/metadata",
        Action.READ,
        table("tableName"),
        summary="Record of one segment, as it lies in the cluster",
    )
    def metadata(tableName: str, segmentName: str) -> dict[str, Any]:
        for half in halves_named(tableName, None):
            stored = catalog.segment(half, segmentName)
            if stored is not None:
                record = stored.segment.to_record()
                return {**record.simple_fields, **record.map_fields, **record.list_fields}
        raise NotFoundError(f"Failed to find segment: {segmentName[:400]} in table: {tableName[:200]}")

    @routes.get(
        "/segments/{tableName}/{segmentName}/inputs",
        Action.READ,
        table("tableName"),
        summary="List of a segment's input files",
    )
    @aside(controller.storage)
    def inputs(tableName: str, segmentName: str) -> Response:
        return Response(
            read_inputs(controller, half_of_segment(controller, tableName, segmentName), segmentName),
            media_type="application/json",
        )

    @routes.put(
        "/segments/{tableName}/{segmentName}/inputs",
        Action.WRITE,
        table("tableName"),
        summary="Give a segment that is there a list of its input files",
        body_max_bytes=INPUT_LIST_MAX_BYTES,
        openapi_extra=json_body("The list: docs/format/input-list.md."),
    )
    @aside(controller.storage)
    def put_inputs(
        tableName: str,
        segmentName: str,
        body: RawBody,
        if_match: str | None = Header(None, description="Refuse unless the segment has this CRC."),
    ) -> dict[str, Any]:
        half = half_with_segment(controller, tableName, segmentName)
        set_inputs(controller, half, segmentName, input_list(body), if_match)
        return success(f"Successfully set the list of input files of segment: {segmentName} of table: {half}")

    @routes.get(
        "/segments/{tableName}/{segmentName}",
        Action.READ,
        table("tableName"),
        summary="Download a segment's tar.gz",
        response_class=StreamingResponse,
    )
    @aside(controller.storage)
    def download(tableName: str, segmentName: str) -> StreamingResponse:
        for half in halves_named(tableName, None):
            stored = catalog.segment(half, segmentName)
            if stored is None:
                continue
            # A file that is not in this controller's store is at another controller: servers ask them all.
            file = open_archive(controller, half, stored.segment)
            headers = {
                "Content-Disposition": f"attachment; filename*=UTF-8''{quote(segmentName)}.tar.gz",
                "Pinotpy-Segment-Crc": str(stored.segment.crc),
            }
            # Of what lies there: who uploads the same content again may have packed it otherwise than the record says.
            headers["Content-Length"] = str(file.seek(0, os.SEEK_END))
            file.seek(0)
            pieces = pieces_of(controller.storage, file)
            return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)
        raise NotFoundError(f"Segment {segmentName[:400]} or table {tableName[:200]} not found")

    @routes.post(
        "/segments/{tableName}/reset",
        Action.WRITE,
        table("tableName"),
        summary="Replicas in ERROR try again, of all segments of a table",
    )
    def reset_all(tableName: str, type: str | None = TYPE) -> dict[str, Any]:
        halves = halves_asked(controller, tableName, type)
        asked = sum(reset.reset_segments(controller, half) for half in halves)
        return success(f"Successfully reset {asked} replicas of table: {', '.join(halves)}")

    @routes.post(
        "/segments/{tableName}/{segmentName}/reset",
        Action.WRITE,
        table("tableName"),
        summary="Replicas of a segment in ERROR try again",
    )
    def reset_one(tableName: str, segmentName: str) -> dict[str, Any]:
        half = half_with_segment(controller, tableName, segmentName)
        asked = reset.reset_segments(controller, half, segmentName)
        return success(f"Successfully reset {asked} replicas of segment: {segmentName} of table: {half}")

    @routes.delete(
        "/segments/{tableName}/{segmentName}",
        Action.WRITE,
        table("tableName"),
        summary="Delete one segment; one that does not exist is deleted already",
    )
    @aside(controller.storage)
    def delete_one(tableName: str, segmentName: str, retention: str | None = RETENTION) -> dict[str, Any]:
        retention_ms = period_ms(retention, "retention") if retention is not None else None
        half = half_of_segment(controller, tableName, segmentName)
        _refuse_consuming(controller, half, [segmentName])
        deletion.delete_segments(controller, half, [segmentName], retention_ms=retention_ms)
        return success("Segment deleted")

    @routes.delete(
        "/segments/{tableName}",
        Action.WRITE,
        table("tableName"),
        summary="Delete all segments of one half of a table, or those of a list",
    )
    @aside(controller.storage)
    def delete_all(
        tableName: str,
        type: str | None = TYPE,
        retention: str | None = RETENTION,
        segments: list[str] | None = Query(None, description="Only these; without it, all."),
    ) -> dict[str, Any]:
        table_type = table_type_of(type, required=True)
        retention_ms = period_ms(retention, "retention") if retention is not None else None
        halves = existing_halves(controller, tableName, table_type)
        if not halves:
            raise NotFoundError(
                f"Table '{table_name_with_type(raw_table_name(tableName), table_type or TableType.OFFLINE)[:200]}' "
                "not found."
            )
        names = (
            segments
            if segments
            else sorted({*catalog.segment_names(halves[0]), *catalog.recorded_segment_names(halves[0])})
        )
        _refuse_consuming(controller, halves[0], names)
        deletion.delete_segments(controller, halves[0], names, retention_ms=retention_ms)
        return success(_deleted_text(names, halves[0]) if segments else f"All segments of table {halves[0]} deleted")

    @routes.post(
        "/segments/{tableName}/delete",
        Action.WRITE,
        table("tableName"),
        summary="Delete segments by a list of names",
        openapi_extra=NAMES_BODY,
    )
    @aside(controller.storage)
    def delete_listed(tableName: str, body: RawBody, retention: str | None = RETENTION) -> dict[str, Any]:
        names = _names(body)
        retention_ms = period_ms(retention, "retention") if retention is not None else None
        halves = {half_of_segment(controller, tableName, name) for name in names}
        if len(halves) > 1:
            raise UserError(f"expected segments of one half of the table, found some of {' and '.join(sorted(halves))}")
        half = halves.pop()
        _refuse_consuming(controller, half, names)
        deletion.delete_segments(controller, half, names, retention_ms=retention_ms)
        return success(_deleted_text(names, half))

    return routes


def _refuse_consuming(controller: Controller, half: str, names: Sequence[str]) -> None:
    """A segment that is not done yet: its partition would not be read any more, and what follows it would be lost."""
    ideal = controller.catalog.ideal_state(half) or {}
    consuming = [name for name in names if CONSUMING in ideal.get(name, {}).values()]
    if consuming:
        more = f" and {len(consuming) - 1} others" if len(consuming) > 1 else ""
        raise ConflictingChangeError(
            f"segment '{consuming[0][:400]}'{more} of '{half}' takes rows of a stream, or is not stored yet: POST "
            f"/tables/{raw_table_name(half)}/forceCommit ends it, and when it is done it can be deleted; DELETE "
            f"/tables/{raw_table_name(half)} deletes the whole table"
        )


def open_archive(controller: Controller, table: str, segment: SegmentZkMetadata) -> BinaryIO:
    """The archive of a segment: in the deep store, or where its record says, if the operator allows this controller to
    read there.
    """
    try:
        return controller.files.open(table, segment.segment_name, segment.crc)
    except NotFoundError:
        if not controller.fetchers.allows(segment.download_url):
            raise
    return controller.fetchers.files(segment.download_url).open(segment.download_url)


def halves_asked(controller: Controller, name: str, type_text: str | None) -> list[str]:
    """The halves that exist, with the refusals of Pinot 1.5.1."""
    table_type = table_type_of(type_text)
    suffix = split_table_name(name)[1]
    if suffix is not None and table_type is not None and suffix is not table_type:
        raise AccessDeniedError(f"Table name: {name[:200]} does not match table type: {table_type.value}")
    halves = existing_halves(controller, name, table_type)
    if not halves:
        shown = name if table_type is None or suffix is not None else table_name_with_type(name, table_type)
        raise NotFoundError(f"Table '{shown[:200]}' not found.")
    return halves


def half_of_segment(controller: Controller, name: str, segment: str) -> str:
    """The half that a segment of this name belongs to: what holds it, else what its name says (`a__0__1__t` is
    realtime).
    """
    halves = existing_halves(controller, name)
    for half in halves:
        if deletion.can_exist(segment) and controller.catalog.segment(half, segment) is not None:
            return half
    guessed = TableType.REALTIME if segment.count("__") == 3 else TableType.OFFLINE
    by_name = [half for half in halves if split_table_name(half)[1] is guessed]
    if not by_name and not halves:
        raise NotFoundError(f"Table '{table_name_with_type(raw_table_name(name), guessed)[:200]}' not found.")
    return (by_name or halves)[0]


def half_with_segment(controller: Controller, name: str, segment: str) -> str:
    """The half whose ideal state has a segment. Raises NotFoundError."""
    halves = halves_asked(controller, name, None)
    for half in halves:
        if segment in (controller.catalog.ideal_state(half) or {}):
            return half
    raise NotFoundError(f"Failed to find segment: {segment[:400]} in table: {name[:200]} on every instance")


def _within(
    controller: Controller,
    half: str,
    names: list[str],
    start_ms: int | None,
    end_ms: int | None,
    *,
    exclude_overlapping: bool,
) -> list[str]:
    start, end = start_ms if start_ms is not None else -(1 << 63), end_ms if end_ms is not None else 1 << 63
    records = controller.catalog.segments(half, names)
    chosen = []
    for name in names:
        record = records.get(name)
        if record is None or record.start_time_ms is None or record.end_time_ms is None:
            continue
        is_inside = start <= record.start_time_ms and record.end_time_ms < end
        if is_inside or (not exclude_overlapping and record.start_time_ms < end and record.end_time_ms >= start):
            chosen.append(name)
    return chosen


def _names(body: bytes) -> list[str]:
    try:
        names = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UserError(f"expected a JSON list of segment names: {error}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError("expected a JSON list of segment names")
    if not names:
        raise UserError("Segments must be provided")
    if len(names) > NAMES_MAX:
        raise UserError(f"{len(names)} names in one request, at most {NAMES_MAX} are taken")
    return names


def _deleted_text(names: list[str], half: str) -> str:
    return (
        f"Deleted segments: {java_list(names)} from table: {half}"
        if len(names) <= 5
        else f"Deleted {len(names)} segments from table: {half}"
    )
