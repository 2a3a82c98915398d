"""Bring deleted segments back whose archives are still kept; without names, list them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from pinotpy.cli import options
from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.cli.showing import bytes_text, counted, plain_table, utc
from pinotpy.errors import PinotError, RemoteError, UserError

NAME = "restore-segments"


@takes(controller_options)
def run(
    common: ControllerOptions,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="name of the table, which exists")],
    segments: Annotated[list[str] | None, typer.Argument(metavar="SEGMENT", help="names of segments")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="every deleted segment whose name the table does not have")
    ] = False,
    crc: Annotated[
        int | None, typer.Option("--crc", help="of one segment: which content, where several are kept")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="wait until all replicas serve")] = True,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="how long to wait")] = 60.0,
) -> None:
    if segments and every:
        raise UserError("expected names of segments or --all, found both")
    if crc is not None and len(segments or []) != 1:
        raise UserError("--crc goes with the name of one segment")
    with common.client_of(table) as client:
        kept = client.deleted_segments(table)
        if not segments and not every:
            _list(common, table, kept)
            return
        names = list(dict.fromkeys(segments or []))
        if every:
            present = {name for found in client.segments(table).values() for name in found}
            names = sorted({entry["segmentName"] for entry in kept} - present)
        restored, failed = [], {}
        with options.progress(common.as_json) as bar:
            for name in bar.track(names, description="restoring"):
                try:
                    client.restore_segment(table, name, crc=crc)
                    restored.append(name)
                except PinotError as error:
                    failed[name] = error.message
        if restored and wait:
            client.wait_until_online(table, segments=restored, timeout_s=timeout_s)
    if common.as_json:
        typer.echo(json.dumps({"restored": restored, "failed": failed}, indent=2))
    else:
        served = " and served" if wait and restored else ""
        typer.echo(f"{counted(len(restored), 'segment')} of table '{table}' restored{served}")
        for name, reason in failed.items():
            typer.echo(f"{name}: {reason}", err=True)
    if failed:
        raise RemoteError(f"{counted(len(failed), 'segment')} could not be restored")


def _list(common: ControllerOptions, table: str, kept: list[dict[str, Any]]) -> None:
    if common.as_json:
        typer.echo(json.dumps(kept, indent=2))
        return
    if not kept:
        typer.echo(f"no deleted segments of table '{table}' are kept")
        return
    from pinotpy.cli.result_table import answer_console

    shown = plain_table("segment", "CRC", "size", "kept until", right=("size",))
    for entry in kept:
        shown.add_row(entry["segmentName"], entry["crc"], bytes_text(entry["sizeInBytes"]), utc(entry["keptUntilMs"]))
    answer_console().print(shown)
