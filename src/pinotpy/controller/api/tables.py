"""REST of tables: configs, states, and what the cluster should hold and does hold of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool

from pinotpy.config.document import parse_json
from pinotpy.config.schema import Schema
from pinotpy.config.stream_secrets import masked, with_stored
from pinotpy.config.table import TableConfig
from pinotpy.controller import tables
from pinotpy.controller.api.answers import counted, success, table_type_of, told_of, told_of_twins
from pinotpy.controller.api.aside import aside, run_aside
from pinotpy.controller.api.bodies import RawBody, json_body
from pinotpy.controller.context import Controller
from pinotpy.controller.periods import period_ms
from pinotpy.controller.realtime.stream_plug_ins import check_stream
from pinotpy.controller.table_rules import check_table
from pinotpy.controller.table_size import table_size
from pinotpy.controller.tables import existing_halves, halves_named
from pinotpy.controller.time_boundary import boundary_now
from pinotpy.errors import InvalidConfigError, NotFoundError, UserError
from pinotpy.names import TableType, split_table_name
from pinotpy.service.http import authorise, visible_tables
from pinotpy.service.rights import table_resource
from pinotpy.service.routes import EACH_TABLE, IN_HANDLER, Action, ChangeByGet, Routes, table

EXAMPLE = {
    "tableName": "flights",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "2", "timeColumnName": "time", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {"loadMode": "MMAP", "invertedIndexColumns": ["carrier"]},
    "metadata": {"customConfigs": {}},
}
TABLE_BODY = json_body("A table config.", example=EXAMPLE)
TYPE = Query(None, alias="type", description="OFFLINE or REALTIME; without it, both.")
TABLE_TYPE = Query(None, description="OFFLINE or REALTIME; without it, both.")


def table_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Table")
    catalog = controller.catalog

    @routes.get("/tables", Action.READ, EACH_TABLE, summary="Names of tables: without type when no type is asked for")
    def list_tables(
        request: Request,
        type: str | None = TYPE,
        sortType: str | None = Query(None, description="NAME, CREATIONTIME or LASTMODIFIEDTIME."),
        sortAsc: bool = Query(True, description="false: descending."),
    ) -> dict[str, Any]:
        table_type = table_type_of(type)
        names = [
            name for name in catalog.table_names() if table_type is None or split_table_name(name)[1] is table_type
        ]
        order = _sort_order(sortType)
        if order in ("CREATIONTIME", "LASTMODIFIEDTIME"):
            # As Pinot: sorted by time the list shows names with type, since halves have their own times.
            times = catalog.table_times(names)
            names.sort(key=lambda name: (times[name][0 if order == "CREATIONTIME" else 1], name), reverse=not sortAsc)
        else:
            shown = {split_table_name(name)[0] for name in names} if table_type is None else set(names)
            names = sorted(shown, reverse=not sortAsc)
        return {"tables": visible_tables(request, names)}

    @routes.post("/tables", Action.ADMIN, IN_HANDLER, summary="Create a table", openapi_extra=TABLE_BODY)
    def post_table(request: Request, body: RawBody) -> dict[str, Any]:
        config = TableConfig.from_json(body)
        authorise(request, Action.ADMIN, table_resource(config.raw_table_name))
        with counted(controller.metrics, "controllerTableAddError"), told_of_twins(request):
            tables.add_table(controller, config)
        return success(f"Table {config.name_with_type} successfully added", config.unrecognized) | told_of(config)

    @routes.post(
        "/tables/validate",
        Action.READ,
        IN_HANDLER,
        summary='Check a table config without storing it; {"tableConfig", "schema"}: before its schema is',
        openapi_extra=TABLE_BODY,
    )
    def validate_table(request: Request, body: RawBody) -> dict[str, Any]:
        config, schema = _with_schema(body)
        # What is wrong with it tells of the schema that the cluster has under its name.
        authorise(request, Action.READ, table_resource(config.raw_table_name))
        if (stored := catalog.table_config(config.name_with_type)) is not None:
            config = TableConfig.from_json(
                with_stored(config.to_json_dict(), stored.config.to_json_dict()), is_stored=True
            )
        check_stream(controller, config, check_table(catalog, config, schema))
        return {
            config.table_type.value: masked(config.to_json_dict()),
            "unrecognizedProperties": config.unrecognized,
        } | told_of(config)

    @routes.get(
        "/tables/{tableName}",
        Action.READ,
        table("tableName"),
        summary="Config of a table, by type; with `state` (old form) switches it",
        change=ChangeByGet("PUT /tables/{tableName}/state, or DELETE /tables/{tableName}", when="state"),
    )
    async def get_table(
        request: Request,
        tableName: str,
        type: str | None = TYPE,
        state: str | None = Query(
            None, description="Old form of PUT /tables/{tableName}/state: enable, disable or drop."
        ),
    ) -> Any:
        table_type = table_type_of(type)
        if state is not None:
            authorise(request, Action.ADMIN, table_resource(tableName))
            return await run_aside(
                controller.storage, lambda: _switch_old_form(controller, tableName, table_type, state)
            )
        return await run_in_threadpool(_configs, controller, tableName, table_type)

    @routes.put(
        "/tables/{tableName}",
        Action.ADMIN,
        table("tableName"),
        summary="Replace the config of a table",
        openapi_extra=TABLE_BODY,
    )
    def put_table(tableName: str, body: RawBody) -> dict[str, Any]:
        try:
            config = TableConfig.from_json(body)
            tables.update_table(controller, tableName, config)
        except InvalidConfigError as error:
            raise InvalidConfigError(f"Invalid table config: {tableName[:200]} with error: {error.message}") from error
        return success(f"Table config updated for {tableName}", config.unrecognized) | told_of(config)

    @routes.delete("/tables/{tableName}", Action.ADMIN, table("tableName"), summary="Delete a table with its segments")
    @aside(controller.storage)
    def delete_table(
        tableName: str,
        type: str | None = TYPE,
        retention: str | None = Query(
            None, description="How long deleted segments are kept, e.g. 7d, 3h30m; 0d deletes them at once."
        ),
    ) -> dict[str, Any]:
        table_type = table_type_of(type)
        retention_ms = period_ms(retention, "retention") if retention is not None else None
        deleted = tables.delete_table(controller, tableName, table_type, retention_ms=retention_ms)
        return success(f"Tables: [{', '.join(deleted)}] deleted")

    @routes.get("/tables/{tableName}/state", Action.READ, table("tableName"), summary="Whether a table is enabled")
    def get_state(tableName: str, type: str | None = TYPE) -> dict[str, str]:
        half = _one_half(controller, tableName, type)
        return {"state": "enabled" if catalog.is_enabled(half) else "disabled"}

    @routes.put("/tables/{tableName}/state", Action.ADMIN, table("tableName"), summary="Enable or disable a table")
    def put_state(
        tableName: str, type: str | None = TYPE, state: str | None = Query(None, description="enable or disable.")
    ) -> dict[str, Any]:
        enabled = _wanted_state(state)
        half = _one_half(controller, tableName, type)
        tables.set_table_enabled(controller, half, enabled)
        return success(f"Request to {'enable' if enabled else 'disable'} table '{half}' is successful")

    @routes.get(
        "/tables/{tableName}/idealstate",
        Action.READ,
        table("tableName"),
        summary="Which server should hold which segment in which state",
    )
    def ideal_state(
        tableName: str,
        tableType: str | None = TABLE_TYPE,
        segmentNames: str | None = Query(None, description="Only these segments, separated by commas."),
    ) -> dict[str, Any]:
        return _views(tableName, tableType, segmentNames, catalog.ideal_state)

    @routes.get(
        "/tables/{tableName}/externalview",
        Action.READ,
        table("tableName"),
        summary="Which server holds which segment in which state",
    )
    def external_view(
        tableName: str,
        tableType: str | None = TABLE_TYPE,
        segmentNames: str | None = Query(None, description="Only these segments, separated by commas."),
    ) -> dict[str, Any]:
        return _views(
            tableName,
            tableType,
            segmentNames,
            lambda half: catalog.external_view(half) if catalog.ideal_state(half) is not None else None,
        )

    @routes.get(
        "/tables/{tableName}/segmentsStatus",
        Action.READ,
        table("tableName"),
        summary="GOOD, UPDATING or BAD for each segment",
    )
    def segments_status(tableName: str, tableType: str | None = TABLE_TYPE) -> list[dict[str, str]]:
        statuses = []
        for half in _required_halves(controller, tableName, table_type_of(tableType)):
            actual = catalog.external_view(half) or {}
            for segment, replicas in sorted((catalog.ideal_state(half) or {}).items()):
                statuses.append(
                    {"segmentName": segment, "segmentStatus": _segment_status(replicas, actual.get(segment, {}))}
                )
        return statuses

    @routes.get(
        "/tables/{tableName}/instances", Action.READ, table("tableName"), summary="Brokers and servers of a table"
    )
    def instances(
        tableName: str, type: str | None = Query(None, description="broker or server; without it, both.")
    ) -> dict[str, Any]:
        if type is not None and type.lower() not in ("broker", "server"):
            raise UserError(f"expected type=broker or type=server, found '{type[:40]}'")
        halves = existing_halves(controller, tableName)
        answer: dict[str, Any] = {"tableName": tableName, "brokers": [], "server": []}
        for half in halves:
            kind = str(split_table_name(half)[1]).lower()
            if type is None or type.lower() == "broker":
                answer["brokers"].append({"tableType": kind, "instances": sorted(catalog.brokers_of(half))})
            if type is None or type.lower() == "server":
                servers = {server for replicas in (catalog.ideal_state(half) or {}).values() for server in replicas}
                answer["server"].append({"tableType": kind, "instances": sorted(servers)})
        return answer

    @routes.get("/tables/{tableName}/stats", Action.READ, table("tableName"), summary="When a table was created")
    def stats(tableName: str, type: str | None = TYPE) -> dict[str, Any]:
        halves = _required_halves(controller, tableName, table_type_of(type))
        times = catalog.table_times(halves)
        return {str(split_table_name(half)[1]): {"creationTime": _compact_utc(times[half][0])} for half in halves}

    @routes.get("/tables/{tableName}/size", Action.READ, table("tableName"), summary="Bytes of a table's segments")
    @aside(controller.fan_out)
    def size(tableName: str, detailed: bool = Query(True, description="false: without segments.")) -> dict[str, Any]:
        halves = existing_halves(controller, tableName)
        if not halves:
            raise NotFoundError(f"Table {tableName[:200]} not found")
        return table_size(controller, tableName, halves, detailed=detailed)

    @routes.get(
        "/tables/{tableName}/timeBoundary",
        Action.READ,
        table("tableName"),
        summary="Up to which time the OFFLINE half of a hybrid table answers",
    )
    def time_boundary(tableName: str) -> dict[str, str]:
        boundary = boundary_now(catalog, split_table_name(tableName)[0])
        if boundary is None:
            raise NotFoundError(f"Cannot find time boundary for table: {tableName[:200]}", table=tableName)
        return boundary.as_json()

    return routes


def _configs(controller: Controller, name: str, table_type: TableType | None) -> dict[str, Any]:
    configs = {}
    for half in existing_halves(controller, name, table_type):
        stored = controller.catalog.table_config(half)
        if stored is not None:
            configs[stored.config.table_type.value] = masked(stored.config.to_json_dict())
    if not configs:
        suffix = f"_{table_type.value}" if table_type is not None else ""
        raise NotFoundError(f"Table {name[:200]}{suffix} does not exist")
    return configs


def _required_halves(controller: Controller, name: str, table_type: TableType | None) -> list[str]:
    halves = existing_halves(controller, name, table_type)
    if not halves:
        raise NotFoundError(f"Table {name[:200]} does not exist")
    return halves


def _one_half(controller: Controller, name: str, type_text: str | None) -> str:
    """The one half that a name with suffix or a required type mean."""
    table_type = split_table_name(name)[1] if type_text is None else table_type_of(type_text)
    if table_type is None:
        raise UserError("Illegal table type: null: give type=OFFLINE or type=REALTIME")
    halves = existing_halves(controller, name, table_type)
    if not halves:
        raise NotFoundError(f"Table '{name[:200]}' does not exist")
    return halves[0]


def _wanted_state(text: str | None) -> bool:
    is_enabled = {"enable": True, "disable": False}.get((text or "").lower())
    if is_enabled is None:
        raise UserError(f"Unknown state '{(text or 'null')[:40]}': expected enable or disable")
    return is_enabled


def _switch_old_form(
    controller: Controller, name: str, table_type: TableType | None, state: str
) -> list[dict[str, Any]]:
    halves = _required_halves(controller, name, table_type)
    if state.lower() == "drop":
        tables.delete_table(controller, name, table_type)
        message = "Table deleted"
    else:
        enabled = _wanted_state(state)
        for half in halves:
            tables.set_table_enabled(controller, half, enabled)
        message = f"Table {'enabled' if enabled else 'disabled'}"
    return [{"tableName": half, "state": {"successful": True, "message": message}} for half in halves]


def _segment_status(ideal: dict[str, str], actual: dict[str, str]) -> str:
    if any(state == "ERROR" for state in actual.values()):
        return "BAD"
    return "GOOD" if ideal == actual else "UPDATING"


def _sort_order(text: str | None) -> str:
    order = (text or "NAME").upper()
    if order not in ("NAME", "CREATIONTIME", "LASTMODIFIEDTIME"):
        raise UserError(f"expected sortType=NAME, CREATIONTIME or LASTMODIFIEDTIME, found '{order[:40]}'")
    return order


def _compact_utc(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def _views(
    name: str,
    type_text: str | None,
    segments_text: str | None,
    read: Callable[[str], Mapping[str, dict[str, str]] | None],
) -> dict[str, Any]:
    selected = None if segments_text is None else set(segments_text.split(","))
    answer: dict[str, Any] = {"OFFLINE": None, "REALTIME": None}
    for half in halves_named(name, table_type_of(type_text)):
        view = read(half)
        if view is not None:
            shown = sorted(view) if selected is None else sorted(selected & view.keys())
            answer[str(split_table_name(half)[1])] = {segment: dict(sorted(view[segment].items())) for segment in shown}
    if all(view is None for view in answer.values()):
        raise NotFoundError("Table not found")
    return answer


def _with_schema(body: bytes) -> tuple[TableConfig, Schema | None]:
    """A table config, alone or beside its schema."""
    document = parse_json(body, "table config")
    if not isinstance(document, dict) or "tableConfig" not in document:
        return TableConfig.from_json(body), None
    return TableConfig.from_json(document["tableConfig"]), Schema.from_json(document.get("schema") or {})
