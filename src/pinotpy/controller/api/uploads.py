"""REST of segment uploads, and the leader's registration of segments that other controllers received.

An upload says by UPLOAD_TYPE where the bytes are: SEGMENT (default), in its body; URI, at DOWNLOAD_URI, from where this
controller fetches them; METADATA, at DOWNLOAD_URI as well, but there they stay: the body has the segment's metadata,
servers fetch the rest. Each may bring the list of the segment's input files, as a further part named `inputs`.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool

from pinotpy.cluster.records import ZNRecord, record_from_json
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.controller.api.answers import success, table_type_of
from pinotpy.controller.api.aside import aside
from pinotpy.controller.api.bodies import RawBody, json_body
from pinotpy.controller.context import Controller
from pinotpy.controller.multipart import receive_parts
from pinotpy.controller.registration import register_segment
from pinotpy.controller.upload import Arrival, Uploaded, UploadRequest, accept_upload, target_table
from pinotpy.controller.upload_conditions import UploadConditions
from pinotpy.controller.upload_slots import UploadSlots
from pinotpy.errors import (
    DataError,
    NotLeaderError,
    OutOfCapacityError,
    PayloadTooLargeError,
    UserError,
    storage_remedy,
)
from pinotpy.fs.crypters import NO_OP, decrypted
from pinotpy.names import TableType, check_segment_name, raw_table_name
from pinotpy.segment.input_list import INPUT_LIST_MAX_BYTES
from pinotpy.service.errors import UnsupportedMediaTypeError
from pinotpy.service.http import authorise, visit_of
from pinotpy.service.http_guard import asker_of
from pinotpy.service.rights import table_resource
from pinotpy.service.routes import CLUSTER, IN_HANDLER, Action, Routes
from pinotpy.service.turn_queue import TurnQueue

REGISTRATION_TIMEOUT_S = 120.0
REGISTRATIONS_WAITING_MAX = 1_024
UPLOAD_TYPES = ("SEGMENT", "URI", "METADATA", "JSON")
METADATA_BYTES_MAX = 80 << 20  # an archive with the metadata file alone, which has at most 64 MiB
IGNORED_BODY_BYTES_MAX = 1 << 20
INPUTS_PART = "inputs"
# What the disk of this controller says when it takes no more; the upload may be tried again, here or elsewhere.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
UPLOAD_BODY = {
    "requestBody": {
        "description": "A multipart body with one file part: the segment's tar.gz; with UPLOAD_TYPE METADATA a tar.gz "
        "with its metadata "
        "file alone; with UPLOAD_TYPE URI nothing. A second part named 'inputs' may bring the list of the segment's "
        "input files.",
        "required": False,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {name: {"type": "string", "format": "binary"} for name in ("file", INPUTS_PART)},
                }
            }
        },
    },
    "parameters": [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}, "description": text}
        for name, text in (
            ("UPLOAD_TYPE", "SEGMENT (default), URI or METADATA."),
            ("DOWNLOAD_URI", "Where the segment lies, for URI and METADATA; an address that the operator allows."),
            ("COPY_SEGMENT_TO_DEEP_STORE", "true, with METADATA: copy the segment to the deep store after all."),
            ("CRYPTER", "What encrypted the segment: a crypter that this controller knows."),
            ("REFRESH_ONLY", "true: refuse a segment that does not exist."),
            ("IF-MATCH", "Refuse unless the existing segment has this CRC."),
            (
                "Pinot-SegmentZKMetadataCustomMapModifier",
                'Entries for the segment\'s custom map: {"mapModifyMode": "UPDATE", "map": {…}}.',
            ),
        )
    ],
}
UPLOAD_RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"description": "The bytes are no segment, or not one of this table; the text lists every reason."},
    403: {"description": "No right to write, or DOWNLOAD_URI is no address that the operator allows."},
    404: {"description": "No such table."},
    409: {"description": "Another upload of this segment is under way, or it exists and allowRefresh is false."},
    410: {"description": "REFRESH_ONLY, and there is no such segment."},
    412: {"description": "IF-MATCH names another CRC."},
    413: {"description": "The upload is longer than the limit."},
    429: {"description": "The table's storage quota is exceeded."},
    503: {"description": "The disk of this controller or the deep store takes no more now, or all slots are taken."},
}


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the bytes come.

    uri: where they lie, "" if the body has them.
    is_moved: what lies elsewhere is copied to the deep store; false: it stays there.
    crypter: what they are encrypted with, "" if nothing.
    """

    upload_type: str
    uri: str = ""
    is_moved: bool = True
    crypter: str = ""

    @property
    def has_parts(self) -> bool:
        """Whether the body is multipart."""
        return self.upload_type in ("SEGMENT", "METADATA")


class UploadTimeoutError(UserError):
    """An upload that took too long."""

    code = 408
    http_status = 408


def upload_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Segment")
    settings = controller.settings
    slots = UploadSlots(settings.uploads_max)
    # Threads of their own: an upload waits for the leader, whose address is looked up on the loop's other threads.
    threads = ThreadPoolExecutor(settings.uploads_max, thread_name_prefix="upload")
    # Some wait until servers have dropped a segment of the same name.
    registrations = TurnQueue("registration", settings.uploads_max, REGISTRATIONS_WAITING_MAX, _registers_enough)

    async def upload(
        request: Request,
        tableName: str | None = Query(None, description="Table, with or without type; without it, the segment says."),
        tableType: str = Query("OFFLINE", description="OFFLINE or REALTIME."),
        allowRefresh: bool = Query(True, description="false: refuse if the segment exists."),
        enableParallelPushProtection: bool = Query(
            True, description="Accepted: two uploads of one segment at once are always refused."
        ),
    ) -> dict[str, Any]:
        delivery = _delivery(request)
        if delivery.uri:
            controller.fetchers.allowed.check(delivery.uri)
        upload = _upload_request(request, tableName, tableType, allow_refresh=allowRefresh)
        loop = asyncio.get_running_loop()

        def may_write(table: str) -> None:
            authorise(request, Action.WRITE, table_resource(table))

        def register(segment: SegmentZkMetadata, conditions: UploadConditions) -> SegmentZkMetadata | None:
            if controller.is_leader():
                return register_segment(controller, segment, conditions)

            async def at_leader() -> SegmentZkMetadata | None:
                return await controller.register_at_leader(segment, conditions)

            asked = asyncio.run_coroutine_threadsafe(at_leader(), loop)
            try:
                return asked.result(REGISTRATION_TIMEOUT_S)
            except TimeoutError as error:
                asked.cancel()
                raise NotLeaderError(
                    f"no lead controller answered within {REGISTRATION_TIMEOUT_S:g} s; one may register the segment "
                    "yet: upload it again"
                ) from error

        if tableName:
            # Known before the body: somebody without the right sends no gigabyte for nothing.
            may_write(target_table(upload))
            if await run_in_threadpool(controller.catalog.table_config, target_table(upload)) is None:
                raise UserError(f"Failed to find table: {target_table(upload)}")
        folder: Path | None = None
        try:
            folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="upload-", dir=controller.scratch_dir))
            async with slots.slot(
                asker_of(visit_of(request)), raw_table_name(target_table(upload)) if tableName else ""
            ):
                (folder / "parts").mkdir()
                (folder / "segment").mkdir()
                try:
                    async with asyncio.timeout(settings.upload_timeout_ms / 1000):
                        body, inputs = await _receive(request, delivery, folder / "parts", settings.upload_bytes_max)
                except TimeoutError as error:
                    raise UploadTimeoutError(
                        f"the upload took longer than {settings.upload_timeout_ms} ms "
                        "(controller.segment.upload.timeoutInMillis)"
                    ) from error

                def accept() -> Uploaded:
                    arrival = replace(_arrival(controller, delivery, body, folder / "parts"), inputs=inputs)
                    return accept_upload(controller, arrival, folder / "segment", upload, register, may_write)

                # With the patience of the request for a ZooKeeper that hangs.
                done = await loop.run_in_executor(threads, copy_context().run, accept)
        except BaseException as error:
            controller.metrics.count("controllerSegmentUploadError")
            if isinstance(error, OSError) and error.errno in DISK_FULL:
                raise _no_room(error) from error
            raise
        finally:
            if folder is not None:
                await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))
        controller.metrics.count("controllerSegmentUploads", table=done.table_name_with_type)
        answer = success(f"Successfully uploaded segment: {done.segment_name} of table: {done.table_name_with_type}")
        # Told only where there are any, so that clients find the reference's answer.
        return answer | ({"missingColumns": list(done.missing_columns)} if done.missing_columns else {})

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
        openapi_extra=json_body("record, allowRefresh, ifMatch, seenVersion, refreshOnly."),
    )
    @aside(registrations)
    def register_from_other(tableName: str, segmentName: str, body: RawBody) -> dict[str, Any]:
        document = orjson.loads(body)
        segment = SegmentZkMetadata.from_record(record_from_json(document["record"], "registration"), tableName)
        if check_segment_name(segment.segment_name) != segmentName:
            raise UserError(
                f"expected a record of segment '{segmentName[:200]}', found one of '{segment.segment_name[:200]}'"
            )
        # A controller of an older release does not send refreshOnly.
        conditions = UploadConditions(
            bool(document["allowRefresh"]),
            document["ifMatch"],
            document["seenVersion"],
            refresh_only=bool(document.get("refreshOnly", False)),
        )
        replaced = register_segment(controller, segment, conditions)
        return {"replaced": None if replaced is None else replaced.to_record().to_json_dict()}

    return routes


def _registers_enough(waiting: int) -> OutOfCapacityError:
    return OutOfCapacityError(f"{waiting} registrations of segments wait already: try again")


def registration_body(segment: SegmentZkMetadata, conditions: UploadConditions) -> bytes:
    """What a controller sends to the leader's registration route."""
    document = {
        "record": segment.to_record().to_json_dict(),
        "allowRefresh": conditions.allow_refresh,
        "ifMatch": conditions.if_match,
        "seenVersion": conditions.seen_version,
        "refreshOnly": conditions.refresh_only,
    }
    return orjson.dumps(document)


def replaced_from_answer(answer: bytes, table: str) -> SegmentZkMetadata | None:
    """What the leader answered."""
    record: Any = orjson.loads(answer)["replaced"]
    if record is None:
        return None
    node: ZNRecord = record_from_json(record, "registration")
    return SegmentZkMetadata.from_record(node, table)


def _delivery(request: Request) -> Delivery:
    """What the headers say of the bytes; refused here, before the body is read, if they contradict each other."""
    headers = request.headers
    upload_type = headers.get("upload_type", "SEGMENT").strip().upper()
    if upload_type not in UPLOAD_TYPES:
        raise UserError(f"expected UPLOAD_TYPE {', '.join(UPLOAD_TYPES)}, found '{upload_type[:40]}'")
    crypter = headers.get("crypter", "").strip()
    crypter = "" if crypter.rpartition(".")[2].lower() == NO_OP else crypter
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    uri = _utf8(headers.get("download_uri", "")).strip()
    if upload_type != "SEGMENT" and not uri:
        raise UserError(f"Source download URI is required in header field 'DOWNLOAD_URI' for {upload_type} upload mode")
    if upload_type in ("URI", "JSON"):
        # As the reference: the older path leaves the segment where it is, the newer one takes it into the deep store.
        return Delivery("URI", uri, request.url.path.rstrip("/").endswith("/v2/segments"), crypter)
    what = "Segment file" if upload_type == "SEGMENT" else "Segment metadata file"
    if media_type in ("", "application/json"):
        raise UserError(f"{what} (as multipart/form-data) is required for {upload_type} upload mode")
    if media_type != "multipart/form-data":
        raise UnsupportedMediaTypeError(
            f"expected multipart/form-data with the segment's tar.gz, found '{media_type[:100]}'"
        )
    if upload_type == "SEGMENT":
        return Delivery("SEGMENT", crypter=crypter)
    return Delivery("METADATA", uri, _flag(request, "copy_segment_to_deep_store"), crypter)


async def _receive(
    request: Request, delivery: Delivery, folder: Path, bytes_max: int
) -> tuple[Path | None, Path | None]:
    """The body's part and the list of input files, as files; None for what did not come."""
    content_type = request.headers.get("content-type", "")
    if not delivery.has_parts and not content_type.lower().startswith("multipart/form-data"):
        ignored = 0
        async for chunk in request.stream():
            ignored += len(chunk)
            if ignored > IGNORED_BODY_BYTES_MAX:
                raise PayloadTooLargeError(
                    f"an upload of type URI has no body, found more than {IGNORED_BODY_BYTES_MAX} bytes"
                )
        return None, None
    limits = {"SEGMENT": bytes_max, "METADATA": METADATA_BYTES_MAX, "URI": IGNORED_BODY_BYTES_MAX}
    limit = min(
        bytes_max, limits[delivery.upload_type] + (0 if delivery.upload_type == "SEGMENT" else INPUT_LIST_MAX_BYTES)
    )
    parts = await receive_parts(request.stream(), content_type, folder, bytes_max=limit, parts_max=2)
    # The segment's part may have any name, also this one.
    lists = (
        [part.path for part in parts if part.name == INPUTS_PART] if len(parts) > 1 or not delivery.has_parts else []
    )
    bodies = [part.path for part in parts if part.path not in lists]
    if len(lists) > 1 or len(bodies) > 1:
        raise UserError(
            f"expected a multipart body with 1 file part and at most one more, named '{INPUTS_PART}', found more"
        )
    if delivery.has_parts and not bodies:
        what = "Segment file" if delivery.upload_type == "SEGMENT" else "Segment metadata file"
        raise UserError(f"{what} (as multipart/form-data) is required for {delivery.upload_type} upload mode")
    return bodies[0] if bodies and delivery.has_parts else None, lists[0] if lists else None


def _arrival(controller: Controller, delivery: Delivery, body: Path | None, folder: Path) -> Arrival:
    """What is to be checked and registered, fetched and decrypted if need be. Called on a thread."""
    if delivery.upload_type == "METADATA" and not delivery.is_moved:
        assert body is not None
        return Arrival(
            body, _size_bytes(controller, delivery.uri), stays_at=delivery.uri, is_whole=False, crypter=delivery.crypter
        )
    archive = body
    if delivery.uri:
        archive = folder / "fetched.tar.gz"
        try:
            controller.fetchers.fetch(delivery.uri, archive)
        except DataError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in DISK_FULL:
                raise _no_room(error.__cause__) from error
            # The client named it: its fault, not ours, that it is too long or may not be read.
            raise UserError(f"the segment cannot be fetched: {error.message}") from error
    assert archive is not None
    announced = body if delivery.upload_type == "METADATA" else None
    arrival = Arrival(
        archive,
        archive.stat().st_size,
        stays_at=None if delivery.is_moved else delivery.uri,
        crypter=delivery.crypter,
        announced=announced,
    )
    if not delivery.crypter:
        return arrival
    plain = folder / "decrypted.tar.gz"
    decrypted(controller.crypters.of(delivery.crypter), archive, plain, "of the upload")
    return replace(arrival, archive=plain)


def _no_room(error: OSError) -> OutOfCapacityError:
    reason = (error.strerror or str(error)).lower()
    where = "the disk for uploads of this controller (controller.local.temp.dir)"
    return OutOfCapacityError(f"{where} takes no more: {reason}; {storage_remedy(error)}, then upload again")


def _size_bytes(controller: Controller, uri: str) -> int:
    """Bytes of what stays elsewhere: asking for them shows that it is there, before any server is sent for it."""
    size_bytes = controller.fetchers.files(uri).stat(uri).size_bytes
    if size_bytes > controller.settings.upload_bytes_max:
        raise PayloadTooLargeError(
            f"the segment is longer than {controller.settings.upload_bytes_max} bytes "
            "(controller.segment.upload.maxSizeBytes)"
        )
    return max(size_bytes, 0)


def _upload_request(request: Request, table_name: str | None, type_text: str, *, allow_refresh: bool) -> UploadRequest:
    """Everything else that can be said about an upload before its body is read."""
    return UploadRequest(
        table=table_name or None,
        table_type=table_type_of(type_text) or TableType.OFFLINE,
        allow_refresh=allow_refresh,
        refresh_only=_flag(request, "refresh_only"),
        if_match=request.headers.get("if-match"),
        custom_map=_custom_map(request),
    )


def _utf8(header: str) -> str:
    """A header that was sent as UTF-8; what arrives is read byte by byte."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


def _flag(request: Request, header: str) -> bool:
    text = request.headers.get(header, "false").strip().lower()
    if text not in ("true", "false"):
        raise UserError(f"header {header.upper()}: expected true or false, found '{text[:40]}'")
    return text == "true"


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
