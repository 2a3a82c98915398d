"""Stop the cluster of a data folder, wherever it was started, and wait until it has stopped; its data stay."""

from __future__ import annotations

from typing import Annotated

import typer

from pinotpy.cli.options import DataDir

NAME = "down"


def run(
    data_dir: DataDir = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=1, help="seconds to wait before what still runs is killed")
    ] = 120.0,
) -> None:
    from pinotpy.cli.supervision.foreground import given_folder
    from pinotpy.cli.supervision.stopping import stop_cluster

    raise typer.Exit(0 if stop_cluster(given_folder(data_dir), timeout_s, typer.echo) else 1)
