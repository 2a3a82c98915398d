"""REST of the cluster itself: configs, leader, periodic tasks, and a read-only look into the cluster store."""

from __future__ import annotations

import contextlib
from typing import Any

import orjson
from fastapi import Query, Request, Response

from pinotpy.cluster.paths import BROKER_RESOURCE
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import Stat
from pinotpy.config.stream_secrets import masked
from pinotpy.controller.api.answers import success
from pinotpy.controller.api.aside import aside
from pinotpy.controller.api.bodies import RawBody, json_body
from pinotpy.controller.context import Controller
from pinotpy.controller.periodic.scheduler import PeriodicScheduler
from pinotpy.errors import DecodeError, NoNodeError, NotFoundError, OutOfCapacityError, StaleVersionError, UserError
from pinotpy.names import raw_table_name
from pinotpy.service.http import visible_tables
from pinotpy.service.routes import CLUSTER, EACH_TABLE, PUBLIC, Action, ChangeByGet, Routes, table, table_in_query
from pinotpy.service.turn_queue import TurnQueue

LEAD_PARTITION = "leadControllerResource_0"
DATABASE = "default"  # in queries `default.flights` and `flights` are one table
CONFIG_ATTEMPTS_MAX = 10
# One periodic task runs at a time; who asks for another waits for it.
TASK_THREADS, TASKS_WAITING_MAX = 2, 16
CONFIG_KEY_MAX, CONFIG_VALUE_MAX = 200, 10_000
PATH = Query(None, description="Path in the cluster store, such as /PinotCluster/IDEALSTATES.")


def cluster_routes(controller: Controller, scheduler: PeriodicScheduler) -> Routes:
    """Declare them."""
    routes = Routes("Cluster")
    catalog = controller.catalog
    tasks = TurnQueue("run-task", TASK_THREADS, TASKS_WAITING_MAX, _runs_enough)

    @routes.get("/cluster/info", Action.READ, CLUSTER, summary="Name of the cluster")
    def info() -> dict[str, str]:
        return {"clusterName": catalog.paths.cluster}

    @routes.get(
        "/databases", Action.READ, PUBLIC, summary="Names of databases: clients find all tables in the one there is"
    )
    def databases() -> list[str]:
        return [DATABASE]

    @routes.get("/cluster/configs", Action.READ, CLUSTER, summary="Settings of the whole cluster")
    def configs() -> dict[str, str]:
        return _cluster_config(controller)[0].simple_fields

    @routes.post(
        "/cluster/configs",
        Action.ADMIN,
        CLUSTER,
        summary="Set some settings of the cluster",
        openapi_extra=json_body("An object of texts.", example={"a.b": "1"}),
    )
    def post_configs(body: RawBody) -> dict[str, Any]:
        changes = _config_changes(body)
        _change_config(controller, lambda old: old | changes)
        return success("Updated cluster config.")

    @routes.delete("/cluster/configs/{configName}", Action.ADMIN, CLUSTER, summary="Remove a setting of the cluster")
    def delete_config(configName: str) -> dict[str, Any]:
        _change_config(controller, lambda old: {key: value for key, value in old.items() if key != configName})
        return success(f"Deleted cluster config: {configName}")

    @routes.get("/leader/tables", Action.READ, EACH_TABLE, summary="Which controller leads which tables")
    def leader_tables(request: Request) -> dict[str, Any]:
        return _leader(
            controller, visible_tables(request, sorted({raw_table_name(name) for name in catalog.table_names()}))
        )

    @routes.get("/leader/tables/{tableName}", Action.READ, table("tableName"), summary="Which controller leads a table")
    def leader_table(tableName: str) -> dict[str, Any]:
        return _leader(controller, [raw_table_name(tableName)])

    @routes.get("/pinot-controller/admin", Action.READ, PUBLIC, summary="GOOD while the process answers")
    def admin() -> Response:
        return Response("GOOD", media_type="text/plain")

    @routes.get("/auth/info", Action.READ, PUBLIC, summary="How clients log in")
    def auth_info() -> dict[str, str]:
        return {"workflow": "NONE" if controller.settings.auth_users_file is None else "BASIC"}

    @routes.get("/periodictask/names", Action.READ, CLUSTER, summary="Names of periodic tasks")
    def task_names() -> list[str]:
        return sorted(scheduler.report)

    @routes.post(
        "/periodictask/run",
        Action.ADMIN,
        table_in_query("tableName"),
        summary="Run a periodic task now, for one table or all",
    )
    @routes.get(
        "/periodictask/run",
        Action.ADMIN,
        table_in_query("tableName"),
        change=ChangeByGet("POST /periodictask/run"),
        summary="Run a periodic task now, for one table or all",
    )
    @aside(tasks)
    def run_task(
        taskname: str = Query(description="Name of the task."),
        tableName: str | None = Query(None, description="Table with type; without it, all."),
    ) -> dict[str, Any]:
        if taskname not in scheduler.report:
            raise NotFoundError(
                f"Periodic task '{taskname[:100]}' not found: there are {', '.join(sorted(scheduler.report))}"
            )
        if tableName is not None and catalog.table_config(tableName) is None:
            raise NotFoundError(f"Table '{tableName[:200]}' not found: give its name with type")
        report = scheduler.run_now(taskname, tableName)
        return {
            "status": f"Ran {taskname}",
            "tablesDone": report.tables_done,
            "failed": list(report.last_failed),
            "tookMs": report.last_took_ms,
        }

    _declare_store(routes, controller)
    return routes


def _runs_enough(waiting: int) -> OutOfCapacityError:
    return OutOfCapacityError(f"{waiting} of your requests to run periodic tasks wait already: try again")


def _declare_store(routes: Routes, controller: Controller) -> None:
    """The cluster store, read-only. ADMIN: records hold every table's config."""
    store = controller.catalog.store

    @routes.get("/zk/get", Action.ADMIN, CLUSTER, only_reads=True, summary="A record of the cluster store")
    def get(path: str | None = PATH) -> Response:
        checked = _checked_path(path)
        try:
            data, _ = store.get(checked)
        except NoNodeError as error:
            raise _no_path(checked) from error
        return Response(_readable(data, checked), media_type="application/json") if data else Response(status_code=204)

    @routes.get("/zk/getChildren", Action.ADMIN, CLUSTER, only_reads=True, summary="Records of all children of a path")
    def get_children(path: str | None = PATH) -> list[Any]:
        checked = _checked_path(path)
        names = _children(controller, checked)
        nodes = store.get_many([_child(checked, name) for name in names])
        return [orjson.loads(_readable(node[0], checked)) for node in nodes if node is not None and node[0]]

    @routes.get("/zk/ls", Action.ADMIN, CLUSTER, only_reads=True, summary="Names of the children of a path")
    def ls(path: str | None = PATH) -> list[str]:
        return _children(controller, _checked_path(path))

    @routes.get("/zk/lsl", Action.ADMIN, CLUSTER, only_reads=True, summary="Children of a path with their stats")
    def lsl(path: str | None = PATH) -> dict[str, Any]:
        checked = _checked_path(path)
        names = _children(controller, checked)
        nodes = store.get_many([_child(checked, name) for name in names])
        return {name: _stat(node[1], len(node[0])) for name, node in zip(names, nodes, strict=True) if node is not None}

    @routes.get("/zk/stat", Action.ADMIN, CLUSTER, only_reads=True, summary="Stat of a path")
    def stat(path: str | None = PATH) -> dict[str, int]:
        checked = _checked_path(path)
        try:
            data, status = store.get(checked)
        except NoNodeError as error:
            raise _no_path(checked) from error
        return _stat(status, len(data))


def _checked_path(path: str | None) -> str:
    if path is None:
        raise UserError("ZKPath cannot be null")
    if not path.startswith("/"):
        raise UserError(f"ZKPath {path[:200]} must start with /")
    if path != "/" and path.endswith("/"):
        raise UserError(f"ZKPath {path[:200]} cannot end with /")
    if any(part in ("", ".", "..") for part in path.split("/")[1:]) and path != "/":
        raise UserError(f"ZKPath {path[:200]} has an empty or relative part")
    return path


def _children(controller: Controller, path: str) -> list[str]:
    try:
        return controller.catalog.store.children(path)
    except NoNodeError as error:
        raise _no_path(path) from error


def _no_path(path: str) -> NotFoundError:
    return NotFoundError(f"ZKPath {path[:500]} does not exist")


def _child(path: str, name: str) -> str:
    return f"/{name}" if path == "/" else f"{path}/{name}"


def _without_secrets(record: ZNRecord) -> dict[str, Any]:
    """A record as JSON; the sections of a table's config that have stream settings are JSON texts in it."""
    shown = record.to_json_dict()
    sections = {}
    for name in ("tableIndexConfig", "ingestionConfig"):
        with contextlib.suppress(orjson.JSONDecodeError):
            sections[name] = orjson.loads(record.simple_fields.get(name, ""))
    hidden = masked(sections)
    shown["simpleFields"] = shown["simpleFields"] | {
        name: orjson.dumps(hidden[name]).decode() for name in sections if hidden[name] != sections[name]
    }
    return shown


def _readable(data: bytes, path: str) -> bytes:
    try:
        return orjson.dumps(_without_secrets(ZNRecord.from_bytes(data, path)), option=orjson.OPT_INDENT_2)
    except DecodeError:
        # Other programs' nodes hold whatever they hold.
        return orjson.dumps({"text": data.decode("utf-8", "replace")[:100_000]})


def _stat(stat: Stat, size_bytes: int) -> dict[str, int]:
    return {
        "mzxid": stat.modified_id,
        "mtime": stat.mtime_ms,
        "version": stat.version,
        "ephemeralOwner": int(stat.ephemeral_owner, 16) if stat.ephemeral_owner else 0,
        "dataLength": size_bytes,
        "numChildren": stat.num_children,
    }


def _cluster_config(controller: Controller) -> tuple[ZNRecord, int]:
    path = controller.catalog.paths.cluster_config
    data, stat = controller.catalog.store.get(path)
    return ZNRecord.from_bytes(data, path), stat.version


def _change_config(controller: Controller, change: Any) -> None:
    for _ in range(CONFIG_ATTEMPTS_MAX):
        record, version = _cluster_config(controller)
        changed = ZNRecord(record.id, change(record.simple_fields), record.map_fields, record.list_fields)
        try:
            controller.catalog.store.set(controller.catalog.paths.cluster_config, changed.to_bytes(), version)
        except StaleVersionError:
            continue
        return
    raise StaleVersionError(f"the cluster config was changed by others {CONFIG_ATTEMPTS_MAX} times in a row: try again")


def _config_changes(body: bytes) -> dict[str, str]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise UserError(f"Error converting request to cluster config: {error}") from error
    if not isinstance(document, dict):
        raise UserError("Error converting request to cluster config: expected an object of texts")
    changes = {}
    for key, value in document.items():
        if (
            not isinstance(value, str | int | float)
            or not key
            or len(key) > CONFIG_KEY_MAX
            or len(str(value)) > CONFIG_VALUE_MAX
        ):
            raise UserError(
                f"expected a text for cluster config '{key[:100]}' (at most {CONFIG_VALUE_MAX} characters), found "
                f"{type(value).__name__}"
            )
        changes[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return changes


def _leader(controller: Controller, tables: list[str]) -> dict[str, Any]:
    """One controller leads all tables; the answer has the form that old clients know."""
    leader = controller.leader()
    entry = (
        {
            LEAD_PARTITION: {
                "leadControllerId": leader,
                "tableNames": [name for name in tables if name != BROKER_RESOURCE],
            }
        }
        if leader
        else {}
    )
    return {"leadControllerResourceEnabled": leader is not None, "leadControllerEntryMap": entry}
