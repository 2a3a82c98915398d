"""Let servers update a table's segments to its current config, and show the progress."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.errors import RemoteError, UserError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

NAME = "reload-segments"


@takes(controller_options)
def run(
    common: ControllerOptions,
    table_name: Annotated[
        str, typer.Option("--table-name", help="name of the table; without --job-id, its segments are reloaded")
    ] = "",
    segment_name: Annotated[str, typer.Option("--segment-name", help="only this segment")] = "",
    job_id: Annotated[str, typer.Option("--job-id", help="do not start a reload, show this one")] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="wait until all replicas are done")] = True,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="how long to wait")] = 600.0,
) -> None:
    from rich.progress import Progress

    if bool(table_name) == bool(job_id):
        raise UserError("expected either --table-name (reload it) or --job-id (show a reload)")
    with common.client() as client:
        jobs = [job_id] if job_id else client.reload_segments(table_name, segment_name or None)["reloadJobIds"]
        statuses = [client.reload_status(job) for job in jobs]
        if wait:
            with Progress(disable=common.as_json) as progress:
                bars = {job: progress.add_task(f"reload {job}", total=None) for job in jobs}
                statuses = [
                    client.wait_until_reloaded(job, timeout_s=timeout_s, progress=partial(_show, progress, bars[job]))
                    for job in jobs
                ]
    typer.echo(json.dumps(statuses, indent=2) if common.as_json else "\n".join(_words(status) for status in statuses))
    if any(status["failureCount"] for status in statuses):
        raise RemoteError("some replicas could not be reloaded and are served as they were")


def _show(progress: Progress, bar: TaskID, over: int, every: int) -> None:
    progress.update(bar, completed=over, total=every)


def _words(status: dict[str, Any]) -> str:
    job = status["metadata"]
    lines = [
        f"reload {job['jobId']} of "
        f"{job['tableNameWithType']}{'/' + job['segmentName'] if 'segmentName' in job else ''}: {status['status']}, "
        f"{status['successCount']} of {status['totalSegmentCount']} replicas done, {status['failureCount']} failed, "
        f"{status['timeElapsedInMinutes'] * 60:.1f} s"
    ]
    lines += [f"  {server} does not answer: {why}" for server, why in status["serversFailed"].items()]
    lines += [
        f"  {failure['segmentName']} on {failure['serverName']}: {failure['error']['errorMessage']}"
        for failure in status["segmentReloadFailures"] or ()
    ]
    lines += [f"  {name} stays as it was built: {why}" for name, why in status.get("rebuildSegments", {}).items()]
    return "\n".join(lines)
