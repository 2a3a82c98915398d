"""Load the quickstart's table, the 336,776 flights of 2013, into a running cluster; skip what already exists."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes

NAME = "load-flights"


@takes(controller_options)
def run(
    common: ControllerOptions,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="how long to wait for the replicas")] = 120.0,
) -> None:
    from rich.console import Console

    from pinotpy.cli.flights_loading import NUM_MONTHS, TABLE, build_and_upload_flights, create_flights_table

    with common.client() as client, tempfile.TemporaryDirectory() as scratch:
        if TABLE not in client.tables():
            create_flights_table(client)
        if sum(len(names) for names in client.segments(TABLE).values()) == NUM_MONTHS:
            client.wait_until_online(TABLE, timeout_s=timeout_s)
            typer.echo(f"table {TABLE} is loaded already")
            return
        # A run that was interrupted is repeated: segments of the same name are replaced.
        rows = build_and_upload_flights(client, Path(scratch), Console(stderr=True), timeout_s=timeout_s)
    typer.echo(f"{rows:,} rows in {NUM_MONTHS} segments of table {TABLE} are online")
