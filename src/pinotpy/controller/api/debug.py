"""GET /debug/…: what ails a table, as the reference names it."""

from __future__ import annotations

from typing import Any

from fastapi import Query

from pinotpy.controller.api.answers import table_type_of
from pinotpy.controller.api.aside import aside
from pinotpy.controller.context import Controller
from pinotpy.controller.table_debug import FailureOf, debug_half
from pinotpy.controller.tables import existing_halves
from pinotpy.errors import NotFoundError
from pinotpy.service.routes import Action, Routes, table


def debug_routes(controller: Controller, failure_of: FailureOf) -> Routes:
    """Declare them. `failure_of`: RealtimeValidation.failure."""
    routes = Routes("Debug")

    @routes.get(
        "/debug/tables/{tableName}",
        Action.READ,
        table("tableName"),
        summary="What ails a table: segments in ERROR; partitions of its stream, and failures by layer",
    )
    @aside(controller.fan_out)
    def debug_table(
        tableName: str,
        type: str | None = Query(None, description="OFFLINE or REALTIME; without it, both."),
    ) -> list[dict[str, Any]]:
        halves = existing_halves(controller, tableName, table_type_of(type))
        if not halves:
            raise NotFoundError(f"Table {tableName[:200]} does not exist", table=tableName)
        return [debug_half(controller, half, failure_of) for half in halves]

    return routes
