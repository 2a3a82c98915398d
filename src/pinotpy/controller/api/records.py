"""REST of segments' records: complete one by the metadata of its content."""

from __future__ import annotations

from typing import Any

from fastapi import Query

from pinotpy.controller.api.answers import success
from pinotpy.controller.api.bodies import RawBody
from pinotpy.controller.api.segments import half_with_segment
from pinotpy.controller.context import Controller
from pinotpy.controller.record_completion import complete_record
from pinotpy.segment.layout import METADATA_MAX_BYTES
from pinotpy.service.routes import Action, Routes, table

_BODY = {
    "requestBody": {
        "description": "The segment's metadata file, as it stands in its archive.",
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def record_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Segment")

    @routes.put(
        "/segments/{tableName}/{segmentName}/metadata",
        Action.WRITE,
        table("tableName"),
        summary="Complete a segment's record by the metadata of its content: ranges and partitions of columns",
        body_max_bytes=METADATA_MAX_BYTES,
        openapi_extra=_BODY,
        responses={
            400: {"description": "The body is no segment's metadata, or another segment's."},
            404: {"description": "No such segment."},
            409: {"description": "The record changed at the same time."},
            412: {"description": "The metadata are of another content than the record."},
        },
    )
    def complete(
        tableName: str,
        segmentName: str,
        body: RawBody,
        dryRun: bool = Query(False, description="true: only say whether the record would change."),
    ) -> dict[str, Any]:
        half = half_with_segment(controller, tableName, segmentName)
        old, renewed = complete_record(controller, half, segmentName, body, dry_run=dryRun)
        is_changed = old != renewed
        done = "was complete" if not is_changed else "would be completed" if dryRun else "completed"
        return {**success(f"Record of segment: {segmentName} of table: {half} {done}"), "isChanged": is_changed}

    return routes
