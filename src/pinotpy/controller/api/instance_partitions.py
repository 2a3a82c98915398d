"""REST of instance partitions: which servers hold which partition of a table in which replica group."""

from __future__ import annotations

from typing import Any

from fastapi import Query

from pinotpy.cluster.instance_partitions import InstancePartitions
from pinotpy.controller.api.answers import table_type_of
from pinotpy.controller.assignment.group_shape import group_shape
from pinotpy.controller.context import Controller
from pinotpy.controller.instance_partitions import instance_partitions
from pinotpy.controller.tables import existing_halves
from pinotpy.errors import NotFoundError, UserError
from pinotpy.names import TableType, raw_table_name, table_name_with_type
from pinotpy.service.routes import Action, Routes, table

KIND = Query("OFFLINE", alias="type", description="OFFLINE: the only kind that is stored.")


def instance_partition_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Table")

    @routes.get(
        "/tables/{tableName}/instancePartitions",
        Action.READ,
        table("tableName"),
        summary="Servers of each partition and replica group, as they are stored",
    )
    def stored(tableName: str, type: str = KIND) -> dict[str, Any]:
        name = _offline_half(controller, tableName, type)
        found = controller.catalog.instance_partitions.read(name)
        if found is None:
            raise NotFoundError(
                f"table '{name}' has no instance partitions: its segments are balanced over all servers, or none was "
                "assigned yet",
                table=name,
            )
        return _answer(name, found.partitions)

    @routes.post(
        "/tables/{tableName}/assignInstances",
        Action.WRITE,
        table("tableName"),
        summary="Deal the servers to partitions and replica groups anew; segments stay where they are",
    )
    def assign(
        tableName: str,
        type: str = KIND,
        dryRun: bool = Query(False, description="true: only say what they would be."),
    ) -> dict[str, Any]:
        name = _offline_half(controller, tableName, type)
        config = controller.catalog.table_config(name)
        shape = None if config is None else group_shape(config.config)
        if config is None or shape is None:
            raise UserError(
                f"table '{name}' has no replica groups: instanceAssignmentConfigMap.OFFLINE with replicaGroupBased, or "
                "ReplicaGroupSegmentAssignmentStrategy, asks for them",
                table=name,
            )
        dealt = instance_partitions(controller.catalog, config.config, shape, anew=True, writes=not dryRun)
        return _answer(name, dealt)

    return routes


def _offline_half(controller: Controller, table_name: str, kind: str) -> str:
    table_type = table_type_of(kind)
    if table_type is not TableType.OFFLINE:
        raise UserError(f"expected type OFFLINE, found '{kind[:40]}': servers of streams' segments are not stored")
    name = table_name_with_type(raw_table_name(table_name), TableType.OFFLINE)
    if not existing_halves(controller, name, TableType.OFFLINE):
        raise NotFoundError(f"Table '{name[:200]}' not found.")
    return name


def _answer(table_name: str, partitions: InstancePartitions) -> dict[str, Any]:
    """The form of the reference: kind → name and map."""
    return {
        "OFFLINE": {"instancePartitionsName": table_name, "partitionToInstancesMap": partitions.to_map()},
    }
