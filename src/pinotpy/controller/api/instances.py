"""REST of instances."""

from __future__ import annotations

from typing import Any

from fastapi import Query

from pinotpy.cluster.views import InstanceConfig
from pinotpy.controller import instances
from pinotpy.controller.api.answers import java_list, success
from pinotpy.controller.api.bodies import RawBody, json_body
from pinotpy.controller.context import Controller
from pinotpy.errors import AccessDeniedError, NotFoundError, UserError
from pinotpy.service.routes import CLUSTER, Action, Routes, instance

INSTANCE_BODY = json_body(
    "An instance.", example={"host": "localhost", "port": 8098, "type": "SERVER", "tags": ["DefaultTenant_OFFLINE"]}
)


def instance_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Instance")
    catalog = controller.catalog

    @routes.get("/instances", Action.READ, CLUSTER, summary="Names of all instances")
    def list_instances() -> dict[str, list[str]]:
        return {"instances": catalog.instance_names()}

    @routes.get(
        "/liveinstances",
        Action.READ,
        CLUSTER,
        summary="Names of the instances that live, and since when, with which release",
    )
    def list_live() -> dict[str, Any]:
        live = instances.living(controller)
        details = {
            name: {"aliveSinceMs": each.since_ms, "version": each.version, "process": each.process}
            for name, each in sorted(live.items())
        }
        return {"instances": sorted(live), "details": details}

    @routes.get("/instances/{instanceName}", Action.READ, instance("instanceName"), summary="One instance")
    def get_instance(instanceName: str) -> dict[str, Any]:
        return _shown(instances.get_instance(controller, instanceName))

    @routes.post(
        "/instances", Action.ADMIN, CLUSTER, summary="Add an instance before it starts", openapi_extra=INSTANCE_BODY
    )
    def post_instance(body: RawBody) -> dict[str, Any]:
        name = instances.add_instance(controller, instances.read_instance_document(body))
        return success(f"Added instance: {name}")

    @routes.put(
        "/instances/{instanceName}",
        Action.ADMIN,
        instance("instanceName"),
        summary="Replace tags and pools of an instance",
        openapi_extra=INSTANCE_BODY,
    )
    def put_instance(instanceName: str, body: RawBody) -> dict[str, Any]:
        instances.update_instance(controller, instanceName, instances.read_instance_document(body))
        return success(f"Updated instance: {instanceName}")

    @routes.put(
        "/instances/{instanceName}/updateTags",
        Action.ADMIN,
        instance("instanceName"),
        summary="Replace the tags of an instance",
    )
    def update_tags(
        instanceName: str, tags: str | None = Query(None, description="Tags, separated by commas; empty removes all.")
    ) -> dict[str, Any]:
        if tags is None:
            raise UserError("Must provide tags to update")
        new_tags = tuple(tag.strip() for tag in tags.split(",") if tag.strip())
        instances.update_tags(controller, instanceName, new_tags)
        return success(f"Updated tags: {java_list(list(new_tags))} for instance: {instanceName}")

    @routes.put(
        "/instances/{instanceName}/state",
        Action.ADMIN,
        instance("instanceName"),
        summary="Enable or disable an instance",
    )
    def put_state(
        instanceName: str, state: str | None = Query(None, description="enable or disable.")
    ) -> dict[str, Any]:
        operation = _switch(controller, instanceName, state or "")
        return success(f"Request to {operation} instance '{instanceName}' is successful")

    @routes.post(
        "/instances/{instanceName}/state",
        Action.ADMIN,
        instance("instanceName"),
        summary="Old form: the state as text in the body: enable, disable or drop",
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"text/plain": {"schema": {"type": "string", "enum": ["enable", "disable", "drop"]}}},
            }
        },
    )
    def post_state(instanceName: str, body: RawBody) -> dict[str, Any]:
        text = body.decode("utf-8", "replace").strip().strip('"')
        if text.lower() == "drop":
            instances.drop_instance(controller, instanceName)
            return success(f"Request to drop instance {instanceName} is successful")
        operation = _switch(controller, instanceName, text)
        return success(f"Request to {operation} instance {instanceName} is successful")

    @routes.delete(
        "/instances/{instanceName}",
        Action.ADMIN,
        instance("instanceName"),
        summary="Forget an instance that is gone for good",
    )
    def delete_instance(instanceName: str) -> dict[str, Any]:
        if instanceName == controller.instance:
            raise AccessDeniedError("a controller does not drop itself")
        instances.drop_instance(controller, instanceName)
        return success("Successfully dropped instance")

    return routes


def _switch(controller: Controller, name: str, text: str) -> str:
    operation = text.lower()
    if operation not in ("enable", "disable"):
        raise UserError(f"Unknown state '{text[:40]}': expected enable or disable")
    try:
        instances.set_instance_enabled(controller, name, operation == "enable")
    except NotFoundError as error:
        raise NotFoundError(f"Instance '{name[:200]}' does not exist", instance=name[:200]) from error
    return operation


def _shown(config: InstanceConfig) -> dict[str, Any]:
    def port(name: str) -> int:
        port = config.port_of(name)
        return -1 if port is None else port

    return {
        "instanceName": config.instance,
        "hostName": config.host,
        "enabled": config.is_enabled,
        "port": str(config.port),
        "tags": list(config.tags),
        "pools": config.map_fields.get("pool"),
        "grpcPort": port("grpcPort"),
        "adminPort": port("adminPort"),
        "queryServicePort": port("queryServerPort"),
        "queryMailboxPort": port("queryMailboxPort"),
        "shutdownInProgress": config.is_shutting_down,
        "systemResourceInfo": config.map_fields.get("SYSTEM_RESOURCE_INFO"),
    }
