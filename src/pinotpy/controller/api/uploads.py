"""REST of segment uploads, and the leader's registration of segments that other controllers received."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
from fastapi import Query, Request

from pinotpy.cluster.records import ZNRecord, record_from_json
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.controller.api.answers import success, table_type_of
from pinotpy.controller.api.bodies import RawBody, json_body
from pinotpy.controller.context import Controller
from pinotpy.controller.multipart import receive_parts
from pinotpy.controller.registration import UploadConditions, register_segment
from pinotpy.controller.upload import UploadRequest, accept_upload, target_table
from pinotpy.errors import AccessDeniedError, UserError
from pinotpy.names import TableType, check_segment_name
from pinotpy.service.errors import UnsupportedMediaTypeError
from pinotpy.service.http import authorise
from pinotpy.service.rights import table_resource
from pinotpy.service.routes import CLUSTER, IN_HANDLER, Action, Routes

DOWNLOAD_URI_SETTING = "controller.segment.upload.uri.allowlist"
REGISTRATION_TIMEOUT_S = 120.0
UPLOAD_TYPES = ("SEGMENT", "URI", "METADATA", "JSON")
UPLOAD_BODY = {
    "requestBody": {
        "description": "A multipart body with one file part: the segment's tar.gz.",
        "required": True,
        "content": {"multipart/form-data": {"schema": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}}},
    }
}
UPLOAD_RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"description": "The bytes are no segment, or not one of this table; the text lists every reason."},
    404: {"description": "No such table."},
    409: {"description": "Another upload of this segment is under way, or it exists and allowRefresh is false."},
    412: {"description": "IF-MATCH names another CRC."},
    413: {"description": "The upload is longer than the limit."},
    429: {"description": "The table's storage quota is exceeded."},
}


class UploadTimeoutError(UserError):
    """An upload that took too long."""

    code = 408
    http_status = 408


def upload_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Segment")
    settings = controller.settings
    slots = asyncio.Semaphore(settings.uploads_max)
    # Threads of their own: an upload waits for the leader, whose address is looked up on the loop's other threads.
    threads = ThreadPoolExecutor(settings.uploads_max, thread_name_prefix="upload")

    async def upload(
        request: Request,
        tableName: str | None = Query(None, description="Table, with or without type; without it, the segment says."),
        tableType: str = Query("OFFLINE", description="OFFLINE or REALTIME."),
        allowRefresh: bool = Query(True, description="false: refuse if the segment exists."),
        enableParallelPushProtection: bool = Query(True, description="Accepted: two uploads of one segment at once are always refused."),
    ) -> dict[str, Any]:
        wanted = _upload_request(request, tableName, tableType, allow_refresh=allowRefresh)
        loop = asyncio.get_running_loop()

        def may_write(table: str) -> None:
            authorise(request, Action.WRITE, table_resource(table))

        def register(segment: SegmentZkMetadata, conditions: UploadConditions) -> SegmentZkMetadata | None:
            if controller.is_leader():
                return register_segment(controller, segment, conditions)

            async def at_leader() -> SegmentZkMetadata | None:
                return await controller.register_at_leader(segment, conditions)

            return asyncio.run_coroutine_threadsafe(at_leader(), loop).result(REGISTRATION_TIMEOUT_S)

        if tableName:
            # Known before the body: somebody without the right sends no gigabyte for nothing.
            may_write(target_table(wanted))
            if controller.catalog.table_config(target_table(wanted)) is None:
                raise UserError(f"Failed to find table: {target_table(wanted)}")
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="upload-", dir=controller.scratch_dir))
        try:
            async with slots:
                (folder / "parts").mkdir()
                (folder / "segment").mkdir()
                try:
                    async with asyncio.timeout(settings.upload_timeout_ms / 1000):
                        content_type = request.headers["content-type"]
                        parts = await receive_parts(request.stream(), content_type, folder / "parts", bytes_max=settings.upload_bytes_max)
                except TimeoutError as error:
                    raise UploadTimeoutError(
                        f"the upload took longer than {settings.upload_timeout_ms} ms (controller.segment.upload.timeoutInMillis)"
                    ) from error
                if not parts:
                    raise UserError("Segment file (as multipart/form-data) is required for SEGMENT upload mode")
                done = await loop.run_in_executor(threads, accept_upload, controller, parts[0].path, folder / "segment", wanted, register, may_write)
        except BaseException:
            controller.metrics.count("controllerSegmentUploadError")
            raise
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))
        controller.metrics.count("controllerSegmentUploads", table=done.table_name_with_type)
        return success(f"Successfully uploaded segment: {done.segment_name} of table: {done.table_name_with_type}")

    for path in ("/segments", "/v2/segments"):
        routes.post(
            path,
            Action.WRITE,
            IN_HANDLER,
            body_max_bytes=settings.upload_bytes_max,
            summary="Upload a segment: new, again (same CRC), or with new content (refresh)",
            openapi_extra=UPLOAD_BODY,
            responses=UPLOAD_RESPONSES,
            operation_id=f"upload_{path.strip('/').replace('/', '_')}",
        )(upload)

    @routes.post(
        "/segments/{tableName}/{segmentName}/registration",
        Action.ADMIN,
        CLUSTER,
        summary="Between controllers: register a segment whose archive another controller holds",
        openapi_extra=json_body("record, allowRefresh, ifMatch, seenVersion."),
    )
    def register_from_other(tableName: str, segmentName: str, body: RawBody) -> dict[str, Any]:
        document = orjson.loads(body)
        segment = SegmentZkMetadata.from_record(record_from_json(document["record"], "registration"), tableName)
        if check_segment_name(segment.segment_name) != segmentName:
            raise UserError(f"expected a record of segment '{segmentName[:200]}', found one of '{segment.segment_name[:200]}'")
        replaced = register_segment(controller, segment, UploadConditions(bool(document["allowRefresh"]), document["ifMatch"], document["seenVersion"]))
        return {"replaced": None if replaced is None else replaced.to_record().to_json_dict()}

    return routes


def registration_body(segment: SegmentZkMetadata, conditions: UploadConditions) -> bytes:
    """What a controller sends to the leader's registration route."""
    document = {
        "record": segment.to_record().to_json_dict(),
        "allowRefresh": conditions.allow_refresh,
        "ifMatch": conditions.if_match,
        "seenVersion": conditions.seen_version,
    }
    return orjson.dumps(document)


def replaced_from_answer(answer: bytes, table: str) -> SegmentZkMetadata | None:
    """What the leader answered."""
    record: Any = orjson.loads(answer)["replaced"]
    if record is None:
        return None
    found: ZNRecord = record_from_json(record, "registration")
    return SegmentZkMetadata.from_record(found, table)


def _upload_request(request: Request, table_name: str | None, type_text: str, *, allow_refresh: bool) -> UploadRequest:
    """Everything that can be said about an upload before its body is read."""
    upload_type = request.headers.get("upload_type", "SEGMENT").strip().upper()
    if upload_type not in UPLOAD_TYPES:
        raise UserError(f"expected UPLOAD_TYPE {', '.join(UPLOAD_TYPES)}, found '{upload_type[:40]}'")
    if upload_type != "SEGMENT":
        if not request.headers.get("download_uri"):
            raise UserError(f"Source download URI is required in header field 'DOWNLOAD_URI' for {upload_type} upload mode")
        raise AccessDeniedError(f"uploads by URI are switched off: no host is allowed by {DOWNLOAD_URI_SETTING}; send the segment's tar.gz itself")
    content_type = request.headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in ("", "application/json"):
        raise UserError("Segment file (as multipart/form-data) is required for SEGMENT upload mode")
    if media_type != "multipart/form-data":
        raise UnsupportedMediaTypeError(f"expected multipart/form-data with the segment's tar.gz, found '{media_type[:100]}'")
    table_type = table_type_of(type_text) or TableType.OFFLINE
    return UploadRequest(table_name or None, table_type, allow_refresh, request.headers.get("if-match"), _custom_map(request))


def _custom_map(request: Request) -> dict[str, str]:
    text = request.headers.get("pinot-segmentzkmetadatacustommapmodifier")
    if text is None:
        return {}
    try:
        document = orjson.loads(text)
        entries = document["map"]
        if document.get("mapModifyMode") not in ("REPLACE", "UPDATE") or not isinstance(entries, dict):
            raise ValueError("expected mapModifyMode REPLACE or UPDATE, and an object 'map'")
        return {str(key): str(value) for key, value in entries.items()}
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"header Pinot-SegmentZKMetadataCustomMapModifier cannot be read: {error}") from error
