"""REST of deleted segments: which are kept, bring one back; and what retention would take next."""

from __future__ import annotations

from typing import Any

from fastapi import Query

from pinotpy.controller.api.answers import success
from pinotpy.controller.api.aside import aside
from pinotpy.controller.api.segments import TYPE, half_of_segment, halves_asked
from pinotpy.controller.context import Controller
from pinotpy.controller.periodic.retention import retention_plan
from pinotpy.controller.restore import restore_segment
from pinotpy.errors import UserError
from pinotpy.names import check_table_name, raw_table_name, split_table_name
from pinotpy.service.routes import Action, Routes, table


def restore_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Segment")

    @routes.get(
        "/tables/{tableName}/deletedSegments",
        Action.READ,
        table("tableName"),
        summary="Archives of deleted segments that are kept, both halves of a table, also of one that is deleted",
    )
    @aside(controller.storage)
    def deleted_segments(tableName: str) -> list[dict[str, Any]]:
        return [
            {
                "segmentName": archive.segment,
                "crc": str(archive.crc),
                "sizeInBytes": archive.size_bytes,
                "keptUntilMs": archive.until_ms,
            }
            for archive in controller.files.deleted_archives(check_table_name(raw_table_name(tableName)))
        ]

    @routes.post(
        "/segments/{tableName}/{segmentName}/restore",
        Action.WRITE,
        table("tableName"),
        summary="Bring a deleted segment back whose archive is still kept",
    )
    @aside(controller.storage)
    def restore(
        tableName: str,
        segmentName: str,
        crc: str | None = Query(None, description="Which content, where several are kept; without it, the last one."),
    ) -> dict[str, Any]:
        if crc is not None and not (crc.isascii() and crc.isdigit() and len(crc) <= 20):
            raise UserError(f"crc: expected a number, found '{crc[:40]}'")
        half = half_of_segment(controller, tableName, segmentName)
        done = restore_segment(controller, half, segmentName, crc=None if crc is None else int(crc))
        return success(f"Successfully restored segment: {done.segment_name} of table: {done.table_name_with_type}")

    @routes.get(
        "/tables/{tableName}/retention",
        Action.READ,
        table("tableName"),
        summary="What retention would delete of a table if it ran now",
    )
    def retention(tableName: str, type: str | None = TYPE) -> dict[str, Any]:
        return {
            str(split_table_name(half)[1]): retention_plan(controller, half).to_json_dict()
            for half in halves_asked(controller, tableName, type)
        }

    return routes
