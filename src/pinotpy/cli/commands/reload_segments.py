"""Let servers update a table's segments to its current config, and show the progress."""

from __future__ import annotations

from typing import Annotated

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.cli.reloading import follow_reloads
from pinotpy.errors import UserError

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
    if bool(table_name) == bool(job_id):
        raise UserError("expected either --table-name (reload it) or --job-id (show a reload)")
    with common.client_of(table_name) if table_name else common.client() as client:
        jobs = [job_id] if job_id else client.reload_segments(table_name, segment_name or None)["reloadJobIds"]
        follow_reloads(client, jobs, wait=wait, timeout_s=timeout_s, as_json=common.as_json)
