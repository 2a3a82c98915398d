"""Show what retention would delete of a table if it ran now; nothing is deleted."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.cli.showing import counted, days_text, plain_table, utc

NAME = "show-retention"


@takes(controller_options)
def run(
    common: ControllerOptions,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="name of the table")],
) -> None:
    with common.client_of(table) as client:
        plans = client.retention(table)
    if common.as_json:
        typer.echo(json.dumps(plans, indent=2))
        return
    from pinotpy.names import split_table_name

    for kind, plan in plans.items():
        _print_plan(f"{split_table_name(table)[0]}_{kind}", plan)


def _print_plan(name: str, plan: dict[str, Any]) -> None:
    from pinotpy.cli.result_table import answer_console

    console = answer_console()
    expired, kept_ms = plan["expiredSegments"], plan["retentionMs"]
    if kept_ms is None:
        console.print(f"{name}: rows are kept for ever: {plan['reason']}", soft_wrap=True)
    else:
        console.print(
            f"{name}: rows are kept for {days_text(kept_ms)}; {counted(len(expired), 'segment')} would go now",
            soft_wrap=True,
        )
    if expired:
        shown = plain_table("segment", "newest row")
        for segment, end_ms in expired.items():
            shown.add_row(segment, utc(end_ms))
        console.print(shown)
    for segments, why in (
        (plan["replacedSegments"], "would go, as others stand for them"),
        (plan["arrivingSegments"], "would go, and stay until their replacement is done"),
    ):
        if segments:
            console.print(f"{counted(len(segments), 'segment')} {why}: {', '.join(segments)}", soft_wrap=True)
    if plan["segmentsWithoutTime"] and kept_ms is not None:
        console.print(
            f"{counted(plan['segmentsWithoutTime'], 'segment')} stay, as nothing says how old their rows are",
            soft_wrap=True,
        )
