"""Show which segments of a table replace which others; end or revert a replacement by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.errors import UserError

NAME = "segment-lineage"
SHOWN_MAX = 3


@takes(controller_options)
def run(
    common: ControllerOptions,
    table_name: Annotated[str, typer.Option("--table-name", help="name of the table")],
    table_type: Annotated[str, typer.Option("--table-type", help="OFFLINE or REALTIME")] = "OFFLINE",
    end_entry: Annotated[
        str, typer.Option("--end-entry", help="switch queries to the new segments of this entry")
    ] = "",
    revert_entry: Annotated[
        str, typer.Option("--revert-entry", help="switch queries back to the old segments of this entry")
    ] = "",
    force: Annotated[
        bool,
        typer.Option("--force", help="with --revert-entry: even if it is in progress, or old segments are not served"),
    ] = False,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="how long to wait for segments to be served")] = 600.0,
) -> None:
    if end_entry and revert_entry:
        raise UserError("expected either --end-entry or --revert-entry")
    with common.client_of(table_name) as client:
        if end_entry:
            client.end_replace_segments(table_name, end_entry, table_type=table_type, timeout_s=timeout_s)
        if revert_entry:
            client.revert_replace_segments(
                table_name, revert_entry, table_type=table_type, force_revert=force, timeout_s=timeout_s
            )
        lineage = client.list_lineage(table_name, table_type=table_type)
    if common.as_json:
        typer.echo(json.dumps(lineage, indent=2))
        return
    entries: dict[str, dict[str, Any]] = lineage.get("lineageEntries", {})
    for entry_id, entry in entries.items():
        since = datetime.fromtimestamp(entry["timestamp"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        typer.echo(
            f"{entry_id}  {entry['state']} since {since}\n  {_names(entry['segmentsFrom'])}\n  -> "
            f"{_names(entry['segmentsTo'])}"
        )
    if not entries:
        typer.echo(f"no segments of table '{table_name}' replace others")


def _names(names: list[str]) -> str:
    more = f" … ({len(names)})" if len(names) > SHOWN_MAX else ""
    return ", ".join(names[:SHOWN_MAX]) + more if names else "(none)"
