"""Write the partitions and ranges that brokers leave segments out by into a table's segments and their records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options
from pinotpy.cli.job_running import ends_on_sigterm
from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.errors import RemoteError

NAME = "annotate-segments"


@takes(controller_options)
def run(
    common: ControllerOptions,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="name of the table, with or without type")],
    segments: Annotated[list[str] | None, typer.Argument(metavar="SEGMENT", help="only these segments")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="read everything, change nothing, and say what would be done")
    ] = False,
    parallelism: Annotated[int, typer.Option("--parallelism", min=1, max=64, help="segments at once")] = 2,
    attempts: Annotated[int, typer.Option("--attempts", min=1, max=100, help="attempts for each call")] = 5,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            "--work-dir",
            help="where archives are unpacked, one segment a thread (default: the system's temporary folder)",
            file_okay=False,
            exists=True,
        ),
    ] = None,
) -> None:
    from pinotpy.cli.annotation.annotate import AnnotateSettings, annotate_segments
    from pinotpy.cli.annotation.showing import report_lines
    from pinotpy.cli.result_table import visible
    from pinotpy.cli.showing import counted

    settings = AnnotateSettings(table, tuple(segments or ()), dry_run, parallelism, attempts, work_dir)
    with ends_on_sigterm(), common.client_of(table) as client, options.progress(common.as_json) as bar:
        task = bar.add_task("annotating", total=None)
        report = annotate_segments(
            client,
            settings,
            progress=lambda found: bar.advance(task),
            begins=lambda count: bar.update(task, total=count),
        )
    if common.as_json:
        typer.echo(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    else:
        for line in report_lines(report):
            typer.echo(visible(line))
    if report.failed:
        raise RemoteError(
            f"{counted(len(report.failed), 'segment')} of table '{table}' could not be annotated, first "
            f"'{report.failed[0].name}': {report.failed[0].cause}; run the command again to go on"
        )
