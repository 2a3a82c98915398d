"""How far a reload is, and whether one is needed: asked of the servers that hold the segments (Pinot:
PinotTableReloadStatusReporter).

A replica counts as done when its server brought it to the config as of the job or later, and as failed when the server
says why it could not; the rest is still to be done. Servers that do not answer are counted, and what they hold is still
to be done. Segments that the job does not mean (SealedEnds) are not counted.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from pinotpy.cluster.reload_jobs import JOB_TYPE, ReloadJobRecord
from pinotpy.controller.catalog import states_by_server
from pinotpy.controller.context import Controller
from pinotpy.controller.server_calls import ServerAnswer, ask_servers
from pinotpy.errors import NotFoundError

FAILURES_SHOWN_MAX: Final = 500
_MINUTE_MS: Final = 60_000.0


def find_job(controller: Controller, job_id: str) -> ReloadJobRecord:
    """The record of a job. Raises NotFoundError: there is none (any more), or its table was deleted."""
    job = controller.reload_jobs.all(controller.clock.now_ms()).get(job_id)
    if job is None:
        raise NotFoundError(unknown_job(job_id))
    if job.is_table_deleted or controller.catalog.table_config(job.table) is None:
        raise NotFoundError(f"{unknown_job(job_id)}: its table was deleted")
    return job


def unknown_job(job_id: str) -> str:
    """What is said of a job that there is not, and of one whose table the caller may not see."""
    return f"Failed to find controller job id: {job_id[:100]}"


def job_status(controller: Controller, job: ReloadJobRecord) -> dict[str, Any]:
    """The answer of GET /segments/segmentReloadStatus/{jobId}."""
    ideal = controller.catalog.ideal_state(job.table) or {}
    held = states_by_server({segment: replicas for segment, replicas in ideal.items() if job.means(segment)})
    answers = ask_servers(controller, held, f"/tables/{quote(job.table, safe='')}/reloads/{quote(job.job_id, safe='')}")
    return status_of(job, {server: len(names) for server, names in held.items()}, answers, controller.clock.now_ms())


def status_of(
    job: ReloadJobRecord, held: dict[str, int], answers: dict[str, ServerAnswer], now_ms: int
) -> dict[str, Any]:
    """The status, from the number of replicas that each server holds and what the servers answered. Times are in
    minutes.
    """
    done = failed = unanswered = 0
    failures: list[dict[str, Any]] = []
    rebuild: dict[str, str] = {}
    finished_ms = job.submitted_ms
    for server, count in held.items():
        answer = answers[server]
        unanswered += bool(answer.failure)
        report = answer.document or {}
        server_done = min(int(report.get("successCount", 0)), count)
        done += server_done
        failed += min(int(report.get("failureCount", 0)), count - server_done)
        finished_ms = max(finished_ms, int(report.get("finishTimeMs") or 0))
        rebuild |= report.get("rebuildSegments", {})
        failures += [
            {"segmentName": name, "serverName": server, **why} for name, why in report.get("failedSegments", {}).items()
        ]
    total = sum(held.values())
    is_over = done + failed >= total and not unanswered
    # Of a reload that is over: how long it took, not how long ago it was.
    elapsed = max((finished_ms if is_over else now_ms) - job.submitted_ms, 0) / _MINUTE_MS
    remaining = 0.0 if is_over else elapsed * (total - done - failed) / (done + failed) if done + failed else -1.0
    return {
        # A segment that stays as it was built does not have what its config asks for: that is not completed.
        "status": "IN_PROGRESS" if not is_over else "COMPLETED_WITH_ERRORS" if failed or rebuild else "COMPLETED",
        "metadata": _metadata(job),
        "totalSegmentCount": total,
        "successCount": done,
        "failureCount": failed,
        "totalServersQueried": len(held),
        "totalServerCallsFailed": unanswered,
        "segmentReloadFailures": [_failure(entry) for entry in failures[:FAILURES_SHOWN_MAX]] or None,
        "serversFailed": {server: answer.failure for server, answer in answers.items() if answer.failure},
        "rebuildSegments": {name: rebuild[name] for name in sorted(rebuild)[:FAILURES_SHOWN_MAX]},
        "timeElapsedInMinutes": elapsed,
        "estimatedTimeRemainingInMinutes": remaining,
    }


def need_reload(controller: Controller, table: str, *, verbose: bool) -> dict[str, Any]:
    """The answer of GET /segments/{table}/needReload. A server that does not answer is named with its reason; what it
    holds is unknown.
    """
    servers = states_by_server(controller.catalog.ideal_state(table) or {})
    answers = ask_servers(controller, servers, f"/tables/{quote(table, safe='')}/segments/needReload")
    shown: dict[str, dict[str, Any]] = {}
    for server, answer in answers.items():
        report = answer.document or {}
        shown[server] = {
            "needReload": bool(report.get("needReload")),
            "instanceId": server,
            "segments": report.get("segments", {}),
            "needRebuild": bool(report.get("needRebuild")),
            "rebuildSegments": report.get("rebuildSegments", {}),
        }
        if answer.failure:
            shown[server]["error"] = answer.failure
    return {
        "needReload": any(entry["needReload"] for entry in shown.values()),
        "needRebuild": any(entry["needRebuild"] for entry in shown.values()),
        "totalServersQueried": len(answers),
        "totalServerCallsFailed": sum(bool(answer.failure) for answer in answers.values()),
        "serverToSegmentsCheckReloadList": shown if verbose else {},
    }


def table_jobs(controller: Controller, tables: list[str]) -> dict[str, dict[str, str]]:
    """Job id → its record, of the jobs of some tables, oldest first: the answer of GET /table/{table}/jobs."""
    jobs = controller.reload_jobs.all(controller.clock.now_ms())
    return {job_id: job.to_fields() for job_id, job in jobs.items() if job.table in tables and not job.is_table_deleted}


def _metadata(job: ReloadJobRecord) -> dict[str, Any]:
    document: dict[str, Any] = {
        "jobType": JOB_TYPE,
        "tableNameWithType": job.table,
        "jobId": job.job_id,
        "submissionTimeMs": job.submitted_ms,
        "messageCount": job.num_messages,
        "tableName": job.table,
    }
    return (
        document
        | ({"segmentName": job.segment} if job.segment else {})
        | ({"forceDownload": True} if job.force_download else {})
    )


def _failure(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "segmentName": entry["segmentName"],
        "serverName": entry["serverName"],
        "error": {"errorMessage": entry.get("errorMessage", "")},
        "failedAtMs": entry.get("failedAtMs", 0),
    }
