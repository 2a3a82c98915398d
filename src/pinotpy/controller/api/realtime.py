"""REST of tables that read a stream: where their servers stand, and ending segments now."""

from __future__ import annotations

from typing import Any

from fastapi import Query, Request

from pinotpy.controller.api.aside import aside
from pinotpy.controller.context import Controller
from pinotpy.controller.realtime.consuming_info import consuming_info
from pinotpy.controller.realtime.force_commit import find_job, force_commit, job_status, realtime_half
from pinotpy.controller.reload_status import unknown_job
from pinotpy.names import raw_table_name
from pinotpy.service.http import authorise_known
from pinotpy.service.rights import table_resource
from pinotpy.service.routes import IN_HANDLER, Action, Routes, table


def realtime_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Table")

    @routes.get(
        "/tables/forceCommitStatus/{jobId}",
        Action.READ,
        IN_HANDLER,
        summary="Which segments of a forced commit are not yet committed",
    )
    def force_commit_status(request: Request, jobId: str) -> dict[str, Any]:
        job = find_job(controller, jobId)
        authorise_known(request, Action.READ, table_resource(raw_table_name(job.table)), unknown_job(jobId))
        return job_status(controller, job)

    @routes.post(
        "/tables/{tableName}/forceCommit",
        Action.WRITE,
        table("tableName"),
        summary="Consuming segments end now, where each replica stands",
    )
    def post_force_commit(
        tableName: str,
        partitions: str = Query("", description="Only of these partitions, e.g. 0,2."),
        segments: str = Query("", description="Only these segments, by name, separated by commas."),
    ) -> dict[str, Any]:
        half = realtime_half(controller, tableName)
        job = force_commit(controller, half, _listed(partitions), _listed(segments))
        return {
            "forceCommitStatus": "SUCCESS",
            "jobMetaZKWriteStatus": "SUCCESS",
            "forceCommitJobId": job.job_id,
            "segmentsForceCommitted": list(job.segments),
        }

    @routes.get(
        "/tables/{tableName}/consumingSegmentsInfo",
        Action.READ,
        table("tableName"),
        summary="Where each server stands in each segment that consumes",
    )
    @aside(controller.fan_out)
    def consuming_segments(tableName: str) -> dict[str, Any]:
        return consuming_info(controller, realtime_half(controller, tableName))

    return routes


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
