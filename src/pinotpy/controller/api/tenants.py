"""REST of tenants."""

from __future__ import annotations

from typing import Any

from fastapi import Query, Request

from pinotpy.controller import tenants
from pinotpy.controller.api.answers import success
from pinotpy.controller.api.bodies import RawBody, json_body
from pinotpy.controller.context import Controller
from pinotpy.errors import NotFoundError, UserError
from pinotpy.service.http import visible_tables
from pinotpy.service.routes import CLUSTER, EACH_TABLE, Action, Routes

TENANT_BODY = json_body(
    "A tenant.",
    example={
        "tenantRole": "SERVER",
        "tenantName": "gold",
        "numberOfInstances": 2,
        "offlineInstances": 2,
        "realtimeInstances": 0,
    },
)
ROLE = Query(None, alias="type", description="SERVER or BROKER; without it, both.")


def tenant_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Tenant")

    @routes.get("/tenants", Action.READ, CLUSTER, summary="Names of all tenants")
    def list_tenants(type: str | None = ROLE) -> dict[str, list[str] | None]:
        role = _role(type)
        return {
            "SERVER_TENANTS": tenants.tenant_names(controller, "SERVER") if role in (None, "SERVER") else None,
            "BROKER_TENANTS": tenants.tenant_names(controller, "BROKER") if role in (None, "BROKER") else None,
        }

    @routes.get("/tenants/{tenantName}", Action.READ, CLUSTER, summary="Instances of a tenant")
    def get_tenant(tenantName: str, type: str | None = ROLE) -> dict[str, Any]:
        answer = _instances(controller, tenantName, _role(type))
        if not any(value for key, value in answer.items() if key != "tenantName"):
            raise NotFoundError(f"Failed to find any instances for broker and server tenants: {tenantName[:100]}")
        return answer

    @routes.get(
        "/tenants/{tenantName}/metadata",
        Action.READ,
        CLUSTER,
        summary="Instances of a tenant, also of one that has none",
    )
    def get_metadata(tenantName: str, type: str | None = ROLE) -> dict[str, Any]:
        return {
            "ServerInstances": None,
            "OfflineServerInstances": None,
            "RealtimeServerInstances": None,
            "BrokerInstances": None,
            **_instances(controller, tenantName, _role(type)),
        }

    @routes.get("/tenants/{tenantName}/tables", Action.READ, EACH_TABLE, summary="Tables of a tenant")
    def get_tables(request: Request, tenantName: str, type: str | None = ROLE) -> dict[str, list[str]]:
        return {
            "tables": visible_tables(request, tenants.tables_of_tenant(controller, tenantName, _role(type) or "SERVER"))
        }

    @routes.post(
        "/tenants", Action.ADMIN, CLUSTER, summary="Make a tenant of live untagged instances", openapi_extra=TENANT_BODY
    )
    def post_tenant(body: RawBody) -> dict[str, Any]:
        tenants.create_tenant(controller, tenants.read_tenant_document(body))
        return success("Successfully created tenant")

    @routes.put("/tenants", Action.ADMIN, CLUSTER, summary="Give a tenant more instances", openapi_extra=TENANT_BODY)
    def put_tenant(body: RawBody) -> dict[str, Any]:
        tenants.update_tenant(controller, tenants.read_tenant_document(body))
        return success("Updated tenant")

    @routes.delete(
        "/tenants/{tenantName}", Action.ADMIN, CLUSTER, summary="Untag the instances of a tenant that no table uses"
    )
    def delete_tenant(tenantName: str, type: str | None = ROLE) -> dict[str, Any]:
        role = _role(type)
        if role is None:
            raise UserError("Tenant type (BROKER | SERVER) is required as query parameter")
        tenants.delete_tenant(controller, tenantName, role)
        return success(f"Successfully deleted tenant {tenantName}")

    return routes


def _role(text: str | None) -> str | None:
    if text is None or text == "":
        return None
    role = text.upper()
    if role not in ("SERVER", "BROKER"):
        raise UserError(f"expected type=SERVER or type=BROKER, found '{text[:40]}'")
    return role


def _instances(controller: Controller, tenant: str, role: str | None) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    if role == "SERVER":
        answer["OfflineServerInstances"] = tenants.instances_of(controller, tenant, ("_OFFLINE",))
        answer["RealtimeServerInstances"] = tenants.instances_of(controller, tenant, ("_REALTIME",))
    if role in (None, "SERVER"):
        answer["ServerInstances"] = tenants.instances_of(controller, tenant, ("_OFFLINE", "_REALTIME"))
    if role in (None, "BROKER"):
        answer["BrokerInstances"] = tenants.instances_of(controller, tenant, ("_BROKER",))
    return {**answer, "tenantName": tenant}
