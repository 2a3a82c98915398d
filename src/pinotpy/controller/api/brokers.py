"""REST by which clients find brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Query, Request

from pinotpy.cluster.views import InstanceConfig
from pinotpy.controller.context import Controller
from pinotpy.controller.tables import halves_named
from pinotpy.controller.tenants import instances_of, tenant_names
from pinotpy.errors import NotFoundError, UserError
from pinotpy.names import raw_table_name
from pinotpy.service.http import visible_tables
from pinotpy.service.routes import CLUSTER, EACH_TABLE, Action, Routes, table

STATE = Query(None, description="ONLINE or OFFLINE brokers only; without it, all.")
Shown = Callable[[list[str], dict[str, InstanceConfig]], list[Any]]


def broker_routes(controller: Controller) -> Routes:
    """Declare them: names under /brokers, objects with host and port under /v2/brokers."""
    routes = Routes("Broker")
    for prefix, shown in (("/brokers", _names), ("/v2/brokers", _objects)):
        _declare(routes, controller, prefix, shown)

    @routes.get("/tables/livebrokers", Action.READ, EACH_TABLE, summary="Brokers that answer for each table now")
    def live_brokers(request: Request) -> dict[str, list[Any]]:
        configs, serving = controller.catalog.instances(), controller.catalog.serving_brokers()
        return {name: _objects(serving[name], configs) for name in visible_tables(request, serving)}

    @routes.get(
        "/tables/{tableName}/livebrokers",
        Action.READ,
        table("tableName"),
        summary="Brokers that answer for a table now",
    )
    def live_brokers_of(tableName: str) -> list[str]:
        serving = controller.catalog.serving_brokers()
        brokers = sorted({broker for half in halves_named(tableName, None) for broker in serving.get(half, [])})
        if not brokers:
            raise NotFoundError(f"Table '{tableName[:200]}' not found.")
        return brokers

    return routes


def _declare(routes: Routes, controller: Controller, prefix: str, shown: Shown) -> None:
    tag = prefix.strip("/").replace("/", "_")

    def by_tenant(state: str | None) -> dict[str, list[Any]]:
        configs = controller.catalog.instances()
        names = {
            tenant: instances_of(controller, tenant, ("_BROKER",)) for tenant in tenant_names(controller, "BROKER")
        }
        return {tenant: shown(_in_state(controller, brokers, state), configs) for tenant, brokers in names.items()}

    def by_table(request: Request, state: str | None) -> dict[str, list[Any]]:
        configs = controller.catalog.instances()
        merged: dict[str, set[str]] = {}
        for name, brokers in controller.catalog.table_brokers().items():
            merged.setdefault(raw_table_name(name), set()).update(brokers)
        return {
            name: shown(_in_state(controller, sorted(merged[name]), state), configs)
            for name in visible_tables(request, merged)
        }

    @routes.get(prefix, Action.READ, EACH_TABLE, summary="Brokers by tenant and by table", operation_id=f"{tag}_all")
    def all_brokers(request: Request, state: str | None = STATE) -> dict[str, Any]:
        return {"tenants": by_tenant(state), "tables": by_table(request, state)}

    @routes.get(f"{prefix}/tenants", Action.READ, CLUSTER, summary="Brokers by tenant", operation_id=f"{tag}_tenants")
    def tenants(state: str | None = STATE) -> dict[str, list[Any]]:
        return by_tenant(state)

    @routes.get(
        f"{prefix}/tenants/{{tenantName}}",
        Action.READ,
        CLUSTER,
        summary="Brokers of a tenant",
        operation_id=f"{tag}_tenant",
    )
    def tenant(tenantName: str, state: str | None = STATE) -> list[Any]:
        brokers = by_tenant(state).get(tenantName)
        if brokers is None:
            raise NotFoundError(f"Tenant '{tenantName[:100]}' not found.")
        return brokers

    @routes.get(f"{prefix}/tables", Action.READ, EACH_TABLE, summary="Brokers by table", operation_id=f"{tag}_tables")
    def tables(request: Request, state: str | None = STATE) -> dict[str, list[Any]]:
        return by_table(request, state)

    @routes.get(
        f"{prefix}/tables/{{tableName}}",
        Action.READ,
        table("tableName"),
        summary="Brokers of a table",
        operation_id=f"{tag}_table",
    )
    def brokers_of_table(tableName: str, state: str | None = STATE) -> list[Any]:
        brokers = controller.catalog.table_brokers()
        halves = [half for half in halves_named(tableName, None) if half in brokers]
        if not halves:
            raise NotFoundError(f"Table '{tableName[:200]}' not found.")
        names = sorted({broker for half in halves for broker in brokers[half]})
        return shown(_in_state(controller, names, state), controller.catalog.instances(names))


def _in_state(controller: Controller, brokers: list[str], state: str | None) -> list[str]:
    if state is None:
        return brokers
    if state.upper() not in ("ONLINE", "OFFLINE"):
        raise UserError(f"expected state=ONLINE or state=OFFLINE, found '{state[:40]}'")
    live = set(controller.catalog.live_instances())
    return [broker for broker in brokers if (broker in live) == (state.upper() == "ONLINE")]


def _names(brokers: list[str], _: dict[str, InstanceConfig]) -> list[Any]:
    return list(brokers)


def _objects(brokers: list[str], configs: dict[str, InstanceConfig]) -> list[Any]:
    shown = []
    for name in brokers:
        config = configs.get(name)
        if config is not None:
            grpc_port = config.port_of("grpcPort")
            shown.append(
                {
                    "host": config.host,
                    "port": config.port,
                    "instanceName": name,
                    "grpcPort": -1 if grpc_port is None else grpc_port,
                }
            )
    return shown
