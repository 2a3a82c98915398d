"""Paths of Pinot 0.x that later versions dropped and old scripts still call; each does the same as its newer form."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import Query

from pinotpy.config.table import TableConfig
from pinotpy.controller import reload, tables
from pinotpy.controller.api.answers import success, table_type_of
from pinotpy.controller.api.bodies import RawBody, json_body
from pinotpy.controller.context import Controller
from pinotpy.controller.tables import existing_halves, halves_named
from pinotpy.errors import NotFoundError, UserError
from pinotpy.service.routes import Action, ChangeByGet, Routes, table

TYPE = Query(None, alias="type", description="OFFLINE or REALTIME; without it, both.")
# path → section that is applied, answer
SECTIONS = {
    "indexingConfigs": ("tableIndexConfig", "Updated indexing config for table {}"),
    "segmentConfigs": ("segmentsConfig", "Update segmentsConfig for table: {}"),
    "metadataConfigs": ("metadata", "Successfully updated {} configuration"),
}


def old_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Old forms")
    catalog = controller.catalog

    @routes.get(
        "/tables/{tableName}/segments",
        Action.READ,
        table("tableName"),
        summary="Old form of /tables/{tableName}/idealstate",
    )
    @routes.get(
        "/tables/{tableName}/segments/metadata",
        Action.READ,
        table("tableName"),
        summary="Old form of /tables/{tableName}/idealstate",
        operation_id="old_segments_metadata",
    )
    def segments(tableName: str, type: str | None = TYPE) -> list[dict[str, str]]:
        return [
            {"tableName": half, "segments": orjson.dumps(catalog.ideal_state(half) or {}).decode()}
            for half in _halves(controller, tableName, type)
        ]

    @routes.get(
        "/tables/{tableName}/segments/crc",
        Action.READ,
        table("tableName"),
        summary="Old form of /segments/{tableName}/crc",
    )
    def crcs(tableName: str) -> dict[str, str]:
        half = _halves(controller, tableName, "OFFLINE")[0]
        return {
            name: str(segment.crc)
            for name, segment in sorted(catalog.segments(half, catalog.segment_names(half)).items())
        }

    @routes.post(
        "/tables/{tableName}/segments/reload",
        Action.WRITE,
        table("tableName"),
        summary="Old form of /segments/{tableName}/reload",
    )
    @routes.get(
        "/tables/{tableName}/segments/reload",
        Action.WRITE,
        table("tableName"),
        summary="Old form of /segments/{tableName}/reload",
        operation_id="old_reload_get",
        change=ChangeByGet("POST /segments/{tableName}/reload"),
    )
    def reload_all(tableName: str, type: str | None = TYPE) -> dict[str, Any]:
        return _sent(
            sum(reload.reload_table(controller, half).num_messages for half in _halves(controller, tableName, type))
        )

    @routes.post(
        "/tables/{tableName}/segments/{segmentName}/reload",
        Action.WRITE,
        table("tableName"),
        summary="Old form of /segments/{tableName}/{segmentName}/reload",
    )
    @routes.get(
        "/tables/{tableName}/segments/{segmentName}/reload",
        Action.WRITE,
        table("tableName"),
        summary="Old form of /segments/{tableName}/{segmentName}/reload",
        operation_id="old_reload_one_get",
        change=ChangeByGet("POST /segments/{tableName}/{segmentName}/reload"),
    )
    def reload_one(tableName: str, segmentName: str, type: str | None = TYPE) -> dict[str, Any]:
        holding = [
            half for half in _halves(controller, tableName, type) if segmentName in (catalog.ideal_state(half) or {})
        ]
        if not holding:
            raise NotFoundError(
                f"Failed to find segment: {segmentName[:400]} in table: {tableName[:200]} on every instance"
            )
        return _sent(reload.reload_segment(controller, holding[0], segmentName).num_messages)

    @routes.get(
        "/tables/{tableName}/segments/{segmentName}",
        Action.READ,
        table("tableName"),
        summary="Old form of /segments/{tableName}/{segmentName}/metadata",
    )
    @routes.get(
        "/tables/{tableName}/segments/{segmentName}/metadata",
        Action.READ,
        table("tableName"),
        summary="Old form of /segments/{tableName}/{segmentName}/metadata",
        operation_id="old_segment_metadata",
    )
    def metadata(tableName: str, segmentName: str, type: str | None = TYPE) -> list[list[dict[str, Any]]]:
        answer = []
        for half in _halves(controller, tableName, type):
            stored = catalog.segment(half, segmentName)
            if stored is not None:
                answer.append([{"tableName": half, "state": stored.segment.to_record().simple_fields}])
        if not answer:
            raise NotFoundError(f"Failed to find segment: {segmentName[:400]} in table: {tableName[:200]}")
        return answer

    for path, (section, text) in SECTIONS.items():
        _declare_section(routes, controller, path, section, text)
    return routes


def _declare_section(routes: Routes, controller: Controller, path: str, section: str, text: str) -> None:
    @routes.put(
        f"/tables/{{tableName}}/{path}",
        Action.ADMIN,
        table("tableName"),
        summary=f"Old form of PUT /tables/{{tableName}}: only {section} is applied",
        operation_id=f"old_{path}",
        openapi_extra=json_body("A whole table config."),
    )
    def put_section(tableName: str, body: RawBody) -> dict[str, Any]:
        config = TableConfig.from_json(body)
        if config.name_with_type not in halves_named(tableName, config.table_type):
            # Before anything of it is looked up: the right was asked of the table in the path.
            raise UserError(
                f"the path names table '{tableName[:200]}', and the body '{config.name_with_type[:200]}': expected one"
            )
        stored = controller.catalog.table_config(config.name_with_type)
        if stored is None:
            raise NotFoundError(f"Table {tableName[:200]} does not exist")
        document = stored.config.to_json_dict()
        document[section] = config.to_json_dict()[section]
        tables.update_table(controller, tableName, TableConfig.from_json(document, is_stored=True))
        return success(text.format(tableName))


def _halves(controller: Controller, name: str, type_text: str | None) -> list[str]:
    halves = existing_halves(controller, name, table_type_of(type_text))
    if not halves:
        raise NotFoundError(f"Table '{name[:200]}' not found.")
    return halves


def _sent(count: int) -> dict[str, Any]:
    return success(f"Sent {count} reload messages")
