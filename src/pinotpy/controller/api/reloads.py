"""REST of reloads: ask for one, how far it is, whether one is needed."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import Query, Request

from pinotpy.cluster.reload_jobs import JOB_TYPE
from pinotpy.controller import reload
from pinotpy.controller.api.answers import success, table_type_of
from pinotpy.controller.api.aside import aside
from pinotpy.controller.api.segments import TYPE, half_with_segment, halves_asked
from pinotpy.controller.context import Controller
from pinotpy.controller.reload_status import find_job, job_status, need_reload, table_jobs, unknown_job
from pinotpy.controller.tables import halves_named
from pinotpy.names import raw_table_name
from pinotpy.service.http import authorise_known
from pinotpy.service.rights import table_resource
from pinotpy.service.routes import IN_HANDLER, Action, Routes, table


def reload_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Segment")

    @routes.get(
        "/segments/segmentReloadStatus/{jobId}", Action.READ, IN_HANDLER, summary="How far a reload is, on all replicas"
    )
    @aside(controller.fan_out)
    def reload_status(request: Request, jobId: str) -> dict[str, Any]:
        job = find_job(controller, jobId)
        authorise_known(request, Action.READ, table_resource(raw_table_name(job.table)), unknown_job(jobId))
        return job_status(controller, job)

    @routes.get(
        "/segments/{tableName}/needReload",
        Action.READ,
        table("tableName"),
        summary="Whether a reload would change a table's segments",
    )
    @aside(controller.fan_out)
    def needs_reload(
        tableName: str,
        type: str | None = TYPE,
        verbose: bool = Query(False, description="true: by server, the segments and what would be done."),
    ) -> dict[str, Any]:
        return need_reload(controller, halves_asked(controller, tableName, type)[0], verbose=verbose)

    @routes.get("/table/{tableName}/jobs", Action.READ, table("tableName"), summary="Jobs of a table: job id → record")
    def jobs(
        tableName: str,
        type: str | None = TYPE,
        jobTypes: str | None = Query(None, description="Comma-separated; RELOAD_SEGMENT is the only one."),
    ) -> dict[str, dict[str, str]]:
        halves = (
            halves_named(tableName, table_type_of(type)) if jobTypes is None or JOB_TYPE in jobTypes.split(",") else []
        )
        return table_jobs(controller, halves)

    @routes.post(
        "/segments/{tableName}/reload",
        Action.WRITE,
        table("tableName"),
        summary="Servers reload all segments of a table",
    )
    def reload_all(
        tableName: str,
        type: str | None = TYPE,
        forceDownload: bool = Query(False, description="true: fetch the files again."),
    ) -> dict[str, Any]:
        jobs = {
            half: reload.reload_table(controller, half, force_download=forceDownload)
            for half in halves_asked(controller, tableName, type)
        }
        shown = {
            half: {
                "reloadJobId": job.job_id,
                "reloadJobMetaZKStorageStatus": "SUCCESS",
                "numMessagesSent": str(job.num_messages),
            }
            for half, job in jobs.items()
        }
        # As Pinot: a JSON text inside of the status text.
        return success(orjson.dumps(shown).decode()) | {"reloadJobIds": [job.job_id for job in jobs.values()]}

    @routes.post(
        "/segments/{tableName}/{segmentName}/reload",
        Action.WRITE,
        table("tableName"),
        summary="Servers reload one segment",
    )
    def reload_one(
        tableName: str, segmentName: str, forceDownload: bool = Query(False, description="true: fetch the file again.")
    ) -> dict[str, Any]:
        half = half_with_segment(controller, tableName, segmentName)
        job = reload.reload_segment(controller, half, segmentName, force_download=forceDownload)
        text = (
            f"Submitted reload job id: {job.job_id}, sent {job.num_messages} reload messages. Job meta ZK storage "
            "status: SUCCESS"
        )
        return success(text) | {"reloadJobIds": [job.job_id]}

    return routes
