"""Waits for reloads of segments, with progress, and says how they ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from pinotpy.errors import RemoteError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from pinotpy.client.controller import ControllerClient


def follow_reloads(
    client: ControllerClient, jobs: Sequence[str], *, wait: bool, timeout_s: float, as_json: bool
) -> None:
    """Print the status of reloads, after they are over if `wait`. RemoteError: some replicas could not be reloaded,
    or not as the table asks.
    """
    from rich.progress import Progress

    statuses = [client.reload_status(job) for job in jobs]
    if wait:
        with Progress(disable=as_json) as progress:
            bars = {job: progress.add_task(f"reload {job}", total=None) for job in jobs}
            statuses = [
                client.wait_until_reloaded(job, timeout_s=timeout_s, progress=partial(_show, progress, bars[job]))
                for job in jobs
            ]
    typer.echo(json.dumps(statuses, indent=2) if as_json else "\n".join(_words(status) for status in statuses))
    if any(status["failureCount"] for status in statuses):
        raise RemoteError("some replicas could not be reloaded and are served as they were")
    if any(status["status"] == "COMPLETED_WITH_ERRORS" for status in statuses):
        raise RemoteError("a reload does not bring all that the table asks for: build the segments named above again")


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
    lines += [
        f"  {name} lacks what only building it again brings: {why}"
        for name, why in status.get("rebuildSegments", {}).items()
    ]
    return "\n".join(lines)
