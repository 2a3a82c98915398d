"""All routes of a controller as one application."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from pinotpy.controller.api.brokers import broker_routes
from pinotpy.controller.api.cluster import cluster_routes
from pinotpy.controller.api.completion import completion_routes
from pinotpy.controller.api.console import console_routes
from pinotpy.controller.api.debug import debug_routes
from pinotpy.controller.api.instance_partitions import instance_partition_routes
from pinotpy.controller.api.instances import instance_routes
from pinotpy.controller.api.lineage import lineage_routes
from pinotpy.controller.api.old_forms import old_routes
from pinotpy.controller.api.queries import query_routes
from pinotpy.controller.api.realtime import realtime_routes
from pinotpy.controller.api.records import record_routes
from pinotpy.controller.api.reloads import reload_routes
from pinotpy.controller.api.restores import restore_routes
from pinotpy.controller.api.schemas import schema_routes
from pinotpy.controller.api.segments import segment_routes
from pinotpy.controller.api.tables import table_routes
from pinotpy.controller.api.tenants import tenant_routes
from pinotpy.controller.api.uploads import upload_routes
from pinotpy.controller.context import Controller
from pinotpy.controller.periodic.scheduler import PeriodicScheduler
from pinotpy.controller.realtime.service import CompletionService
from pinotpy.controller.table_debug import FailureOf
from pinotpy.service.access import AccessControl
from pinotpy.service.http import HttpApp, build_app
from pinotpy.service.routes import BODY_MAX_BYTES, Route


def controller_routes(
    controller: Controller, scheduler: PeriodicScheduler, failure_of: FailureOf = lambda table: None
) -> Iterable[Route]:
    """Every route, fixed paths before those with parameters that would take them too."""
    return chain(
        schema_routes(controller),
        broker_routes(controller),
        realtime_routes(controller),
        table_routes(controller),
        instance_partition_routes(controller),
        upload_routes(controller),
        restore_routes(controller),
        reload_routes(controller),  # before the segments', whose names of segments would take `needReload` for one
        lineage_routes(controller),  # before the segments', too
        segment_routes(controller),
        record_routes(controller),
        old_routes(controller),
        instance_routes(controller),
        tenant_routes(controller),
        cluster_routes(controller, scheduler),
        query_routes(controller),
        completion_routes(controller, CompletionService(controller, controller.realtime_segments)),
        debug_routes(controller, failure_of),
        console_routes(),
    )


def build_controller_app(
    controller: Controller,
    scheduler: PeriodicScheduler,
    *,
    access: AccessControl,
    ready: Callable[[], str | None],
    settings: Callable[[], dict[str, Any]] = dict,
    failure_of: FailureOf = lambda table: None,
    body_max_bytes: int = BODY_MAX_BYTES,
) -> HttpApp:
    """The application; mutating requests still need the layer of `leader_forwarding` around it.

    failure_of: RealtimeValidation.failure.
    """
    app = build_app(
        "controller",
        controller_routes(controller, scheduler, failure_of),
        access=access,
        metrics=controller.metrics,
        ready=ready,
        settings=settings,
        body_max_bytes=body_max_bytes,
    )
    app.store_patience_s = controller.settings.store_patience_ms / 1000
    app.takes_changes_by_get = controller.settings.legacy_get_changes
    return app
