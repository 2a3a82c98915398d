"""Show what runs of the cluster of a data folder. Exit status: 0 all serves, 1 something does not, 3 nothing runs."""

from __future__ import annotations

import typer

from pinotpy.cli.options import DataDir, Json

NAME = "status"


def run(data_dir: DataDir = None, as_json: Json = False) -> None:
    from pinotpy.cli.supervision.foreground import given_folder
    from pinotpy.cli.supervision.status_report import exit_status, look, print_report

    report = look(given_folder(data_dir))
    print_report(report, as_json=as_json)
    raise typer.Exit(exit_status(report))
